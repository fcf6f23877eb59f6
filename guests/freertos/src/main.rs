//! Writes the FreeRTOS guest that the build script compiled: `bulkhead-guest-freertos OUTPUT`.
//!
//! A program instead of a bare build script, because cargo gives build scripts no place for products that others may read.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

/// The guest, an ELF file.
const GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/freertos.elf"));

fn main() -> ExitCode {
    let Some(output) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: bulkhead-guest-freertos OUTPUT");
        return ExitCode::from(2);
    };
    if std::fs::read(&output).is_ok_and(|old| old == GUEST) {
        return ExitCode::SUCCESS;
    }
    // Written beside the file and renamed: an interrupted run leaves the old guest or the new one.
    let temporary = output.with_extension("elf.new");
    match std::fs::write(&temporary, GUEST).and_then(|()| std::fs::rename(&temporary, &output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bulkhead-guest-freertos: cannot write {}: {why}", output.display());
            ExitCode::FAILURE
        }
    }
}
