//! The registers that the distributor and the SGI frame of a redistributor have in common, at the same offsets.

use super::{GicPort, WORDS};
use bulkhead_arm::gic;

/// A bank: where it lies behind the port, and which of its interrupts are the guest's.
pub(super) struct Bank<'a, Port> {
    pub(super) port: &'a Port,
    /// Offset of the bank behind the port: 0 for the distributor, 64 KiB for the SGI frame.
    pub(super) base: u64,
    pub(super) owned: &'a [u32; WORDS],
}

/// log2 of the bytes of a register with one bit per interrupt of 1,024 INTIDs, so the block number selects the register.
const BLOCK_SHIFT: u32 = gic::BIT_REGISTER_BYTES.trailing_zeros();
/// IGROUPR (`GICD_IGROUPR<n>`, GICR_IGROUPR0).
const GROUP: u64 = gic::IGROUPR >> BLOCK_SHIFT;
/// ISENABLER, ICENABLER, ISPENDR, ICPENDR, ISACTIVER, ICACTIVER: write-one registers.
const SET_CLEAR_FIRST: u64 = gic::ISENABLER >> BLOCK_SHIFT;
const SET_CLEAR_LAST: u64 = gic::ICACTIVER >> BLOCK_SHIFT;
/// IPRIORITYR: one byte per INTID.
const PRIORITY_FIRST: u64 = gic::IPRIORITYR >> BLOCK_SHIFT;
const PRIORITY_LAST: u64 = (gic::ITARGETSR >> BLOCK_SHIFT) - 1;
/// ICFGR: two bits per INTID.
const CONFIGURATION_FIRST: u64 = gic::ICFGR >> BLOCK_SHIFT;
const CONFIGURATION_LAST: u64 = (gic::ICFGR_END >> BLOCK_SHIFT) - 1;

/// States whether an offset within a bank is in IPRIORITYR.
const fn is_priority(register: u64) -> bool {
    matches!(register >> BLOCK_SHIFT, PRIORITY_FIRST..=PRIORITY_LAST)
}

/// States whether an offset within a bank is in one of the six write-one registers, which drivers use at run time.
pub(super) const fn is_set_clear(register: u64) -> bool {
    matches!(register >> BLOCK_SHIFT, SET_CLEAR_FIRST..=SET_CLEAR_LAST)
}

/// Writes answer whether everything was done that the guest asked for, or was so already.
impl<Port: GicPort> Bank<'_, Port> {
    /// Reads a register: an aligned word, or one byte of IPRIORITYR, which alone has byte access.
    #[inline(always)]
    pub(super) fn read(&self, register: u64, bytes: u8) -> Option<u64> {
        match bytes {
            4 if register & 3 == 0 => Some(u64::from(self.read_word(register))),
            1 if is_priority(register) => {
                Some(u64::from(self.read_word(register & !3) >> ((register & 3) << 3) & 0xff))
            }
            _ => None,
        }
    }

    /// Writes a register; widths as in [`Self::read`].
    pub(super) fn write(&self, register: u64, bytes: u8, value: u64) -> bool {
        match bytes {
            4 if register & 3 == 0 => self.write_word(register, value as u32),
            1 if is_priority(register) => self.write_priority(register, value as u8),
            _ => false,
        }
    }

    fn read_word(&self, register: u64) -> u32 {
        match register >> BLOCK_SHIFT {
            SET_CLEAR_FIRST..=SET_CLEAR_LAST => self.read_set_clear(register),
            GROUP => self.word(register >> 2),
            PRIORITY_FIRST..=PRIORITY_LAST => self.priorities(register & 0x3fc),
            CONFIGURATION_FIRST..=CONFIGURATION_LAST => self.masked(register, self.edges((register & 0xfc) << 2)),
            _ => 0,
        }
    }

    fn write_word(&self, register: u64, value: u32) -> bool {
        match register >> BLOCK_SHIFT {
            SET_CLEAR_FIRST..=SET_CLEAR_LAST => self.write_set_clear(register, value),
            PRIORITY_FIRST..=PRIORITY_LAST => {
                let bytes = value.to_le_bytes().into_iter().zip(register..);
                bytes.fold(true, |done, (byte, address)| self.write_priority(address, byte) & done)
            }
            _ => value == self.read_word(register),
        }
    }

    /// Reads a write-one register. Inlined: this and [`Self::write_set_clear`] are the accesses with an instruction budget.
    #[inline(always)]
    pub(super) fn read_set_clear(&self, register: u64) -> u32 {
        self.masked(register, self.word(register >> 2))
    }

    /// Writes the own bits of a write-one register.
    #[inline(always)]
    pub(super) fn write_set_clear(&self, register: u64, value: u32) -> bool {
        let mask = self.word(register >> 2);
        if value & mask != 0 {
            self.port.write32(self.base | register, value & mask);
        }
        value & !mask == 0
    }

    /// Reads the priorities of four interrupts; those of others are zero.
    fn priorities(&self, first_intid: u64) -> u32 {
        [3, 2, 1, 0].into_iter().map(|place| first_intid | place).fold(0, |word, intid| {
            let own = if self.owns(intid) { self.port.priority(intid as u32) } else { 0 };
            word << 8 | u32::from(own)
        })
    }

    /// Writes one byte of IPRIORITYR.
    fn write_priority(&self, register: u64, priority: u8) -> bool {
        if !self.owns(register & 0x3ff) {
            return priority == 0;
        }
        self.port.write_priority((register & 0x3ff) as u32, priority);
        true
    }

    /// Reads the register when any of its bits is the guest's; otherwise the hardware is not touched.
    #[inline(always)]
    fn masked(&self, register: u64, mask: u32) -> u32 {
        if mask == 0 { 0 } else { self.port.read32(self.base | register) & mask }
    }

    /// Ownership of 32 interrupts.
    #[inline(always)]
    fn word(&self, index: u64) -> u32 {
        self.owned.get((index & 31) as usize).copied().unwrap_or(0)
    }

    fn owns(&self, intid: u64) -> bool {
        self.word(intid >> 5) >> (intid & 31) & 1 != 0
    }

    /// Makes a mask of the "edge" bits of own interrupts in a word of ICFGR, from this interrupt on.
    fn edges(&self, first_intid: u64) -> u32 {
        (0..16)
            .filter(|place| self.owns(first_intid | place))
            .fold(0, |mask, place| mask | gic::ICFGR_EDGE << (place << 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    struct NoPort;

    impl GicPort for NoPort {
        fn read32(&self, _: u64) -> u32 {
            unreachable!()
        }
        fn write32(&self, _: u64, _: u32) {}
        fn priority(&self, _: u32) -> u8 {
            unreachable!()
        }
        fn write_priority(&self, _: u32, _: u8) {}
        fn read64(&self, _: u64) -> u64 {
            unreachable!()
        }
        fn write_route(&self, _: u32, _: u64) {}
    }

    #[test]
    fn masks_of_edges_are_exact() {
        let mut random = Random::new(9);
        for _ in 0..1000 {
            let owned = [0; WORDS].map(|_: u32| random.next() as u32);
            let bank = Bank { port: &NoPort, base: 0, owned: &owned };
            for first in (0..256).step_by(16) {
                let mask = bank.edges(first);
                for bit in 0..32u32 {
                    let intid = first as u32 + bit / 2;
                    let own = owned[intid as usize / 32] & (1 << (intid % 32)) != 0;
                    assert_eq!(mask & (1 << bit) != 0, own && bit % 2 == 1, "INTID {intid}, bit {bit}");
                }
            }
        }
    }
}
