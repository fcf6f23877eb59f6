//! Bytes of a fuzzer as decisions. Past their end every decision is zero.

pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    pub(crate) fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, at| word | u64::from(self.byte()) << (8 * at))
    }

    /// A number below the limit (at most 65,536).
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (u64::from(self.byte()) << 8 | u64::from(self.byte())) % limit
    }

    /// Access width in bytes; four more often than the others.
    pub(crate) fn width(&mut self) -> u8 {
        [4, 4, 4, 4, 1, 1, 2, 8][usize::from(self.byte() & 7)]
    }

    /// A value that an attacker writes: all ones, all zeros, one bit, or anything.
    pub(crate) fn value(&mut self) -> u64 {
        match self.byte() & 3 {
            0 => u64::MAX,
            1 => 0,
            2 => 1 << (self.byte() & 63),
            _ => self.word(),
        }
    }
}
