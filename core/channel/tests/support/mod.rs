//! Memory for tests: a window as an array of atomics, and what the monitor does to it in a restart.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod hostile;

use bulkhead_channel::{Geometry, SharedMemory};
use std::sync::atomic::{AtomicU64, Ordering};

/// First word of the destination's page.
pub(crate) const READER: usize = 4096 / 8;
/// First word of the source's area.
pub(crate) const WRITER: usize = 8192 / 8;
/// Words of the window's head that the source writes before the slots.
pub(crate) const HEAD: usize = 8;

/// xorshift64*; the seed is not 0.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A cleared window.
pub(crate) fn window(geometry: Geometry) -> Vec<AtomicU64> {
    (0..geometry.window_bytes() / 8).map(|_| AtomicU64::new(0)).collect()
}

/// Clears the source's area and counts the start in its status page, as the monitor does.
pub(crate) fn restart_source(words: &[AtomicU64]) {
    words[WRITER..].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    words[1].fetch_add(1, Ordering::Relaxed);
}

/// Clears the destination's page, as the monitor does.
pub(crate) fn restart_destination(words: &[AtomicU64]) {
    words[READER..WRITER].iter().for_each(|word| word.store(0, Ordering::Relaxed));
}

/// Reads a word.
pub(crate) fn peek(words: &[AtomicU64], word: usize) -> u64 {
    words[word].load(Ordering::Relaxed)
}

/// Overwrites a word, as a hostile peer might.
pub(crate) fn poke(words: &[AtomicU64], word: usize, value: u64) {
    words[word].store(value, Ordering::Relaxed);
}

/// Memory that counts accesses and refuses stores outside one range: the pages that stage 2 makes writable for this end.
pub(crate) struct Guarded<'a> {
    pub(crate) words: &'a [AtomicU64],
    pub(crate) writable: std::ops::Range<usize>,
    pub(crate) accesses: std::cell::Cell<usize>,
}

impl<'a> Guarded<'a> {
    pub(crate) fn source(words: &'a [AtomicU64]) -> Self {
        Self { words, writable: WRITER..words.len(), accesses: std::cell::Cell::new(0) }
    }

    pub(crate) fn destination(words: &'a [AtomicU64]) -> Self {
        Self { words, writable: READER..WRITER, accesses: std::cell::Cell::new(0) }
    }

    fn count(&self, word: usize) {
        assert!(word < self.words.len(), "access to word {word} of {}", self.words.len());
        self.accesses.set(self.accesses.get() + 1);
    }
}

impl SharedMemory for Guarded<'_> {
    fn words(&self) -> usize {
        self.words.len()
    }

    fn load(&self, word: usize) -> u64 {
        self.count(word);
        self.words.load(word)
    }

    fn load_acquire(&self, word: usize) -> u64 {
        self.count(word);
        self.words.load_acquire(word)
    }

    fn store(&self, word: usize, value: u64) {
        self.count(word);
        assert!(self.writable.contains(&word), "store to word {word}, which belongs to the peer");
        self.words.store(word, value);
    }

    fn store_release(&self, word: usize, value: u64) {
        self.store(word, value);
    }
}
