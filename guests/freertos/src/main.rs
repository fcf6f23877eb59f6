//! Writes the FreeRTOS guest that the build script compiled: `bulkhead-guest-freertos OUTPUT`. With sources in C behind it, it
//! compiles these instead of `guest/main.c`, with the same kernel and board files. With `--world LIBRARY` in front it compiles them as
//! a payload of the secure world, with the board files of `sdk/world` and its library.
//!
//! A program instead of a bare build script, because cargo gives build scripts no place for products that others may read.
#![forbid(unsafe_code)]

mod compile;

use compile::Board;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The guest, an ELF file.
const GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/freertos.elf"));

/// The unmodified kernel, which the build script compared with its release.
const KERNEL: &str = env!("FREERTOS_KERNEL");
/// The board files of a partition.
const GUEST_FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");
/// Those of a payload of the secure world.
const WORLD_FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/world");

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let guest = Path::new(GUEST_FILES);
    let result = match arguments.as_slice() {
        [option, library, output, first, more @ ..] if option == Path::new("--world") => {
            let application: Vec<PathBuf> = [first].into_iter().chain(more).cloned().collect();
            compile_application(&Board::secure(guest, Path::new(WORLD_FILES), library), &application, output)
        }
        [] => return usage(),
        [option, ..] if option == Path::new("--world") => return usage(),
        [output] => write(output),
        [output, application @ ..] => compile_application(&Board::partition(guest), application, output),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bulkhead-guest-freertos: {why}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: bulkhead-guest-freertos OUTPUT [SOURCE.c...]");
    eprintln!("       bulkhead-guest-freertos --world LIBRARY OUTPUT SOURCE.c...");
    ExitCode::from(2)
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
fn compile_application(board: &Board, application: &[PathBuf], output: &Path) -> Result<(), String> {
    let folder = output.with_extension("objects");
    let cannot = |why| format!("cannot write {}: {why}", output.display());
    std::fs::create_dir_all(&folder).map_err(cannot)?;
    let made = folder.join("guest.elf");
    let result = compile::compile(Path::new(KERNEL), board, application, &made)
        .and_then(|()| std::fs::rename(&made, output).map_err(cannot));
    // What is left there does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    result
}
