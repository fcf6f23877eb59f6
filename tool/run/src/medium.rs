//! What a machine starts from: the image, or a disk with it for a boot loader. Both are anonymous memory files, which QEMU inherits,
//! nobody can change, and nothing leaves behind.

use crate::error::RunError;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io::{Result, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Holds an image.
pub(crate) fn image(bytes: &[u8]) -> std::result::Result<File, RunError> {
    memory_file("bulkhead-image", bytes).map_err(RunError::host("cannot hold the image in memory"))
}

/// Makes the disk on which this boot loader finds the image.
pub(crate) fn disk(loader: &Path, image: &[u8]) -> std::result::Result<File, RunError> {
    if !loader.is_file() {
        return Err(RunError::BootLoaderMissing(loader.to_path_buf()));
    }
    let disk = bulkhead_image::disk::disk(image).and_then(|bytes| memory_file("bulkhead-disk", &bytes));
    disk.map_err(RunError::host("cannot make the disk"))
}

fn memory_file(name: &str, bytes: &[u8]) -> Result<File> {
    let descriptor: OwnedFd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?;
    let mut file = File::from(descriptor);
    file.write_all(bytes)?;
    Ok(file)
}
