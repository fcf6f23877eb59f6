//! Numbers of interrupts (IHI 0069, 2.2 "Interrupt types and INTIDs").

/// The number of an interrupt: 0 to 15 software-generated (SGI), 16 to 31 of one core (PPI), 32 to 1019 shared (SPI).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Intid(pub u32);

impl Intid {
    /// One past the software-generated interrupts.
    pub const SOFTWARE_END: u32 = 16;
    /// First of the shared interrupts, one past those that each core has for itself.
    pub const FIRST_SHARED: u32 = 32;
    /// First of the numbers that mean "no interrupt" (IHI 0069, 2.2.1 "Special INTIDs").
    pub const FIRST_SPECIAL: u32 = 1020;
    /// Last of them.
    pub const LAST_SPECIAL: u32 = 1023;
    /// No interrupt is pending that this core may acknowledge.
    pub const NONE: Self = Self(Self::LAST_SPECIAL);
    /// First of the message-signalled interrupts (LPI), which nobody here uses.
    pub const MESSAGE_SIGNALLED: Self = Self(8192);

    /// Maintenance interrupt of the virtual CPU interface (BSA, PPI assignments).
    pub const MAINTENANCE: Self = Self(25);
    /// EL2 physical timer, CNTHP (BSA, PPI assignments).
    pub const HYPERVISOR_TIMER: Self = Self(26);
    /// EL1 virtual timer, CNTV (BSA, PPI assignments).
    pub const VIRTUAL_TIMER: Self = Self(27);
    /// EL1 physical timer, CNTP (BSA, PPI assignments).
    pub const PHYSICAL_TIMER: Self = Self(30);

    /// States whether software makes it pending by ICC_SGI1R_EL1.
    #[inline]
    #[must_use]
    pub const fn is_software_generated(self) -> bool {
        self.0 < Self::SOFTWARE_END
    }

    /// States whether each core has its own interrupt of this number: its registers are the redistributor's.
    #[inline]
    #[must_use]
    pub const fn is_private(self) -> bool {
        self.0 < Self::FIRST_SHARED
    }

    /// States whether it is a line of one core (PPI): private and not software-generated.
    #[inline]
    #[must_use]
    pub const fn is_private_line(self) -> bool {
        matches!(self.0, Self::SOFTWARE_END..Self::FIRST_SHARED)
    }

    /// States whether it means "no interrupt" (1020 to 1023).
    #[cfg(any(test, feature = "el1"))]
    #[inline]
    #[must_use]
    pub const fn is_special(self) -> bool {
        matches!(self.0, Self::FIRST_SPECIAL..=Self::LAST_SPECIAL)
    }

    /// Index of its word in registers with one bit for each interrupt.
    #[inline]
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0 >> 5
    }

    /// Its bit in that word.
    #[inline]
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << (self.0 & 31)
    }
}

#[cfg(test)]
mod tests {
    use super::Intid;

    #[test]
    fn kinds_end_where_the_manual_says() {
        let kinds = |intid: u32| (Intid(intid).is_software_generated(), Intid(intid).is_private());
        assert_eq!(
            [0, 15, 16, 31, 32].map(kinds),
            [(true, true), (true, true), (false, true), (false, true), (false, false)]
        );
        assert_eq!(
            [0, 31, 32, 81, 255].map(|intid| (Intid(intid).word(), Intid(intid).bit())),
            [(0, 1), (0, 0x8000_0000), (1, 1), (2, 0x2_0000), (7, 0x8000_0000)]
        );
    }
}
