//! The files of `build`, and the monitor that it reads.

use crate::Error;
use bulkhead_files::{read, write};
use std::path::Path;

/// Writes image, symbols and what else there is: all or none. A device is refused: the symbols would lie beside it, among the
/// devices, and a disk is copied there by a program that knows how.
pub(crate) fn write_all(files: &[(&Path, &[u8])]) -> Result<(), Error> {
    let failed = |path: &Path, cause| Error::File { doing: "write", path: path.to_path_buf(), cause };
    for (path, _) in files {
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            let cause = "it is no regular file; name a file, then copy that";
            return Err(failed(path, std::io::Error::new(std::io::ErrorKind::InvalidInput, cause)));
        }
    }
    write::together(files).map_err(|error| failed(&error.path, error.cause))
}

/// Reads the monitor's ELF file.
pub(crate) fn read_monitor_file(path: &Path) -> Result<Vec<u8>, Error> {
    read::bytes(path, read::MONITOR).map_err(|cause| Error::File { doing: "read", path: path.to_path_buf(), cause })
}
