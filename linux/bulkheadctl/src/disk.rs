//! A disk for another partition: a file or a block device.

use crate::failure::{Failure, MACHINE};
use bulkhead_virtqueue::{Disk, DiskError, SECTOR_BYTES};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// An open disk, locked against other programs that ask.
#[derive(Debug)]
pub(crate) struct FileDisk {
    file: File,
    path: PathBuf,
    sectors: u64,
    /// The errors that were reported: a disk that is full says so once and not for each request, whatever a front asks in between.
    reported: BTreeSet<io::ErrorKind>,
}

impl FileDisk {
    /// Opens a disk. Writes return when the disk has them (O_DSYNC).
    pub(crate) fn open(path: &Path, is_read_only: bool) -> Result<Self, Failure> {
        let describe = |error: io::Error| Failure::machine(format_args!("cannot use {}", path.display()), &error);
        let wrong = |what: &str| Failure::new(MACHINE, format!("{} {what}", path.display()));
        let durable = i32::try_from(OFlags::DSYNC.bits()).unwrap_or_default();
        let options = OpenOptions::new().read(true).write(!is_read_only).custom_flags(durable).open(path);
        let mut file = options.map_err(describe)?;
        let kind = file.metadata().map_err(describe)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(wrong("is neither a regular file nor a block device"));
        }
        let lock =
            if is_read_only { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
        flock(&file, lock).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => wrong("is in use by another program"),
            error => describe(error.into()),
        })?;
        // The end, since the length of a block device is not in its metadata.
        let bytes = file.seek(SeekFrom::End(0)).map_err(describe)?;
        if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(wrong(&format!("has {bytes} bytes; a disk has whole sectors of {SECTOR_BYTES}")));
        }
        Ok(Self { file, path: path.into(), sectors: bytes / SECTOR_BYTES, reported: BTreeSet::new() })
    }

    /// Reports an error of a kind that was not reported. Where the report goes may be full as well, which ends nothing.
    fn judge(&mut self, what: &str, done: io::Result<()>) -> Result<(), DiskError> {
        let Err(error) = done else { return Ok(()) };
        if self.reported.insert(error.kind()) {
            let path = self.path.display();
            let _ = writeln!(
                io::stderr(),
                "bulkheadctl: cannot {what} {path}: {error}; the other partition gets an I/O error"
            );
        }
        Err(DiskError)
    }
}

impl Disk for FileDisk {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let done = self.file.read_exact_at(into, at);
        self.judge("read", done)
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Result<(), DiskError> {
        let done = self.file.write_all_at(from, at);
        self.judge("write", done)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        let done = self.file.sync_data();
        self.judge("flush", done)
    }
}
