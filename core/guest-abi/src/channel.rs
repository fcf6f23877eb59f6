//! Channel memory: one direction, one source port, one destination port, every page with one writer.
//!
//! A channel end is a window of whole pages, the same at both ends:
//!
//! | offset | writer | content |
//! | --- | --- | --- |
//! | 0 | monitor of the *other* end | the peer's [`bulkhead_abi::status::StatusPage`], read-only to the guest |
//! | 4 KiB | destination guest | [`ReaderPage`]: acknowledgements |
//! | 8 KiB | source guest | [`WriterHeader`], then slots at +64, whole pages |
//!
//! So no page is writable by two partitions, and "declared channels" need no exception in the isolation proof. The
//! mapping is Normal non-cacheable at every end. Ports follow ARINC 653: *sampling* keeps the newest value (Simpson's four
//! slots), *queuing* keeps messages in order. Each message has a sequence number and a CRC-32C (QV-53), so that the
//! destination detects a source that writes rubbish.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Offset of the peer's status page in a channel window.
pub const CHANNEL_STATUS_OFFSET: u64 = 0;
/// Offset of the destination's page.
pub const CHANNEL_READER_OFFSET: u64 = 4096;
/// Offset of the source's pages.
pub const CHANNEL_WRITER_OFFSET: u64 = 8192;

/// First eight bytes of the source's area once its port is open.
pub const WRITER_MAGIC: u64 = u64::from_le_bytes(*b"BHCHANW1");
/// First eight bytes of the destination's area once its port is open.
pub const READER_MAGIC: u64 = u64::from_le_bytes(*b"BHCHANR1");

/// Newest value.
pub const PORT_SAMPLING: u32 = 1;
/// Messages in order.
pub const PORT_QUEUING: u32 = 2;
/// A pool of blocks (`bulkhead_world::pool`), of which the other end is the payload of the secure world: the window is the pool and nothing else, and
/// both ends write to it. A slot is a block.
pub const PORT_POOL: u32 = 3;

/// The back end of a virtio network card in another partition: the window is the front's device page (`bulkhead_abi::virtio`), then its
/// pool of as many pages as the port has slots. Both ends write to it, and ring each other.
pub const PORT_NET: u32 = 4;
/// The same of a block device.
pub const PORT_BLOCK: u32 = 5;

/// Slots of a sampling port (Simpson: two pairs of two).
pub const SAMPLING_SLOTS: u32 = 4;

/// Head of the source's area. The parameters repeat the plan's; each side uses the plan's own copy and compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct WriterHeader {
    /// [`WRITER_MAGIC`].
    pub magic: u64,
    /// [`PORT_SAMPLING`] or [`PORT_QUEUING`].
    pub kind: u32,
    /// Payload bytes of a message, 1..=4032.
    pub message_bytes: u32,
    /// Slots: [`SAMPLING_SLOTS`] or the queue's depth.
    pub slots: u32,
    /// Sampling: the pair (bit 0) that holds the newest value.
    pub latest_pair: u32,
    /// Sampling: newest slot within each pair (bit p for pair p).
    pub pair_slots: u32,
    /// Incarnation of the source, never zero while open; the destination echoes it in [`ReaderPage::epoch`].
    pub epoch: u32,
    /// Queuing: messages written; sampling: values written.
    pub written: u64,
    /// Queuing: messages that the source knows to be read; there a destination that has lost its page continues.
    pub acknowledged: u64,
    /// Zero.
    pub padding: [u64; 2],
}

/// The destination's page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ReaderPage {
    /// [`READER_MAGIC`].
    pub magic: u64,
    /// Queuing: messages read.
    pub read: u64,
    /// Sampling: pair being read.
    pub reading_pair: u32,
    /// [`WriterHeader::epoch`] that `read` belongs to; `read` means nothing to a source of another epoch.
    pub epoch: u32,
}

/// Head of a slot; the payload follows, padded to a multiple of 8. Slot stride = 24 + payload, rounded up to 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SlotHeader {
    /// Sequence number of the message, from 1.
    pub sequence: u64,
    /// Counter ticks when it was written (age; ARINC 653 validity).
    pub time_ticks: u64,
    /// Payload bytes used.
    pub bytes: u32,
    /// CRC-32C over sequence, time, bytes and the used payload.
    pub crc: u32,
}

/// Bytes from the start of the source's area to slot 0.
pub const SLOTS_OFFSET: u64 = 64;

/// Returns the distance in bytes between slots for a payload size.
#[must_use]
pub const fn slot_stride(message_bytes: u32) -> u64 {
    (size_of::<SlotHeader>() as u64 + message_bytes as u64).next_multiple_of(64)
}

/// Returns the bytes of the source's area, whole pages.
#[must_use]
pub const fn writer_bytes(message_bytes: u32, slots: u32) -> u64 {
    (SLOTS_OFFSET + slot_stride(message_bytes) * slots as u64).next_multiple_of(4096)
}
