//! Who prints, in the ring of a partition's console (`bulkhead_abi::console`): the kernel of an instance says it between the bytes of its components. The monitor, which
//! gives a partition the ring, knows nothing of it.

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
