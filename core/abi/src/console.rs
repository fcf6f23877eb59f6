//! Console rings: output in RAM, one writer each, no lock, no shared UART.
//!
//! A partition has one ring per vCPU written by the monitor (virtual PL011) and, if it is a native guest, one that it
//! writes itself without an exit. Each byte carries the counter's value, so that a reader can merge the rings of one
//! partition in order: all cores read one system counter. The rejected alternative, one ring with several writers, needs
//! a reservation that can be interrupted half-way.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of a console ring.
pub const CONSOLE_MAGIC: u64 = u64::from_le_bytes(*b"BHCONS01");

/// Head of a console ring; `capacity` entries of 8 bytes follow at [`CONSOLE_HEADER_BYTES`].
///
/// Entry = `(counter ticks << 8) | byte`. A reader must take the entry's index modulo the capacity that it computes
/// itself (from the ring's size, not from this header: a native guest can write the header).
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ConsoleHeader {
    /// [`CONSOLE_MAGIC`].
    pub magic: u64,
    /// Entries that fit: (ring bytes - header bytes) / 8.
    pub capacity: u64,
    /// Entries written since boot; entry `n` sits at `n % capacity`. Stored after the entry, with release order.
    pub written: u64,
    /// Zero.
    pub reserved: u64,
}

/// Bytes from the header to the first entry.
pub const CONSOLE_HEADER_BYTES: u64 = 64;
