//! Instances of the real-time kernel: from `NAME.kernel.toml` to the bytes that a partition or the bare board loads.
//!
//! The file is one of its own, so that the same instance boots as a partition (`image = { kind = "kernel", file = ... }` in `system.toml`) and on the
//! board (`bulkhead build --native`). Everything is decided here: which object has which number, which capability is in which slot. What the kernel cannot
//! run yet is read, checked as far as it can be, and refused by name; nothing that was written is dropped.

mod calls;
mod devices;
mod end_points;
mod file;
mod handed;
mod layout;
mod limiters;
mod limits;
mod ports;
mod processes;
mod programs;
mod resolve;
mod schedulers;
mod servers;
mod shares;
mod supervision;
pub mod text;
mod wires;

pub(crate) use devices::{Around, Function, KnownPort, Rings};
pub use file::{
    Admission, Band, Bindings, Callers, Component, EndPoint, Interrupt, KERNEL_FILE_VERSION, KernelFile, KernelServer,
    OnFault, Scheduler, ServerKind, Thread, Wire,
};
pub(crate) use resolve::instance;
pub(crate) use servers::most_ns;
pub use servers::{EXCHANGE, PASSAGE, TOP_HALF};
pub(crate) use wires::{Exports, exports};

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Report};
use crate::guest_file::GuestFiles;
use crate::source::{FileId, Span};
use crate::unit::format_size;
use crate::{Options, board, decode, reason};
use bulkhead_plan::model;
use resolve::Made;
use std::path::Path;
use toml::de::DeTable;

/// How the name of a description of an instance ends.
pub const ENDING: &str = ".kernel.toml";

/// States whether a path names the description of an instance, and not of a system.
#[must_use]
pub fn is_kernel_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ENDING))
}

/// What is to be said where a system is wanted and an instance is named.
pub(crate) fn not_a_system(path: &Path) -> Report {
    let mut report = Report::default();
    let message = format!("{} describes an instance of the real-time kernel, and not a system", path.display());
    report.push(Diagnostic::new(Code::FileUnreadable, message).help(
        "name it in a system as `image = { kind = \"kernel\", file = ... }`; `bulkhead build --native` makes it for the bare board",
    ));
    report
}

/// An instance that was laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Laid {
    /// A flat arm64 Image.
    pub bytes: Vec<u8>,
    /// What is in it.
    pub components: Vec<model::Component>,
    /// Its servers, the most important one first.
    pub servers: Vec<model::InstanceServer>,
    /// Warnings; without errors.
    pub warnings: Report,
}

impl Laid {
    /// One line about an accepted instance.
    #[must_use]
    pub fn summary(&self, path: &Path) -> String {
        let threads: usize = self.components.iter().map(|component| component.threads.len()).sum();
        let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let (path, size) = (path.display(), format_size(self.bytes.len() as u64));
        let parts = [count(self.components.len(), "component"), count(threads, "thread")];
        let servers = text::servers(&self.servers);
        format!("{path}: accepted: {} with {}, {size}\n{servers}", parts[0], parts[1])
    }
}

/// Reads, checks and lays out an instance for the bare board.
///
/// # Errors
/// The report holds at least one error.
pub fn load_native(path: &Path, options: &Options) -> Result<Laid, Report> {
    match bulkhead_files::read::text(path, bulkhead_files::read::DESCRIPTION) {
        Ok(text) => load_native_text(path, &text, options),
        Err(error) => {
            let mut report = Report::default();
            let message = format!("description of an instance {} cannot be read: {}", path.display(), reason(&error));
            report.push(Diagnostic::new(Code::FileUnreadable, message));
            Err(report)
        }
    }
}

/// As [`load_native`] of a text that was read already; `path` names it in messages and is where its relative paths start.
///
/// # Errors
/// As [`load_native`].
pub fn load_native_text(path: &Path, text: &str, options: &Options) -> Result<Laid, Report> {
    let mut report = Report::default();
    let file = report.sources.add(path.display().to_string(), text);
    let mut files = GuestFiles::new(path, options);
    let board = board::built_in_board(board::BUILT_IN.default);
    let around = board.map_or_else(
        || Around::board(&[], None, 0),
        |board| Around::board(&board.devices, board.uart.as_ref(), board.counter_hz),
    );
    let laid = read(file, text, &mut report).and_then(|written| instance(&written, &around, &mut files, &mut report));
    report.sort();
    match laid {
        Some(Made { bytes, components, servers }) if !report.has_errors() => {
            Ok(Laid { bytes, components, servers, warnings: report })
        }
        _ => Err(report),
    }
}

/// Reads the typed form; `None` after at least one mistake.
pub(crate) fn read(file: FileId, text: &str, report: &mut Report) -> Option<KernelFile> {
    let (root, errors) = DeTable::parse_recoverable(text);
    crate::push_syntax_errors(file, &errors, report);
    if !errors.is_empty() {
        return None;
    }
    let mut reader = decode::Reader::new(file);
    let written = KernelFile::decode_root(root.get_ref(), Span::new(file, 0..0), &mut reader);
    let is_complete = !reader.incomplete;
    reader.diagnostics.into_iter().for_each(|diagnostic| report.push(diagnostic));
    let written = written.filter(|_| is_complete)?;
    if written.version.value != KERNEL_FILE_VERSION {
        let message = format!("version {} of the description of an instance is not supported", written.version.value);
        let diagnostic = Diagnostic::new(Code::UnsupportedVersion, message)
            .at(written.version.span, format!("this tool reads version {KERNEL_FILE_VERSION}"));
        report.push(diagnostic.suggest(
            written.version.span,
            KERNEL_FILE_VERSION.to_string(),
            "write the version that this tool reads",
        ));
        return None;
    }
    Some(written)
}
