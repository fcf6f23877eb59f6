//! `bulkhead-initramfs`: the step of `./x` that packs the Linux guest. See the library for the formats.
#![forbid(unsafe_code)]

use bulkhead_initramfs::archive::Archive;
use bulkhead_initramfs::kernel::{Packing, is_raw_image, packing};
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const USAGE: &str = "usage: bulkhead-initramfs kernel VMLINUZ OUTPUT
       bulkhead-initramfs archive OUTPUT PATH=FILE...

kernel    writes the raw arm64 Image that VMLINUZ holds
archive   writes a compressed initial RAM file system with FILE at PATH; what the owner of FILE may execute is executable";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["kernel", vmlinuz, output] => write_kernel(Path::new(vmlinuz), Path::new(output)),
        ["archive", output, entries @ ..] if !entries.is_empty() => write_archive(Path::new(output), entries),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bulkhead-initramfs: {error}");
            ExitCode::FAILURE
        }
    }
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn write_kernel(vmlinuz: &Path, output: &Path) -> Outcome<()> {
    let bytes = read(vmlinuz)?;
    let unpacked;
    let image = match packing(&bytes).map_err(|why| format!("{} is no arm64 kernel: {why}", vmlinuz.display()))? {
        Packing::Raw => bytes.as_slice(),
        Packing::Compressed { program, payload } => {
            unpacked = filter(program, &["-dc"], payload)?;
            unpacked.as_slice()
        }
    };
    if !is_raw_image(image) {
        return Err(format!("{} holds no raw arm64 Image after decompression", vmlinuz.display()).into());
    }
    replace(output, image)
}

fn write_archive(output: &Path, entries: &[&str]) -> Outcome<()> {
    let mut archive = Archive::new();
    // The kernel opens this before /init runs; without it /init has no output until it mounts /dev.
    archive.character_device("dev/console", 5, 1)?;
    for entry in entries {
        let (path, file) = entry.split_once('=').ok_or_else(|| format!("`{entry}` is not of the form PATH=FILE"))?;
        let file = Path::new(file);
        archive.file(path, is_executable(file)?, read(file)?)?;
    }
    // -n: no file name and no time in the header, so equal inputs give equal bytes.
    replace(output, &filter("gzip", &["-9nc"], &archive.to_bytes())?)
}

fn is_executable(file: &Path) -> Outcome<bool> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(file).map_err(|why| format!("cannot read {}: {why}", file.display()))?;
    Ok(metadata.permissions().mode() & 0o100 != 0)
}

fn read(file: &Path) -> Outcome<Vec<u8>> {
    Ok(std::fs::read(file).map_err(|why| format!("cannot read {}: {why}", file.display()))?)
}

/// Runs `input` through a program. A thread feeds it, since both pipes can fill up.
fn filter(program: &str, arguments: &[&str], input: &[u8]) -> Outcome<Vec<u8>> {
    let cannot = |why: std::io::Error| format!("cannot run {program}: {why}; is the package {program} installed?");
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let mut pipe = child.stdin.take().ok_or("the child has no standard input")?;
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A failed write shows as the program's own failure below.
            let _ = pipe.write_all(input);
        });
        child.wait_with_output()
    });
    let output = output.map_err(cannot)?;
    if !output.status.success() {
        return Err(format!("{program} failed: {}", output.status).into());
    }
    Ok(output.stdout)
}

/// Writes beside the file and renames, so that an interrupted run leaves the old file or the new one. A file that already
/// has these bytes is left alone: its time does not change and nothing is built again because of it.
fn replace(output: &Path, bytes: &[u8]) -> Outcome<()> {
    if std::fs::read(output).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let mut temporary = output.as_os_str().to_owned();
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, output));
    if let Err(why) = written {
        let _ = std::fs::remove_file(&temporary);
        return Err(format!("cannot write {}: {why}", output.display()).into());
    }
    Ok(())
}
