//! Registers of EL2 that confine a guest, bit by bit (Arm ARM D17.2 and D17.3, each under its name), and the values that Bulkhead gives them.

/// HCR_EL2 (D17.2.48). The monitor has the values from its plan.
#[cfg(not(target_os = "none"))]
pub mod hcr {
    /// VM: stage 2 is on.
    pub const STAGE_2: u64 = 1;
    /// SWIO: invalidation by set/way also cleans.
    pub const SET_WAY_CLEANS: u64 = 1 << 1;
    /// FMO: FIQs are taken to EL2.
    pub const FIQ: u64 = 1 << 3;
    /// IMO: interrupts are taken to EL2, and the guest's CPU interface is virtual.
    pub const INTERRUPTS: u64 = 1 << 4;
    /// AMO: SErrors are taken to EL2.
    pub const SERROR: u64 = 1 << 5;
    /// TWI: WFI traps.
    pub const WAIT_FOR_INTERRUPT: u64 = 1 << 13;
    /// TSC: SMC traps.
    pub const SECURE_CALL: u64 = 1 << 19;
    /// TIDCP: implementation-defined registers trap.
    pub const IMPLEMENTATION_DEFINED: u64 = 1 << 20;
    /// TACR: ACTLR_EL1 traps.
    pub const AUXILIARY_CONTROL: u64 = 1 << 21;
    /// TSW: cache maintenance by set/way traps.
    pub const SET_WAY: u64 = 1 << 22;
    /// RW: EL1 is AArch64.
    pub const AARCH64: u64 = 1 << 31;

    /// For a partition whose interrupts are `direct`.
    pub const DIRECT: u64 = AARCH64
        | SET_WAY
        | AUXILIARY_CONTROL
        | IMPLEMENTATION_DEFINED
        | SECURE_CALL
        | SERROR
        | SET_WAY_CLEANS
        | STAGE_2;
    /// For a partition whose interrupts are `mapped`.
    pub const MAPPED: u64 = DIRECT | INTERRUPTS | FIQ;
    /// For a shared core: an idle guest gives the core away.
    pub const SHARED: u64 = MAPPED | WAIT_FOR_INTERRUPT;
}

/// Fields that VTCR_EL2 and TCR_EL2 have at the same places. The monitor has both values from its plan.
#[cfg(not(target_os = "none"))]
mod walk {
    /// IRGN0 9:8, ORGN0 11:10, SH0 13:12: walks are write-back, read- and write-allocate, inner shareable. TG0 15:14 is zero: 4 KiB.
    const CACHED: u64 = 1 << 8 | 1 << 10 | 3 << 12;
    /// Bit 31, which is always set.
    const RES1: u64 = 1 << 31;

    /// T0SZ 5:0 (input addresses of that many bits, at most 48) and PS 18:16 (output addresses).
    pub(super) const fn sizes(input_bits: u32, physical_address_bits: u32) -> u64 {
        let physical = match physical_address_bits {
            0..36 => 0,
            36..40 => 1,
            40..42 => 2,
            42..44 => 3,
            44..48 => 4,
            _ => 5,
        };
        RES1 | CACHED | physical << 16 | (64u64.wrapping_sub(input_bits as u64) & 0x3f)
    }
}

/// Bits of a guest address.
#[cfg(not(target_os = "none"))]
pub const GUEST_ADDRESS_BITS: u32 = 39;

/// VTCR_EL2 of a board: guest addresses of [`GUEST_ADDRESS_BITS`], 4 KiB pages, cached walks from level 1 on (SL0 7:6 = 1).
#[cfg(not(target_os = "none"))]
#[must_use]
pub const fn vtcr(physical_address_bits: u32) -> u64 {
    walk::sizes(GUEST_ADDRESS_BITS, physical_address_bits) | 1 << 6
}

/// TCR_EL2: addresses of EL2 with this many bits (25 to 48), 4 KiB pages, cached walks. Bit 23 is always set.
#[cfg(not(target_os = "none"))]
#[must_use]
pub const fn tcr(input_bits: u32, physical_address_bits: u32) -> u64 {
    walk::sizes(input_bits, physical_address_bits) | 1 << 23
}

/// TCR_EL2.PS, in place: how many bits an output address has. Larger numbers are more bits, as in ID_AA64MMFR0_EL1.PARange.
pub const TCR_PHYSICAL_SHIFT: u32 = 16;

/// MAIR_EL2, what the indices of descriptors mean: 0 is Device-nGnRE, 1 Normal write-back, 2 Normal non-cacheable.
#[cfg(not(target_os = "none"))]
pub const MAIR: u64 = 0x04 | 0xff << 8 | 0x44 << 16;

/// MDCR_EL2 (D17.3, "Monitor Debug Configuration Register (EL2)"): debug and performance registers trap.
/// The monitor has the value from its plan.
#[cfg(not(target_os = "none"))]
pub mod mdcr {
    /// TDRA: the debug ROM's address traps.
    pub const DEBUG_ROM: u64 = 1 << 11;
    /// TDOSA: the OS lock traps.
    pub const OS_LOCK: u64 = 1 << 10;
    /// TDA: all other debug registers trap.
    pub const DEBUG: u64 = 1 << 9;
    /// TPM: performance monitors trap.
    pub const PERFORMANCE: u64 = 1 << 6;
    /// TPMCR: PMCR_EL0 traps.
    pub const PERFORMANCE_CONTROL: u64 = 1 << 5;
    /// HPMN 4:0: counters that EL1 could use if they did not trap, all six of a Cortex-A53.
    pub const ALL_COUNTERS: u64 = 6;

    /// For every guest.
    pub const GUEST: u64 = DEBUG_ROM | OS_LOCK | DEBUG | PERFORMANCE | PERFORMANCE_CONTROL | ALL_COUNTERS;
}

/// CPTR_EL2 (D17.2, "Architectural Feature Trap Register (EL2)", HCR_EL2.E2H = 0).
pub mod cptr {
    /// TTA: trace registers trap.
    pub const TRACE: u64 = 1 << 20;
    /// TFP: floating point traps, the guest's and EL2's own.
    pub const FLOATING_POINT: u64 = 1 << 10;
    /// Bits 13, 12, 9 and 7:0, which are always set, and TZ (bit 8): SVE traps where it exists.
    pub const RES1: u64 = 0x33ff;

    /// For every guest that owns the floating-point registers.
    pub const GUEST: u64 = RES1 | TRACE;
}

/// SCTLR_EL2 (D17.2, "System Control Register (EL2)").
pub mod sctlr {
    /// Bits that are always set.
    pub const RES1: u64 = 0x30c5_0830;
    /// M: translation is on.
    pub const TRANSLATION: u64 = 1;
    /// C: data caches are on.
    pub const DATA_CACHE: u64 = 1 << 2;
    /// SA: the stack pointer is checked for alignment.
    pub const STACK_ALIGNMENT: u64 = 1 << 3;
    /// I: instruction caches are on.
    pub const INSTRUCTION_CACHE: u64 = 1 << 12;
    /// WXN: a writable page is never executed, whatever the tables say.
    pub const WRITE_NEVER_EXECUTE: u64 = 1 << 19;

    /// While the monitor runs.
    pub const MONITOR: u64 =
        RES1 | WRITE_NEVER_EXECUTE | INSTRUCTION_CACHE | STACK_ALIGNMENT | DATA_CACHE | TRANSLATION;
    /// SCTLR_EL1 at reset: its own bits that are always set; translation and caches off, little-endian.
    pub const EL1_RESET: u64 = 0x30d0_0800;
}

/// CNTHCTL_EL2 (D17.2, HCR_EL2.E2H = 0): EL1PCTEN and EL1PCEN, the guest has the physical counter and timer.
pub const CNTHCTL_GUEST: u64 = 3;
/// Interrupt pending in ISR_EL1 (D17.2): bit I.
pub const ISR_INTERRUPT: u64 = 1 << 7;

/// The virtual and the physical CPU interface (IHI 0069, 12.2 and 12.4).
pub mod interface {
    /// ICH_HCR_EL2.En: the virtual interface is on.
    pub const ICH_ENABLE: u64 = 1;
    /// ICH_HCR_EL2.UIE: a maintenance interrupt when at most one list register is in use.
    pub const ICH_UNDERFLOW: u64 = 1 << 1;
    /// ICH_HCR_EL2.TC: accesses of EL1 to registers that both groups have, and those that send SGIs, trap.
    pub const ICH_TRAP_COMMON: u64 = 1 << 10;
    /// ICH_HCR_EL2.TALL0: registers of group 0 trap.
    pub const ICH_NO_GROUP_0: u64 = 1 << 11;
    /// ICC_CTLR_EL1.EOImode: priority drop and deactivation are separate.
    pub const EOI_MODE_SPLIT: u64 = 1 << 1;
    /// ICC_SRE_EL1 and ICC_SRE_EL2: SRE, DFB and DIB, system registers without bypass.
    pub const SYSTEM_REGISTERS: u64 = 7;
    /// ICC_SRE_EL2.Enable: EL1 may write its own ICC_SRE_EL1.
    pub const SYSTEM_REGISTERS_FOR_EL1: u64 = 1 << 3;
    /// ICC_PMR_EL1: every priority is signalled.
    pub const EVERY_PRIORITY: u8 = 0xff;
    /// Bits of an INTID in ICC_IAR1_EL1.
    pub const IAR_INTID: u64 = 0xff_ffff;
    /// ICC_RPR_EL1 while no interrupt is active.
    pub const IDLE_PRIORITY: u64 = 0xff;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values as a debugger shows them, as they were measured (`platform-facts.md` part 1).
    #[test]
    fn values_are_those_that_were_measured() {
        assert_eq!([hcr::DIRECT, hcr::MAPPED, hcr::SHARED], [0x8078_0023, 0x8078_003b, 0x8078_203b]);
        assert_eq!([vtcr(40), tcr(39, 40), MAIR], [0x8002_3559, 0x8082_3519, 0x44_ff04]);
        assert_eq!([vtcr(44), tcr(39, 44), tcr(44, 44)], [0x8004_3559, 0x8084_3519, 0x8084_3514]);
        // PS for every size that PARange has (D17.2, ID_AA64MMFR0_EL1), and rounded down.
        let sizes = [32, 36, 40, 41, 42, 44, 47, 48, 52].map(|bits| vtcr(bits) >> TCR_PHYSICAL_SHIFT & 7);
        assert_eq!(sizes, [0, 1, 2, 2, 3, 4, 4, 5, 5]);
        assert_eq!([mdcr::GUEST, cptr::GUEST, sctlr::MONITOR], [0xe66, 0x10_33ff, 0x30cd_183d]);
    }
}
