//! Attacks on the real-time kernel from EL0, by number: what each does, and what is expected of it.
//!
//! `components/hostile` and `components/sweep` are the attackers, `tests/system/tests/kernel/hostile` runs them on the bare board and in partitions and
//! compares, and a page of the book is made from this table. Numbers without an attack do nothing.
#![no_std]
#![forbid(unsafe_code)]

mod encodings;
mod table;

pub use encodings::{ALLOWED, Allowed};
pub use table::GROUPS;

/// Attacks of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What they are called.
    pub title: &'static str,
    /// What they have in common.
    pub about: &'static str,
    /// Attacks, by number.
    pub attacks: &'static [Attack],
}

/// An attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Its number.
    pub number: u64,
    /// What it does.
    pub what: &'static str,
    /// What it and the umpire say of it, line by line: `fault KIND SYNDROME`, `ended`, `waits` (then the umpire stops it), or what it found. One
    /// that is begun again says how many of its lives ended by a fault of which class, and `over`; how many of a random one ended or waited depends
    /// on every instruction of the kernel, and is not expected.
    pub says: &'static [&'static str],
}

const fn attack(number: u64, what: &'static str, says: &'static [&'static str]) -> Attack {
    Attack { number, what, says }
}

/// Every attack, by number.
pub fn attacks() -> impl Iterator<Item = &'static Attack> {
    GROUPS.iter().flat_map(|group| group.attacks)
}
