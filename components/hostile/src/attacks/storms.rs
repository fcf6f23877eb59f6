//! The same thing again and again.

use super::{WOKEN, over, step};
use crate::kernel::{invoke, yield_now};
use bulkhead_component::call::{counter_ticks, print, receive, version};
use bulkhead_component::println;
use core::arch::asm;
use core::sync::atomic::Ordering;

const SEND: u64 = 1;
/// Turns that give nobody the core.
const TURNS: u64 = 10_000;
/// Turns that do.
const FEW: u64 = 40;
/// Faults of the storm of them.
const FAULTS: u64 = 2_000;
const FULL_LINE: &str = "........................................................";

pub(super) fn run(number: u64) {
    match number {
        150 => println!("{}", (0..TURNS).filter(|_| version().is_ok()).count()),
        151 => (0..FEW).for_each(|_| yield_now()),
        152 => signals(TURNS, || {}),
        153 => signals(FEW, yield_now),
        154 => println!("{}", (0..FEW).filter(|_| receive(0, counter_ticks() + 1000).is_err()).count()),
        // As much as the ring of a partition holds for a reader who is late: more would take the room of others.
        155 => (0..FEW * 2).for_each(|_| print(FULL_LINE)),
        156 => (0..TURNS).for_each(|_| print("")),
        _ => {}
    }
}

/// Signals the accomplice.
fn signals(turns: u64, then: fn()) {
    // One core: what the accomplice counted before this thread runs is there.
    let before = WOKEN.load(Ordering::Relaxed);
    for _ in 0..turns {
        invoke(SEND);
        then();
    }
    yield_now();
    // As above.
    println!("woken {}", WOKEN.load(Ordering::Relaxed) - before);
}

/// A fault as soon as it is begun.
pub(super) fn faults() {
    if step(FAULTS).is_none() {
        over();
    }
    // SAFETY: an exception that the kernel takes.
    unsafe { asm!("brk #1") }
}
