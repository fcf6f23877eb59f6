//! Every piece of state of a core that could carry something from one vCPU to another, or from one life of a partition to the
//! next, and what an exchange, an unload and a start do with it.
//!
//! The tests that show it are made from this list: `tests/system/tests/scenarios/core_state.rs` fills what is switched with
//! patterns and looks at it from the neighbour, from the owner and after each way to a restart, and tries what traps. A test here
//! compares the list with the assembly that switches, with every register that code at EL2 names, and with the list of
//! registers that guests reach ([`crate::registers`]). Data for tests and documentation; nothing of it is linked at EL2.

use crate::trap::encoding;

/// How a piece of state is kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// Saved and loaded by `arch/src/aarch64/switch.s` at each exchange; loaded with its reset value at each start.
    Switched,
    /// Kept apart by other code; the test that shows it, as file and function.
    Elsewhere(&'static str),
    /// A guest's access traps and has no effect ([`crate::registers`]); what code at EL2 writes to it is always the same.
    Trapped,
    /// No guest's access reaches it, and what code at EL2 writes to it is the same for all vCPUs of a core.
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
    /// As a guest reaches it; 0 when it has no MRS and MSR at EL1.
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

const fn other(name: &'static str, handling: Handling, what: &'static str) -> CoreState {
    CoreState { name, encoding: 0, bits: 0, reset: 0, handling, what }
}

const ALL: u64 = u64::MAX;
/// A virtual address of the lower half.
const ADDRESS: u64 = 0x0000_7fff_ffff_fffc;
const EXCHANGED: &str =
    "tests/system/tests/scenarios/shared_registers.rs: turns_exchange_everything_with_lazy_floating_point";
const ACTIVE: &str = "monitor/src/tests/noted.rs: what_is_active_is_noted_for_the_loaded_vcpu";
const GICR: &str = "monitor/src/tests/shared.rs: the_redistributor_keeps_nothing_of_a_guest";
const STARTS: &str = "tests/system/tests/scenarios/core_state.rs: a_start_finds_nothing_of_the_life_before";

use Handling::{Constant, Elsewhere, Monitor, Trapped, Untested};

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
    switched("SP_EL1", 0, 0),
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
    other("ICC_AP0R0_EL1, ICC_BPR0_EL1, ICC_IGRPEN0_EL1", Trapped, "no group 0 for guests (ICH_HCR_EL2.TALL0)"),
    other("ICC_SRE_EL1", Trapped, "system registers are always on"),
    other("ACTLR_EL1", Trapped, "HCR_EL2.TACR"),
    other("MDSCR_EL1", Trapped, "MDCR_EL2.TDA, with all other debug registers; zero at each start"),
    other("PMUSERENR_EL0", Trapped, "MDCR_EL2.TPM, with all other performance monitors; zero at each start"),
    other("SPSR_ABT, SPSR_UND, SPSR_IRQ, SPSR_FIQ", Constant, "of AArch32 at EL1, which no guest has; zero"),
    other("DACR32_EL2, IFSR32_EL2, FPEXC32_EL2", Constant, "of AArch32 at EL1, which no guest has; zero"),
    other("CNTVOFF_EL2, HSTR_EL2, CNTHCTL_EL2, VPIDR_EL2", Constant, "one value for all, written at each start"),
    other("ICC_SRE_EL2, ICC_IGRPEN0_EL1 at EL2", Constant, "written once, at boot"),
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
    other("ICH_AP0R0_EL2", Trapped, "what ICC_AP0R0_EL1 would reach; zero since boot"),
    other(
        "ICC_PMR_EL1, ICC_BPR1_EL1, ICC_CTLR_EL1, ICC_IGRPEN1_EL1, ICC_AP1R0_EL1 at EL2",
        Constant,
        "the physical interface: the same whenever a guest runs; its running priority is dropped in every handler",
    ),
    other("ICC_IAR1_EL1, ICC_EOIR1_EL1, ICC_DIR_EL1, ICC_SGI1R_EL1 at EL2", Monitor, "commands"),
    other(
        "ESR_EL2, FAR_EL2, HPFAR_EL2, ISR_EL1, TPIDR_EL2, VBAR_EL2, SP_EL2",
        Monitor,
        "of the exit that is being handled, or of the core",
    ),
    other("SCTLR_EL2, TCR_EL2, MAIR_EL2, TTBR0_EL2", Monitor, "written at boot"),
    other("CNTHP_CVAL_EL2, CNTHP_CTL_EL2", Monitor, "the EL2 timer"),
    other("CNTPCT_EL0, CNTFRQ_EL0, MIDR_EL1, MPIDR_EL1, DCZID_EL0, CTR_EL0", Constant, "facts, read-only"),
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

    /// Names of registers that the assembler does not know.
    const ENCODED: &[(&str, &str)] = &[
        ("S3_0_C4_C6_0", "ICC_PMR_EL1"),
        ("S3_0_C12_C9_0", "ICC_AP1R0_EL1"),
        ("S3_0_C12_C11_1", "ICC_DIR_EL1"),
        ("S3_0_C12_C11_5", "ICC_SGI1R_EL1"),
        ("S3_0_C12_C12_0", "ICC_IAR1_EL1"),
        ("S3_0_C12_C12_1", "ICC_EOIR1_EL1"),
        ("S3_0_C12_C12_3", "ICC_BPR1_EL1"),
        ("S3_0_C12_C12_4", "ICC_CTLR_EL1"),
        ("S3_0_C12_C12_5", "ICC_SRE_EL1"),
        ("S3_0_C12_C12_6", "ICC_IGRPEN0_EL1"),
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
        let source = read("arch/src/aarch64/switch.s");
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

    #[test]
    fn every_register_that_el2_names_is_listed() {
        let mut count = 0;
        for path in ["machine.rs", "reset.rs", "mod.rs"] {
            let source = read(&std::format!("arch/src/aarch64/{path}"));
            let quoted = source.split('"').skip(1).step_by(2);
            let registers = quoted.filter(|text| {
                let lower = text.to_lowercase();
                text.starts_with("S3_")
                    || ["_el0", "_el1", "_el2"].iter().any(|end| lower.ends_with(end))
                    || lower.starts_with("spsr_")
            });
            for register in registers.filter(|text| words(text).count() == 1) {
                assert!(is_listed(&name(register)), "{path}: {register} is not in CORE_STATE");
                count += 1;
            }
        }
        assert!(count > 50, "{count}");
    }

    /// A1: one writer that forgets the bit gives group 0 back to the guests until the next one comes.
    #[test]
    fn group_0_traps_whoever_writes_the_control_register() {
        let source = read("arch/src/aarch64/machine.rs");
        let writes: Vec<&str> = source.split("write_register!(\"S3_4_C12_C11_0\"").skip(1).collect();
        assert_eq!(writes.len(), 3, "of ICH_HCR_EL2");
        for write in writes {
            let value = write.split(';').next().unwrap_or_default();
            assert!(value.contains("ICH_NO_GROUP_0"), "{value}");
        }
        assert!(!read("arch/src/aarch64/vectors.s").contains("C12_C11_0"));
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
