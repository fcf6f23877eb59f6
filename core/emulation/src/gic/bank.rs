//! The registers that the distributor and the SGI frame of a redistributor have in common, at the same offsets.

use super::{GicPort, MOST_URGENT_GUEST_PRIORITY, WORDS};

/// A bank: where it lies behind the port, and which of its interrupts are the guest's.
pub(super) struct Bank<'a, Port> {
    pub(super) port: &'a Port,
    /// Offset of the bank behind the port: 0 for the distributor, 64 KiB for the SGI frame.
    pub(super) base: u64,
    pub(super) owned: &'a [u32; WORDS],
}

/// One block of 128 bytes per bit register of 1,024 INTIDs, so the block number selects the register.
const BLOCK_SHIFT: u64 = 7;
/// IGROUPR (`GICD_IGROUPR<n>`, GICR_IGROUPR0).
const GROUP: u64 = 0x080 >> BLOCK_SHIFT;
/// ISENABLER, ICENABLER, ISPENDR, ICPENDR, ISACTIVER, ICACTIVER: write-one registers.
const SET_CLEAR_FIRST: u64 = 0x100 >> BLOCK_SHIFT;
const SET_CLEAR_LAST: u64 = 0x380 >> BLOCK_SHIFT;
/// IPRIORITYR: one byte per INTID.
const PRIORITY_FIRST: u64 = 0x400 >> BLOCK_SHIFT;
const PRIORITY_LAST: u64 = 0x780 >> BLOCK_SHIFT;
/// ICFGR: two bits per INTID.
const CONFIGURATION_FIRST: u64 = 0xc00 >> BLOCK_SHIFT;
const CONFIGURATION_LAST: u64 = 0xc80 >> BLOCK_SHIFT;

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
            PRIORITY_FIRST..=PRIORITY_LAST => self.masked(register, bytes_of(self.lanes(register))),
            CONFIGURATION_FIRST..=CONFIGURATION_LAST => self.masked(register, self.edge_bits(register)),
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

    /// Writes one byte of IPRIORITYR, never more urgent than the guest may be.
    fn write_priority(&self, register: u64, priority: u8) -> bool {
        if self.lanes(register) & 1 == 0 {
            return priority == 0;
        }
        let priority = priority.max(MOST_URGENT_GUEST_PRIORITY);
        self.port.write_priority(self.base | register, (register & 0x3ff) as u32, priority);
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

    /// Ownership of the interrupt of a priority byte (bit 0) and of those behind it.
    fn lanes(&self, register: u64) -> u32 {
        self.word((register & 0x3ff) >> 5) >> (register & 31)
    }

    /// The bits of an ICFGR word that say "edge" for own interrupts. The other bit of each pair is RES0.
    fn edge_bits(&self, register: u64) -> u32 {
        let first_intid = (register & 0xfc) << 2;
        let owned = (self.word(first_intid >> 5) >> (first_intid & 16)) & 0xffff;
        spread_pairs(owned) << 1
    }
}

/// Makes a byte mask from the lowest four bits.
const fn bytes_of(lanes: u32) -> u32 {
    // Bit i moves to 8i; the sixteen partial products are distinct bits, so nothing carries.
    ((lanes & 0xf).wrapping_mul(0x0020_4081) & 0x0101_0101).wrapping_mul(0xff)
}

/// Moves bit i of the lower half to bit 2i.
const fn spread_pairs(word: u32) -> u32 {
    let word = (word | (word << 8)) & 0x00ff_00ff;
    let word = (word | (word << 4)) & 0x0f0f_0f0f;
    let word = (word | (word << 2)) & 0x3333_3333;
    (word | (word << 1)) & 0x5555_5555
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_masks_are_exact() {
        for lanes in 0..64u32 {
            let expected =
                (0..4).filter(|lane| lanes & (1 << lane) != 0).fold(0, |mask, lane| mask | (0xff << (8 * lane)));
            assert_eq!(bytes_of(lanes), expected);
        }
    }

    #[test]
    fn pair_masks_are_exact() {
        for word in 0..=0xffffu32 {
            let expected = (0..16).filter(|i| word & (1 << i) != 0).fold(0, |mask, i| mask | (1 << (2 * i)));
            assert_eq!(spread_pairs(word), expected);
        }
    }
}
