//! Ports of channels: two ends that share memory and do not trust each other (QV-50, QV-51, QV-53, QV-55).
//!
//! A channel carries messages one way. Its memory is laid out by [`bulkhead_guest_abi::channel`]: the source writes its own
//! area, the destination writes its own page, a monitor writes the status page, and stage 2 makes everybody else's pages
//! read-only. Two kinds of port, as in ARINC 653:
//!
//! - *sampling* ([`SamplingWriter`], [`SamplingReader`]): the newest value, by Simpson's four slots;
//! - *queuing* ([`QueuingWriter`], [`QueuingReader`]): messages in order, by a ring with one producer and one consumer.
//!
//! A wire ([`WireSender`], [`WireReceiver`]) carries notifications between instances of the real-time kernel in the same memory.
//!
//! Every operation is wait-free: no loop waits for the peer, and the work of a call is bounded by the port's own message
//! size, whatever the peer's pages hold.
//!
//! ## What is trusted
//!
//! Only the own copy. Parameters come from the plan ([`Geometry`]), the own indices are private variables, a counter from
//! the peer is used only inside the range that the own counters allow, a length is compared with the own message size, an
//! index is masked. A message is copied first and judged afterwards, on the copy, by its sequence number and CRC-32C
//! (QV-53). What does not fit is a typed error that says *the peer* is at fault; a hostile peer can stop its own channel
//! and nothing else.
//!
//! ## Restarts
//!
//! A restart of a partition clears the pages it writes. The source then opens with a new *epoch* (the system counter's
//! low bits, so two incarnations differ) and numbers messages from 1. The destination echoes the epoch beside its counter,
//! and a source heeds a counter of its own epoch alone. So:
//!
//! - *the source restarted*: the destination notices another epoch, starts over at what the new source has published as
//!   acknowledged, and reports `PeerReset` once. What was unread in the old incarnation is gone with its pages.
//! - *the destination restarted*: it continues at the source's `acknowledged`. Nothing unread is lost, and messages
//!   read since the source last looked are delivered again: at least once over a restart, exactly once otherwise.
//! - *a program inside a partition restarted* (each run of `bulkheadctl`): the own page is still valid and is resumed.
//!
//! Rejected: starting at the newest message (loses what was sent before the destination first opened), and taking the
//! status page's generation as the epoch (an end cannot see its own).
//!
//! ## Order of memory accesses
//!
//! Aligned 64-bit loads and stores only, which every memory type of the Arm architecture allows (Normal non-cacheable at
//! both ends under Bulkhead, Device under a fallback mapping). Data is stored before the index that publishes it (release
//! order), and the doorbell comes after the index: a [`Written`] in hand means "ring now". The four slots need two full
//! barriers besides, explained where they stand.
//!
//! ## Unsafe code
//!
//! One file, [`memory`]: a window made from an address and a length, and one whose bytes have several writers, for pools of virtio. Everything
//! else is safe code that is generic over [`SharedMemory`], so host tests and the model checker run the same protocol on arrays of atomics.
#![no_std]
#![deny(unsafe_code)]

pub mod crc;
mod error;
mod geometry;
#[allow(unsafe_code)]
pub mod memory;
mod queuing;
mod sampling;
mod shared;
mod window;
mod wire;

pub use error::{Corruption, OpenError, ReceiveError, SampleError, SendError, WriteError};
pub use geometry::{Geometry, MAX_DEPTH, MAX_MESSAGE_BYTES};
pub use memory::{MappedBytes, MappedWindow};
pub use queuing::{QueuingReader, QueuingWriter};
pub use sampling::{Sample, SamplingReader, SamplingWriter};
pub use shared::SharedMemory;
pub use window::{Message, PeerStatus, Written};
pub use wire::{Entry, Look, WIRE_ENTRIES, WIRE_WINDOW_BYTES, WireReceiver, WireSender};
