//! What a port needs of its memory: aligned 64-bit words, three orders and a full barrier.
//!
//! A window is an array of words, because the layout never needs anything smaller: fields of 32 bits that share a word
//! have the same writer. An index outside the window loads 0 and stores nothing, so no mistake in the protocol can reach
//! past the window.

use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Memory that another party may change at any time.
pub trait SharedMemory {
    /// Returns the size of the window in words.
    fn words(&self) -> usize;

    /// Loads a word; 0 outside the window.
    fn load(&self, word: usize) -> u64;

    /// Loads a word with acquire order; 0 outside the window.
    fn load_acquire(&self, word: usize) -> u64;

    /// Stores a word; nothing outside the window.
    fn store(&self, word: usize, value: u64);

    /// Stores a word with release order; nothing outside the window.
    fn store_release(&self, word: usize, value: u64);

    /// Orders every earlier access before every later one (`dmb ish`; both ends are cores of one inner shareable domain,
    /// so it orders accesses to non-cacheable memory between them too).
    fn full_barrier(&self) {
        fence(Ordering::SeqCst);
    }
}

impl SharedMemory for [AtomicU64] {
    #[inline]
    fn words(&self) -> usize {
        self.len()
    }

    #[inline]
    fn load(&self, word: usize) -> u64 {
        self.get(word).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    #[inline]
    fn load_acquire(&self, word: usize) -> u64 {
        self.get(word).map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    #[inline]
    fn store(&self, word: usize, value: u64) {
        if let Some(cell) = self.get(word) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    #[inline]
    fn store_release(&self, word: usize, value: u64) {
        if let Some(cell) = self.get(word) {
            cell.store(value, Ordering::Release);
        }
    }
}

impl<M: SharedMemory + ?Sized> SharedMemory for &M {
    #[inline]
    fn words(&self) -> usize {
        (**self).words()
    }

    #[inline]
    fn load(&self, word: usize) -> u64 {
        (**self).load(word)
    }

    #[inline]
    fn load_acquire(&self, word: usize) -> u64 {
        (**self).load_acquire(word)
    }

    #[inline]
    fn store(&self, word: usize, value: u64) {
        (**self).store(word, value);
    }

    #[inline]
    fn store_release(&self, word: usize, value: u64) {
        (**self).store_release(word, value);
    }

    #[inline]
    fn full_barrier(&self) {
        (**self).full_barrier();
    }
}
