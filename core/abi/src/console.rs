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

/// Ticks of an entry that is no byte: the kernel of an instance says in its lowest 16 bits which component prints what follows, or [`KERNEL_WRITER`]. No
/// counter reaches it, and all that a component prints carries the counter's value, so none can write such an entry. One entry and not two, so
/// that a reader who lost some never takes half of it for text.
pub const WRITER_TICKS: u64 = 0xff_ffff_ffff_0000;
/// Writer of what the kernel itself says.
pub const KERNEL_WRITER: u16 = u16::MAX;

/// The entry that says who prints what follows.
#[must_use]
pub const fn writer_entry(writer: u16) -> u64 {
    (WRITER_TICKS | writer as u64) << 8
}

/// Who prints what follows, if the entry says that.
#[must_use]
pub const fn writer_of(entry: u64) -> Option<u16> {
    if entry >> 24 == WRITER_TICKS >> 16 { Some((entry >> 8) as u16) } else { None }
}

/// Bytes from the header to the first entry.
pub const CONSOLE_HEADER_BYTES: u64 = 64;
