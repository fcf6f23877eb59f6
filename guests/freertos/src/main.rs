//! Writes the FreeRTOS guest that the build script compiled: `bulkhead-guest-freertos OUTPUT`. With sources in C behind it, it
//! compiles these instead of `guest/main.c`, with the same kernel and board files.
//!
//! A program instead of a bare build script, because cargo gives build scripts no place for products that others may read.
#![forbid(unsafe_code)]

mod compile;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The guest, an ELF file.
const GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/freertos.elf"));

/// The unmodified kernel, which the build script compared with its release.
const KERNEL: &str = env!("FREERTOS_KERNEL");
/// The board files.
const BOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let result = match arguments.as_slice() {
        [] => {
            eprintln!("usage: bulkhead-guest-freertos OUTPUT [SOURCE.c...]");
            return ExitCode::from(2);
        }
        [output] => write(output),
        [output, application @ ..] => compile_application(application, output),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bulkhead-guest-freertos: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the guest, unless it is there already.
fn write(output: &Path) -> Result<(), String> {
    if std::fs::read(output).is_ok_and(|old| old == GUEST) {
        return Ok(());
    }
    // Written beside the file and renamed: an interrupted run leaves the old guest or the new one.
    let temporary = output.with_extension("elf.new");
    std::fs::write(&temporary, GUEST)
        .and_then(|()| std::fs::rename(&temporary, output))
        .map_err(|why| format!("cannot write {}: {why}", output.display()))
}

/// Compiles an application of the user's. The objects go into a folder beside the output, which is removed afterwards.
fn compile_application(application: &[PathBuf], output: &Path) -> Result<(), String> {
    let folder = output.with_extension("objects");
    let cannot = |why| format!("cannot write {}: {why}", output.display());
    std::fs::create_dir_all(&folder).map_err(cannot)?;
    let made = folder.join("guest.elf");
    let result = compile::compile(Path::new(KERNEL), Path::new(BOARD), application, &made)
        .and_then(|()| std::fs::rename(&made, output).map_err(cannot));
    // What is left there does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    result
}
