//! Facts of the board that the header repeats, because what is in the image depends on them: how many bits an address has, what types the
//! cores are of, how many security states the interrupt controller has.
//!
//! The monitor compares with the machine what it can (the type of each core, its physical address size); here they are compared with each
//! other and with what the manuals say. TCR_EL2 and MAIR_EL2 are in the header because they say how the tables are read: the walk
//! ([`crate::walk`]) reads them by the same words.

use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, View};
use crate::registers::{MAIR, PHYSICAL_ADDRESS_BITS, T0SZ, tcr};

/// Types of cores, from their technical reference manuals (ARM DDI 0500 and ARM 100095, "MIDR_EL1" and "ID_AA64MMFR0_EL1"): implementer and
/// part number, and bits of a physical address.
const CORE_TYPES: [(u64, u32); 2] = [(0x41 << 24 | 0xd03 << 4, 40), (0x41 << 24 | 0xd08 << 4, 44)];

/// How many bits addresses have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressBits {
    /// What the EL2 map takes.
    pub(crate) el2: u32,
    /// What every map gives.
    pub(crate) physical: u32,
}

/// Checks the facts of the board and returns by which sizes the tables are to be read.
pub(crate) fn check(view: &View<'_>, contents: &Contents, findings: &mut Findings) -> AddressBits {
    let header = &view.header;
    let physical = header.physical_address_bits;
    let is_known = PHYSICAL_ADDRESS_BITS.contains(&physical);
    let end = 1u64.checked_shl(physical).unwrap_or(u64::MAX);
    let fits = view.banks().all(|bank| bank.end <= end);
    findings.require(is_known && fits && (1..=2).contains(&header.security_states), Code::Board, || {
        format!(
            "{physical} bits of a physical address, {}, {} security states: no board has such facts",
            view.ram_words(),
            header.security_states
        )
    });
    let el2 = 64 - (header.tcr & T0SZ) as u32;
    // With fewer bits the root would be at level 2, with more at no level of 4 KiB tables.
    let good = (39..=48).contains(&el2) && header.tcr == tcr(el2, physical) && header.mair == MAIR;
    findings.require(good, Code::Tcr, || {
        format!(
            "TCR_EL2 is {:#x} and MAIR_EL2 {:#x}: for physical addresses of {physical} bits, and 39 to 48 bits at EL2, they must \
             be {:#x} and {MAIR:#x}",
            header.tcr,
            header.mair,
            tcr(el2.clamp(39, 48), physical)
        )
    });
    for core in &contents.cores {
        let midr = core.boot.midr;
        let known = CORE_TYPES.iter().any(|(known, bits)| *known == midr && physical <= *bits);
        findings.require(known, Code::CoreType, || {
            format!(
                "core {}: MIDR_EL1 {midr:#x} is of no known type of core, or of one with fewer than {physical} bits of a physical \
                 address",
                core.index
            )
        });
    }
    AddressBits { el2: el2.clamp(39, 48), physical: physical.clamp(32, 48) }
}
