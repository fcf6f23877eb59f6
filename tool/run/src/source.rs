//! What is run: an image file, or a description that is built in memory first.

use crate::error::{RunError, exit_code};
use crate::image_file::{ImagePlan, is_arm64_image, is_flash};
use crate::qemu::MachineOptions;
use bulkhead_description::{Check, Loaded, Options, load};
use bulkhead_plan::model::System;
use std::path::{Path, PathBuf};

/// Something to run, ready to start.
#[derive(Debug)]
pub struct Source {
    /// Name of the system, or of the image file.
    pub name: String,
    /// How to start it.
    pub options: MachineOptions,
    /// The image's path if it is a file, for commands shown to people.
    pub image_path: Option<PathBuf>,
    /// The system, if its description says that it is a demonstration.
    pub demonstration: Option<System>,
}

/// Why there is nothing to run; everything was said already if the message is empty.
#[derive(Debug)]
pub struct SourceError {
    /// What to print.
    pub message: String,
    /// Exit code of the command.
    pub exit_code: u8,
}

impl From<RunError> for SourceError {
    fn from(error: RunError) -> Self {
        Self { message: error.to_string(), exit_code: error.exit_code() }
    }
}

impl Source {
    /// Opens an image file, or builds the image of a description (`*.toml`, or a directory with a `system.toml`).
    ///
    /// Warnings and errors of the description go to the error stream.
    ///
    /// # Errors
    /// When neither can be had.
    pub fn open(
        path: &Path,
        guests: Option<PathBuf>,
        monitor: Option<&Path>,
        check: &dyn Check,
    ) -> Result<Self, SourceError> {
        let is_description = path.is_dir() || path.extension().is_some_and(|extension| extension == "toml");
        if is_description { Self::build(path, guests, monitor, check) } else { Self::read(path) }
    }

    fn read(path: &Path) -> Result<Self, SourceError> {
        let bytes = bulkhead_files::read::bytes(path, bulkhead_files::read::IMAGE).map_err(|cause| SourceError {
            message: format!("cannot read the image {}: {cause}", path.display()),
            exit_code: exit_code::HOST,
        })?;
        let name = path.file_stem().map_or_else(|| "system".to_owned(), |stem| stem.to_string_lossy().into_owned());
        if is_flash(&bytes) {
            let options = MachineOptions::for_flash(bytes)?;
            return Ok(Self { name, options, image_path: Some(path.to_path_buf()), demonstration: None });
        }
        if !is_arm64_image(&bytes) {
            return Err(SourceError {
                message: format!(
                    "{} is neither an image (it has no arm64 Image header) nor a description (its name does not end in .toml)",
                    path.display()
                ),
                exit_code: exit_code::FAILURE,
            });
        }
        let options = MachineOptions::for_image(bytes)?;
        if options.plan.as_ref().is_some_and(ImagePlan::has_functions) {
            return Err(SourceError {
                message: format!(
                    "{} has PCI functions, and an image does not say which disk or network is behind them; run its description",
                    path.display()
                ),
                exit_code: exit_code::FAILURE,
            });
        }
        Ok(Self { name, options, image_path: Some(path.to_path_buf()), demonstration: None })
    }

    fn build(
        path: &Path,
        guests: Option<PathBuf>,
        monitor: Option<&Path>,
        check: &dyn Check,
    ) -> Result<Self, SourceError> {
        let loaded = load_or_say(path, guests, check)?;
        bulkhead_description::command::print_report(&loaded.warnings);
        let mut options = machine_of(&loaded.system, monitor)?;
        options.give(&loaded.system, &loaded.host)?;
        let name = loaded.system.name.clone();
        Ok(Self { name, options, image_path: None, demonstration: loaded.is_demonstration.then_some(loaded.system) })
    }
}

/// Reads and checks a description; why it is refused goes to the error stream.
///
/// # Errors
/// When it is refused.
pub fn load_or_say(path: &Path, guests: Option<PathBuf>, check: &dyn Check) -> Result<Loaded, SourceError> {
    load(path, &Options::from_environment(guests), check).map_err(|report| {
        bulkhead_description::command::print_report(&report);
        let exit_code = if report.has_environment_errors() { exit_code::HOST } else { exit_code::FAILURE };
        SourceError { message: String::new(), exit_code }
    })
}

/// Builds the image of a system, or its flash file if it has a secure section, with the monitor at this path or else the one that this tool contains, and says how to start it.
///
/// # Errors
/// When there is no monitor, the system has no image, or QEMU does not emulate its board.
pub fn machine_of(system: &System, monitor: Option<&Path>) -> Result<MachineOptions, SourceError> {
    let refused = |error: bulkhead_image::Error| SourceError {
        message: error.to_string(),
        exit_code: if error.is_environment() { exit_code::HOST } else { exit_code::FAILURE },
    };
    if system.secure.is_some() {
        let built = bulkhead_image::build_flash(system, monitor).map_err(refused)?;
        let below = built.below.as_ref().map(|image| image.bytes.as_slice());
        return Ok(MachineOptions::for_worlds(system, built.flash.bytes, below)?);
    }
    let image = bulkhead_image::read_monitor(monitor, bulkhead_plan::part_of(system))
        .and_then(|monitor| bulkhead_image::build_image(system, &monitor))
        .map_err(refused)?;
    Ok(MachineOptions::for_system(system, image.bytes)?)
}
