//! The registers that each type of core has of its own: IMPLEMENTATION DEFINED ones, whose names and encodings are in no manual but the
//! core's.
//!
//! All of them lie where HCR_EL2.TIDCP traps (op0 1 or 3 with CRn 11 or 15; Arm ARM D17.2.48), so that the monitor needs to know none
//! of them. They are written down because "all" is what somebody has to check when a type of core is added: on a Cortex-A72 a guest
//! that reached RAMINDEX would read what others left in the caches, and ACTLR_EL2, which keeps EL1 from writing some of them, says
//! nothing of that one. The tests compare the list with the types that a board file may name, with what traps, and (in
//! `tests/system/tests/scenarios/own_registers.rs`) with every register that a core of QEMU lets a guest read.
//!
//! Rejected: a list that only says CRn 11 and 15. Nobody could see that it was ever held against the second manual.
//!
//! Sources: the technical reference manuals Arm 100095 (Cortex-A72) and DDI 0500 (Cortex-A53), chapter 4, "AArch64 IMPLEMENTATION
//! DEFINED registers", and the section "Direct access to internal memory" of each.

use crate::trap::encoding;

/// What a core lets EL1 of the non-secure state do, where nothing traps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// MRS and MSR.
    ReadWrite,
    /// MRS alone.
    ReadOnly,
    /// MSR, or a SYS instruction.
    WriteOnly,
    /// Neither: it is EL3's.
    Neither,
}

/// A register of one type of core, or of several.
#[derive(Clone, Copy, Debug)]
pub struct OwnRegister {
    /// Name in the core's manual.
    pub name: &'static str,
    /// Its encoding, see [`encoding`].
    pub encoding: u32,
    /// What EL1 may do with it.
    pub access: Access,
    /// The types that have it, as a board file names them.
    pub types: &'static [&'static str],
}

const A53: &[&str] = &["cortex-a53"];
const A72: &[&str] = &["cortex-a72"];
const BOTH: &[&str] = &["cortex-a53", "cortex-a72"];

const fn own(name: &'static str, encoding: u32, access: Access, types: &'static [&'static str]) -> OwnRegister {
    OwnRegister { name, encoding, access, types }
}

use Access::{Neither, ReadOnly, ReadWrite, WriteOnly};

/// The list.
pub const OWN_REGISTERS: [OwnRegister; 27] = [
    own("L2CTLR_EL1", encoding(3, 1, 11, 0, 2), ReadWrite, BOTH),
    own("L2ECTLR_EL1", encoding(3, 1, 11, 0, 3), ReadWrite, BOTH),
    own("L2ACTLR_EL1", encoding(3, 1, 15, 0, 0), ReadWrite, BOTH),
    own("CPUACTLR_EL1", encoding(3, 1, 15, 2, 0), ReadWrite, BOTH),
    own("CPUECTLR_EL1", encoding(3, 1, 15, 2, 1), ReadWrite, BOTH),
    own("CPUMERRSR_EL1", encoding(3, 1, 15, 2, 2), ReadWrite, BOTH),
    own("L2MERRSR_EL1", encoding(3, 1, 15, 2, 3), ReadWrite, BOTH),
    own("CBAR_EL1", encoding(3, 1, 15, 3, 0), ReadOnly, BOTH),
    // What RAMINDEX found in the arrays of caches and TLB.
    own("IL1DATA0_EL1", encoding(3, 0, 15, 0, 0), ReadWrite, A72),
    own("IL1DATA1_EL1", encoding(3, 0, 15, 0, 1), ReadWrite, A72),
    own("IL1DATA2_EL1", encoding(3, 0, 15, 0, 2), ReadWrite, A72),
    own("IL1DATA3_EL1", encoding(3, 0, 15, 0, 3), ReadWrite, A72),
    own("DL1DATA0_EL1", encoding(3, 0, 15, 1, 0), ReadWrite, A72),
    own("DL1DATA1_EL1", encoding(3, 0, 15, 1, 1), ReadWrite, A72),
    own("DL1DATA2_EL1", encoding(3, 0, 15, 1, 2), ReadWrite, A72),
    own("DL1DATA3_EL1", encoding(3, 0, 15, 1, 3), ReadWrite, A72),
    own("DL1DATA4_EL1", encoding(3, 0, 15, 1, 4), ReadWrite, A72),
    own("RAMINDEX", encoding(1, 0, 15, 4, 0), WriteOnly, A72),
    // The same of the Cortex-A53, which keeps it for EL3.
    own("data register 0", encoding(3, 3, 15, 0, 0), Neither, A53),
    own("data register 1", encoding(3, 3, 15, 0, 1), Neither, A53),
    own("data register 2", encoding(3, 3, 15, 0, 2), Neither, A53),
    own("data register 3", encoding(3, 3, 15, 0, 3), Neither, A53),
    own("data cache tag read", encoding(3, 3, 15, 2, 0), Neither, A53),
    own("instruction cache tag read", encoding(3, 3, 15, 2, 1), Neither, A53),
    own("data cache data read", encoding(3, 3, 15, 4, 0), Neither, A53),
    own("instruction cache data read", encoding(3, 3, 15, 4, 1), Neither, A53),
    own("TLB data read", encoding(3, 3, 15, 4, 2), Neither, A53),
];

/// Their encodings: samples of a group of [`crate::registers::REGISTER_GROUPS`].
#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it, and both have one length")]
pub const OWN_ENCODINGS: [u32; OWN_REGISTERS.len()] = {
    let mut encodings = [0; OWN_REGISTERS.len()];
    let mut index = 0;
    while index < encodings.len() {
        encodings[index] = OWN_REGISTERS[index].encoding;
        index += 1;
    }
    encodings
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::{REGISTER_GROUPS, Treatment};
    use crate::sysreg::{SystemAction, classify};
    use crate::trap::SystemAccess;
    use bulkhead_arm::core_type::CoreType;
    use std::vec::Vec;

    /// Each type that a board file may name was held against its manual, and nothing is listed for a type that there is not.
    #[test]
    fn each_type_of_core_has_the_registers_of_its_manual() {
        for kind in CoreType::KNOWN {
            let of_type = OWN_REGISTERS.iter().filter(|one| one.types.contains(&kind.name));
            let count = |access: Access| of_type.clone().filter(|one| one.access == access).count();
            let counted = [ReadWrite, ReadOnly, WriteOnly, Neither].map(count);
            let expected = match kind.name {
                "cortex-a53" => [7, 1, 0, 9],
                "cortex-a72" => [16, 1, 1, 0],
                other => panic!("{other}: read its manual, write down its own registers, and count them here"),
            };
            assert_eq!(counted, expected, "{}", kind.name);
        }
        for own in &OWN_REGISTERS {
            assert!(!own.types.is_empty(), "{}", own.name);
            for name in own.types {
                assert!(CoreType::named(name).is_some(), "{}: {name}", own.name);
            }
        }
    }

    /// On every type: it traps by TIDCP, what traps is UNDEFINED for the guest, and the list of groups has it as such.
    #[test]
    fn each_register_of_each_type_traps_and_is_undefined() {
        for own in &OWN_REGISTERS {
            let (op0, crn) = (own.encoding >> 20 & 3, own.encoding >> 10 & 15);
            assert!(matches!(op0, 1 | 3) && matches!(crn, 11 | 15), "{} is not TIDCP's", own.name);
            for read in [false, true] {
                let answer = classify(SystemAccess { encoding: own.encoding, register: 0, read });
                assert_eq!(answer, SystemAction::Undefined, "{}, read: {read}", own.name);
            }
            let groups: Vec<_> = REGISTER_GROUPS.iter().filter(|group| group.samples.contains(&own.encoding)).collect();
            assert_eq!(groups.len(), 1, "{}", own.name);
            let by_tidcp = matches!(groups[0].treatment, Treatment::Trapped { by: "HCR_EL2.TIDCP", .. });
            assert!(by_tidcp, "{} is in {}", own.name, groups[0].registers);
        }
    }
}
