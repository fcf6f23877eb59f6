//! What EL0 may execute of the system instructions, and why each can do nobody any harm. Everything else is a fault.

/// Encodings that come back.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// Bits 20:5 of the instruction: op0, op1, CRn, CRm, op2.
    pub encoding: u16,
    /// Bits of these that may be anything.
    pub any: u16,
    /// As MSR, SYS, hint or barrier.
    pub writes: bool,
    /// As MRS.
    pub reads: bool,
    /// Only newer cores than a Cortex-A53 have it.
    pub is_newer: bool,
    /// Name.
    pub what: &'static str,
    /// Why it is harmless.
    pub why: &'static str,
}

impl Allowed {
    /// States whether an encoding is one of these.
    #[must_use]
    pub const fn has(&self, encoding: u16) -> bool {
        // WFI is a hint and is trapped.
        encoding & !self.any == self.encoding && encoding != WFI
    }
}

const WFI: u16 = 0x1903;
/// CRm of an instruction.
const CRM: u16 = 0x78;

const fn instruction(encoding: u16, any: u16, what: &'static str, why: &'static str) -> Allowed {
    Allowed { encoding, any, writes: true, reads: false, is_newer: false, what, why }
}

const fn read(encoding: u16, what: &'static str, why: &'static str) -> Allowed {
    Allowed { encoding, any: 0, writes: false, reads: true, is_newer: false, what, why }
}

const fn both(encoding: u16, what: &'static str, why: &'static str) -> Allowed {
    Allowed { encoding, any: 0, writes: true, reads: true, is_newer: false, what, why }
}

const fn newer(allowed: Allowed) -> Allowed {
    Allowed { is_newer: true, ..allowed }
}

const OWN: &str = "part of a thread's state: kept with it, zero at its beginning, cleared on both sides of a call";

/// All of them.
pub const ALLOWED: &[Allowed] = &[
    instruction(
        0x1900,
        0x7f,
        "hints but WFI",
        "no effect that EL0 or anybody else sees. WFE is trapped by SCTLR_EL1.nTWE on a core; QEMU 7.2 takes it as YIELD. Keys of pointer authentication are off",
    ),
    instruction(0x1982, CRM, "CLREX", "its own mark, which each exception return clears as well"),
    instruction(0x1984, CRM, "DSB", "waits for its own accesses"),
    instruction(0x1985, CRM, "DMB", "orders its own accesses"),
    instruction(0x1986, CRM, "ISB", "empties its own pipeline"),
    both(0xda10, "NZCV", OWN),
    both(0xde82, "TPIDR_EL0", OWN),
    read(0xde83, "TPIDRRO_EL0", "zero since boot, and EL0 cannot write it"),
    read(0xdf00, "CNTFRQ_EL0", "what `version` tells as well"),
    read(0xdf02, "CNTVCT_EL0", "time is read without a call"),
    read(0xd807, "DCZID_EL0", "says that DC ZVA is not allowed"),
    read(
        0xdcf0,
        "PMUSERENR_EL0",
        "zero: EL0 has no performance monitors. In a partition a read leaves to the monitor, which answers it",
    ),
    read(
        0x9808,
        "MDCCSR_EL0",
        "zero: nothing is in the debug communication channel. MDSCR_EL1.TDCC traps it on a core; QEMU 7.2 does not look. In a partition the monitor answers it",
    ),
    newer(instruction(0x200, 0, "CFINV", "its own flags")),
    newer(instruction(0x201, 0, "XAFLAG", "its own flags")),
    newer(instruction(0x202, 0, "AXFLAG", "its own flags")),
    newer(instruction(0x1987, 0, "SB", "a barrier for its own speculation")),
    newer(instruction(0x1a01, CRM, "MSR SSBS, immediate", OWN)),
    newer(instruction(0x1a02, CRM, "MSR DIT, immediate", OWN)),
    newer(both(0xda15, "DIT", OWN)),
    newer(both(0xda16, "SSBS", OWN)),
    newer(read(0xd920, "RNDR", "a random number; nobody's state")),
    newer(read(0xd921, "RNDRRS", "a random number; nobody's state")),
];
