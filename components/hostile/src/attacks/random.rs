//! Random calls with random registers, from a seed. Whatever ends the thread or lets it wait, the umpire begins it again.

use super::{calls::VALUES, over, step};
use crate::registers::{All, NUMBERS, exchange};
use bulkhead_component::println;
use bulkhead_kernel_abi::call::{Call, ComponentOperation};
use core::sync::atomic::{AtomicU64, Ordering};

/// Calls of the short form, and of the long one.
const SHORT: u64 = 100_000;
const LONG: u64 = 1_000_000;
/// First number of the long form; the rest of the number is the seed.
const FIRST_LONG: u64 = 240;
/// Slots that are there, and some behind them.
const SLOTS: u64 = 28;

bulkhead_component::noinit! {
    static RANDOM: AtomicU64 = AtomicU64::new(0);
    /// Registers that a call changed which it may not change.
    static CHANGED: AtomicU64 = AtomicU64::new(0);
}

/// xorshift64*.
fn next() -> u64 {
    // One core, one thread: no order is needed.
    let mut x = RANDOM.load(Ordering::Relaxed);
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    // As above.
    RANDOM.store(x, Ordering::Relaxed);
    x.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

fn value() -> u64 {
    match next() % 8 {
        0..4 => next() % SLOTS,
        4 | 5 => VALUES.get((next() % 28) as usize).copied().unwrap_or(0),
        6 => bulkhead_component::call::counter_ticks().wrapping_add(next() % 4096).wrapping_sub(2048),
        _ => next(),
    }
}

pub(super) fn run(number: u64) {
    let calls = if number >= FIRST_LONG { LONG } else { SHORT };
    while let Some(at) = step(calls) {
        if at == 0 {
            // As above.
            RANDOM.store(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), Ordering::Relaxed);
        }
        attempt();
    }
    // As above.
    println!("changed {}", CHANGED.swap(0, Ordering::Relaxed));
    over();
}

fn attempt() {
    let number = (next() % NUMBERS as u64) as usize;
    let mut put: All = [0; 33];
    put.iter_mut().for_each(|word| *word = value());
    put[31] &= crate::registers::FLAG_BITS;
    if number == usize::from(Call::Print.number()) {
        // No line end: the lines of others stay whole.
        put.iter_mut().skip(1).for_each(|word| *word = 0x7e7e_7e7e_7e7e_7e7e);
        put[0] %= 100;
        put[31] = 0;
    }
    let ends = [ComponentOperation::Exec.number(), ComponentOperation::Exit.number()];
    if number == usize::from(Call::Component.number()) && ends.contains(&put[0]) {
        return;
    }
    let found = exchange(number, &put);
    // `invoke` clears x9 to x18 and the flags of a send; everything else leaves all behind x7.
    let first = if number == usize::from(Call::Invoke.number()) { 19 } else { 8 };
    let kept = |place: &usize| *place != 31 || first == 8;
    let changed = (first..33).filter(kept).filter(|place| put.get(*place) != found.get(*place)).count();
    // As above.
    CHANGED.fetch_add(changed as u64, Ordering::Relaxed);
}
