//! Files appear whole or not at all: written under a temporary name in the same directory, then renamed.

use crate::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes a file atomically.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let failed = |cause| Error::File { doing: "write", path: path.to_path_buf(), cause };
    let temporary = temporary_name(path);
    let result = write_and_rename(&temporary, path, bytes);
    if result.is_err() {
        // The first error is the one worth reporting; the temporary file may not exist.
        let _ = fs::remove_file(&temporary);
    }
    result.map_err(failed)
}

fn write_and_rename(temporary: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

/// Two builds at once use different names: the process number is part of it.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

/// Reads a file.
pub(crate) fn read_whole(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|cause| Error::File { doing: "read", path: path.to_path_buf(), cause })
}
