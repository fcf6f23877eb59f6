//! virtio between partitions: what the front's register frame and the device page hold (design record 0039).
//!
//! The register frame of a virtio-mmio device (Virtual I/O Device 1.2, 4.2.2) begins [`FRAME_OFFSET`] bytes behind a page boundary, so
//! that a page boundary divides it: registers below [`PAGE_REGISTER`] trap, the others are RAM, the *device page*, which front and back
//! end both map. Offsets in the device page are those of the registers less [`PAGE_REGISTER`].
//!
//! | offset in the device page | writer | content |
//! | --- | --- | --- |
//! | 0 | template, front | InterruptStatus (always [`INTERRUPT_USED`]), InterruptACK, Status, addresses of the selected queue, configuration |
//! | [`RECORDS`] + 64 q | monitor | [`QueueRecord`] of queue q |
//! | [`GENERATION`] | monitor | incarnation of the front; 0 = none, before its first start and while it is restarted |
//! | [`COPYING`] | back end | the generation for which it is storing to the pool at this moment; 0 = none |
//!
//! Stage 2 lets front and back write all of it, so each of them can spoil what is here, for these two and nobody else: the monitor
//! never reads anything from it but the addresses that it copies and `copying`, on which it waits a limited time.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Offset of the frame's first register in its page.
pub const FRAME_OFFSET: u64 = 0xfa0;
/// The first register that is in the device page and not trapped.
pub const PAGE_REGISTER: u32 = 0x60;
/// Bytes of the device page.
pub const DEVICE_PAGE_BYTES: u32 = 4096;

/// Network card (Virtual I/O Device 1.2, 5.1): queue 0 receives, queue 1 transmits.
pub const DEVICE_NET: u32 = 1;
/// Block device (5.2), one queue.
pub const DEVICE_BLOCK: u32 = 2;
/// Most queues of a device.
pub const MAX_QUEUES: usize = 2;
/// Most descriptors of a queue.
pub const MAX_QUEUE_SIZE: u16 = 256;

/// Features, bits 63:32, of every device: VIRTIO_F_VERSION_1 and VIRTIO_F_ACCESS_PLATFORM.
pub const FEATURES_HIGH: u32 = 0b11;
/// Network card: it has the address of [`NetConfiguration::address`].
pub const NET_MAC: u32 = 1 << 5;
/// Block device: a request has several pieces of data, at most [`BlockConfiguration::most_segments`].
pub const BLOCK_SEGMENTS: u32 = 1 << 2;
/// Block device: it is not written to.
pub const BLOCK_READ_ONLY: u32 = 1 << 5;
/// Block device: it knows the request "flush".
pub const BLOCK_FLUSH: u32 = 1 << 9;

/// Offset of InterruptStatus in the device page.
pub const INTERRUPT_STATUS: u32 = 0x60 - PAGE_REGISTER;
/// The one bit of InterruptStatus, which is always set: the driver reads it, looks into its queues and acknowledges, without an exit.
pub const INTERRUPT_USED: u32 = 1;
/// Offset of QueueDescLow; QueueDescHigh follows, as the high half does in the next two.
pub const QUEUE_DESCRIPTORS: u32 = 0x80 - PAGE_REGISTER;
/// Offset of QueueDriverLow.
pub const QUEUE_AVAILABLE: u32 = 0x90 - PAGE_REGISTER;
/// Offset of QueueDeviceLow.
pub const QUEUE_USED: u32 = 0xa0 - PAGE_REGISTER;
/// Offset of the configuration space: [`NetConfiguration`] or [`BlockConfiguration`].
pub const CONFIGURATION: u32 = 0x100 - PAGE_REGISTER;

/// Offset of the records of queues.
pub const RECORDS: u32 = 0x800;
/// Bytes of a record.
pub const RECORD_BYTES: u32 = size_of::<QueueRecord>() as u32;
/// Offset of the front's incarnation. What is below it in the page is cleared by a restart.
pub const GENERATION: u32 = 0xfc0;
/// Offset of the back end's announcement.
pub const COPYING: u32 = 0xfc4;

/// A queue as the front switched it on, for a back end to take over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct QueueRecord {
    /// Odd while the monitor writes the record; another even number for each change.
    pub sequence: u32,
    /// Descriptors; 0 = the queue is off.
    pub number: u32,
    /// Address of the descriptor table, as the front's device sees it.
    pub descriptors: u64,
    /// Address of the available ring.
    pub available: u64,
    /// Address of the used ring.
    pub used: u64,
    /// Zero.
    pub padding: [u64; 4],
}

/// Configuration space of a network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NetConfiguration {
    /// MAC address.
    pub address: [u8; 6],
    /// Zero.
    pub padding: [u8; 2],
}

/// Configuration space of a block device, as far as its features reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BlockConfiguration {
    /// Capacity in sectors of 512 bytes.
    pub sectors: u64,
    /// Zero: the size of a piece of data has no limit of its own.
    pub most_bytes: u32,
    /// Most pieces of data of a request.
    pub most_segments: u32,
}

/// A front's frame, as the plan describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FrontPlan {
    /// [`DEVICE_NET`] or [`DEVICE_BLOCK`].
    pub device: u32,
    /// Features, bits 31:0.
    pub features: u32,
    /// Index in [`crate::plan::PartitionPlan::doorbells`] that a notification rings.
    pub doorbell: u32,
    /// Zero.
    pub padding: u32,
}

impl FrontPlan {
    /// Returns how many queues the device has.
    #[must_use]
    pub const fn queues(&self) -> u32 {
        if self.device == DEVICE_NET { 2 } else { 1 }
    }
}

/// Returns the offset of a queue's record. `queue` is below [`MAX_QUEUES`], or the result is in no record.
#[must_use]
pub const fn record_offset(queue: u32) -> u32 {
    RECORDS.wrapping_add(queue.wrapping_mul(RECORD_BYTES))
}

const _: () = assert!((FRAME_OFFSET + PAGE_REGISTER as u64).is_multiple_of(crate::PAGE_BYTES));
const _: () = assert!(RECORD_BYTES == 64 && record_offset(MAX_QUEUES as u32) <= GENERATION);
