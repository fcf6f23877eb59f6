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
        if let Some(message) = self.report(what, &error) {
            let _ = writeln!(io::stderr(), "bulkheadctl: {message}");
        }
        Err(DiskError)
    }

    /// What there is to say about an error of a kind that was not reported.
    fn report(&mut self, what: &str, error: &io::Error) -> Option<String> {
        if !self.reported.insert(error.kind()) {
            return None;
        }
        let advice = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make room there, or copy the file to itself without holes"
            }
            io::ErrorKind::UnexpectedEof => "the file became shorter than it was: give it its length again",
            _ => "see what the kernel says of the disk (dmesg)",
        };
        let path = self.path.display();
        Some(format!("cannot {what} {path}: {error}; the other partition gets an I/O error; {advice}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(path: &str) -> FileDisk {
        let file = OpenOptions::new().read(true).write(true).open(path).expect("a device of every Linux");
        FileDisk { file, path: path.into(), sectors: 64, reported: BTreeSet::new() }
    }

    #[test]
    fn a_full_disk_is_an_error_of_the_front_and_one_message() {
        let mut full = disk("/dev/full");
        assert_eq!(full.write(0, &[0; 512]), Err(DiskError));
        assert!(full.reported.contains(&io::ErrorKind::StorageFull), "it was said");
        assert_eq!(full.write(512, &[0; 512]), Err(DiskError));
        let again = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(full.report("write", &again), None, "and is not said again");
        full.reported.clear();
        let message = full.report("write", &again).expect("the first one");
        assert!(message.starts_with("cannot write /dev/full: "), "{message}");
        assert!(message.ends_with(
            "; the other partition gets an I/O error; make room there, or copy the file to itself without holes"
        ));
    }

    #[test]
    fn other_errors_say_where_to_look() {
        let mut disk = disk("/dev/full");
        let failed = io::Error::from(rustix::io::Errno::IO);
        let message = disk.report("read", &failed).expect("the first one");
        assert!(
            message.contains("Input/output error") && message.ends_with("see what the kernel says of the disk (dmesg)"),
            "{message}"
        );
        assert_eq!(disk.report("write", &failed), None);
        let shorter = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert!(disk.report("read", &shorter).is_some_and(|message| message.ends_with("give it its length again")));
    }
}
