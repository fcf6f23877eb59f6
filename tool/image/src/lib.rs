//! Builds boot images and shows what is in them.
//!
//! [`build_image`] is the whole way from a checked [`System`] and the monitor's ELF file to bytes: read the ELF
//! ([`monitor`]), plan ([`bulkhead_plan::plan`]), patch the arm64 header. [`build`] and [`inspect`] are the commands
//! around it.
//!
//! The image is a flat arm64 `Image`: QEMU's `-kernel` and U-Boot's `booti` load it. An ELF with symbols lies beside it
//! for debuggers; it is the monitor's own, unchanged, because code does not move. The rejected alternative, an ELF that
//! holds everything, cannot be booted by `booti`.
#![forbid(unsafe_code)]

mod build;
pub mod error;
mod inspect;
mod json;
mod map;
pub mod monitor;
mod report;
mod schedule;
mod write;

pub use build::{BuildArguments, build, read_monitor};
pub use error::Error;
pub use inspect::{InspectArguments, inspect};
pub use report::{CoreMemory, core_memory};

use bulkhead_layout::image::{ARM64_IMAGE_HEADER_BYTES, ARM64_IMAGE_MAGIC};
use bulkhead_plan::model::System;
use bulkhead_plan::{MonitorImage, Plan, plan};

/// A finished image.
#[derive(Clone, Debug)]
pub struct Image {
    /// The bytes to load at the board's load address.
    pub bytes: Vec<u8>,
    /// The plan behind them.
    pub plan: Plan,
}

/// Builds the image of a system with the monitor of an ELF file.
///
/// # Errors
/// When the ELF file is no monitor, or the system cannot be planned.
pub fn build_image(system: &System, monitor_elf: &[u8]) -> Result<Image, Error> {
    let monitor = monitor::read(monitor_elf)?;
    assemble(system, &monitor)
}

/// Builds the image of a system with a monitor whose bytes are known.
///
/// # Errors
/// As [`build_image`].
pub fn assemble(system: &System, monitor: &MonitorImage) -> Result<Image, Error> {
    let plan = plan(system, monitor)?;
    let mut bytes = plan.bytes.clone();
    patch_arm64_header(&mut bytes, plan.header.memory_bytes)?;
    Ok(Image { bytes, plan })
}

/// Byte offset of `image_size` in an arm64 Image header.
const IMAGE_SIZE_OFFSET: usize = 16;
/// Byte offset of the magic number.
const MAGIC_OFFSET: usize = 56;

/// Writes the size in memory, zeroed data included, so that a boot loader puts nothing of its own there.
fn patch_arm64_header(bytes: &mut [u8], memory_bytes: u64) -> Result<(), Error> {
    let header = bytes.get_mut(..ARM64_IMAGE_HEADER_BYTES).ok_or(Error::NoArm64Header)?;
    if header.get(MAGIC_OFFSET..MAGIC_OFFSET + 4) != Some(ARM64_IMAGE_MAGIC.to_le_bytes().as_slice()) {
        return Err(Error::NoArm64Header);
    }
    let field = header.get_mut(IMAGE_SIZE_OFFSET..IMAGE_SIZE_OFFSET + 8).ok_or(Error::NoArm64Header)?;
    field.copy_from_slice(&memory_bytes.to_le_bytes());
    Ok(())
}
