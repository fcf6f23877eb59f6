//! What an exception was, in words (Arm ARM D17.2.37, ESR_EL1).

use core::fmt;

/// An exception syndrome register value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syndrome(pub u64);

impl Syndrome {
    /// Returns the exception class (bits 31:26).
    #[must_use]
    pub const fn class(self) -> u64 {
        (self.0 >> 26) & 0x3f
    }

    /// States whether the trapped instruction has 32 bits.
    #[must_use]
    pub const fn is_long_instruction(self) -> bool {
        self.0 & (1 << 25) != 0
    }

    /// Returns the fault status code of an abort (bits 5:0).
    #[must_use]
    pub const fn fault_status(self) -> u64 {
        self.0 & 0x3f
    }

    /// Returns the name of the exception class.
    #[must_use]
    pub const fn class_name(self) -> &'static str {
        match self.class() {
            0x00 => "undefined instruction",
            0x01 => "trapped WFI or WFE",
            0x07 => "trapped FP or SIMD",
            0x0e => "illegal execution state",
            0x11 => "SVC (AArch32)",
            0x15 => "SVC",
            0x16 => "HVC",
            0x17 => "SMC",
            0x18 => "trapped system register",
            0x19 => "trapped SVE",
            0x20 => "instruction abort from EL0",
            0x21 => "instruction abort",
            0x22 => "misaligned program counter",
            0x24 => "data abort from EL0",
            0x25 => "data abort",
            0x26 => "misaligned stack pointer",
            0x2c => "trapped floating-point exception",
            0x2f => "SError",
            0x30 => "breakpoint from EL0",
            0x31 => "breakpoint",
            0x32 => "single step from EL0",
            0x33 => "single step",
            0x34 => "watchpoint from EL0",
            0x35 => "watchpoint",
            0x3c => "BRK",
            _ => "reserved exception class",
        }
    }

    /// States whether the class is an abort, so that FAR_EL1 and the fault status mean something.
    #[must_use]
    pub const fn is_abort(self) -> bool {
        matches!(self.class(), 0x20 | 0x21 | 0x24 | 0x25)
    }

    /// Returns the name of an abort's fault status.
    #[must_use]
    pub const fn fault_name(self) -> &'static str {
        match self.fault_status() {
            0x00..=0x03 => "address size fault",
            0x04..=0x07 => "translation fault",
            0x09..=0x0b => "access flag fault",
            0x0d..=0x0f => "permission fault",
            0x10 => "external abort",
            0x14..=0x17 => "external abort on a table walk",
            0x21 => "alignment fault",
            0x30 => "TLB conflict",
            0x35 => "unsupported exclusive access",
            _ => "other fault",
        }
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class_name())?;
        if self.is_abort() {
            let access = match (self.class(), self.0 & (1 << 6) != 0) {
                (0x20 | 0x21, _) => "fetch",
                (_, true) => "write",
                (_, false) => "read",
            };
            write!(f, " ({} on {access}, level {})", self.fault_name(), self.fault_status() & 3)?;
        }
        write!(f, ", ESR {:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::Syndrome;
    use std::string::ToString;

    #[test]
    fn describes_a_translation_fault_on_a_write() {
        assert_eq!(
            Syndrome(0x9600_0046).to_string(),
            "data abort (translation fault on write, level 2), ESR 0x96000046"
        );
    }

    #[test]
    fn describes_classes_without_fault_status() {
        assert_eq!(Syndrome(0x0200_0000).to_string(), "undefined instruction, ESR 0x2000000");
        assert!(!Syndrome(0x0200_0000).is_abort());
        assert_eq!(Syndrome(0x5600_0000).class_name(), "SVC");
    }
}
