//! Both ends' view of a window: the words of the layout, slots, and the peer's heads.

use crate::crc::Crc32c;
use crate::error::Corruption;
use crate::geometry::WORD;
use crate::{Geometry, OpenError, SharedMemory};
use bulkhead_abi::status::StatusPage;
use bulkhead_guest_abi::channel::{
    CHANNEL_READER_OFFSET, CHANNEL_STATUS_OFFSET, CHANNEL_WRITER_OFFSET, READER_MAGIC, ReaderPage, SlotHeader,
    WRITER_MAGIC, WriterHeader,
};
use core::mem::offset_of;

/// Returns the word at a byte offset of an area.
const fn word(area: u64, offset: usize) -> usize {
    ((area + offset as u64) / WORD) as usize
}

const STATUS_STATE: usize = word(CHANNEL_STATUS_OFFSET, offset_of!(StatusPage, state));
const STATUS_GENERATION: usize = word(CHANNEL_STATUS_OFFSET, offset_of!(StatusPage, generation));

/// [`ReaderPage::magic`].
pub(crate) const READER_HEAD: usize = word(CHANNEL_READER_OFFSET, offset_of!(ReaderPage, magic));
/// [`ReaderPage::read`].
pub(crate) const READER_READ: usize = word(CHANNEL_READER_OFFSET, offset_of!(ReaderPage, read));
/// [`ReaderPage::reading_pair`] in the low half, [`ReaderPage::epoch`] in the high half.
pub(crate) const READER_PAIR_EPOCH: usize = word(CHANNEL_READER_OFFSET, offset_of!(ReaderPage, reading_pair));

/// [`WriterHeader::magic`].
pub(crate) const WRITER_HEAD: usize = word(CHANNEL_WRITER_OFFSET, offset_of!(WriterHeader, magic));
/// [`WriterHeader::kind`] in the low half, [`WriterHeader::message_bytes`] in the high half.
pub(crate) const WRITER_KIND_BYTES: usize = word(CHANNEL_WRITER_OFFSET, offset_of!(WriterHeader, kind));
/// [`WriterHeader::slots`] in the low half, [`WriterHeader::latest_pair`] in the high half.
pub(crate) const WRITER_SLOTS_LATEST: usize = word(CHANNEL_WRITER_OFFSET, offset_of!(WriterHeader, slots));
/// [`WriterHeader::pair_slots`] in the low half, [`WriterHeader::epoch`] in the high half.
pub(crate) const WRITER_PAIRS_EPOCH: usize = word(CHANNEL_WRITER_OFFSET, offset_of!(WriterHeader, pair_slots));
/// [`WriterHeader::written`].
pub(crate) const WRITER_WRITTEN: usize = word(CHANNEL_WRITER_OFFSET, offset_of!(WriterHeader, written));
/// [`WriterHeader::acknowledged`].
pub(crate) const WRITER_ACKNOWLEDGED: usize = word(CHANNEL_WRITER_OFFSET, offset_of!(WriterHeader, acknowledged));

// Fields that share a word must be neighbours in the order that `pack` assumes.
const _: () = assert!(offset_of!(WriterHeader, message_bytes) == offset_of!(WriterHeader, kind) + 4);
const _: () = assert!(offset_of!(WriterHeader, latest_pair) == offset_of!(WriterHeader, slots) + 4);
const _: () = assert!(offset_of!(WriterHeader, epoch) == offset_of!(WriterHeader, pair_slots) + 4);
const _: () = assert!(offset_of!(ReaderPage, epoch) == offset_of!(ReaderPage, reading_pair) + 4);
const _: () = assert!(offset_of!(StatusPage, reason) == offset_of!(StatusPage, state) + 4);
const _: () = assert!(offset_of!(StatusPage, restarts) == offset_of!(StatusPage, generation) + 4);
const _: () = assert!(offset_of!(SlotHeader, time_ticks) == 8 && offset_of!(SlotHeader, bytes) == 16);
const _: () = assert!(cfg!(target_endian = "little"), "the layout is little-endian");

/// Makes a word of two 32-bit fields, the one at the lower address first.
pub(crate) const fn pack(low: u32, high: u32) -> u64 {
    (low as u64) | ((high as u64) << 32)
}

/// Returns the field at the lower address.
pub(crate) const fn low(word: u64) -> u32 {
    word as u32
}

/// Returns the field at the higher address.
pub(crate) const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// A message that was published. Its holder rings the doorbell, if the channel has one.
#[must_use = "the data is in the channel; ring the doorbell now if the channel has one"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Sequence number of the message.
    pub sequence: u64,
}

/// A message that arrived whole, in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'b> {
    /// Sequence number, from 1 in each incarnation of the source.
    pub sequence: u64,
    /// Counter value when it was written, as the source says.
    pub time_ticks: u64,
    /// The payload.
    pub payload: &'b [u8],
}

impl Message<'_> {
    /// Returns the message's age. A time stamp from the future (a message written after `now_ticks` was read, or a source
    /// that lies) counts as age 0.
    #[must_use]
    pub const fn age_ticks(&self, now_ticks: u64) -> u64 {
        now_ticks.saturating_sub(self.time_ticks)
    }
}

/// The peer's partition, as its monitor describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// One of the `STATE_` constants of [`bulkhead_abi::status`].
    pub state: u32,
    /// One of the `REASON_` constants.
    pub reason: u32,
    /// Times started.
    pub generation: u32,
    /// Restarts done.
    pub restarts: u32,
}

/// A window whose size fits its parameters.
#[derive(Debug)]
pub(crate) struct Window<M> {
    pub(crate) memory: M,
    pub(crate) geometry: Geometry,
}

impl<M: SharedMemory> Window<M> {
    /// Checks kind and size.
    pub(crate) fn new(memory: M, geometry: Geometry, kind: u32) -> Result<Self, OpenError> {
        if geometry.kind() != kind {
            return Err(OpenError::WrongKind);
        }
        let bytes = (memory.words() as u64).saturating_mul(WORD);
        let needed = geometry.window_bytes();
        if bytes < needed {
            return Err(OpenError::WindowTooSmall { needed, bytes });
        }
        Ok(Self { memory, geometry })
    }

    /// Reads the peer's status page.
    pub(crate) fn peer_status(&self) -> PeerStatus {
        let state = self.memory.load_acquire(STATUS_STATE);
        let generation = self.memory.load(STATUS_GENERATION);
        PeerStatus { state: low(state), reason: high(state), generation: low(generation), restarts: high(generation) }
    }

    /// States whether the destination has opened its port.
    pub(crate) fn destination_is_open(&self) -> bool {
        self.memory.load_acquire(READER_HEAD) == READER_MAGIC
    }

    /// States whether the source's area holds an open port with these very parameters, and returns its epoch.
    ///
    /// `Ok(None)` means that it is closed. The source uses this on its own area when it opens, the destination on each call.
    pub(crate) fn source_epoch(&self) -> Result<Option<u32>, Corruption> {
        match self.memory.load_acquire(WRITER_HEAD) {
            0 => return Ok(None),
            WRITER_MAGIC => {}
            _ => return Err(Corruption::Magic),
        }
        let kind_and_bytes = pack(self.geometry.kind(), self.geometry.message_bytes());
        if self.memory.load(WRITER_KIND_BYTES) != kind_and_bytes
            || low(self.memory.load(WRITER_SLOTS_LATEST)) != self.geometry.slots()
        {
            return Err(Corruption::Parameters);
        }
        match high(self.memory.load_acquire(WRITER_PAIRS_EPOCH)) {
            0 => Ok(None),
            epoch => Ok(Some(epoch)),
        }
    }

    /// Starts a new incarnation of the source: clears the head and publishes it, the magic last.
    pub(crate) fn start_source(&self, now_ticks: u64) -> u32 {
        // The counter never stops while the board runs, so its low bits tell incarnations apart. The one value that the
        // destination still echoes is avoided, as is 0, which means "closed".
        let echoed = high(self.memory.load_acquire(READER_PAIR_EPOCH));
        let mut epoch = low(now_ticks);
        while epoch == 0 || epoch == echoed {
            epoch = epoch.wrapping_add(1);
        }
        self.memory.store(WRITER_HEAD, 0);
        self.memory.full_barrier();
        self.memory.store(WRITER_KIND_BYTES, pack(self.geometry.kind(), self.geometry.message_bytes()));
        self.memory.store(WRITER_SLOTS_LATEST, pack(self.geometry.slots(), 0));
        self.memory.store(WRITER_WRITTEN, 0);
        self.memory.store(WRITER_ACKNOWLEDGED, 0);
        self.memory.store(WRITER_PAIRS_EPOCH, pack(0, epoch));
        self.memory.store_release(WRITER_HEAD, WRITER_MAGIC);
        epoch
    }

    /// States whether a message of this length may be written.
    pub(crate) fn length_fits(&self, payload: &[u8]) -> bool {
        !payload.is_empty() && payload.len() <= self.geometry.message_bytes() as usize
    }

    /// Writes a message into a slot that the peer does not read (nothing is published yet). The length fits.
    pub(crate) fn write_slot(&self, slot: u32, payload: &[u8], sequence: u64, time_ticks: u64) {
        let bytes = payload.len() as u32;
        let crc = checksum(sequence, time_ticks, bytes, payload);
        let mut at = self.geometry.slot_word(slot);
        for head in [sequence, time_ticks, pack(bytes, crc)] {
            self.memory.store(at, head);
            at = at.wrapping_add(1);
        }
        let (whole, rest) = payload.as_chunks::<8>();
        for chunk in whole {
            self.memory.store(at, u64::from_le_bytes(*chunk));
            at = at.wrapping_add(1);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            for (to, from) in last.iter_mut().zip(rest) {
                *to = *from;
            }
            self.memory.store(at, u64::from_le_bytes(last));
        }
    }

    /// Copies a slot into the caller's buffer and judges the copy.
    pub(crate) fn read_slot<'b>(&self, slot: u32, buffer: &'b mut [u8]) -> Result<Message<'b>, Corruption> {
        let mut at = self.geometry.slot_word(slot);
        let sequence = self.memory.load(at);
        let time_ticks = self.memory.load(at.wrapping_add(1));
        let bytes_and_crc = self.memory.load(at.wrapping_add(2));
        let (bytes, crc) = (low(bytes_and_crc), high(bytes_and_crc));
        if bytes == 0 || bytes > self.geometry.message_bytes() {
            return Err(Corruption::Length);
        }
        let payload = buffer.get_mut(..bytes as usize).ok_or(Corruption::Length)?;
        at = at.wrapping_add(3);
        for chunk in payload.chunks_mut(8) {
            let word = self.memory.load(at).to_le_bytes();
            at = at.wrapping_add(1);
            for (to, from) in chunk.iter_mut().zip(word) {
                *to = from;
            }
        }
        if checksum(sequence, time_ticks, bytes, payload) != crc {
            return Err(Corruption::Checksum);
        }
        Ok(Message { sequence, time_ticks, payload })
    }
}

/// CRC-32C over sequence, time, bytes and the used payload, in the order of their addresses.
fn checksum(sequence: u64, time_ticks: u64, bytes: u32, payload: &[u8]) -> u32 {
    Crc32c::new()
        .update(&sequence.to_le_bytes())
        .update(&time_ticks.to_le_bytes())
        .update(&bytes.to_le_bytes())
        .update(payload)
        .finish()
}
