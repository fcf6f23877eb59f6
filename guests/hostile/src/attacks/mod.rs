//! The list of attacks. Numbers are places in this list, from 1, so new attacks go to the end of their file only before a
//! release and to the end of [`LISTS`] afterwards.

mod calls;
mod exceptions;
pub(crate) mod interrupts;
mod memory;
mod pci;
pub(crate) mod power;
pub(crate) mod registers;
mod shared;
mod translation;

use crate::attack::Attack;

const LISTS: [&[Attack]; 9] = [
    memory::ATTACKS,
    translation::ATTACKS,
    exceptions::ATTACKS,
    calls::ATTACKS,
    registers::ATTACKS,
    interrupts::ATTACKS,
    shared::ATTACKS,
    pci::ATTACKS,
    power::ATTACKS,
];

/// Returns every attack with its number.
pub(crate) fn all() -> impl Iterator<Item = (u64, &'static Attack)> {
    (1..).zip(LISTS.into_iter().flatten())
}
