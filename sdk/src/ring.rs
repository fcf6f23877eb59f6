//! Writer of a console ring (`bulkhead_abi::console`).

use bulkhead_abi::console::{CONSOLE_HEADER_BYTES, CONSOLE_MAGIC, ConsoleHeader};
use core::{
    mem::offset_of,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

const ENTRY_BYTES: u64 = 8;
const MAGIC_WORD: usize = offset_of!(ConsoleHeader, magic) / 8;
const CAPACITY_WORD: usize = offset_of!(ConsoleHeader, capacity) / 8;
const WRITTEN_WORD: usize = offset_of!(ConsoleHeader, written) / 8;
const FIRST_ENTRY_WORD: usize = CONSOLE_HEADER_BYTES as usize / 8;

/// The one writer of a ring. Its own copies of capacity and count decide; the header is for readers.
pub struct Ring {
    base: NonNull<u64>,
    capacity: u64,
    written: u64,
}

impl Ring {
    /// Opens the ring of `ring_bytes` at `base`; `None` when it has no room for an entry.
    ///
    /// A ring that already counts entries is continued, so that a restarted guest does not hide what it printed before.
    ///
    /// # Safety
    /// `base` is aligned to 8 bytes and valid for reads and writes of `ring_bytes` for as long as the ring is used, and no
    /// other code of this program writes there.
    #[must_use]
    pub unsafe fn open(base: *mut u64, ring_bytes: u64) -> Option<Self> {
        let capacity = ring_bytes.checked_sub(CONSOLE_HEADER_BYTES)? / ENTRY_BYTES;
        let base = NonNull::new(base).filter(|_| capacity > 0)?;
        let mut ring = Self { base, capacity, written: 0 };
        let header = (ring.word(MAGIC_WORD).load(Ordering::Relaxed), ring.word(CAPACITY_WORD).load(Ordering::Relaxed));
        if header == (CONSOLE_MAGIC, capacity) {
            ring.written = ring.word(WRITTEN_WORD).load(Ordering::Relaxed);
        } else {
            ring.word(WRITTEN_WORD).store(0, Ordering::Relaxed);
            ring.word(CAPACITY_WORD).store(capacity, Ordering::Relaxed);
            ring.word(MAGIC_WORD).store(CONSOLE_MAGIC, Ordering::Release);
        }
        Some(ring)
    }

    /// A 64-bit word of the ring; `index` is a header word or below `FIRST_ENTRY_WORD` + capacity.
    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: `open`'s caller vouches for the memory; every index in this file is inside it; AtomicU64 has the size
        // and alignment of u64, and readers outside this program use aligned 64-bit loads only.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(index)) }
    }

    /// Appends a byte with its counter value; overwrites the oldest entry when the ring is full.
    pub fn write(&mut self, byte: u8, ticks: u64) {
        // The remainder is below the capacity, which came from an addressable length.
        let index = FIRST_ENTRY_WORD + (self.written % self.capacity) as usize;
        self.word(index).store((ticks << 8) | u64::from(byte), Ordering::Relaxed);
        self.written = self.written.wrapping_add(1);
        self.word(WRITTEN_WORD).store(self.written, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::Ring;
    use bulkhead_abi::console::CONSOLE_MAGIC;

    /// Header of 8 words and 3 entries.
    const BYTES: u64 = 64 + 3 * 8;

    #[test]
    fn counts_on_and_wraps() {
        let mut memory = [0u64; 11];
        // SAFETY: the array outlives the ring and is written through it alone.
        let mut ring = unsafe { Ring::open(memory.as_mut_ptr(), BYTES) }.expect("room for three entries");
        for (byte, ticks) in [(b'a', 1), (b'b', 2), (b'c', 3), (b'd', 4)] {
            ring.write(byte, ticks);
        }
        assert_eq!(memory[..3], [CONSOLE_MAGIC, 3, 4]);
        assert_eq!(memory[8..], [(4 << 8) | 0x64, (2 << 8) | 0x62, (3 << 8) | 0x63], "entry n sits at n % capacity");
    }

    #[test]
    fn continues_a_ring_after_a_restart() {
        let mut memory = [0u64; 11];
        // SAFETY: as above; the first ring is gone before the second is made.
        unsafe { Ring::open(memory.as_mut_ptr(), BYTES) }.expect("room").write(b'x', 0);
        // SAFETY: as above.
        unsafe { Ring::open(memory.as_mut_ptr(), BYTES) }.expect("room").write(b'y', 0);
        assert_eq!(memory[2], 2);
        assert_eq!(memory[8..10], [0x78, 0x79]);
    }

    #[test]
    fn refuses_a_ring_without_room() {
        let mut memory = [0u64; 11];
        // SAFETY: as above; nothing is written.
        assert!(unsafe { Ring::open(memory.as_mut_ptr(), 71) }.is_none());
        // SAFETY: as above; nothing is written.
        assert!(unsafe { Ring::open(memory.as_mut_ptr(), 8) }.is_none());
    }
}
