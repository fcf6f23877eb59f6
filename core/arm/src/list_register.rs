//! List registers: the interrupts that a guest is given (IHI 0069, 12.4 `ICH_LR<n>_EL2`).

use crate::Intid;

/// The value of a list register. All zeros is one that is not in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct ListRegister(pub u64);

impl ListRegister {
    /// Pending, bit 62.
    pub const PENDING: u64 = 1 << 62;
    /// Active, bit 63.
    pub const ACTIVE: u64 = 1 << 63;
    /// HW, bit 61: the guest's end of the interrupt deactivates the physical one.
    pub const HARDWARE: u64 = 1 << 61;
    /// Group, bit 60: group 1.
    pub const GROUP_1: u64 = 1 << 60;
    /// EOI, bit 41, without HW: the guest's end of the interrupt raises a maintenance interrupt.
    pub const END_OF_INTERRUPT: u64 = 1 << 41;
    /// Priority, from bit 48 on.
    pub const PRIORITY_SHIFT: u32 = 48;
    /// pINTID, with HW, ten bits from bit 32 on.
    pub const PHYSICAL_SHIFT: u32 = 32;
    /// State, from bit 62 on.
    const STATE_SHIFT: u32 = 62;
    /// The ten bits of pINTID that every implementation has.
    const PHYSICAL: u64 = 0x3ff << Self::PHYSICAL_SHIFT;

    /// A pending interrupt of group 1 that stands for no physical one.
    #[inline]
    #[must_use]
    pub const fn pending(intid: Intid, priority: u8) -> Self {
        Self(Self::PENDING | Self::GROUP_1 | (priority as u64) << Self::PRIORITY_SHIFT | intid.0 as u64)
    }

    /// The same, standing for the physical interrupt of the same number.
    #[inline]
    #[must_use]
    pub const fn with_physical(self) -> Self {
        Self(self.0 | Self::HARDWARE | (self.intid().0 as u64) << Self::PHYSICAL_SHIFT)
    }

    /// The same, standing for no physical interrupt; its end raises a maintenance interrupt.
    #[inline]
    #[must_use]
    pub const fn with_end_seen(self) -> Self {
        Self(self.0 & !(Self::HARDWARE | Self::PHYSICAL) | Self::END_OF_INTERRUPT)
    }

    /// The virtual interrupt's number (bits 31:0).
    #[inline]
    #[must_use]
    pub const fn intid(self) -> Intid {
        Intid(self.0 as u32)
    }

    /// States whether it is pending, active or both.
    #[inline]
    #[must_use]
    pub const fn is_in_use(self) -> bool {
        self.0 >> Self::STATE_SHIFT != 0
    }

    /// States whether it stands for a physical interrupt.
    #[inline]
    #[must_use]
    pub const fn is_hardware(self) -> bool {
        self.0 & Self::HARDWARE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_manual_has_them() {
        let timer = ListRegister::pending(Intid(27), 0xa0);
        assert_eq!(timer.0, 0x50a0_0000_0000_001b);
        assert_eq!(timer.with_physical().0, 0x70a0_001b_0000_001b);
        assert_eq!(timer.with_physical().with_end_seen().0, 0x50a0_0200_0000_001b);
        assert_eq!((timer.intid(), timer.is_hardware()), (Intid(27), false));
        let states = [0, ListRegister::PENDING, ListRegister::ACTIVE, ListRegister::PENDING | ListRegister::ACTIVE];
        assert_eq!(states.map(|state| ListRegister(state).is_in_use()), [false, true, true, true]);
    }
}
