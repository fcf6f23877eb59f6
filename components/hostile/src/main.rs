//! Attacks the kernel from EL0 by number. The umpire, which starts each attack and says what came of it, and the victim, which must not notice, are
//! roles of the same program in components of their own: a thread's argument says which.
//!
//! The table of attacks and what is expected of each is `tests/hostile-kernel`.
#![no_std]
#![no_main]

mod umpire;
mod victim;

use bulkhead_hostile::attacks;
use bulkhead_hostile::registers::Fresh;
use core::arch::global_asm;

global_asm!(include_str!("start.s"), options(raw));

/// The role is above this bit of a thread's argument; below are the numbers of attacks.
const ROLE_SHIFT: u64 = 32;

/// What every thread begins with.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_hostile_main(fresh: &Fresh) {
    let argument = fresh[0];
    let numbers = argument & 0xffff_ffff;
    match argument >> ROLE_SHIFT {
        1 => umpire::run(numbers),
        2 => victim::run(),
        3 => attacks::accomplice(),
        _ => attacks::run(numbers, fresh),
    }
}
