//! The back end of virtio between partitions: split virtqueues, block and network requests (Virtual I/O Device 1.2, 2.7, 5.1, 5.2).
//!
//! The front is another partition with stock drivers; the monitor forwards its notifications and copies nothing. Both partitions map
//! one *window*: the front's device page ([`bulkhead_abi::virtio`]), then the *pool*, in which the front keeps rings and buffers.
//! This crate is the part between the window and a [`Disk`] or [`Network`]: pure state machines, which `bulkheadctl` and bare guests
//! drive alike by [`Block::step`] and [`Net::step`].
//!
//! ## What is trusted
//!
//! Nothing of the window. Every address, length, index and number that comes from it is copied once and judged on the copy; an access
//! outside the pool is impossible because a [`Window`] makes offsets from judged addresses alone. What does not fit is one [`Fault`]: the
//! queue stops, is reported once and stays stopped until the front switches it off and on; other queues and other fronts are served as before. The
//! work of a step is bounded by [`COPY_BYTES`] and the 256 links of a chain, whatever the window holds.
//!
//! Nobody but this crate touches the pool: data passes through own memory, so no device and no system call reads or writes where
//! a front may have other plans meanwhile.
//!
//! ## In order
//!
//! Chains are served and returned in the order in which they were made available. So `used.idx` alone says where a back end that was
//! restarted continues, and the front does not notice but by waiting. What was begun is done again: a read or a write of the same
//! sectors, or a frame that is sent twice.
//!
//! ## A front that restarts
//!
//! A restart gives the pool to the next incarnation, cleared. Before each store this back end announces it
//! ([`bulkhead_abi::virtio::COPYING`]), then looks whether the incarnation is still the one that it serves; after each load of data it
//! looks again, before it acts on them. So nothing of an older request reaches the pool, and no zeros of a cleared pool reach the disk.
//! The same words tell of a queue that was switched off in a living front; there one store that is under way remains.
//!
//! ## Waiting
//!
//! While there is work, the front is asked not to notify; before a back end rests it takes that back and looks once more. A notification
//! beyond the front's limit is lost to a stock driver, so a back end looks at least each [`LOOK_NS`] in any case.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod block;
mod chain;
mod fault;
mod memory;
mod net;
mod queue;
mod window;

pub use block::{Block, Disk, DiskError, IDENTITY_BYTES, SECTOR_BYTES};
pub use fault::{Area, Fault};
pub use memory::Memory;
pub use net::{FRAME_BYTES, HEADER_BYTES, Net, Network};
pub use window::Window;

/// Most bytes that are stored to the pool under one announcement: for so long a restart of the front waits at most.
pub const COPY_BYTES: usize = 4096;
/// A back end looks into its rings at least this often.
pub const LOOK_NS: u64 = 10_000_000;

/// What a step came to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is to do: wait for a notification, or for [`LOOK_NS`].
    Idle,
    /// Something was done; there may be more.
    Worked,
    /// A queue has stopped. It is said once.
    Stopped {
        /// Number of the queue.
        queue: u32,
        /// Why.
        fault: Fault,
    },
}
