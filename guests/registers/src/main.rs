//! Fills every register that a guest may write with its own pattern, and looks again and again whether one has changed.
//!
//! Two of these on one core show that an exchange of vCPUs exchanges everything (SP-10, SP-18), and that a start leaves
//! nothing of a neighbour to be seen. Interrupts stay masked, so whatever changes was changed from below. Arguments:
//! `seed=N` (the pattern), `rounds=N` (default 100), `turns=N` (looks at the general and floating-point registers per round,
//! default 50), `reset=1` (asks for a restart at the end rather than to be switched off), `float=0` (floating point is left
//! alone). Output: a line `registers start ...`, a line for each difference, and `registers done rounds=N differences=N`.
#![no_std]
#![no_main]

mod controller;
mod hold;
mod system;

use bulkhead_sdk::{arguments, cpu, information, println, psci};
use core::sync::atomic::{AtomicU64, Ordering};

bulkhead_sdk::entry!(main);

/// Differences so far.
static DIFFERENCES: AtomicU64 = AtomicU64::new(0);

/// A generator of patterns (xorshift64*).
pub(crate) struct Pattern(u64);

impl Pattern {
    fn of_round(seed: u64, round: u64) -> Self {
        let mut pattern = Self((seed << 32 | round).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first values of neighbouring rounds are alike.
        pattern.next();
        pattern
    }

    /// The next value.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Says what differs from what it must be.
pub(crate) fn expect(what: &str, place: u64, found: u64, expected: u64) {
    if found != expected {
        let before = DIFFERENCES.fetch_add(1, Ordering::Relaxed);
        // The first few say what is wrong; the console is small.
        if before < 20 {
            println!("registers DIFFER {what} {place}: {found:#x} instead of {expected:#x}");
        }
    }
}

fn main() {
    cpu::mask_interrupts();
    let text = information::arguments();
    let number = |key, default| arguments::number(text, key).unwrap_or(default);
    let floats = number("float", 1) != 0;
    system::expect_start();
    controller::expect_start();
    if floats {
        hold::expect_start();
    }
    println!("registers start differences={}", DIFFERENCES.load(Ordering::Relaxed));
    let (seed, rounds, turns) = (number("seed", 1), number("rounds", 100), number("turns", 50));
    for round in 1..=rounds {
        let mut pattern = Pattern::of_round(seed, round);
        let interrupts = controller::raise(&mut pattern);
        let values = system::fill(&mut pattern);
        hold::hold(&mut pattern, turns, floats);
        system::expect_and_restore(&values);
        interrupts.expect();
    }
    println!("registers done rounds={rounds} differences={}", DIFFERENCES.load(Ordering::Relaxed));
    if number("reset", 0) != 0 {
        psci::system_reset();
    }
}
