//! Wires: notifications between instances of the real-time kernel, over the memory of a channel (CH-39, CH-40; `kernel.md` 6).
//!
//! A wire goes one way and takes the place of a port's protocol in the channel's window: the source's area has one word that says incarnation and
//! write index, one with what the source knows to be read, and [`WIRE_ENTRIES`] entries of two words; the destination's page has one word, the
//! incarnation that it reads and its read index. Each page has one writer, and what belongs together is in one word, so nobody sees half of it.
//!
//! An entry says which of the receiver's exports is meant, and which bits. There is no checksum: unlike a message it is compared as a whole with what
//! the receiver's host allows, and one that is wrong is refused by that. What carries data is a port beside the wire: data first, then the signal.
//!
//! ## What a hostile peer can do
//!
//! The receiver reads the write index once for each doorbell and takes no more than that, [`WIRE_ENTRIES`] at most; its read index is its own copy. An index
//! that is further ahead than a ring is long is rubbish: nothing is taken. The sender believes a read index that lies within the ring, and no other. So a peer
//! can stop its own wire, and nothing else.
//!
//! ## Restarts
//!
//! As for ports: a source that starts again is another incarnation, and what was unread went with its page; a destination that starts again
//! continues where the source knows it to have been, so what it took since the source last looked comes again. Once otherwise.

use crate::SharedMemory;
use crate::geometry::WORD;
use bulkhead_guest_abi::channel::{CHANNEL_READER_OFFSET, CHANNEL_WRITER_OFFSET};

/// Entries of a wire.
pub const WIRE_ENTRIES: u32 = 16;
/// Bytes of the window that a wire uses: the peer's status, a page of the destination, a page of the source.
pub const WIRE_WINDOW_BYTES: u64 = CHANNEL_WRITER_OFFSET + 4096;

/// Incarnation in the upper half, index in the lower one: of the destination.
const READ: usize = (CHANNEL_READER_OFFSET / WORD) as usize;
/// The same of the source.
const WRITTEN: usize = (CHANNEL_WRITER_OFFSET / WORD) as usize;
/// What the source knows to be read.
const ACKNOWLEDGED: usize = WRITTEN + 1;
/// The first entry.
const ENTRIES: usize = WRITTEN + 8;

/// A notification: which of the receiver's exports, and which bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the export.
    pub index: u64,
    /// Bits to be set.
    pub bits: u64,
}

const fn pack(epoch: u32, index: u32) -> u64 {
    (epoch as u64) << 32 | index as u64
}

const fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// The first word of the entry with a running number.
const fn place(number: u32) -> usize {
    ENTRIES.wrapping_add((number % WIRE_ENTRIES) as usize * 2)
}

/// The writing end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireSender {
    epoch: u32,
    written: u32,
    acknowledged: u32,
}

impl WireSender {
    /// Begins an incarnation. The counter's low bits tell it from the ones before, and from that which the destination still reads.
    pub fn open(memory: &impl SharedMemory, now_ticks: u64) -> Self {
        let (echoed, _) = unpack(memory.load_acquire(READ));
        let mut epoch = now_ticks as u32;
        // Three numbers in a row: one of them is neither.
        for _ in 0..2 {
            if epoch == 0 || epoch == echoed {
                epoch = epoch.wrapping_add(1);
            }
        }
        memory.store_release(WRITTEN, 0);
        memory.store_release(ACKNOWLEDGED, 0);
        memory.store_release(WRITTEN, pack(epoch, 0));
        Self { epoch, written: 0, acknowledged: 0 }
    }

    /// Entries that are not read, as far as the destination can be believed.
    pub fn unread(&mut self, memory: &impl SharedMemory) -> u32 {
        let (epoch, read) = unpack(memory.load_acquire(READ));
        if epoch == self.epoch && self.written.wrapping_sub(read) <= WIRE_ENTRIES {
            self.acknowledged = read;
        }
        self.written.wrapping_sub(self.acknowledged)
    }

    /// Appends an entry; false when the ring is full. The doorbell is rung after it.
    pub fn send(&mut self, memory: &impl SharedMemory, entry: Entry) -> bool {
        if self.unread(memory) >= WIRE_ENTRIES {
            return false;
        }
        let at = place(self.written);
        // Who sees one of them sees that the incarnation before it is over.
        memory.store_release(at, entry.index);
        memory.store_release(at.wrapping_add(1), entry.bits);
        memory.store(ACKNOWLEDGED, u64::from(self.acknowledged));
        self.written = self.written.wrapping_add(1);
        // Who sees the index sees the entry.
        memory.store_release(WRITTEN, pack(self.epoch, self.written));
        true
    }
}

/// What a doorbell has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// This number of entries to take.
    Entries(u32),
    /// The write index is none that can be: nothing is taken.
    Rubbish,
}

/// The reading end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireReceiver {
    epoch: u32,
    read: u32,
    until: u32,
}

impl WireReceiver {
    /// Nothing was read.
    #[must_use]
    pub const fn new() -> Self {
        Self { epoch: 0, read: 0, until: 0 }
    }

    /// A doorbell was heard: reads the source's write index, once. No more than that is taken before the next look.
    pub fn look(&mut self, memory: &impl SharedMemory) -> Look {
        let (epoch, written) = unpack(memory.load_acquire(WRITTEN));
        if epoch == 0 {
            self.until = self.read;
            return Look::Entries(0);
        }
        if epoch != self.epoch {
            (self.epoch, self.read) = (epoch, memory.load_acquire(ACKNOWLEDGED) as u32);
        }
        let count = written.wrapping_sub(self.read);
        let is_possible = count <= WIRE_ENTRIES;
        // From here on, if it was rubbish: its writer alone loses by it.
        self.read = if is_possible { self.read } else { written };
        self.until = written;
        memory.store_release(READ, pack(self.epoch, self.read));
        if is_possible { Look::Entries(count) } else { Look::Rubbish }
    }

    /// The next entry of the latest look; `None` when all are taken, or the source has gone since.
    pub fn take(&mut self, memory: &impl SharedMemory) -> Option<Entry> {
        if self.read == self.until {
            return None;
        }
        let at = place(self.read);
        let entry = Entry { index: memory.load_acquire(at), bits: memory.load_acquire(at.wrapping_add(1)) };
        // Behind the entry: if it is the same incarnation still, the entry was its.
        if unpack(memory.load_acquire(WRITTEN)).0 != self.epoch {
            self.until = self.read;
            return None;
        }
        self.read = self.read.wrapping_add(1);
        // The entry was read before its place is free.
        memory.store_release(READ, pack(self.epoch, self.read));
        Some(entry)
    }
}
