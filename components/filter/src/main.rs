//! Smooths values for others, with floating point; its own thread computes meanwhile. The lowest byte of its argument is the target of a loop in kelvin, how often it makes a step is above.
#![no_std]
#![no_main]

#[path = "../../pid/src/registers.rs"]
mod registers;

use bulkhead_component::println;
use bulkhead_pid::{Kelvin, Smoothing, smoothed, trajectory};
use core::arch::asm;
use core::hint::black_box;
use registers::{Registers, plant, read};

bulkhead_component::entry!(main);

fn main(argument: u64) {
    let (target, times) = (f64::from(argument as u8), argument >> 8);
    println!("filter to {target}: {:016x}", trajectory(target, times, smoothed));
}

/// What it does for others.
struct Filter;

impl Smoothing for Filter {
    fn smooth(_token: u64, before: Kelvin, value: Kelvin) -> Kelvin {
        Kelvin(smoothed(before.0, value.0))
    }
}

Smoothing!(serve Filter);

bulkhead_component::export! {
    /// Answers how many registers held something at its entry, and leaves a pattern in all of them.
    fn plant_all(_token, pattern) {
        let count = read().count_other_than(&Registers::NONE);
        plant(pattern);
        count
    }
    /// Leaves a pattern in all of them, and faults.
    fn plant_and_fault(_token, pattern) {
        plant(pattern);
        // SAFETY: an exception that the kernel takes.
        unsafe { asm!("brk #3") }
        0
    }
    /// Divides, as the rounding mode of this component says: bits of `f64`.
    fn quotient(_token, dividend, divisor) {
        (black_box(f64::from_bits(dividend)) / black_box(f64::from_bits(divisor))).to_bits()
    }
}
