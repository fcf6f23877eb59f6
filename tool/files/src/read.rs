//! Reads files of kinds that have a limit.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// A kind of file that the tool reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What it is called in messages.
    pub name: &'static str,
    /// Most bytes.
    pub limit_bytes: u64,
}

const MIB: u64 = 1 << 20;

/// System descriptions.
pub const DESCRIPTION: Kind = Kind { name: "system description", limit_bytes: MIB };
/// Board files.
pub const BOARD: Kind = Kind { name: "board file", limit_bytes: MIB };
/// Device trees of boards; Linux accepts no larger ones on arm64.
pub const DEVICE_TREE: Kind = Kind { name: "device tree", limit_bytes: 2 * MIB };
/// Scenarios of `simulate`.
pub const SCENARIO: Kind = Kind { name: "scenario", limit_bytes: MIB };
/// Guest programs, kernels, initial file systems and device-tree overlays.
pub const GUEST: Kind = Kind { name: "guest file", limit_bytes: 512 * MIB };
/// The monitor's ELF file.
pub const MONITOR: Kind = Kind { name: "monitor", limit_bytes: 64 * MIB };
/// Images.
pub const IMAGE: Kind = Kind { name: "image", limit_bytes: 1024 * MIB };
/// Traces of `run --trace`.
pub const TRACE: Kind = Kind { name: "trace", limit_bytes: 256 * MIB };
/// Results of `bench`.
pub const RESULT: Kind = Kind { name: "result of an experiment", limit_bytes: 16 * MIB };
/// How far `bench soak` is.
pub const SOAK: Kind = Kind { name: "state of a soak", limit_bytes: MIB };

/// Every kind.
pub const KINDS: [Kind; 10] = [DESCRIPTION, BOARD, DEVICE_TREE, SCENARIO, GUEST, MONITOR, IMAGE, TRACE, RESULT, SOAK];

/// Reads a file.
///
/// # Errors
/// When it cannot be read, is no regular file, or is larger than its kind may be.
pub fn bytes(path: &Path, kind: Kind) -> io::Result<Vec<u8>> {
    // Before it is opened: opening a pipe waits for somebody who writes. And after: it may be another file by then.
    accept(&std::fs::metadata(path)?, kind)?;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    accept(&metadata, kind)?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // It may grow while it is read, and some files of the system say that they are empty.
    file.take(kind.limit_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > kind.limit_bytes { Err(too_large(bytes.len() as u64, kind)) } else { Ok(bytes) }
}

/// Reads a text in UTF-8.
///
/// # Errors
/// As [`bytes`], and when it is no such text.
pub fn text(path: &Path, kind: Kind) -> io::Result<String> {
    String::from_utf8(bytes(path, kind)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn accept(metadata: &Metadata, kind: Kind) -> io::Result<()> {
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory, not a file"));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a device or a pipe, not a regular file"));
    }
    if metadata.len() > kind.limit_bytes { Err(too_large(metadata.len(), kind)) } else { Ok(()) }
}

fn too_large(bytes: u64, kind: Kind) -> io::Error {
    let (name, limit) = (kind.name, kind.limit_bytes / MIB);
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it has {bytes} bytes, and a {name} may have {limit} MiB"))
}
