//! The only unsafe code of the crate: a window made from an address and a length, and stores to it that are smaller than its words.
//!
//! Shared memory is never a Rust reference to plain data. It is seen as a slice of 64-bit atomics, whose loads and stores
//! may race with another party without undefined behaviour and compile to single aligned `ldr`, `str`, `ldar` and
//! `stlr`. Volatile accesses were rejected: they are data races by the language's rules, and they have no order.

use crate::SharedMemory;
use core::slice;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

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

/// A window in which neighbours of a byte can be another party's: both ends write to it (pools of virtio).
///
/// Loads take the words that hold what is wanted; stores write exactly what they are given, by the widest aligned accesses that fit.
/// An access outside the window, or a half or word that is not aligned, loads zeros and stores nothing.
#[derive(Clone, Copy, Debug)]
pub struct MappedBytes<'a> {
    words: &'a [AtomicU64],
}

impl<'a> MappedBytes<'a> {
    /// Takes the window at `address`; `None` as for [`MappedWindow::new`].
    ///
    /// # Safety
    ///
    /// As for [`MappedWindow::new`], where the area that this end writes is the whole window. One thread at a time uses it.
    #[must_use]
    pub unsafe fn new(address: *mut u8, bytes: usize) -> Option<Self> {
        // SAFETY: the caller promises conditions 1 and 3, and that all of the range is mapped writable (condition 2).
        unsafe { MappedWindow::new(address, bytes) }.map(|window| Self { words: window.words })
    }

    /// Returns the bytes of the window.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.words)
    }

    /// Loads the word that holds a byte, with acquire order, shifted so that the byte is the lowest.
    fn word_from(&self, at: usize) -> u64 {
        let word = self.words.get(at / size_of::<u64>()).map_or(0, |word| word.load(Ordering::Acquire));
        word >> (at % size_of::<u64>() * 8)
    }

    /// Loads 16 bits with acquire order.
    #[must_use]
    pub fn load_half(&self, at: usize) -> u16 {
        if at.is_multiple_of(2) { self.word_from(at) as u16 } else { 0 }
    }

    /// Loads 32 bits with acquire order.
    #[must_use]
    pub fn load_word(&self, at: usize) -> u32 {
        if at.is_multiple_of(4) { self.word_from(at) as u32 } else { 0 }
    }

    /// Stores 16 bits with release order.
    pub fn store_half(&self, at: usize, value: u16) {
        if let Some(place) = self.place::<u16>(at) {
            // SAFETY: `place` is aligned for two bytes inside words that are shared for 'a and accessed by atomics alone; only one thread
            // of this program is here, so no access of another size of it is at the same time.
            unsafe { AtomicU16::from_ptr(place) }.store(value.to_le(), Ordering::Release);
        }
    }

    /// Stores 32 bits with release order.
    pub fn store_word(&self, at: usize, value: u32) {
        if let Some(place) = self.place::<u32>(at) {
            // SAFETY: as in `store_half`, with four bytes.
            unsafe { AtomicU32::from_ptr(place) }.store(value.to_le(), Ordering::Release);
        }
    }

    /// Copies bytes to own memory.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let (mut at, mut rest) = (at, into);
        while !rest.is_empty() {
            let word = self.words.get(at / size_of::<u64>()).map_or(0, |word| word.load(Ordering::Relaxed));
            let within = at % size_of::<u64>();
            let count = rest.len().min(size_of::<u64>() - within);
            let (piece, behind) = core::mem::take(&mut rest).split_at_mut(count);
            piece.copy_from_slice(&word.to_le_bytes()[within..within + count]);
            (at, rest) = (at.wrapping_add(count), behind);
        }
    }

    /// Copies bytes from own memory.
    pub fn write(&self, at: usize, from: &[u8]) {
        let (mut at, mut rest) = (at, from);
        while let Some(first) = rest.first() {
            let whole = rest.first_chunk::<8>().filter(|_| at.is_multiple_of(size_of::<u64>()));
            let count = match (whole, self.words.get(at / size_of::<u64>())) {
                (Some(chunk), Some(word)) => {
                    word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
                    chunk.len()
                }
                (None, Some(_)) => {
                    if let Some(place) = self.place::<u8>(at) {
                        // SAFETY: as in `store_half`, with one byte.
                        unsafe { AtomicU8::from_ptr(place) }.store(*first, Ordering::Relaxed);
                    }
                    1
                }
                (_, None) => return,
            };
            (at, rest) = (at + count, &rest[count..]);
        }
    }

    /// Orders every earlier access before every later one (`dmb ish`).
    pub fn full_barrier(&self) {
        fence(Ordering::SeqCst);
    }

    /// Where a value of this type is in the window; `None` when it is not aligned, or not all of it is there.
    fn place<T>(&self, at: usize) -> Option<*mut T> {
        let end = at.checked_add(size_of::<T>())?;
        let is_inside = at.is_multiple_of(size_of::<T>()) && end <= self.bytes();
        // The words have interior mutability, so a pointer to them may be stored through.
        is_inside.then(|| self.words.as_ptr().cast_mut().cast::<u8>().wrapping_add(at).cast())
    }
}
