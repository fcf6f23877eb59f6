//! What a back end needs of the window's memory.
//!
//! Rings have fields of 16 bits beside each other with different writers, and buffers begin and end at any byte, so the words of
//! `bulkhead_channel::SharedMemory` do not do: a store of 64 bits would write a neighbour back.

use bulkhead_channel::MappedBytes;

/// Memory that another party may change at any time. Every access is made exactly once, as it is written.
///
/// Offsets of halves and words are multiples of their size. An access outside loads zeros and stores nothing, so no mistake in this crate
/// can reach past the window.
pub trait Memory {
    /// Returns the bytes of the window.
    fn bytes(&self) -> u32;

    /// Loads 16 bits with acquire order.
    fn load_half(&self, at: u32) -> u16;

    /// Loads 32 bits with acquire order.
    fn load_word(&self, at: u32) -> u32;

    /// Stores 16 bits with release order.
    fn store_half(&self, at: u32, value: u16);

    /// Stores 32 bits with release order.
    fn store_word(&self, at: u32, value: u32);

    /// Copies bytes to own memory, each once, in any order and size. Neighbours may be read with them.
    fn read(&self, at: u32, into: &mut [u8]);

    /// Copies bytes from own memory, in any order and size. Neighbours are not written.
    fn write(&self, at: u32, from: &[u8]);

    /// Orders every earlier access before every later one, also for the cores of front and monitor (`dmb ish`).
    fn full_barrier(&self);
}

impl<M: Memory + ?Sized> Memory for &M {
    fn bytes(&self) -> u32 {
        (**self).bytes()
    }

    fn load_half(&self, at: u32) -> u16 {
        (**self).load_half(at)
    }

    fn load_word(&self, at: u32) -> u32 {
        (**self).load_word(at)
    }

    fn store_half(&self, at: u32, value: u16) {
        (**self).store_half(at, value);
    }

    fn store_word(&self, at: u32, value: u32) {
        (**self).store_word(at, value);
    }

    fn read(&self, at: u32, into: &mut [u8]) {
        (**self).read(at, into);
    }

    fn write(&self, at: u32, from: &[u8]) {
        (**self).write(at, from);
    }

    fn full_barrier(&self) {
        (**self).full_barrier();
    }
}

/// The window of a program: mapped, or at an address of its own.
impl Memory for MappedBytes<'_> {
    fn bytes(&self) -> u32 {
        u32::try_from(MappedBytes::bytes(self)).unwrap_or(u32::MAX)
    }

    fn load_half(&self, at: u32) -> u16 {
        MappedBytes::load_half(self, at as usize)
    }

    fn load_word(&self, at: u32) -> u32 {
        MappedBytes::load_word(self, at as usize)
    }

    fn store_half(&self, at: u32, value: u16) {
        MappedBytes::store_half(self, at as usize, value);
    }

    fn store_word(&self, at: u32, value: u32) {
        MappedBytes::store_word(self, at as usize, value);
    }

    fn read(&self, at: u32, into: &mut [u8]) {
        MappedBytes::read(self, at as usize, into);
    }

    fn write(&self, at: u32, from: &[u8]) {
        MappedBytes::write(self, at as usize, from);
    }

    fn full_barrier(&self) {
        MappedBytes::full_barrier(self);
    }
}
