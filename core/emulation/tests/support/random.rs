//! A seeded generator for tests.

/// SplitMix64 (Steele, Lea, Flood 2014): every run draws the same numbers, so a failure repeats.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A word as an attacker writes it: all ones, all zeros, one bit, or anything.
    pub(crate) fn hostile(&mut self) -> u64 {
        match self.below(5) {
            0 => u64::MAX,
            1 => 0,
            2 => 1 << self.below(64),
            _ => self.next(),
        }
    }
}
