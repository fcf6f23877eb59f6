//! Builds boot images and shows what is in them.
//!
//! [`build_image`] is the whole way from a checked [`System`] and the monitor's ELF file to bytes: read the ELF
//! ([`monitor`]), plan ([`bulkhead_plan::plan`]). [`build`] and [`inspect`] are the commands
//! around it.
//!
//! The image is a flat arm64 `Image`: QEMU's `-kernel` and U-Boot's `booti` load it. An ELF with symbols lies beside it
//! for debuggers; it is the monitor's own, unchanged, because code does not move. The rejected alternative, an ELF that
//! holds everything, cannot be booted by `booti`.
#![forbid(unsafe_code)]
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod below;
mod build;
pub mod disk;
pub mod error;
mod inspect;
mod instance;
mod json;
mod map;
pub mod monitor;
mod report;
mod schedule;
mod secure;
mod write;

pub use below::{BuiltFlash, build_flash};
pub use build::{BuildArguments, build, read_monitor, read_secure_monitor};
pub use error::Error;
pub use inspect::{InspectArguments, inspect};
pub use report::{CoreMemory, core_memory};
pub use secure::{Range, WorldMaps, world_maps};

use bulkhead_abi::image::{ARM64_IMAGE_HEADER_BYTES, ARM64_IMAGE_MAGIC};
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
    if !has_arm64_header(&monitor.text) {
        return Err(Error::NoArm64Header);
    }
    let plan = plan(system, monitor)?;
    Ok(Image { bytes: plan.bytes.clone(), plan })
}

/// States whether text begins with an arm64 Image header.
fn has_arm64_header(text: &[u8]) -> bool {
    let magic = text.get(..ARM64_IMAGE_HEADER_BYTES).and_then(|header| header.get(MAGIC_OFFSET..MAGIC_OFFSET + 4));
    magic == Some(ARM64_IMAGE_MAGIC.to_le_bytes().as_slice())
}

/// Byte offset of the magic number.
const MAGIC_OFFSET: usize = 56;
