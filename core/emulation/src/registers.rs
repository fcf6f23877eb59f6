//! Every group of registers that software at EL1 or EL0 can reach, and why none of them leads out of the partition.
//!
//! "Switched" means: written with its reset value by the monitor when the guest starts or restarts, and on a core that
//! several vCPUs share saved and loaded with everything else of them (`arch/src/el2/switch.s`). The list is data for the documentation; [`crate::sysreg::classify`] is the code, and
//! a test checks that the two say the same. The rejected alternative, prose in a book, forgot PAR_EL1 in other systems for
//! years (seL4 16.0.0).

use crate::own_registers::OWN_ENCODINGS;
use crate::sysreg::SystemAction;
use crate::trap::encoding;

/// How a group is kept inside the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The guest owns it; the monitor resets it at each start, so nothing survives a restart.
    Switched,
    /// Trapped to EL2 and answered as `REGISTER_GROUPS` says.
    Trapped {
        /// What makes it trap.
        by: &'static str,
        /// Answer to MRS.
        read: SystemAction,
        /// Answer to MSR or the instruction.
        write: SystemAction,
    },
    /// The guest may use it at any time without effect outside.
    Harmless,
    /// UNDEFINED at EL1 by the architecture on every type of core that is known.
    Absent,
}

/// One group of registers.
#[derive(Clone, Copy, Debug)]
pub struct RegisterGroup {
    /// Names.
    pub registers: &'static str,
    /// What keeps it in.
    pub treatment: Treatment,
    /// Why that is enough.
    pub reason: &'static str,
    /// Encodings that stand for a group that is not switched, see [`encoding`]: the host's test asks what the monitor answers,
    /// `tests/system/tests/scenarios/core_state.rs` lets a guest try them. (What is switched is tried from `state.rs`.)
    pub samples: &'static [u32],
}

const fn switched(registers: &'static str, reason: &'static str) -> RegisterGroup {
    RegisterGroup { registers, treatment: Treatment::Switched, reason, samples: &[] }
}

const fn harmless(registers: &'static str, reason: &'static str, samples: &'static [u32]) -> RegisterGroup {
    RegisterGroup { registers, treatment: Treatment::Harmless, reason, samples }
}

const fn absent(registers: &'static str, reason: &'static str, samples: &'static [u32]) -> RegisterGroup {
    RegisterGroup { registers, treatment: Treatment::Absent, reason, samples }
}

const fn trapped(
    registers: &'static str,
    by: &'static str,
    read: SystemAction,
    write: SystemAction,
    reason: &'static str,
    samples: &'static [u32],
) -> RegisterGroup {
    RegisterGroup { registers, treatment: Treatment::Trapped { by, read, write }, reason, samples }
}

use SystemAction::{IgnoreWrite, Read, SendSgi1, SetWay, Undefined};

/// The one group that is not switched and has no sample: instructions without a register. Who sleeps and who wakes is shown by
/// `tests/system/tests/scenarios/shared_wakeups.rs`.
const HINTS: &str = "WFI, WFE, SEV, YIELD";

/// The list, for the types of cores that a board file may name: Cortex-A53 and Cortex-A72, both Armv8.0-A with GICv3. So one treatment
/// holds for both, and what they do not share is in [`crate::own_registers`].
pub const REGISTER_GROUPS: &[RegisterGroup] = &[
    switched("X0-X30, SP_EL0, SP_EL1, PC, PSTATE", "Saved at each exit; zero (x0: device tree) at a start."),
    switched(
        "V0-V31, FPCR, FPSR",
        "Zeroed at each start. The monitor computes nothing with them; on a shared core it saves and loads them, at the first use or at each exchange.",
    ),
    switched(
        "ELR_EL1, SPSR_EL1, ESR_EL1, FAR_EL1, AFSR0_EL1, AFSR1_EL1, VBAR_EL1",
        "Exception state of the guest alone.",
    ),
    switched("SCTLR_EL1, CPACR_EL1", "Stage 2 stays on whatever the guest does to its own stage 1."),
    switched(
        "TTBR0_EL1, TTBR1_EL1, TCR_EL1, MAIR_EL1, AMAIR_EL1, CONTEXTIDR_EL1",
        "Own stage 1; its output is checked by stage 2 under the partition's VMID.",
    ),
    switched(
        "PAR_EL1",
        "Result of the guest's AT instructions; it holds guest addresses only, and the monitor executes no AT between guests.",
    ),
    switched("TPIDR_EL0, TPIDRRO_EL0, TPIDR_EL1", "Plain storage."),
    switched(
        "CNTKCTL_EL1, CNTV_CTL_EL0, CNTV_CVAL_EL0, CNTV_TVAL_EL0, CNTP_CTL_EL0, CNTP_CVAL_EL0, CNTP_TVAL_EL0",
        "Timers of the core, their PPIs 27 and 30 are the partition's. Disabled at a start.",
    ),
    switched("CSSELR_EL1", "Selects a cache description."),
    switched(
        "ICC_PMR_EL1, ICC_BPR1_EL1, ICC_CTLR_EL1, ICC_IGRPEN1_EL1, ICC_AP1R0_EL1, ICC_IAR1/EOIR1/HPPIR1/DIR/RPR (mapped)",
        "With HCR_EL2.IMO and FMO these are the virtual interface: attacks A8, A9 and A12 touch list registers only. ICH_VMCR_EL2, ICH_AP1R0_EL2 and the list registers are switched and reset.",
    ),
    trapped(
        "ICC_IAR0_EL1, ICC_HPPIR0_EL1",
        "ICH_HCR_EL2.TALL0 (mapped)",
        Read(1023),
        IgnoreWrite,
        "No Group 0 for guests: there is never an interrupt of it.",
        &[encoding(3, 0, 12, 8, 0), encoding(3, 0, 12, 8, 2)],
    ),
    trapped(
        "ICC_AP0R0_EL1, ICC_BPR0_EL1, ICC_EOIR0_EL1, ICC_IGRPEN0_EL1",
        "ICH_HCR_EL2.TALL0 (mapped)",
        Read(0),
        IgnoreWrite,
        "No Group 0 for guests. An active priority of it would stop every virtual interrupt of the core, and no exchange saves it.",
        &[encoding(3, 0, 12, 8, 4), encoding(3, 0, 12, 8, 3), encoding(3, 0, 12, 8, 1), encoding(3, 0, 12, 12, 6)],
    ),
    trapped(
        "ICC_SRE_EL1",
        "ICC_SRE_EL2.Enable = 0 (mapped), where the core's interface can be switched off at all; elsewhere it reads 7",
        Read(7),
        IgnoreWrite,
        "Without system registers the next guest of the core would find all of its ICC_* UNDEFINED.",
        &[encoding(3, 0, 12, 12, 5)],
    ),
    switched(
        "all of these ICC_* registers (direct)",
        "The guest owns the core's physical interface; the monitor has no interrupt there. Hazard: A12 can deactivate a foreign SPI, hence trusted partitions only.",
    ),
    trapped(
        "ICC_SGI1R_EL1",
        "HCR_EL2.IMO or FMO (mapped)",
        Undefined,
        SendSgi1,
        "Targets are limited to the partition's own vCPUs and SGIs 0-14. In direct mode it does not trap: a documented hazard.",
        &[encoding(3, 0, 12, 11, 5)],
    ),
    trapped(
        "ICC_SGI0R_EL1, ICC_ASGI1R_EL1",
        "HCR_EL2.IMO or FMO (mapped)",
        Undefined,
        IgnoreWrite,
        "No Group 0 and no second security state for guests.",
        &[encoding(3, 0, 12, 11, 7), encoding(3, 0, 12, 11, 6)],
    ),
    trapped(
        "ACTLR_EL1",
        "HCR_EL2.TACR",
        Read(0),
        IgnoreWrite,
        "IMPLEMENTATION DEFINED core control; RES0 on the Cortex-A53 and the Cortex-A72.",
        &[encoding(3, 0, 1, 0, 1)],
    ),
    trapped(
        "IMPLEMENTATION DEFINED: S3_*_C11_*, S3_*_C15_*, SYS with CRn 11 or 15 (below, by type of core)",
        "HCR_EL2.TIDCP",
        Undefined,
        Undefined,
        "They control the core and the shared L2, and some read what others left in caches. An unknown register is better UNDEFINED than silently zero; stock guests do not use them.",
        &OWN_ENCODINGS,
    ),
    trapped(
        "DC ISW, DC CSW, DC CISW",
        "HCR_EL2.TSW",
        Undefined,
        SetWay,
        "By set/way a guest would clean or drop lines of others. Nothing is done: maintenance by address works natively.",
        &[encoding(1, 0, 7, 6, 2), encoding(1, 0, 7, 10, 2), encoding(1, 0, 7, 14, 2)],
    ),
    trapped(
        "DBGBVR/DBGBCR/DBGWVR/DBGWCR<n>_EL1, MDSCR_EL1, MDCCINT_EL1, OSECCR_EL1, DBGCLAIM*, DBGAUTHSTATUS_EL1, MDCCSR_EL0, DBGDTR*_EL0, OSDTR*_EL1",
        "MDCR_EL2.TDA",
        Read(0),
        IgnoreWrite,
        "Linux clears breakpoints while it boots and must not stop at that. Hardware breakpoints and single-step of a guest debugger have no effect.",
        &[
            encoding(2, 0, 0, 2, 2),
            encoding(2, 0, 0, 0, 4),
            encoding(2, 0, 0, 15, 7),
            encoding(2, 0, 0, 2, 0),
            encoding(2, 0, 7, 8, 6),
            encoding(2, 0, 7, 14, 6),
            encoding(2, 3, 0, 1, 0),
            encoding(2, 3, 0, 4, 0),
            encoding(2, 3, 0, 5, 0),
        ],
    ),
    trapped(
        "OSLAR_EL1, OSDLR_EL1, DBGPRCR_EL1",
        "MDCR_EL2.TDOSA",
        Read(0),
        IgnoreWrite,
        "OS lock: Linux writes it at boot. DBGPRCR could ask for a core power request.",
        &[encoding(2, 0, 1, 0, 4), encoding(2, 0, 1, 3, 4), encoding(2, 0, 1, 4, 4)],
    ),
    trapped(
        "OSLSR_EL1",
        "MDCR_EL2.TDOSA",
        Read(8),
        IgnoreWrite,
        "OS lock implemented and open.",
        &[encoding(2, 0, 1, 1, 4)],
    ),
    trapped("MDRAR_EL1", "MDCR_EL2.TDRA", Read(0), IgnoreWrite, "No debug ROM table.", &[encoding(2, 0, 1, 0, 0)]),
    trapped(
        "PMCR_EL0, PMCNTEN*_EL0, PMOVS*_EL0, PMSWINC_EL0, PMSELR_EL0, PMCEID*_EL0, PMCCNTR_EL0, PMXEV*_EL0, PMUSERENR_EL0, PMINTEN*_EL1, PMEVCNTR/PMEVTYPER<n>_EL0, PMCCFILTR_EL0",
        "MDCR_EL2.TPM and TPMCR",
        Read(0),
        IgnoreWrite,
        "Counters see the whole core, EL2 included. PMCR_EL0.N reads 0: no event counters. Linux writes PMUSERENR_EL0 while it boots.",
        &[
            encoding(3, 3, 9, 12, 0),
            encoding(3, 3, 9, 13, 0),
            encoding(3, 3, 9, 14, 0),
            encoding(3, 0, 9, 14, 1),
            encoding(3, 3, 14, 8, 0),
            encoding(3, 3, 14, 15, 7),
        ],
    ),
    trapped(
        "TRC* and other trace registers",
        "CPTR_EL2.TTA",
        Undefined,
        Undefined,
        "ID_AA64DFR0_EL1 of the Cortex-A53 and of the Cortex-A72 announces none: their trace unit has no system registers.",
        &[encoding(2, 1, 0, 0, 2), encoding(2, 1, 7, 8, 6)],
    ),
    harmless(
        "ID_*_EL1, MIDR_EL1, REVIDR_EL1, CTR_EL0, DCZID_EL0, CCSIDR_EL1, CLIDR_EL1, AIDR_EL1",
        "Read-only facts of the core, read natively.",
        &[
            encoding(3, 0, 0, 4, 0),
            encoding(3, 0, 0, 5, 0),
            encoding(3, 0, 0, 7, 0),
            encoding(3, 0, 0, 0, 0),
            encoding(3, 0, 0, 0, 6),
            encoding(3, 3, 0, 0, 1),
            encoding(3, 3, 0, 0, 7),
            encoding(3, 1, 0, 0, 0),
            encoding(3, 1, 0, 0, 1),
            encoding(3, 1, 0, 0, 7),
        ],
    ),
    harmless("MPIDR_EL1", "Reads VMPIDR_EL2: the vCPU's number, not the core's.", &[encoding(3, 0, 0, 0, 5)]),
    harmless(
        "CNTFRQ_EL0, CNTPCT_EL0, CNTVCT_EL0",
        "One system counter for all; reading it changes nothing. CNTFRQ_EL0 is read-only at EL1.",
        &[encoding(3, 3, 14, 0, 0), encoding(3, 3, 14, 0, 1), encoding(3, 3, 14, 0, 2)],
    ),
    harmless(
        "NZCV, DAIF, SPSel, CurrentEL, PAN",
        "Parts of PSTATE. Masking does not mask interrupts to EL2.",
        &[encoding(3, 0, 4, 2, 2)],
    ),
    harmless(
        "TLBI *, AT *, IC *, DC by address",
        "TLBI at EL1 acts on the own VMID (broadcast ones too); AT and DC go through stage 2, which denies what is not mapped.",
        &[encoding(1, 0, 8, 3, 1), encoding(1, 0, 8, 7, 2), encoding(1, 0, 7, 8, 0)], // TLBI VAE1IS, TLBI ASIDE1, AT S1E1R
    ),
    harmless("ISR_EL1", "Shows what is pending for this core's guest.", &[encoding(3, 0, 12, 1, 0)]),
    harmless(
        HINTS,
        "Native on a core with one vCPU. On a shared core WFI traps (HCR_EL2.TWI) and gives the core away. SEV wakes other cores' WFE, which must tolerate spurious wake-up.",
        &[],
    ),
    absent(
        "RMR_EL1, RVBAR_EL1",
        "Exist only where EL1 is the highest level; UNDEFINED here.",
        &[encoding(3, 0, 12, 0, 2), encoding(3, 0, 12, 0, 1)],
    ),
    absent(
        "SVE, pointer authentication, MTE, RAS error records, AMU, SPE, TRBE, LOR, RNDR",
        "Not in Armv8.0-A. A core with them needs new rows and HCR_EL2/MDCR_EL2 bits before it may be listed in a board file.",
        &[
            encoding(3, 0, 1, 2, 0),  // ZCR_EL1
            encoding(3, 0, 2, 1, 0),  // APIAKeyLo_EL1
            encoding(3, 0, 1, 0, 6),  // GCR_EL1
            encoding(3, 0, 5, 3, 0),  // ERRIDR_EL1
            encoding(3, 3, 13, 2, 0), // AMCR_EL0
            encoding(3, 0, 9, 9, 0),  // PMSCR_EL1
            encoding(3, 0, 9, 11, 0), // TRBLIMITR_EL1
            encoding(3, 0, 10, 4, 3), // LORC_EL1
            encoding(3, 3, 2, 4, 0),  // RNDR
        ],
    ),
    absent(
        "*_EL2, *_EL3, *_EL12, *_EL02, ICH_*, CNTVOFF_EL2, VTTBR_EL2, SCR_EL3",
        "UNDEFINED at EL1 without nested virtualisation (HCR_EL2.NV does not exist).",
        &[
            encoding(3, 4, 1, 1, 0),   // HCR_EL2
            encoding(3, 4, 2, 1, 0),   // VTTBR_EL2
            encoding(3, 6, 1, 1, 0),   // SCR_EL3
            encoding(3, 5, 1, 0, 0),   // SCTLR_EL12
            encoding(3, 5, 14, 3, 1),  // CNTV_CTL_EL02
            encoding(3, 4, 12, 11, 0), // ICH_HCR_EL2
            encoding(3, 4, 12, 12, 0), // ICH_LR0_EL2
            encoding(3, 4, 14, 0, 3),  // CNTVOFF_EL2
        ],
    ),
];

/// What a guest can read and no sample stands for, because it is the guest's own and changes under it: the name in
/// [`REGISTER_GROUPS`], and the encoding. With these, the list says of every encoding of MRS who answers it
/// (`tests/system/tests/scenarios/own_registers.rs`).
pub const UNSAMPLED: &[(&str, u32)] = &[
    ("NZCV", encoding(3, 3, 4, 2, 0)),
    ("DAIF", encoding(3, 3, 4, 2, 1)),
    ("SPSel", encoding(3, 0, 4, 2, 0)),
    ("FPCR", encoding(3, 3, 4, 4, 0)),
    ("FPSR", encoding(3, 3, 4, 4, 1)),
    ("CNTP_TVAL_EL0", encoding(3, 3, 14, 2, 0)),
    ("CNTV_TVAL_EL0", encoding(3, 3, 14, 3, 0)),
    ("ICC_IAR1", encoding(3, 0, 12, 12, 0)),
    ("HPPIR1", encoding(3, 0, 12, 12, 2)),
    ("RPR", encoding(3, 0, 12, 11, 3)),
    ("ICC_BPR1_EL1", encoding(3, 0, 12, 12, 3)),
];

/// States whether an encoding is in the space of ID_*_EL1 (op0 3, op1 0, CRn 0, CRm 1 to 7), where what a core has not reads as zero
/// (Arm ARM D17.1.3).
#[must_use]
pub const fn is_identification(of: u32) -> bool {
    matches!((of >> 20 & 3, of >> 14 & 7, of >> 10 & 15, of >> 1 & 15), (3, 0, 0, 1..=7))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_registers::{Access, OWN_REGISTERS};
    use crate::sysreg::classify;
    use crate::trap::SystemAccess;
    use bulkhead_arm::core_type::CoreType;
    use std::fmt::Write;
    use std::string::String;

    fn access(encoding: u32, read: bool) -> SystemAccess {
        SystemAccess { encoding, register: 0, read }
    }

    #[test]
    fn the_list_says_what_the_code_does() {
        let mut samples = 0;
        for group in REGISTER_GROUPS {
            let Treatment::Trapped { read, write, .. } = group.treatment else { continue };
            for sample in group.samples {
                assert_eq!(classify(access(*sample, true)), read, "{}: read of {sample:#x}", group.registers);
                assert_eq!(classify(access(*sample, false)), write, "{}: write of {sample:#x}", group.registers);
                samples += 1;
            }
        }
        assert!(samples >= 30);
        assert!(REGISTER_GROUPS.iter().any(|group| group.registers.contains("PAR_EL1")));
    }

    /// A12 of docs/base-findings.md: a group that nothing tries is as good as one that is not in the list.
    #[test]
    fn each_group_has_a_sample_or_is_switched() {
        let mut found = std::collections::BTreeMap::new();
        for group in REGISTER_GROUPS {
            let is_excused = group.treatment == Treatment::Switched || group.registers == HINTS;
            assert_eq!(group.samples.is_empty(), is_excused, "samples of {}", group.registers);
            for sample in group.samples {
                let other = found.insert(*sample, group.registers);
                assert_eq!(other, None, "{sample:#x} stands for {} too", group.registers);
            }
            // Should it trap one day, on a core that has it, the guest sees no difference.
            for sample in group.samples.iter().filter(|_| group.treatment == Treatment::Absent) {
                for is_read in [false, true] {
                    let answer = classify(access(*sample, is_read));
                    assert_eq!(answer, SystemAction::Undefined, "{}: {sample:#x}", group.registers);
                }
            }
        }
    }

    #[test]
    fn what_has_no_sample_is_in_a_group_all_the_same() {
        for (name, encoding) in UNSAMPLED {
            let is_word =
                |text: &str| text.split(|one: char| !one.is_alphanumeric() && one != '_').any(|word| word == *name);
            let groups = || REGISTER_GROUPS.iter().filter(|group| is_word(group.registers));
            assert_eq!(groups().count(), 1, "{name}");
            let is_reached =
                |group: &RegisterGroup| matches!(group.treatment, Treatment::Switched | Treatment::Harmless);
            assert!(groups().all(is_reached), "{name}");
            assert!(REGISTER_GROUPS.iter().all(|group| !group.samples.contains(encoding)), "{name} has a sample");
        }
    }

    fn action(action: SystemAction) -> String {
        match action {
            SystemAction::SendSgi1 => "sent to own vCPUs".into(),
            SystemAction::IgnoreWrite => "ignored".into(),
            SystemAction::Read(0) => "0".into(),
            SystemAction::Read(value) => std::format!("{value:#x}"),
            SystemAction::SetWay => "nothing, counted".into(),
            SystemAction::Undefined => "UNDEFINED".into(),
        }
    }

    fn markdown() -> String {
        let mut text = String::from(
            "# EL1-accessible registers\n\nGenerated from `core/emulation/src/registers.rs` by its test; do not edit.\n\n\
             Each row holds for every type of core that a board file may name: all of them are Armv8.0-A with GICv3.\n\n\
             | registers | treatment | why it stays inside the partition |\n| --- | --- | --- |\n",
        );
        for group in REGISTER_GROUPS {
            let treatment = match group.treatment {
                Treatment::Switched => String::from("switched (reset at each start)"),
                Treatment::Trapped { by, read, write } => {
                    std::format!("trapped by {by}; read: {}; write: {}", action(read), action(write))
                }
                Treatment::Harmless => "harmless".into(),
                Treatment::Absent => "absent".into(),
            };
            writeln!(text, "| {} | {treatment} | {} |", group.registers.replace('|', "\\|"), group.reason)
                .expect("a String");
        }
        text.push_str(&own_registers());
        text
    }

    /// A column for each type of core, and a row for each register that one of them has of its own.
    fn own_registers() -> String {
        let mut text = String::from(
            "\n## Of each type of core\n\nIMPLEMENTATION DEFINED registers, and what the core would let EL1 do with them if HCR_EL2.TIDCP \
             did not trap. A core of another type is refused when it starts.\n\n| register | encoding |",
        );
        CoreType::KNOWN.iter().for_each(|kind| text.push_str(&std::format!(" {} |", kind.name)));
        text.push_str("\n| --- | --- |");
        CoreType::KNOWN.iter().for_each(|_| text.push_str(" --- |"));
        for own in &OWN_REGISTERS {
            let part = |shift: u32, bits: u32| own.encoding >> shift & ((1 << bits) - 1);
            let (op0, op1, op2) = (part(20, 2), part(14, 3), part(17, 3));
            write!(text, "\n| {} | S{op0}_{op1}_C{}_C{}_{op2} |", own.name, part(10, 4), part(1, 4)).expect("a String");
            for kind in CoreType::KNOWN {
                let access = match own.access {
                    _ if !own.types.contains(&kind.name) => "absent",
                    Access::ReadWrite => "read and write",
                    Access::ReadOnly => "read",
                    Access::WriteOnly => "write",
                    Access::Neither => "EL3 alone",
                };
                write!(text, " {access} |").expect("a String");
            }
        }
        text.push('\n');
        text
    }

    #[test]
    fn the_generated_page_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/REGISTERS.md");
        let expected = markdown();
        if std::env::var_os("BULKHEAD_BLESS").is_some() {
            std::fs::write(path, &expected).expect("the crate's folder is writable");
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "REGISTERS.md is out of date: run this test with BULKHEAD_BLESS=1");
    }
}
