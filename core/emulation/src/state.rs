//! Every piece of state of a core that could carry something from one vCPU to another, or from one life of a partition to the
//! next, and what an exchange, an unload and a start do with it.
//!
//! The tests that show it are made from this list: `tests/system/tests/scenarios/core_state.rs` fills what is switched with
//! patterns and looks at it from the neighbour, from the owner and after each way to a restart, and tries what traps and what is
//! constant. Tests here compare the list with the assembly that switches, with every register that code at EL2 names (in Rust and
//! in assembly), and with the list of registers that guests reach ([`crate::registers`]); an entry that nothing tries is red
//! unless [`UNTRIED`] says why. Data for tests and documentation; nothing of it is linked at EL2.

use crate::trap::encoding;

/// How a piece of state is kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// Saved and loaded by `arch/src/el2/switch.s` at each exchange; loaded with its reset value at each start.
    Switched,
    /// Kept apart by other code; the test that shows it, as file and function.
    Elsewhere(&'static str),
    /// A guest's access traps and has no effect ([`crate::registers`]); what code at EL2 writes to it is always the same.
    Trapped,
    /// No guest's write reaches it, and what code at EL2 writes to it is the same for all vCPUs of a core.
    Constant,
    /// EL2's own: no guest reads it, and nothing of a guest stays in it that is used for another one.
    Monitor,
    /// No test: why.
    Untested(&'static str),
}

/// One register, or one group that is handled alike.
#[derive(Clone, Copy, Debug)]
pub struct CoreState {
    /// Name of the register as the guest knows it (or EL2, when no guest reaches it).
    pub name: &'static str,
    /// As a guest reaches it, or would if it were at EL2; 0 when it has no MRS and MSR of its own there.
    pub encoding: u32,
    /// Bits that a guest without translation may fill with anything and read back.
    pub bits: u64,
    /// What a start finds in those bits.
    pub reset: u64,
    /// What keeps it apart.
    pub handling: Handling,
    /// What an exchange and a start do.
    pub what: &'static str,
}

const fn switched(name: &'static str, encoding: u32, bits: u64) -> CoreState {
    let what = "saved and loaded at each exchange, reset at each start";
    CoreState { name, encoding, bits, reset: 0, handling: Handling::Switched, what }
}

const fn trapped(name: &'static str, encoding: u32, what: &'static str) -> CoreState {
    CoreState { name, encoding, bits: 0, reset: 0, handling: Handling::Trapped, what }
}

const fn constant(name: &'static str, encoding: u32, what: &'static str) -> CoreState {
    CoreState { name, encoding, bits: 0, reset: 0, handling: Handling::Constant, what }
}

const fn other(name: &'static str, handling: Handling, what: &'static str) -> CoreState {
    CoreState { name, encoding: 0, bits: 0, reset: 0, handling, what }
}

/// In place of an encoding: the stack pointer of EL1, which a guest at EL1 reaches by MOV alone.
pub const OWN_STACK: u32 = 1 << 31;

const ALL: u64 = u64::MAX;
/// A virtual address of the lower half.
const ADDRESS: u64 = 0x0000_7fff_ffff_fffc;
const EXCHANGED: &str =
    "tests/system/tests/scenarios/shared_registers.rs: turns_exchange_everything_with_lazy_floating_point";
const ACTIVE: &str = "monitor/src/tests/noted.rs: what_is_active_is_noted_for_the_loaded_vcpu";
const GICR: &str = "monitor/src/tests/shared.rs: the_redistributor_keeps_nothing_of_a_guest";
const RESETS: &str = "monitor/src/tests/faults.rs: a_restart_resets_the_interrupts_of_its_partition_and_no_others";
const STARTS: &str = "tests/system/tests/scenarios/core_state.rs: a_start_finds_nothing_of_the_life_before";

const NOT_IMPLEMENTED: &str = "RES0 on the Cortex-A53 and the Cortex-A72: an attempt shows that nothing stays";
const NO_AARCH32: &str = "of AArch32 at EL1, which no guest has; zero";
const AT_EACH_START: &str = "one value for all, written at each start";
const FACT: &str = "a fact, read-only";
const NO_GROUP_0: &str = "no group 0 for guests (ICH_HCR_EL2.TALL0)";

use Handling::{Constant, Elsewhere, Monitor, Untested};

/// Entries that are switched or constant and that no guest can fill or try by that name: why.
pub const UNTRIED: &[(&str, &str)] = &[
    ("ELR_EL2", "where the guest continues: every test with two guests on a core would end at its first exchange"),
    (
        "SPSR_EL2",
        "the guest's PSTATE: `shared_registers.rs` watches the flags of both, `core_state.rs` those of a start",
    ),
    ("AFSR0_EL1", NOT_IMPLEMENTED),
    ("AFSR1_EL1", NOT_IMPLEMENTED),
    ("AMAIR_EL1", NOT_IMPLEMENTED),
    (
        "ICC_PMR_EL1, ICC_BPR1_EL1, ICC_CTLR_EL1, ICC_IGRPEN1_EL1, ICC_AP1R0_EL1 at EL2",
        "by these encodings a guest reaches the virtual interface, which is switched and tried as such",
    ),
];

/// The list, those of `switch.s` first and in its order.
pub const CORE_STATE: &[CoreState] = &[
    switched("ELR_EL2", 0, 0),
    switched("SPSR_EL2", 0, 0),
    // Whether EL0 may do this and that: DZE, UCT, nTWI, nTWE, UCI. Translation stays off.
    switched("SCTLR_EL1", encoding(3, 0, 1, 0, 0), 0x0405_c000),
    switched("CPACR_EL1", encoding(3, 0, 1, 0, 2), 3 << 20),
    switched("TTBR0_EL1", encoding(3, 0, 2, 0, 0), 0xffff_ffff_ffff_f000),
    switched("TTBR1_EL1", encoding(3, 0, 2, 0, 1), 0xffff_ffff_ffff_f000),
    switched("TCR_EL1", encoding(3, 0, 2, 0, 2), 0x3f1f_0000),
    switched("MAIR_EL1", encoding(3, 0, 10, 2, 0), ALL),
    switched("VBAR_EL1", encoding(3, 0, 12, 0, 0), 0x0000_7fff_ffff_f800),
    switched("CONTEXTIDR_EL1", encoding(3, 0, 13, 0, 1), 0xffff_ffff),
    switched("ESR_EL1", encoding(3, 0, 5, 2, 0), 0xffff_ffff),
    switched("FAR_EL1", encoding(3, 0, 6, 0, 0), ALL),
    switched("ELR_EL1", encoding(3, 0, 4, 0, 1), ADDRESS),
    switched("SPSR_EL1", encoding(3, 0, 4, 0, 0), 0xf000_03c0),
    switched("SP_EL0", encoding(3, 0, 4, 1, 0), ALL),
    switched("SP_EL1", OWN_STACK, ALL),
    switched("TPIDR_EL0", encoding(3, 3, 13, 0, 2), ALL),
    switched("TPIDR_EL1", encoding(3, 0, 13, 0, 4), ALL),
    switched("TPIDRRO_EL0", encoding(3, 3, 13, 0, 3), ALL),
    switched("PAR_EL1", encoding(3, 0, 7, 4, 0), 0x0000_ffff_ffff_f000),
    switched("CSSELR_EL1", encoding(3, 2, 0, 0, 0), 0x3),
    switched("CNTKCTL_EL1", encoding(3, 0, 14, 1, 0), 0x3ff),
    switched("AFSR0_EL1", encoding(3, 0, 5, 1, 0), 0),
    switched("AFSR1_EL1", encoding(3, 0, 5, 1, 1), 0),
    switched("AMAIR_EL1", encoding(3, 0, 10, 3, 0), 0),
    switched("ICC_AP1R0_EL1", encoding(3, 0, 12, 9, 0), 0xffff_ffff),
    switched("CNTV_CVAL_EL0", encoding(3, 3, 14, 3, 2), ALL),
    // IMASK. ENABLE with any compare value would ring.
    switched("CNTV_CTL_EL0", encoding(3, 3, 14, 3, 1), 2),
    switched("CNTP_CVAL_EL0", encoding(3, 3, 14, 2, 2), ALL),
    switched("CNTP_CTL_EL0", encoding(3, 3, 14, 2, 1), 2),
    // ICH_VMCR_EL2 has these five.
    switched("ICC_PMR_EL1", encoding(3, 0, 4, 6, 0), 0xf8),
    switched("ICC_CTLR_EL1", encoding(3, 0, 12, 12, 4), 2),
    switched("ICC_IGRPEN1_EL1", encoding(3, 0, 12, 12, 7), 1),
    other(
        "ICC_BPR1_EL1",
        Elsewhere(EXCHANGED),
        "in ICH_VMCR_EL2 too; some of its values end QEMU 7.2, so no random ones",
    ),
    other(
        "CNTV_TVAL_EL0, CNTP_TVAL_EL0",
        Elsewhere(STARTS),
        "no state of their own: what is left until CNTV_CVAL_EL0 and CNTP_CVAL_EL0, which are switched",
    ),
    other("X0-X30", Elsewhere(STARTS), "in each vCPU's frame; zero (x0: the start's argument) at each start"),
    other("NZCV, DAIF, SPSel", Elsewhere(EXCHANGED), "PSTATE: in SPSR_EL2"),
    other(
        "V0-V31, FPCR, FPSR",
        Elsewhere(STARTS),
        "exchanged at the first use or with everything else; zero at each start",
    ),
    other(
        "list registers",
        Elsewhere("monitor/src/tests/shared.rs: an_exchange_exchanges_registers_and_list_registers"),
        "saved and loaded when any is in use; emptied at each start",
    ),
    other(
        "GICR_ISENABLER0",
        Elsewhere(GICR),
        "kept per vCPU; the timers' bits are loaded when they differ; cleared at a start",
    ),
    other(
        "GICR_ISPENDR0",
        Elsewhere(GICR),
        "SGIs are noted per vCPU; guests' writes for timers go nowhere, a timer is a level",
    ),
    other("GICR_ISACTIVER0", Elsewhere(ACTIVE), "timers: active for the loaded vCPU alone; cleared at a start"),
    other("GICR_IPRIORITYR", Elsewhere(GICR), "kept per vCPU and not written; reset at a start"),
    other("GICR_ICFGR, GICR_IGROUPR0", Elsewhere(GICR), "written at boot alone; guests' writes go nowhere"),
    other("GICD_IS*R of SPIs", Elsewhere(ACTIVE), "an SPI has one owner; all of them are cleared at a start"),
    other(
        "GIC registers of a partition's own interrupts",
        Elsewhere(RESETS),
        "at a start: off, neither pending nor active, priorities and routes as at the first",
    ),
    trapped("ICC_AP0R0_EL1", encoding(3, 0, 12, 8, 4), NO_GROUP_0),
    trapped("ICC_BPR0_EL1", encoding(3, 0, 12, 8, 3), NO_GROUP_0),
    trapped("ICC_IGRPEN0_EL1", encoding(3, 0, 12, 12, 6), NO_GROUP_0),
    trapped("ICC_SRE_EL1", encoding(3, 0, 12, 12, 5), "system registers are always on"),
    trapped("ACTLR_EL1", encoding(3, 0, 1, 0, 1), "HCR_EL2.TACR"),
    trapped("MDSCR_EL1", encoding(2, 0, 0, 2, 2), "MDCR_EL2.TDA, with all other debug registers; zero at each start"),
    trapped(
        "PMUSERENR_EL0",
        encoding(3, 3, 9, 14, 0),
        "MDCR_EL2.TPM, with all other performance monitors; zero at each start",
    ),
    constant("SPSR_ABT", encoding(3, 4, 4, 3, 1), NO_AARCH32),
    constant("SPSR_UND", encoding(3, 4, 4, 3, 2), NO_AARCH32),
    constant("SPSR_IRQ", encoding(3, 4, 4, 3, 0), NO_AARCH32),
    constant("SPSR_FIQ", encoding(3, 4, 4, 3, 3), NO_AARCH32),
    constant("DACR32_EL2", encoding(3, 4, 3, 0, 0), NO_AARCH32),
    constant("IFSR32_EL2", encoding(3, 4, 5, 0, 1), NO_AARCH32),
    constant("FPEXC32_EL2", encoding(3, 4, 5, 3, 0), NO_AARCH32),
    constant("CNTVOFF_EL2", encoding(3, 4, 14, 0, 3), AT_EACH_START),
    constant("HSTR_EL2", encoding(3, 4, 1, 1, 3), AT_EACH_START),
    constant("CNTHCTL_EL2", encoding(3, 4, 14, 1, 0), AT_EACH_START),
    constant("VPIDR_EL2", encoding(3, 4, 0, 0, 0), AT_EACH_START),
    constant("ICC_SRE_EL2", encoding(3, 4, 12, 9, 5), "written once, at boot"),
    other(
        "HCR_EL2, VTCR_EL2, MDCR_EL2, CPTR_EL2",
        Elsewhere("tool/verify/tests/verify/mutants.rs: every_mutant_is_refused_with_its_code"),
        "one value for all vCPUs of a shared core, written at boot; `verify` compares them. CPTR_EL2.TFP follows the owner of the floating-point registers",
    ),
    other(
        "VTTBR_EL2, VMPIDR_EL2",
        Elsewhere("monitor/src/tests/shared.rs: an_exchange_exchanges_registers_and_list_registers"),
        "loaded from the plan at each exchange",
    ),
    other(
        "ICH_HCR_EL2",
        Elsewhere(ACTIVE),
        "UIE is asked for by who waits for a list register, and looked at when it is loaded; the rest is constant. EOIcount is read by nobody",
    ),
    other("ICH_ELRSR_EL2, ICH_EISR_EL2", Monitor, "follow the list registers"),
    constant(
        "ICH_AP0R0_EL2",
        encoding(3, 4, 12, 8, 0),
        "what ICC_AP0R0_EL1 would reach, which traps; zero at each start",
    ),
    other(
        "ICC_PMR_EL1, ICC_BPR1_EL1, ICC_CTLR_EL1, ICC_IGRPEN1_EL1, ICC_AP1R0_EL1 at EL2",
        Constant,
        "the physical interface: the same whenever a guest runs; its running priority is dropped in every handler",
    ),
    other("ICC_IAR1_EL1, ICC_EOIR1_EL1, ICC_DIR_EL1, ICC_SGI1R_EL1 at EL2", Monitor, "commands"),
    other(
        "ICC_RPR_EL1 at EL2",
        Monitor,
        "follows what is active: idle before a guest starts, which each reset sees to",
    ),
    other(
        "ESR_EL2, FAR_EL2, HPFAR_EL2, ISR_EL1, TPIDR_EL2, VBAR_EL2, SP_EL2",
        Monitor,
        "of the exit that is being handled, or of the core",
    ),
    other("SCTLR_EL2, TCR_EL2, MAIR_EL2, TTBR0_EL2", Monitor, "written at boot"),
    other("CNTHP_CVAL_EL2, CNTHP_CTL_EL2", Monitor, "the EL2 timer"),
    constant("CNTPCT_EL0", encoding(3, 3, 14, 0, 1), "one counter for all, read-only"),
    constant("CNTFRQ_EL0", encoding(3, 3, 14, 0, 0), FACT),
    constant("MIDR_EL1", encoding(3, 0, 0, 0, 0), FACT),
    constant("MPIDR_EL1", encoding(3, 0, 0, 0, 5), "VMPIDR_EL2 for a guest, read-only"),
    constant("ID_AA64MMFR0_EL1", encoding(3, 0, 0, 7, 0), FACT),
    constant("DCZID_EL0", encoding(3, 3, 0, 0, 7), FACT),
    constant("CTR_EL0", encoding(3, 3, 0, 0, 1), FACT),
    constant("CurrentEL", encoding(3, 0, 4, 2, 2), FACT),
    other(
        "pending SError",
        Untested("QEMU raises none"),
        "no exchange waits for it: blamed on the vCPU that is loaded when it arrives (docs/caveats.md)",
    ),
    other(
        "translations in the TLB",
        Untested("QEMU keeps no stale entry that a test could find"),
        "tagged by VMID; dropped at each start of a partition",
    ),
    other(
        "exclusive monitor",
        Untested("no instruction can tell"),
        "cleared by every exception return (Arm ARM, AArch64.ExceptionReturn)",
    ),
    other("event register", Untested("WFE may always return"), "set by every exception return"),
    other(
        "caches, branch predictors",
        Untested("a time channel: docs/threat-model.md"),
        "neither switched nor cleared, but memory of a partition is written back at its start",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::{REGISTER_GROUPS, Treatment};
    use std::string::String;
    use std::vec::Vec;

    /// Names of registers that the assembler does not know, and those that are not all capitals.
    const ENCODED: &[(&str, &str)] = &[
        ("CurrentEL", "CurrentEL"),
        ("daifset", "DAIF"),
        ("spsel", "SPSel"),
        ("S3_0_C4_C6_0", "ICC_PMR_EL1"),
        ("S3_0_C12_C9_0", "ICC_AP1R0_EL1"),
        ("S3_0_C12_C11_1", "ICC_DIR_EL1"),
        ("S3_0_C12_C11_3", "ICC_RPR_EL1"),
        ("S3_0_C12_C11_5", "ICC_SGI1R_EL1"),
        ("S3_0_C12_C12_0", "ICC_IAR1_EL1"),
        ("S3_0_C12_C12_1", "ICC_EOIR1_EL1"),
        ("S3_0_C12_C12_3", "ICC_BPR1_EL1"),
        ("S3_0_C12_C12_4", "ICC_CTLR_EL1"),
        ("S3_0_C12_C12_5", "ICC_SRE_EL1"),
        ("S3_0_C12_C12_7", "ICC_IGRPEN1_EL1"),
        ("S3_4_C12_C8_0", "ICH_AP0R0_EL2"),
        ("S3_4_C12_C9_0", "ICC_AP1R0_EL1"),
        ("S3_4_C12_C9_5", "ICC_SRE_EL2"),
        ("S3_4_C12_C11_0", "ICH_HCR_EL2"),
        ("S3_4_C12_C11_3", "ICH_EISR_EL2"),
        ("S3_4_C12_C11_5", "ICH_ELRSR_EL2"),
        ("S3_4_C12_C11_7", "ICC_PMR_EL1"), // ICH_VMCR_EL2, which has it
        ("S3_4_C12_C12_0", "registers"),   // list registers
        ("S3_4_C12_C12_1", "registers"),
        ("S3_4_C12_C12_2", "registers"),
        ("S3_4_C12_C12_3", "registers"),
    ];

    fn read(path: &str) -> String {
        let full = std::format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&full).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn name(register: &str) -> String {
        let named = ENCODED.iter().find(|(encoded, _)| *encoded == register);
        named.map_or_else(|| register.to_uppercase(), |(_, name)| (*name).into())
    }

    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|one: char| !one.is_alphanumeric() && one != '_').filter(|word| !word.is_empty())
    }

    fn is_listed(register: &str) -> bool {
        CORE_STATE.iter().any(|state| words(state.name).any(|word| word == register))
    }

    #[test]
    fn what_the_assembly_switches_is_listed_in_its_order() {
        let source = read("arch/src/el2/switch.s");
        let pairs = source
            .lines()
            .filter_map(|line| line.trim().strip_prefix("\\action "))
            .filter(|line| !line.contains("[x0"));
        let switched: Vec<String> = pairs.flat_map(|line| line.splitn(3, ", ").take(2).map(name)).collect();
        assert_eq!(switched.len(), 30);
        let listed: Vec<String> = CORE_STATE.iter().take(switched.len()).map(|state| state.name.into()).collect();
        assert_eq!(switched, listed);
        assert!(CORE_STATE.iter().take(switched.len()).all(|state| state.handling == Handling::Switched));
    }

    /// What MRS and MSR name in an assembly file. Operands of its macros are those of `\\action`, in the test above.
    fn named_in_assembly(source: &str) -> impl Iterator<Item = &str> {
        let code = source.lines().filter_map(|line| {
            let code = line.split("//").next()?.trim();
            // What is left of a colon is a label.
            code.rsplit(':').next()?.trim().split_once(char::is_whitespace)
        });
        code.filter_map(|(operation, operands)| {
            let (first, second) = operands.split_once(',')?;
            match operation {
                "mrs" => Some(second.trim()),
                "msr" => Some(first.trim()),
                _ => None,
            }
        })
        .filter(|register| !register.starts_with('\\'))
    }

    /// What a Rust file names in a string of its own: an argument of the macros that read and write.
    fn named_in_rust(source: &str) -> impl Iterator<Item = &str> {
        let quoted = source.split('"').skip(1).step_by(2).filter(|text| words(text).count() == 1);
        quoted.filter(|text| {
            let lower = text.to_lowercase();
            text.starts_with("S3_")
                || ["_el0", "_el1", "_el2"].iter().any(|end| lower.ends_with(end))
                || lower.starts_with("spsr_")
        })
    }

    #[test]
    fn every_register_that_el2_names_is_listed() {
        // All that is in the folder, so that a new file is not forgotten, and in each what it names at least.
        let folder = std::format!("{}/../../arch/src/el2", env!("CARGO_MANIFEST_DIR"));
        let mut found = std::collections::BTreeMap::new();
        for entry in std::fs::read_dir(folder).expect("the folder of EL2's assembly") {
            let file = entry.expect("an entry").file_name().into_string().expect("a name");
            let source = read(&std::format!("arch/src/el2/{file}"));
            let registers: Vec<&str> = match file.ends_with(".s") {
                true => named_in_assembly(&source).collect(),
                false => named_in_rust(&source).collect(),
            };
            for register in &registers {
                assert!(is_listed(&name(register)), "{file}: {register} is not in CORE_STATE");
            }
            found.insert(file, registers.len());
        }
        let least =
            [("boot.s", 9), ("machine.rs", 50), ("mod.rs", 1), ("reset.rs", 14), ("switch.s", 6), ("vectors.s", 9)];
        for (file, least) in least {
            assert!(found.get(file).is_some_and(|count| *count >= least), "{file}: {found:?}");
        }
    }

    /// A12 of docs/base-findings.md: what is switched or constant is tried by `core_state.rs`, or [`UNTRIED`] says why not.
    #[test]
    fn what_is_switched_or_constant_is_tried_or_says_why_not() {
        for state in CORE_STATE {
            let is_tried = match state.handling {
                Handling::Switched => state.encoding != 0 && state.bits != 0,
                Handling::Constant => state.encoding != 0,
                _ => continue,
            };
            let reason = UNTRIED.iter().find(|(name, _)| *name == state.name).map(|(_, reason)| *reason);
            assert_eq!(is_tried, reason.is_none(), "{}: {reason:?}", state.name);
            assert!(is_tried || reason.is_some_and(|reason| reason.len() > 20), "{}: {reason:?}", state.name);
        }
        for (name, _) in UNTRIED {
            assert!(CORE_STATE.iter().any(|state| state.name == *name), "{name} is in no list");
        }
        let filled = CORE_STATE.iter().filter(|state| state.handling == Handling::Switched && state.bits != 0);
        assert_eq!(filled.count(), 28, "what a guest fills with patterns");
    }

    /// A12 of docs/base-findings.md: what traps is tried by the samples of its group, so it must be one of them.
    #[test]
    fn what_traps_is_a_sample_of_a_group_that_traps() {
        let mut count = 0;
        for state in CORE_STATE.iter().filter(|state| state.handling == Handling::Trapped) {
            let is_tried = REGISTER_GROUPS.iter().any(|group| {
                matches!(group.treatment, Treatment::Trapped { .. })
                    && group.samples.contains(&state.encoding)
                    && words(group.registers).any(|word| word == state.name)
            });
            assert!(is_tried, "{} is in no sample of REGISTER_GROUPS that traps", state.name);
            count += 1;
        }
        assert_eq!(count, 7);
    }

    /// A1: one writer that forgets the bit gives group 0 back to the guests until the next one comes.
    #[test]
    fn group_0_traps_whoever_writes_the_control_register() {
        let source = read("arch/src/el2/machine.rs");
        let writes: Vec<&str> = source.split("write_register!(\"S3_4_C12_C11_0\"").skip(1).collect();
        assert_eq!(writes.len(), 3, "of ICH_HCR_EL2");
        for write in writes {
            let value = write.split(';').next().unwrap_or_default();
            assert!(value.contains("ICH_NO_GROUP_0"), "{value}");
        }
        assert!(!read("arch/src/el2/vectors.s").contains("C12_C11_0"));
    }

    #[test]
    fn every_register_that_a_guest_keeps_is_listed() {
        let kept = REGISTER_GROUPS.iter().filter(|group| group.treatment == Treatment::Switched);
        for word in kept.flat_map(|group| words(group.registers)).filter(|word| word.contains("_EL")) {
            assert!(is_listed(word), "{word} is not in CORE_STATE");
        }
    }

    #[test]
    fn what_is_kept_apart_elsewhere_has_a_test() {
        for state in CORE_STATE {
            let Handling::Elsewhere(test) = state.handling else { continue };
            let (path, function) = test.split_once(": ").expect("file: function");
            assert!(read(path).contains(&std::format!("fn {function}(")), "{}: there is no {test}", state.name);
        }
    }
}
