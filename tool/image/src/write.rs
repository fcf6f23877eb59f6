//! The two files of `build`, and the monitor that it reads.

use crate::Error;
use bulkhead_files::{read, write};
use std::path::Path;

/// Writes image and symbols: both or none. A device is refused: its symbols would lie beside it, among the devices.
pub(crate) fn write_both(image: (&Path, &[u8]), symbols: (&Path, &[u8])) -> Result<(), Error> {
    let failed = |path: &Path, cause| Error::File { doing: "write", path: path.to_path_buf(), cause };
    if std::fs::metadata(image.0).is_ok_and(|metadata| !metadata.is_file()) {
        let cause = "it is no regular file, and the symbols are written beside it; name a file, then copy that";
        return Err(failed(image.0, std::io::Error::new(std::io::ErrorKind::InvalidInput, cause)));
    }
    write::together(&[image, symbols]).map_err(|error| failed(&error.path, error.cause))
}

/// Reads the monitor's ELF file.
pub(crate) fn read_monitor_file(path: &Path) -> Result<Vec<u8>, Error> {
    read::bytes(path, read::MONITOR).map_err(|cause| Error::File { doing: "read", path: path.to_path_buf(), cause })
}
