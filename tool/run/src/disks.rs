//! Disks of PCI functions while a machine runs: locked against other runs, and watched, because a guest sees no more of a host's trouble than
//! that reads and writes fail.

use crate::error::RunError;
use bulkhead_description::host::Disk;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;

/// What is put before a function's name to make an identifier of QEMU's, which begins with a letter.
pub(crate) const PREFIX: &str = "pci-";

/// A disk that failed its guest, for a reason that is the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskTrouble {
    /// The function whose disk it is.
    pub function: String,
    /// The file.
    pub file: PathBuf,
    /// What is wrong.
    pub kind: DiskTroubleKind,
}

/// What is wrong with a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskTroubleKind {
    /// The file system of the host has no room for what a guest writes.
    HostIsFull,
    /// The host cannot read or write.
    Refused {
        /// `read`, `write` or `flush`.
        operation: String,
        /// Why, in the host's words.
        reason: String,
    },
    /// The file has fewer bytes than at the start.
    Shrunk {
        /// Bytes at the start.
        before: u64,
        /// Bytes now.
        now: u64,
    },
}

impl fmt::Display for DiskTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (function, file) = (&self.function, self.file.display());
        match &self.kind {
            DiskTroubleKind::HostIsFull => write!(
                f,
                "the disk of function {function} is not written: this host has no room left for {file}. Its guest gets errors until there is; \
                 make room, then let the guest check its file system"
            ),
            DiskTroubleKind::Refused { operation, reason } => {
                write!(
                    f,
                    "this host fails a {operation} of {file}, the disk of function {function}: {reason}. Its guest gets an error"
                )
            }
            DiskTroubleKind::Shrunk { before, now } => write!(
                f,
                "the disk of function {function} became smaller while its guest has it: {file} had {before} bytes and has {now}. What was behind \
                 reads as zero; end the run, and restore the file from a copy"
            ),
        }
    }
}

/// A disk that one run has.
#[derive(Debug)]
struct HeldDisk {
    function: String,
    disk: Disk,
    file: File,
    bytes: u64,
    /// What was said of it already.
    known: Vec<DiskTroubleKind>,
}

impl HeldDisk {
    fn trouble(&mut self, kind: DiskTroubleKind) -> Option<DiskTrouble> {
        // A file can shrink again, but that is no news.
        let same = |known: &DiskTroubleKind| {
            *known == kind || matches!((known, &kind), (DiskTroubleKind::Shrunk { .. }, DiskTroubleKind::Shrunk { .. }))
        };
        if self.known.iter().any(same) {
            return None;
        }
        self.known.push(kind.clone());
        Some(DiskTrouble { function: self.function.clone(), file: self.disk.file.clone(), kind })
    }
}

/// What a machine holds of the host: locked disks. QEMU inherits them, so that they are free when it is gone too.
#[derive(Debug, Default)]
pub(crate) struct Held {
    disks: Vec<HeldDisk>,
}

impl Held {
    /// Locks disks against other runs: alone if one is written, with other readers otherwise.
    pub(crate) fn lock(disks: &[(String, Disk)]) -> Result<Self, RunError> {
        let disks = disks.iter().map(|(function, disk)| {
            let cannot = |what: &str| RunError::host(format!("cannot {what} the disk {}", disk.file.display()));
            let file = File::options().read(true).write(!disk.read_only).open(&disk.file).map_err(cannot("open"))?;
            let exclusive = FlockOperation::NonBlockingLockExclusive;
            let operation = if disk.read_only { FlockOperation::NonBlockingLockShared } else { exclusive };
            match flock(&file, operation) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(RunError::DiskInUse(disk.file.clone())),
                Err(error) => return Err(cannot("lock")(error.into())),
            }
            let bytes = file.metadata().map_err(cannot("read"))?.len();
            Ok(HeldDisk { function: function.clone(), disk: disk.clone(), file, bytes, known: Vec::new() })
        });
        Ok(Self { disks: disks.collect::<Result<_, _>>()? })
    }

    /// Descriptors that QEMU inherits.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.disks.iter().map(|disk| disk.file.as_raw_fd())
    }

    /// Looks whether files have become smaller.
    pub(crate) fn shrunk(&mut self) -> Vec<DiskTrouble> {
        let shrunk = self.disks.iter_mut().filter_map(|disk| {
            let (before, now) = (disk.bytes, disk.file.metadata().ok()?.len());
            (now < before).then(|| disk.trouble(DiskTroubleKind::Shrunk { before, now }))?
        });
        shrunk.collect()
    }

    /// Reads what QEMU says in an event `BLOCK_IO_ERROR`, if that is news.
    pub(crate) fn failed(&mut self, data: &Value) -> Option<DiskTrouble> {
        let function = data["device"].as_str()?.strip_prefix(PREFIX)?;
        let disk = self.disks.iter_mut().find(|disk| disk.function == function)?;
        let word = |key: &str| data[key].as_str().unwrap_or("unknown").to_owned();
        let (operation, reason) = (word("operation"), word("reason"));
        // QEMU's own flag is set only where it would stop the machine. Its reason is the C library's text, which is that of Rust as well.
        let full = std::io::Error::from(Errno::NOSPC).to_string();
        let is_full = operation == "write" && full.starts_with(&reason);
        disk.trouble(if is_full { DiskTroubleKind::HostIsFull } else { DiskTroubleKind::Refused { operation, reason } })
    }
}
