//! The only unsafe code of the crate: a window made from an address and a length.
//!
//! Shared memory is never a Rust reference to plain data. It is seen as a slice of 64-bit atomics, whose loads and stores
//! may race with another party without undefined behaviour and compile to single aligned `ldr`, `str`, `ldar` and
//! `stlr`. Volatile accesses were rejected: they are data races by the language's rules, and they have no order.

use crate::SharedMemory;
use core::slice;
use core::sync::atomic::AtomicU64;

/// A channel window at an address: a native guest's fixed address, or a mapping of BAR 2.
///
/// It can be sent and shared freely: it is a slice of atomics. Which end may store where is decided by the ports; a store
/// to the peer's pages is stopped by stage 2 and ends in the guest's own fault.
#[derive(Clone, Copy, Debug)]
pub struct MappedWindow<'a> {
    words: &'a [AtomicU64],
}

impl<'a> MappedWindow<'a> {
    /// Takes the window at `address`; `None` when `address` is null or not a multiple of 8, or `bytes` is not.
    ///
    /// # Safety
    ///
    /// For as long as `'a` lasts:
    ///
    /// 1. `address..address + bytes` is mapped readable, in one piece, as memory on which aligned 64-bit loads work.
    /// 2. The area that this end writes (the destination's page or the source's area) is mapped writable too.
    /// 3. This program touches the range through this crate, or other atomics, only. Other parties may store to it at
    ///    any time by any means.
    #[must_use]
    pub unsafe fn new(address: *mut u8, bytes: usize) -> Option<Self> {
        let first = address.cast::<AtomicU64>();
        if first.is_null() || !first.is_aligned() || !bytes.is_multiple_of(size_of::<u64>()) {
            return None;
        }
        // SAFETY: `first` is aligned and not null (checked above); the range is readable for 'a (condition 1), and it is
        // accessed by atomics alone (condition 3). Any bit pattern is a valid `AtomicU64`. A store through the slice to a
        // page that is not writable cannot come from a port: ports store to their own area only (condition 2).
        let words = unsafe { slice::from_raw_parts(first, bytes / size_of::<u64>()) };
        Some(Self { words })
    }
}

impl SharedMemory for MappedWindow<'_> {
    #[inline]
    fn words(&self) -> usize {
        self.words.words()
    }

    #[inline]
    fn load(&self, word: usize) -> u64 {
        self.words.load(word)
    }

    #[inline]
    fn load_acquire(&self, word: usize) -> u64 {
        self.words.load_acquire(word)
    }

    #[inline]
    fn store(&self, word: usize, value: u64) {
        self.words.store(word, value);
    }

    #[inline]
    fn store_release(&self, word: usize, value: u64) {
        self.words.store_release(word, value);
    }
}
