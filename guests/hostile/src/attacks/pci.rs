//! The virtual PCI bus, which a partition started the Linux way has.

use crate::{
    attack::{Attack, Expectation, Outcome},
    trial,
};
use bulkhead_sdk::{
    guest_abi::guest::{GUEST_ECAM, GUEST_PCI_REGISTERS},
    information, mmio,
};

const FUNCTIONS: u64 = 256;
const FUNCTION_BYTES: u64 = 4096;
/// Configuration space of one function that holds something.
const HEADER_BYTES: u64 = 0x100;
const BAR_0: u64 = 0x10;
const BAR_5: u64 = 0x24;
const BUS_BYTES: u64 = FUNCTIONS * FUNCTION_BYTES;
const VALUES: [u32; 4] = [u32::MAX, 0, 0x4000_0000, 0x0800_0004];

fn with_bus(attack: fn() -> Outcome) -> Outcome {
    if information::has_pci_bus() { attack() } else { Outcome::skipped("no PCI bus") }
}

fn function(index: u64) -> u64 {
    GUEST_ECAM.0 + index * FUNCTION_BYTES
}

fn present() -> impl Iterator<Item = u64> {
    (0..FUNCTIONS).map(function).filter(|base| trial::read(*base) != u32::MAX)
}

/// Adds up the addresses in all BARs.
fn addresses() -> u64 {
    present().flat_map(|base| (BAR_0..=BAR_5).step_by(4).map(move |bar| u64::from(trial::read(base + bar)))).sum()
}

/// Writes everything in the configuration space of each function; identities and addresses stay.
fn write_configuration() -> Outcome {
    let before = (present().count(), addresses());
    for base in (0..FUNCTIONS).map(function) {
        for offset in (0..HEADER_BYTES).step_by(4) {
            for value in VALUES {
                trial::write(base + offset, value);
            }
        }
    }
    // The last value written to a BAR is no size request, so it reads its fixed address again.
    let after = (present().count(), addresses());
    Outcome::escaped_unless(before == after, "functions", after.0 as u64)
}

fn odd_widths() -> Outcome {
    for offset in (0..BUS_BYTES).step_by(0x1003) {
        // SAFETY: byte writes and 64-bit writes to the emulated configuration space; aligned as said.
        unsafe {
            mmio::write8(GUEST_ECAM.0 + offset, 0xff);
            mmio::write64(GUEST_ECAM.0 + (offset & !7), u64::MAX);
        }
    }
    Outcome::contained("functions", present().count() as u64)
}

/// Writes all registers of each function: doorbells that are not there, management that is not allowed.
fn write_registers() -> Outcome {
    let bases =
        present().map(|base| u64::from(trial::read(base + BAR_0) & !0xf)).filter(|bar| *bar >= GUEST_PCI_REGISTERS.0);
    let mut written = 0;
    for base in bases {
        for offset in (0..FUNCTION_BYTES).step_by(4) {
            for value in VALUES {
                trial::write(base + offset, value);
                written += 1;
            }
        }
    }
    Outcome::contained("registers written", written)
}

macro_rules! no_effect {
    ($name:literal, $run:expr) => {
        Attack { name: $name, expectation: Expectation::NoEffect, run: || with_bus($run) }
    };
}

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    no_effect!("PCI: write all configuration space", write_configuration),
    no_effect!("PCI: odd widths in configuration space", odd_widths),
    no_effect!("PCI: write all registers of all functions", write_registers),
];
