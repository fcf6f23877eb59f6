//! `bulkhead build`: a description becomes an image file.

use crate::write::{read_monitor_file, write_all};
use crate::{Error, Image, build_image};
use bulkhead_abi::Part;
use bulkhead_description::command::print_report;
use bulkhead_description::{Check, Loaded, Options, kernel, load};
use bulkhead_plan::model::System;
use bulkhead_plan::part_of;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code for a description that is refused.
pub(crate) const REFUSED: u8 = 1;
/// Exit code for a problem of the machine the tool runs on: a file that is missing or cannot be written.
pub(crate) const ENVIRONMENT: u8 = 3;

/// What every command that needs a planned system takes.
#[derive(Args, Clone, Debug)]
pub struct SystemArguments {
    /// System description, or the directory that holds `system.toml`.
    pub system: PathBuf,
    /// Directory of built guests, for paths that begin with `guest:`.
    #[arg(long, value_name = "DIR")]
    pub guests: Option<PathBuf>,
    /// ELF file of the monitor, or folder of its parts [default: $BULKHEAD_MONITOR, else what this tool contains]. Of a system with a
    /// secure section: that of the secure monitor [default: $BULKHEAD_SECURE_MONITOR, else what this tool contains]; the monitor of
    /// partitions below a payload is then that of $BULKHEAD_MONITOR
    #[arg(long, value_name = "PATH")]
    pub monitor: Option<PathBuf>,
}

/// Arguments of `bulkhead build`.
#[derive(Args, Clone, Debug)]
pub struct BuildArguments {
    /// Description and its parts.
    #[command(flatten)]
    pub source: SystemArguments,
    /// Image to write, or flash file of a system with a secure section; the monitor's symbols go beside it with the ending `.elf`
    /// [default: NAME.img, or NAME.flash]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// SYSTEM is the description of an instance of the real-time kernel, `NAME.kernel.toml`: write it for the bare board, without the monitor. The bytes
    /// are those that a partition loads.
    #[arg(long, conflicts_with_all = ["disk", "monitor"])]
    pub native: bool,
    /// Write a disk with the image as well, from which U-Boot starts it (a partition table, FAT, `extlinux/extlinux.conf`).
    #[arg(long, value_name = "FILE")]
    pub disk: Option<PathBuf>,
}

/// Runs `bulkhead build` with the check that a description has to pass: prints what was made, or why not.
///
/// Exit codes: 0 the image was written, 1 the description is refused, 3 a file is missing or cannot be written.
#[must_use]
pub fn build(arguments: &BuildArguments, check: &dyn Check) -> ExitCode {
    match run(arguments, check) {
        Ok(text) => {
            bulkhead_files::say!("{text}");
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

fn run(arguments: &BuildArguments, check: &dyn Check) -> Result<String, ExitCode> {
    if arguments.native || kernel::is_kernel_file(&arguments.source.system) {
        return crate::instance::build(arguments).map_err(|error| fail(&error))?;
    }
    let system = load_system(&arguments.source, check)?;
    let ending = if system.secure.is_some() { "flash" } else { "img" };
    let default_name = PathBuf::from(format!("{}.{ending}", system.name));
    let output = arguments.output.clone().unwrap_or(default_name);
    let symbols = output.with_extension("elf");
    if symbols == output {
        return Err(fail(&Error::OutputName(output)));
    }
    if system.secure.is_some() {
        return write_flash(arguments, &system, &output, &symbols).map_err(|error| fail(&error));
    }
    let planned = plan_system(&arguments.source, system)?;
    if let Some(path) = arguments.disk.as_ref().filter(|path| [&output, &symbols].contains(path)) {
        return Err(fail(&Error::DiskName(path.clone())));
    }
    let image = &planned.image;
    let mut files: Vec<(&Path, &[u8])> = vec![(&output, &image.bytes), (&symbols, &planned.monitor_elf)];
    let mut text = crate::report::summary(&planned.system, image, &output, &symbols);
    let disk;
    if let Some(path) = &arguments.disk {
        let failed = |cause| fail(&Error::File { doing: "make the disk", path: path.clone(), cause });
        disk = crate::disk::disk(&image.bytes).map_err(failed)?;
        files.push((path, &disk));
        text.push_str(&format!("; disk in {}", path.display()));
    }
    write_all(&files).map_err(|error| fail(&error))?;
    Ok(text)
}

/// A system that was loaded and planned.
pub(crate) struct Planned {
    pub(crate) system: System,
    pub(crate) image: Image,
    pub(crate) monitor_elf: Vec<u8>,
}

/// Writes the flash file of a system with a secure section, and the symbols of its secure monitor.
fn write_flash(arguments: &BuildArguments, system: &System, output: &Path, symbols: &Path) -> Result<String, Error> {
    if arguments.disk.is_some() {
        return Err(Error::NotSecure("a disk"));
    }
    let monitor = read_secure_monitor(arguments.source.monitor.as_deref(), system)?;
    let built = crate::below::flash_with(system, &monitor)?;
    write_all(&[(output, &built.flash.bytes), (symbols, &monitor)])?;
    Ok(crate::secure::summary(system, &built.flash, output, symbols))
}

/// Loads a description and prints its diagnostics.
pub(crate) fn load_system(source: &SystemArguments, check: &dyn Check) -> Result<System, ExitCode> {
    let options = Options::from_environment(source.guests.clone());
    let Loaded { system, warnings, .. } = load(&source.system, &options, check).map_err(|report| {
        print_report(&report);
        ExitCode::from(if report.has_environment_errors() { ENVIRONMENT } else { REFUSED })
    })?;
    print_report(&warnings);
    Ok(system)
}

/// Plans a system of partitions.
pub(crate) fn plan_system(source: &SystemArguments, system: System) -> Result<Planned, ExitCode> {
    let monitor_elf = read_monitor(source.monitor.as_deref(), part_of(&system)).map_err(|error| fail(&error))?;
    let image = build_image(&system, &monitor_elf).map_err(|error| fail(&error))?;
    Ok(Planned { system, image, monitor_elf })
}

/// Finds and reads a part of the monitor: of what is given, else of what `BULKHEAD_MONITOR` names, else the one that the tool
/// contains. What is named is a folder with a file for each part (`own.elf`, `shared.elf`), or one ELF file for all systems.
///
/// # Errors
/// When there is none, with what to do about it.
pub fn read_monitor(given: Option<&Path>, part: Part) -> Result<Vec<u8>, Error> {
    let named = given.map(Path::to_path_buf).or_else(|| std::env::var_os("BULKHEAD_MONITOR").map(PathBuf::from));
    let file = named.map(|path| if path.is_dir() { path.join(format!("{}.elf", part.name())) } else { path });
    match (file, bulkhead_contained_monitor::elf(part)) {
        (Some(path), _) if !path.exists() => Err(Error::MonitorMissing(Some(path))),
        (Some(path), _) => read_monitor_file(&path),
        (None, Some(elf)) => Ok(elf.to_vec()),
        (None, None) => Err(Error::MonitorMissing(None)),
    }
}

/// Finds and reads the secure monitor that a system needs: what is given, else what `BULKHEAD_SECURE_MONITOR` names, else the one that the tool
/// contains. What is named is an ELF file, or a folder with `dual.elf` and, for partitions below a payload, `multi.elf`.
///
/// # Errors
/// When there is none, with what to do about it.
pub fn read_secure_monitor(given: Option<&Path>, system: &System) -> Result<Vec<u8>, Error> {
    let is_hybrid = system.secure.as_ref().is_some_and(|secure| secure.hybrid().is_some());
    let (name, contained) = match is_hybrid {
        true => ("multi.elf", bulkhead_contained_monitor::secure_elf_of_cores()),
        false => ("dual.elf", bulkhead_contained_monitor::secure_elf()),
    };
    let named = given.map(Path::to_path_buf).or_else(|| std::env::var_os("BULKHEAD_SECURE_MONITOR").map(PathBuf::from));
    let file = named.map(|path| if path.is_dir() { path.join(name) } else { path });
    match (file, contained) {
        (Some(path), _) if !path.exists() => Err(Error::SecureMonitorMissing(Some(path))),
        (Some(path), _) => read_monitor_file(&path),
        (None, Some(elf)) => Ok(elf.to_vec()),
        (None, None) => Err(Error::SecureMonitorMissing(None)),
    }
}

/// Prints an error and returns its exit code.
pub(crate) fn fail(error: &Error) -> ExitCode {
    bulkhead_files::complain!("error: {error}");
    ExitCode::from(if error.is_environment() { ENVIRONMENT } else { REFUSED })
}
