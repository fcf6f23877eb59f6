//! What a front can do wrong. Each stops its queue.

use core::fmt;

/// A part of a virtqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The descriptor table.
    Descriptors,
    /// The available ring.
    Available,
    /// The used ring.
    Used,
}

/// Why a queue was stopped. It was in the front's memory; the back end is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The queue has no allowed number of descriptors: a power of two up to 256.
    Number(u32),
    /// A part of the queue is not aligned, or not all of it is in the pool.
    Area {
        /// Which.
        area: Area,
        /// Where the front says it is.
        address: u64,
    },
    /// `avail.idx` is more chains ahead than the queue has descriptors.
    Jump {
        /// Its value.
        available: u16,
        /// Chains returned, modulo 2^16.
        done: u16,
    },
    /// A chain begins at a descriptor that the queue does not have.
    Head(u16),
    /// A chain continues at a descriptor that the queue does not have.
    Next(u16),
    /// A chain has more links than the queue has descriptors.
    Loop,
    /// A buffer is not in the pool with all its bytes.
    Buffer {
        /// Where the front says it is.
        address: u64,
        /// Its bytes.
        bytes: u32,
    },
    /// A descriptor has other flags than "next" and "write", which are all that was negotiated.
    Flags(u16),
    /// A buffer to read from comes behind one to write to.
    Order,
    /// A request is shorter than its header.
    Header {
        /// Its bytes.
        bytes: u64,
    },
    /// A block request has no byte for its status.
    Status,
    /// A buffer for frames is smaller than the 1526 bytes that a driver without mergeable buffers has to give.
    Room {
        /// Its bytes.
        bytes: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "the queue has {number} descriptors, not a power of two up to 256"),
            Self::Area { area, address } => {
                let area = match area {
                    Area::Descriptors => "descriptor table",
                    Area::Available => "available ring",
                    Area::Used => "used ring",
                };
                write!(f, "the {area} at {address:#x} is not aligned or not in the pool")
            }
            Self::Jump { available, done } => {
                write!(f, "the available index jumped to {available} where {done} chains were done")
            }
            Self::Head(index) => write!(f, "a chain begins at descriptor {index}, which the queue does not have"),
            Self::Next(index) => write!(f, "a chain continues at descriptor {index}, which the queue does not have"),
            Self::Loop => f.write_str("a chain has more links than the queue has descriptors"),
            Self::Buffer { address, bytes } => {
                write!(f, "a buffer of {bytes} bytes at {address:#x} is not in the pool")
            }
            Self::Flags(flags) => write!(f, "a descriptor has the flags {flags:#x}, which were not negotiated"),
            Self::Order => f.write_str("a buffer to read from comes behind one to write to"),
            Self::Header { bytes } => write!(f, "a request of {bytes} bytes is shorter than its header"),
            Self::Status => f.write_str("a block request has no byte for its status"),
            Self::Room { bytes } => write!(f, "a buffer for frames has {bytes} bytes, not 1526"),
        }
    }
}

impl core::error::Error for Fault {}
