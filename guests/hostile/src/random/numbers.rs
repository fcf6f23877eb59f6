//! Random numbers, and values that are more often interesting than random ones are.

use bulkhead_sdk::{cpu, interrupt::InterruptId};

const VIRTUAL: u64 = InterruptId::VIRTUAL_TIMER.bit() as u64;

/// A seeded sequence (splitmix64, Steele, Lea and Flood 2014).
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a seed on one vCPU.
    pub(crate) fn new(seed: u64, vcpu: u32) -> Self {
        let mut random = Self(seed ^ (u64::from(vcpu) << 56));
        // Neighbouring seeds begin alike without this.
        random.0 = random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below `bound`, 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 8).checked_rem(bound).unwrap_or(0)
    }

    /// True once in this many times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of a list.
    pub(crate) fn pick<T: Copy>(&mut self, list: &[T], otherwise: T) -> T {
        let place = self.below(list.len() as u64) as usize;
        list.get(place).copied().unwrap_or(otherwise)
    }

    /// A mask of private interrupts or any other 32 bits.
    pub(crate) fn mask(&mut self) -> u32 {
        let any = self.next();
        let bits = match self.below(8) {
            0 => u64::MAX,
            1 => 0xffff,
            2 => VIRTUAL | InterruptId::PHYSICAL_TIMER.bit() as u64,
            3 => VIRTUAL,
            4 => 1 << (any & 31),
            5 => any & self.next(),
            6 => 0xffff_0000,
            _ => any,
        };
        (bits & 0xffff_ffff) as u32
    }

    /// 64 bits for a register, an argument or an address.
    pub(crate) fn value(&mut self) -> u64 {
        let any = self.next();
        match self.below(10) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << (any & 63),
            3 => !(1 << (any & 63)),
            4 => any & 0xff,
            5 => any & 0xffff_ffff,
            6 => 0x4000_0000 + (any & 0x001f_ffff),
            7 => cpu::counter_ticks().wrapping_add(any & 0xffff),
            8 => any & self.next(),
            _ => any,
        }
    }
}
