//! Exceptions: the syndrome (Arm ARM D17.2.37 ESR_EL1, D17.2.38 ESR_EL2), the saved state (C5.2, SPSR) and the vectors (D1.10.2).

/// ESR_ELx.EC, bits 31:26, from this bit on.
pub const CLASS_SHIFT: u32 = 26;
/// ESR_ELx.IL, bit 25: the instruction has four bytes, or the class says nothing of it.
pub const LONG_INSTRUCTION: u64 = 1 << 25;

/// The class of an exception, ESR_ELx.EC. Any value of six bits; those that somebody asks for have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ExceptionClass(pub u8);

impl ExceptionClass {
    /// Unknown reason: an UNDEFINED instruction.
    pub const UNKNOWN: Self = Self(0x00);
    /// WFI, WFE, WFIT or WFET.
    pub const WAIT: Self = Self(0x01);
    /// Floating point or SIMD.
    pub const FLOATING_POINT: Self = Self(0x07);
    /// First of the classes of instructions that always are executed: classes below it have a condition.
    pub const FIRST_UNCONDITIONAL: Self = Self(0x10);
    /// HVC from AArch64; the link register points behind the instruction.
    pub const HVC64: Self = Self(0x16);
    /// SMC from AArch64; the link register points at the instruction.
    pub const SMC64: Self = Self(0x17);
    /// MSR, MRS or system instruction from AArch64.
    pub const SYSTEM_REGISTER: Self = Self(0x18);
    /// Instruction abort from a lower level.
    pub const INSTRUCTION_ABORT: Self = Self(0x20);
    /// Data abort from a lower level.
    pub const DATA_ABORT: Self = Self(0x24);

    /// Takes the class of a syndrome.
    #[inline]
    #[must_use]
    pub const fn of_syndrome(syndrome: u64) -> Self {
        Self((syndrome >> CLASS_SHIFT) as u8 & 0x3f)
    }
}

/// ISS of a data abort.
pub mod data_abort {
    /// ISV: the fields below describe the access.
    pub const VALID: u64 = 1 << 24;
    /// SAS 23:22: log2 of the bytes, from this bit on.
    pub const SIZE_SHIFT: u32 = 22;
    /// SSE: the load sign-extends.
    pub const SIGN_EXTEND: u64 = 1 << 21;
    /// SRT 20:16: the general register, from this bit on.
    pub const REGISTER_SHIFT: u32 = 16;
    /// SF: an X register rather than a W register.
    pub const SIXTY_FOUR: u64 = 1 << 15;
    /// CM: cache maintenance.
    pub const CACHE_MAINTENANCE: u64 = 1 << 8;
    /// S1PTW: the guest's own table walk.
    pub const TABLE_WALK: u64 = 1 << 7;
    /// WnR: a store.
    pub const WRITE: u64 = 1 << 6;
    /// DFSC 5:0 without its level: kind of the fault.
    pub const STATUS_SHIFT: u32 = 2;
    /// That kind: no mapping.
    pub const STATUS_TRANSLATION: u64 = 1;
}

/// PSTATE of a saved state, SPSR_ELx: M 4:0, EL0.
pub const STATE_EL0: u64 = 0;
/// M 4:0: EL1 with the stack pointer of EL0.
pub const STATE_EL1T: u64 = 0b0_0100;
/// M 4:0: EL1 with its own stack pointer.
pub const STATE_EL1H: u64 = 0b0_0101;
/// M 4:0 altogether.
pub const STATE_MODE: u64 = 0b1_1111;
/// M 4, nRW: AArch32.
pub const STATE_AARCH32: u64 = 1 << 4;
/// D, A, I and F, bits 9:6: debug exceptions, SErrors, interrupts and FIQs are masked.
pub const STATE_MASKED: u64 = 0xf << 6;

/// Offsets in a vector table of exceptions from the same level with the stack pointer of EL0.
pub const VECTOR_SAME_LEVEL_EL0_STACK: u64 = 0x000;
/// From the same level with its own stack pointer.
pub const VECTOR_SAME_LEVEL: u64 = 0x200;
/// From a lower level in AArch64.
pub const VECTOR_LOWER_LEVEL: u64 = 0x400;
/// From a lower level in AArch32.
pub const VECTOR_LOWER_LEVEL_AARCH32: u64 = 0x600;
