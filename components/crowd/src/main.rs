//! What the experiments on several cores run: who signals an instance on another core, one by one or as a flood, and who is flooded. A thread's argument says what it
//! does (bits 7:0) and how much of it. Nothing is printed before what is measured.
//!
//! Under instruction counting the cores of an emulated machine take turns, and all of them advance one counter. A core gives its turn away by YIELD or WFI, so each that
//! computes here says so at a distance that the argument gives: the shorter it is, the finer the cores are interleaved.
#![no_std]
#![no_main]

mod flood;
mod one_by_one;

use bulkhead_component::println;
use core::arch::asm;

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// Where others signal.
    told;
    /// Who is signalled; of a job, the first flood.
    one;
    /// The second flood.
    two;
    /// The third one.
    three;
    /// Who listens until the job is over.
    over;
}

/// Signals this often, one by one.
const SENDS: u8 = 1;
/// Is woken this often.
const TAKES: u8 = 2;
/// Signals without end while a job runs: distance in instructions (31:8), signals at once (39:32).
const FLOODS: u8 = 3;
/// Is that job: distance (31:8), instructions in all (63:32).
const WORKS: u8 = 4;
/// Takes what the flood signals, on a server that is less important than the job's; for how many milliseconds, if no job ends it (63:32).
const LISTENS: u8 = 5;
/// As [`WORKS`], and makes a null call at each distance.
const CALLS: u8 = 6;
/// Is a victim: rounds of a known length, at each of which others have their turns; how many (63:32).
const WATCHES: u8 = 8;
/// As [`FLOODS`], and makes null calls of its own instance.
const FLOODS_CALLS: u8 = 7;

fn main(argument: u64) {
    let (distance, much) = (argument >> 8 & 0xff_ffff, argument >> 32);
    match argument as u8 {
        SENDS => one_by_one::send(argument >> 8),
        TAKES => one_by_one::take(argument >> 8),
        FLOODS => flood::flood(distance, much & 0xff, flood::signal),
        FLOODS_CALLS => flood::flood(distance, much & 0xff, flood::call),
        WORKS => flood::work(distance, much, false),
        CALLS => flood::work(distance, much, true),
        WATCHES => flood::watch(much),
        LISTENS => flood::listen(much),
        other => println!("crowd: {other} is nothing that it does"),
    }
}

/// Lets the other cores have their turns.
fn give_way() {
    // SAFETY: a hint; others may write what both can see.
    unsafe { asm!("yield", options(nostack, preserves_flags)) };
}

/// Takes about this many instructions, two for each round.
fn compute(instructions: u64) {
    // SAFETY: counts down to 0 in a register.
    unsafe {
        asm!(
            "2: subs {rounds}, {rounds}, #1",
            "b.hi 2b",
            rounds = inout(reg) instructions / 2 => _,
            options(nomem, nostack),
        );
    }
}
