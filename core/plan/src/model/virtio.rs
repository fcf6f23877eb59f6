//! virtio devices between partitions.

use super::{Limiter, System};
use alloc::string::String;
use bulkhead_abi::PAGE_BYTES;

/// A virtio device whose front is one partition, with stock drivers, and whose back end is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtioDevice {
    /// Name, unique; the back end finds its port by it.
    pub name: String,
    /// What it is.
    pub kind: VirtioKind,
    /// Index of the partition that has the device.
    pub front: usize,
    /// Index of the partition that serves it.
    pub back: usize,
    /// Limiter of its notifications, and another one like it of its interrupts. Where the receiver limits all doorbells to it together
    /// ([`super::Partition::doorbell_limit`]), that one counts: [`System::limiter_of_virtio`].
    pub limiter: Limiter,
}

/// What a virtio device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtioKind {
    /// Network card.
    Net {
        /// MAC address.
        address: [u8; 6],
    },
    /// Block device.
    Block {
        /// Bytes, whole sectors of 512.
        bytes: u64,
        /// It is not written to.
        is_read_only: bool,
    },
}

impl VirtioKind {
    /// How people write it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Net { .. } => "net",
            Self::Block { .. } => "block",
        }
    }
}

impl Limiter {
    /// [`VirtioDevice::limiter`] of a description that does not say it: more than a stock driver asks for, and a bound.
    pub const OF_VIRTIO: Self = Self { events: 1_000, period_ns: 10_000_000 };
}

/// RAM of a partition below which its pool could be taken for ordinary memory by its kernel (`devices.md` section 6).
pub const LEAST_FRONT_BYTES: u64 = 64 << 20;
/// Memory of a pool from which a kernel takes its bounce buffers.
const BOUNCE_BYTES: u64 = 8 << 20;
/// A pool has one byte more for each of this many bytes of RAM, for rings: with more of it a stock kernel would put other things there.
const RAM_PER_POOL_BYTE: u64 = 320;
/// Most bytes of a pool beside the bounce buffers.
const MOST_RING_BYTES: u64 = 1 << 20;

/// Returns the bytes of the pool of a partition with fronts.
#[must_use]
pub const fn pool_bytes(memory_bytes: u64) -> u64 {
    let rings = memory_bytes / RAM_PER_POOL_BYTE / PAGE_BYTES * PAGE_BYTES;
    BOUNCE_BYTES + if rings < MOST_RING_BYTES { rings } else { MOST_RING_BYTES }
}

impl System {
    /// Returns the virtio devices of a partition, with their places in the system: those that it has.
    pub fn fronts_of(&self, partition: usize) -> impl Iterator<Item = (usize, &VirtioDevice)> {
        self.virtio.iter().enumerate().filter(move |(_, device)| device.front == partition)
    }

    /// Returns the virtio devices that a partition serves, with their places in the system.
    pub fn backs_of(&self, partition: usize) -> impl Iterator<Item = (usize, &VirtioDevice)> {
        self.virtio.iter().enumerate().filter(move |(_, device)| device.back == partition)
    }

    /// Returns the limiter that what a virtio device rings at one of its ends is counted in.
    #[must_use]
    pub fn limiter_of_virtio(&self, device: &VirtioDevice, receiver: usize) -> Limiter {
        let together = self.partitions.get(receiver).and_then(|receiver| receiver.doorbell_limit);
        together.unwrap_or(device.limiter)
    }
}
