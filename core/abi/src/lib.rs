//! Bytes that two sides of Bulkhead agree on.
//!
//! The host tool writes an image; the monitor reads it; `bulkhead verify` reads it again; guests and the host read
//! rings, counters and status pages while the system runs. Every such layout is defined here once, as `repr(C)` types
//! with fixed-width little-endian fields and no padding (`zerocopy` refuses to derive `IntoBytes` otherwise).
//!
//! The plan uses fixed-size arrays with a count instead of offsets, so that the monitor needs no parser: it casts, checks
//! the CRC and the counts once at boot, and never follows an offset. The rejected alternative, a packed variable-length
//! blob, saves a few kilobytes and costs a bounds argument at each use.
//!
//! Words about time (rules, gates, policies) are numbers in the plan and come from [`bulkhead_words`].
//!
//! This crate is linked at EL2. What only the tool, the verifier and guests share is in `bulkhead_guest_abi`.
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

pub mod address;
pub mod console;
#[cfg(feature = "devices")]
pub mod devices;
pub mod hypercall;
pub mod image;
pub mod observe;
mod part;
pub mod plan;
mod readers;
#[cfg(feature = "schedule")]
pub mod schedule;
pub mod status;
#[cfg(feature = "devices")]
pub mod virtio;

pub use address::{GuestAddress, PAGE_BYTES, PhysicalAddress};
pub use part::{PART_MAGIC, PART_OFFSET, Part};

/// Version of every layout in this crate together; the monitor refuses an image with another one.
pub const ABI_VERSION: u32 = 4;
/// Most cores that one image can use.
pub const MAX_CORES: usize = 8;
/// Most partitions that one image can hold.
pub const MAX_PARTITIONS: usize = 8;
/// Bytes in a name field; names are UTF-8, zero-filled, and at most one byte shorter.
pub const NAME_BYTES: usize = 32;

/// A zero-padded UTF-8 name.
pub type Name = [u8; NAME_BYTES];
