//! Registers that belong to EL3, and those of the non-secure world that a restart resets (Arm ARM D17, each under its name).

use crate::context::Register;

/// SCR_EL3: what is common to both worlds. Reserved ones 5:4; SIF 9: the secure state fetches no instruction from non-secure
/// memory; RW 10: the next lower level is AArch64; ST 11: CNTPS belongs to S-EL1.
const SCR_BOTH: u64 = 3 << 4 | 1 << 9 | 1 << 10 | 1 << 11;
/// SCR_EL3 while the secure world runs. FIQ 2 and IRQ 1 are zero: its interrupts go to S-EL1 directly (SG-20).
pub const SCR_SECURE: u64 = SCR_BOTH;
/// SCR_EL3 while the non-secure world runs: NS 0; FIQ 2, so that secure interrupts come to EL3 and cannot be masked (SG-6); IRQ 1
/// zero, so that its own go to it directly (SG-22); EA 3 zero, so that its errors are its own (record 0028); HCE 8: it has HVC.
pub const SCR_NON_SECURE: u64 = SCR_BOTH | 1 | 1 << 2 | 1 << 8;
/// SCTLR_EL3: reserved ones, instruction cache (I 12). Stage 1 is off: there is no table to attack (record 0032).
pub const SCTLR_EL3: u64 = 0x30c5_0830 | 1 << 12;
/// MDCR_EL3: SDD 16 and SPD32 15:14 = 2: no debug exception in the secure state. SPME 17 is zero: nothing is counted there.
pub const MDCR_EL3: u64 = 1 << 16 | 2 << 14;
/// ICC_SRE_EL3 and ICC_SRE_EL2: system registers, no bypass, and the level below may do likewise.
pub const SRE_HIGH: u64 = 0xf;
/// ICC_SRE_EL1: system registers, no bypass.
pub const SRE_EL1: u64 = 7;
/// SPSR_EL3 of the payload's first instruction: S-EL1 on its own stack pointer, all exceptions masked.
pub const SPSR_SECURE: u64 = 0x3c5;

/// Exception class of a trapped system register (ESR_EL3, bits 31:26): non-secure code that touched group 0 (SG-15).
pub const EXCEPTION_CLASS_REGISTER: u64 = 0x18;

/// What the secure world asks EL3 for, in x0 of an SMC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum SecureCall {
    /// Gives the core to the non-secure world. Returns why it came back, a [`Reason`].
    Enter = 0,
    /// Resets the registers of the non-secure world that the secure one cannot reach: [`NON_SECURE_RESET`].
    Reset = 1,
}

/// Why the core came back from the non-secure world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Reason {
    /// An interrupt of the secure world. It is pending: its handler runs as soon as it is unmasked. Who gave the core away goes on
    /// waiting (SG-26).
    Interrupt = 0,
    /// A call: x0 to x17 of the context say which.
    Call = 1,
}

/// Where a reset value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetValue {
    /// This value.
    Constant(u64),
    /// That of another register, by its operand.
    Copy(&'static str),
}

const fn constant(name: &'static str, operand: &'static str, value: u64) -> (Register, ResetValue) {
    (Register { name, operand }, ResetValue::Constant(value))
}

/// Registers of the non-secure world that only EL2 and EL3 reach, with what they have when it begins. Each is written with
/// SCR_EL3.NS set, so banked ones are the non-secure ones. The first lets the others be written, so it is made to hold before them.
pub const NON_SECURE_RESET: &[(Register, ResetValue)] = &[
    constant("ICC_SRE_EL2", "S3_4_C12_C9_5", SRE_HIGH),
    // EL1 begins without virtualization: nothing traps, RW 31 says AArch64.
    constant("HCR_EL2", "hcr_el2", 1 << 31),
    constant("SCTLR_EL2", "sctlr_el2", 0x30c5_0830),
    // Reserved ones alone: nothing traps.
    constant("CPTR_EL2", "cptr_el2", 0x33ff),
    // EL1 has the physical counter and timer (EL1PCTEN 0, EL1PCEN 1).
    constant("CNTHCTL_EL2", "cnthctl_el2", 3),
    constant("CNTVOFF_EL2", "cntvoff_el2", 0),
    constant("CNTHP_CTL_EL2", "cnthp_ctl_el2", 0),
    constant("VTTBR_EL2", "vttbr_el2", 0),
    constant("HSTR_EL2", "hstr_el2", 0),
    // HPMN 4:0: EL1 has all six counters of a Cortex-A53.
    constant("MDCR_EL2", "mdcr_el2", 6),
    (Register { name: "VPIDR_EL2", operand: "vpidr_el2" }, ResetValue::Copy("midr_el1")),
    (Register { name: "VMPIDR_EL2", operand: "vmpidr_el2" }, ResetValue::Copy("mpidr_el1")),
    constant("ICH_HCR_EL2", "S3_4_C12_C11_0", 0),
    constant("ICC_SRE_EL1", "S3_0_C12_C12_5", SRE_EL1),
    // Active priorities and modes of the CPU interface.
    constant("ICC_AP1R0_EL1", "S3_0_C12_C9_0", 0),
    constant("ICC_CTLR_EL1", "S3_0_C12_C12_4", 0),
    constant("ICC_BPR1_EL1", "S3_0_C12_C12_3", 0),
    // QEMU ignores non-secure values of ICC_AP1R0_EL1 even from EL3: each end of an interrupt (of SGI 0, which is the world's own) drops one
    // priority that the world before left active, so the library resets [`ACTIVE_PRIORITIES`] times.
    constant("ICC_EOIR1_EL1", "S3_0_C12_C12_1", 0),
];

/// The most priorities that the non-secure world can have active at once: it has 16 levels.
pub const ACTIVE_PRIORITIES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::REGISTERS;

    #[test]
    fn each_world_has_its_interrupts_and_the_other_cannot_mask_them() {
        assert_eq!((SCR_SECURE, SCR_NON_SECURE), (0xe30, 0xf35));
        let both = SCR_SECURE & SCR_NON_SECURE;
        assert_eq!((both >> 1) & 1, 0, "IRQ goes to nobody but the world that runs");
        assert_eq!((SCR_NON_SECURE ^ SCR_SECURE), 1 | 1 << 2 | 1 << 8);
    }

    #[test]
    fn what_is_reset_is_switched_by_nobody() {
        for (register, _) in NON_SECURE_RESET {
            assert!(REGISTERS.iter().all(|switched| switched != register), "{}", register.name);
        }
    }
}
