//! A control loop with floating point, whose measurements another component smooths. The lowest byte of its argument says what it does, the rest how often.
#![no_std]
#![no_main]

mod registers;

use bulkhead_component::call::{counter_ticks, version};
use bulkhead_component::println;
use bulkhead_component::range::Range;
use bulkhead_kernel_abi::call::Call;
use bulkhead_pid::{Kelvin, Smoothing, trajectory};
use core::arch::asm;
use registers::{Registers, planted};

bulkhead_component::entry!(main);

Smoothing!(call);

bulkhead_component::import! {
    /// Leaves a pattern in all registers, and answers how many of them held something when it was entered.
    fn plant_all(pattern);
}

/// The loop, with another component that smooths.
const CONTROL: u8 = 0;
/// The loop, alone: nothing but who else uses the registers can disturb it.
const ALONE: u8 = 1;
/// What registers hold on both sides of calls.
const PATTERNS: u8 = 2;
/// Instructions of a call between two components that compute.
const COUNTS: u8 = 3;

fn main(argument: u64) {
    let times = argument >> 16;
    let target = f64::from((argument >> 8) as u8);
    match argument as u8 {
        CONTROL => {
            let word = trajectory(target, times, |before, value| {
                smooth(Kelvin(before), Kelvin(value)).map_or(f64::NAN, |smoothed| smoothed.0)
            });
            println!("control to {target}: {word:016x}");
        }
        ALONE => println!("alone to {target}: {:016x}", trajectory(target, times, bulkhead_pid::smoothed)),
        PATTERNS => {
            let mut found = [0; 4];
            for round in 0..times {
                found.iter_mut().zip(patterns(round)).for_each(|(sum, one)| *sum += one);
            }
            let [entered, back, lost, refused] = found;
            println!("patterns: callee found {entered}, caller found {back}, lost {lost}, refused {refused}");
        }
        COUNTS => counts(times),
        _ => {}
    }
}

/// Plants a pattern, calls somebody who plants another one, and looks: what the callee found, what of the callee's is here, and what of its own was lost while it
/// made calls of the kernel; and whether the call was refused.
fn patterns(round: u64) -> [u64; 4] {
    let pattern = 0x5050_0000_0000_0001 | round << 8;
    let (own, mut words) = (Registers::of(pattern), Registers::NONE);
    planted::<{ Call::Version.number() }>(pattern, 0, [0; 8], &mut words);
    let mut lost = words.count_other_than(&own);
    planted::<{ Call::Yield.number() }>(pattern, 0, [0; 8], &mut words);
    lost += words.count_other_than(&own);
    let theirs = [0x0a0a_0000_0000_0001 | round << 8, 0, 0, 0, 0, 0, 0, 0];
    let ([found, ..], code) = planted::<{ Call::Invoke.number() }>(pattern, plant_all::slot(), theirs, &mut words);
    [found, words.count_foreign(&own), lost, u64::from(code != 0)]
}

/// What the use of closed registers takes, and a call from who computes to who does and back.
fn counts(times: u64) {
    let (mut nothing, mut opened, mut called) = (Range::EMPTY, Range::EMPTY, Range::EMPTY);
    let mut value = 1.0;
    for _ in 0..times {
        let _ = version();
        let at = counter_ticks();
        nothing.add(counter_ticks() - at);
        let at = counter_ticks();
        value = use_once(value);
        opened.add(counter_ticks() - at);
        let at = counter_ticks();
        value = smooth(Kelvin(0.0), Kelvin(value)).map_or(0.0, |smoothed| smoothed.0);
        value = use_once(value);
        called.add(counter_ticks() - at);
    }
    nothing.print("nothing");
    opened.print("opened");
    called.print("computing-call");
}

/// One instruction that uses a register.
#[inline(always)] // Between two looks at the counter.
fn use_once(value: f64) -> f64 {
    let mut value = value;
    // SAFETY: computes with a register alone. Not `pure`: it stays between what is around it.
    unsafe { asm!("fmul {0:d}, {0:d}, {0:d}", inout(vreg) value, options(nomem, nostack, preserves_flags)) };
    value
}
