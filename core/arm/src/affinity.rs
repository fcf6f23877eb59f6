//! Which core: MPIDR_EL1 (Arm ARM D17.2), and how ICC_SGI1R_EL1 names cores by it (IHI 0069, 12.2 ICC_SGI1R_EL1).

use crate::Intid;

/// The affinity fields of MPIDR_EL1, as GICD_IROUTER has them too: Aff3 39:32, Aff2 23:16, Aff1 15:8, Aff0 7:0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Affinity(pub u64);

impl Affinity {
    /// The bits of MPIDR_EL1 that are affinity fields.
    pub const FIELDS: u64 = 0xff_00ff_ffff;
    /// MPIDR_EL1 bit 31, which is always set.
    #[cfg(not(target_os = "none"))]
    pub const MPIDR_RES1: u64 = 1 << 31;

    /// Takes the affinity fields of an MPIDR_EL1 value.
    #[inline]
    #[must_use]
    pub const fn of_mpidr(mpidr: u64) -> Self {
        Self(mpidr & Self::FIELDS)
    }

    /// Affinity level 0, 1, 2 or 3; any other level is zero.
    #[inline]
    #[must_use]
    pub const fn level(self, level: u32) -> u64 {
        match level {
            0 => self.0 & 0xff,
            1 => self.0 >> 8 & 0xff,
            2 => self.0 >> 16 & 0xff,
            3 => self.0 >> 32 & 0xff,
            _ => 0,
        }
    }

    /// The fields in 32 bits, Aff3 to Aff0, as GICR_TYPER has them.
    #[cfg(any(test, feature = "el1"))]
    #[inline]
    #[must_use]
    pub const fn packed(self) -> u32 {
        (self.0 >> 8) as u32 & 0xff00_0000 | self.0 as u32 & 0x00ff_ffff
    }
}

/// A value of ICC_SGI1R_EL1, which makes a software-generated interrupt pending on cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct SgiRequest(pub u64);

impl SgiRequest {
    /// INTID, four bits from bit 24 on.
    pub const INTID_SHIFT: u32 = 24;
    /// IRM, bit 40: all cores but this one; nothing else but the INTID counts then.
    pub const ALL_BUT_SELF: u64 = 1 << 40;
    /// Aff3 55:48, RS 47:44, Aff2 39:32, Aff1 23:16: what names the sixteen cores that the target list chooses from.
    pub const CLUSTER: u64 = 0xff << 48 | 0xf << 44 | 0xff << 32 | 0xff << 16;

    /// Asks for an interrupt on one core.
    #[inline]
    #[must_use]
    pub const fn to_core(core: Affinity, intid: Intid) -> Self {
        Self(
            core.level(3) << 48
                | core.level(2) << 32
                | (intid.0 as u64 & 0xf) << Self::INTID_SHIFT
                | core.level(1) << 16
                | (core.level(0) >> 4) << 44
                | 1 << (core.0 & 0xf),
        )
    }

    /// The interrupt's number (bits 27:24).
    #[inline]
    #[must_use]
    pub const fn intid(self) -> Intid {
        Intid((self.0 >> Self::INTID_SHIFT) as u32 & 0xf)
    }

    /// Bit n names the core with affinity n of sixteen (bits 15:0).
    #[inline]
    #[must_use]
    pub const fn targets(self) -> u32 {
        self.0 as u32 & 0xffff
    }

    /// States whether all cores but the sender are meant.
    #[inline]
    #[must_use]
    pub const fn is_all_but_self(self) -> bool {
        self.0 & Self::ALL_BUT_SELF != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_core_and_nothing_else() {
        let value = |mpidr, intid| SgiRequest::to_core(Affinity::of_mpidr(mpidr), Intid(intid)).0;
        assert_eq!(value(0x8000_0003, 15), 0x0f00_0008);
        // Aff3 0x12, Aff2 0x34, Aff1 0x56, Aff0 0x78: range 7, target 8.
        assert_eq!(value(0x12_8034_5678, 1), 0x0012_7034_0156_0100);
        let request = SgiRequest(0x0012_7034_0556_0100);
        assert_eq!((request.intid(), request.targets(), request.is_all_but_self()), (Intid(5), 0x100, false));
        assert_eq!(request.0 & SgiRequest::CLUSTER, 0x0012_7034_0056_0000);
        assert!(SgiRequest(1 << 40).is_all_but_self());
    }

    #[test]
    fn fields_are_packed_as_a_redistributor_has_them() {
        assert_eq!(Affinity::of_mpidr(0x12_8034_5678).packed(), 0x1234_5678);
        assert_eq!(Affinity::of_mpidr(u64::MAX).0, Affinity::FIELDS);
    }
}
