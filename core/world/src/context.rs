//! What of a core belongs to one world: the context that EL3 saves and loads, word by word (SG-9).
//!
//! AArch64 banks almost no register by security state, so that a switch of worlds moves what EL1 and EL0 have. The list is
//! written once, here: the struct that a payload reads and writes, the offsets and the instructions of the secure monitor, and
//! the page of the book are made from it. What is not in the list has its reason in [`NOT_SWITCHED`].
//!
//! The order is that of the instructions: pairs of neighbours are moved by one load or store. Rejected: the order of the manual,
//! which needs no fewer words, and one store each.

/// A register of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its name in the manual.
    pub name: &'static str,
    /// What assemblers know it by; by its encoding where some do not know the name.
    pub operand: &'static str,
}

macro_rules! context {
    ($($(#[$about:meta])* $field:ident: $name:literal = $operand:literal,)*) => {
        /// A world's context on one core, in secure RAM. Zeros are no context: [`Context::non_secure`] makes the first one.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct Context {
            /// x0 to x30. The secure world has x19 to x30 alone: it gives the core away by a call, which may change the others.
            pub x: [u64; 31],
            /// Makes the registers that follow begin at an even word, so that they are moved in pairs.
            pub pad: u64,
            $($(#[$about])* pub $field: u64,)*
        }

        /// The registers behind x0 to x30, in their order.
        pub const REGISTERS: &[Register] = &[$(Register { name: $name, operand: $operand }),*];

        #[cfg(test)]
        const OFFSETS: &[usize] = &[$(core::mem::offset_of!(Context, $field)),*];
    };
}

context! {
    /// Where the world continues.
    elr_el3: "ELR_EL3" = "elr_el3",
    /// Its level and processor state.
    spsr_el3: "SPSR_EL3" = "spsr_el3",
    /// Return address of its EL1.
    elr_el1: "ELR_EL1" = "elr_el1",
    /// Saved state of its EL1.
    spsr_el1: "SPSR_EL1" = "spsr_el1",
    /// Stack of EL0.
    sp_el0: "SP_EL0" = "sp_el0",
    /// Stack of EL1.
    sp_el1: "SP_EL1" = "sp_el1",
    /// Vectors of EL1.
    vbar_el1: "VBAR_EL1" = "vbar_el1",
    /// System control of EL1.
    sctlr_el1: "SCTLR_EL1" = "sctlr_el1",
    /// Access to floating point.
    cpacr_el1: "CPACR_EL1" = "cpacr_el1",
    /// Translation table of the lower half.
    ttbr0_el1: "TTBR0_EL1" = "ttbr0_el1",
    /// Translation table of the upper half.
    ttbr1_el1: "TTBR1_EL1" = "ttbr1_el1",
    /// Translation control.
    tcr_el1: "TCR_EL1" = "tcr_el1",
    /// Memory attributes.
    mair_el1: "MAIR_EL1" = "mair_el1",
    /// Identity of the process.
    contextidr_el1: "CONTEXTIDR_EL1" = "contextidr_el1",
    /// Software's own, of EL1.
    tpidr_el1: "TPIDR_EL1" = "tpidr_el1",
    /// Software's own, of EL0.
    tpidr_el0: "TPIDR_EL0" = "tpidr_el0",
    /// Software's own, read-only at EL0.
    tpidrro_el0: "TPIDRRO_EL0" = "tpidrro_el0",
    /// Syndrome of the latest exception to EL1.
    esr_el1: "ESR_EL1" = "esr_el1",
    /// Its address.
    far_el1: "FAR_EL1" = "far_el1",
    /// Result of the latest address translation.
    par_el1: "PAR_EL1" = "par_el1",
    /// What EL0 may do with timers.
    cntkctl_el1: "CNTKCTL_EL1" = "cntkctl_el1",
    /// Debug control.
    mdscr_el1: "MDSCR_EL1" = "mdscr_el1",
    /// Which cache CCSIDR_EL1 tells of.
    csselr_el1: "CSSELR_EL1" = "csselr_el1",
    /// Priority mask, as the secure side sees it: the non-secure world starts with 0x80, below which it cannot write.
    icc_pmr_el1: "ICC_PMR_EL1" = "S3_0_C4_C6_0",
    /// Group enables of both security states. EnableGrp1NS is the world's own while it runs, and off while the secure world runs:
    /// in place of a priority mask, which stock FreeRTOS opens (SG-7, record 0029).
    icc_igrpen1_el3: "ICC_IGRPEN1_EL3" = "S3_6_C12_C12_7",
}

/// Byte offset of the first of [`REGISTERS`].
pub const REGISTERS_OFFSET: usize = 256;
/// Distance from the non-secure to the secure context of a core.
pub const SECURE_OFFSET: usize = 512;
/// Distance from one core's pair to the next one's.
pub const CORE_BYTES: usize = 1024;

/// Registers that are switched by nobody, and why that is no way from one world into the other.
pub const NOT_SWITCHED: &[(&str, &str)] = &[
    ("registers of EL2", "there is no EL2 in the secure state of a Cortex-A53; the secure world never reads them"),
    (
        "CNTV_CTL_EL0, CNTV_CVAL_EL0, CNTP_CTL_EL0, CNTP_CVAL_EL0, CNTVOFF_EL2",
        "timers of the non-secure world; the payload's is CNTPS, which EL3 keeps from the other",
    ),
    ("ICC_BPR1_EL1, ICC_CTLR_EL1, ICC_SRE_EL1, ICC_AP1R0_EL1, ICC_IGRPEN1_EL1", "banked by security state"),
    ("ICC_IGRPEN0_EL1, ICC_BPR0_EL1, ICC_AP0R0_EL1", "group 0 is EL3's, and non-secure access to it traps"),
    ("ACTLR_EL1, AFSR0_EL1, AFSR1_EL1, AMAIR_EL1", "read as zero and ignore writes on a Cortex-A53"),
    ("V0 to V31, FPCR, FPSR", "the secure world is built without them, and CPACR_EL1 keeps it from them"),
    (
        "PMCR_EL0, PMCNTENSET_EL0, PMSELR_EL0, PMXEVTYPER_EL0, PMXEVCNTR_EL0, PMEVTYPER<n>_EL0, PMEVCNTR<n>_EL0, PMCCNTR_EL0, \
         PMCCFILTR_EL0, PMUSERENR_EL0, PMOVSSET_EL0, PMINTENSET_EL1",
        "MDCR_EL3 lets no event of the secure world be counted, and the secure world has no use for them; PMCCNTR_EL0 goes on while \
         PMCR_EL0.DP is 0, and says of the secure world how long it ran, as the system counter does",
    ),
    (
        "DBGBVR<n>_EL1, DBGBCR<n>_EL1, DBGWVR<n>_EL1, DBGWCR<n>_EL1",
        "MDCR_EL3.SDD: no debug exception in the secure state",
    ),
    (
        "OSLAR_EL1, OSDLR_EL1, OSECCR_EL1, OSDTRRX_EL1, OSDTRTX_EL1, MDCCINT_EL1, DBGPRCR_EL1, DBGCLAIMSET_EL1",
        "no debug exception in the secure state, and nothing there reads them",
    ),
    ("the local exclusive monitor", "cleared by every return from an exception"),
];

impl Context {
    /// Reserved bits of SCTLR_EL1 that read as one; with all others zero it is what a core has after reset.
    pub const SCTLR_RESET: u64 = 0x30d0_0800;
    /// The priority mask that a non-secure world starts with.
    pub const PRIORITY_MASK: u64 = 0x80;
    /// EnableGrp1S of ICC_IGRPEN1_EL3. In every context: without it no interrupt of the secure world would be signalled.
    pub const SECURE_GROUP: u64 = 1 << 1;
    /// EnableGrp1NS, which the non-secure world sets itself, as ICC_IGRPEN1_EL1. Never in the secure context.
    pub const NON_SECURE_GROUP: u64 = 1;

    /// The context of a non-secure world that has not begun.
    #[must_use]
    pub fn non_secure(entry: u64, argument: u64, level: EntryLevel) -> Self {
        let mut context = Self {
            elr_el3: entry,
            spsr_el3: level.state(),
            sctlr_el1: Self::SCTLR_RESET,
            icc_pmr_el1: Self::PRIORITY_MASK,
            icc_igrpen1_el3: Self::SECURE_GROUP,
            ..Self::default()
        };
        context.x[0] = argument;
        context
    }
}

/// The level at which a non-secure world begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryLevel {
    /// Like Linux, which then has virtualization, and like the EL2 monitor.
    El2,
    /// Without EL2.
    El1,
}

impl EntryLevel {
    /// SPSR_EL3 of its first instruction: all exceptions masked, on its own stack pointer.
    #[must_use]
    pub const fn state(self) -> u64 {
        match self {
            Self::El2 => 0x3c9,
            Self::El1 => 0x3c5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_is_the_list() {
        let listed = (0..REGISTERS.len()).map(|index| REGISTERS_OFFSET + 8 * index);
        assert!(OFFSETS.iter().copied().eq(listed));
        assert_eq!(size_of::<Context>(), 57 * 8, "words that are switched");
        assert!(size_of::<Context>() <= SECURE_OFFSET && 2 * SECURE_OFFSET <= CORE_BYTES);
    }

    #[test]
    fn no_register_is_switched_twice_or_both_ways() {
        for (index, one) in REGISTERS.iter().enumerate() {
            assert!(REGISTERS.iter().skip(index + 1).all(|other| other != one), "{}", one.name);
            let left_out = NOT_SWITCHED.iter().any(|(names, _)| names.split(", ").any(|name| name == one.name));
            assert!(!left_out, "{}", one.name);
        }
    }

    #[test]
    fn a_world_begins_masked_with_nothing_of_another() {
        let context = Context::non_secure(0x4020_0000, 0x4800_0000, EntryLevel::El2);
        assert_eq!((context.elr_el3, context.x[0], context.spsr_el3), (0x4020_0000, 0x4800_0000, 0x3c9));
        assert_eq!(context.icc_pmr_el1, 0x80, "zero would mask the secure side's interrupts too");
        assert_eq!(context.icc_igrpen1_el3, 2, "secure interrupts are signalled, its own not yet");
        assert_eq!((context.ttbr0_el1, context.vbar_el1), (0, 0));
        assert_eq!(EntryLevel::El1.state() & 0x3c0, 0x3c0);
    }
}
