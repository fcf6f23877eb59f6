//! The file around the image header, and how much of the memory behind it is a stack.

/// Bytes that the arm64 boot protocol puts at the front of an Image (Linux `Documentation/arm64/booting.rst`).
pub const ARM64_IMAGE_HEADER_BYTES: usize = 64;
/// Byte offset of the size in memory, zeroed data included, in that header. The planner writes it into the monitor's text, so
/// that a boot loader puts nothing of its own there.
pub const ARM64_IMAGE_SIZE_OFFSET: usize = 16;
/// Magic number at byte 56 of an arm64 Image: `ARM\x64`.
pub const ARM64_IMAGE_MAGIC: u32 = 0x644d_5241;

/// Bytes of a core's stack; the page below it is not mapped on that core. The scheduler of a shared core is made on the
/// stack at boot and then moved to its place, which takes a larger one.
#[must_use]
pub const fn stack_bytes(is_shared: bool) -> u64 {
    if is_shared { 96 << 10 } else { 4 << 10 }
}
