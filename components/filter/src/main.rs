//! Smooths values for others, with floating point; its own thread computes meanwhile. The lowest byte of its argument is the target of a loop in kelvin, how often it makes a step is above.
#![no_std]
#![no_main]

#[path = "../../pid/src/registers.rs"]
mod registers;

use bulkhead_component::println;
use bulkhead_pid::{smoothed, trajectory};
use registers::{Registers, plant, read};

bulkhead_component::entry!(main);

fn main(argument: u64) {
    let (target, times) = (f64::from(argument as u8), argument >> 8);
    println!("filter to {target}: {:016x}", trajectory(target, times, smoothed));
}

bulkhead_component::export! {
    /// A value that is smoothed by the one before, all as bits of binary64.
    fn smooth(_token, before, value) {
        smoothed(f64::from_bits(before), f64::from_bits(value)).to_bits()
    }

    /// Answers how many registers held something at its entry, and leaves a pattern in all of them.
    fn plant_all(_token, pattern) {
        let mut found = Registers::NONE;
        read(&mut found);
        let count = found.count_other_than(&Registers::NONE);
        plant(pattern);
        count
    }
}
