//! The system description: read, check, explain.
//!
//! [`load`] turns `system.toml` and a board file into [`bulkhead_plan::model::System`] or into a [`Report`] that lists every
//! mistake at once. The steps: [`decode`](crate::description) (text to typed values with places), [`resolve`] (names to indices,
//! quantities to numbers, guest files to bytes, and every rule that can be checked before memory is laid out). The types
//! that are read are also the JSON Schema ([`schema`]), so editor, checker and book cannot disagree.
#![forbid(unsafe_code)]
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod board;
pub mod code;
pub mod command;
mod damaged;
mod decode;
pub mod description;
pub mod diagnostic;
mod floating_point;
mod guest_file;
pub mod host;
pub mod kernel;
pub mod pairs;
pub mod pci;
pub mod render;
mod resolve;
pub mod scenario;
pub mod schema;
pub mod secure;
pub mod sharing;
pub mod source;
pub mod spans;
pub mod suggest;
pub mod unit;
pub mod virtio;

pub use code::{Code, Severity};
pub use decode::{Duration, Located, Size};
pub use diagnostic::{Diagnostic, Report};
pub use spans::{Check, Spans};

use bulkhead_plan::model::System;
use host::HostSide;
use source::{FileId, Span};
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// Where things are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Directory that the prefix `guest:` means; `None` when there is none.
    pub guests: Option<PathBuf>,
    /// Board in place of the one that a description names: the same system on another board.
    pub board: Option<String>,
}

impl Options {
    /// Finds the directory of built guests: the given one, else `BULKHEAD_GUESTS`, else `target/guests` in a directory above
    /// the executable or above the current directory. `BULKHEAD_BOARD` names a board in place of the description's; a path in it
    /// is relative to the current directory.
    #[must_use]
    pub fn from_environment(guests: Option<PathBuf>) -> Self {
        let named = guests.or_else(|| std::env::var_os("BULKHEAD_GUESTS").map(PathBuf::from));
        let board = std::env::var("BULKHEAD_BOARD").ok().filter(|name| !name.is_empty()).map(from_here);
        Self { guests: named.or_else(|| find_above("target/guests")), board }
    }
}

/// Makes the path of a board file absolute, because the path of one in a description begins where that lies.
fn from_here(board: String) -> String {
    let path = board.ends_with(".toml").then(|| std::path::absolute(&board).ok()).flatten();
    path.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or(board)
}

/// Finds a path in a directory above the executable or above the current directory.
///
/// Other parts of the tool find the monitor the same way.
#[must_use]
pub fn find_above(relative: &str) -> Option<PathBuf> {
    let executable = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok());
    let starts = [executable, std::env::current_dir().ok()];
    let found =
        |start: &PathBuf| start.ancestors().map(|directory| directory.join(relative)).find(|path| path.exists());
    starts.iter().flatten().find_map(found)
}

/// An accepted description.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The system.
    pub system: System,
    /// Where its parts were written.
    pub spans: Spans,
    /// Warnings; without errors.
    pub warnings: Report,
    /// The system is a demonstration ([`description::ROLES`]).
    pub is_demonstration: bool,
    /// What is behind the PCI functions of the system on the host, in their order.
    pub host: Vec<HostSide>,
}

/// Reads and checks a description, with the check of another crate. A directory means the `system.toml` in it.
///
/// Nobody gets a system without saying which check:
///
/// ```compile_fail,E0061
/// let options = bulkhead_description::Options::default();
/// let loaded = bulkhead_description::load(std::path::Path::new("system.toml"), &options);
/// ```
///
/// # Errors
/// The report holds at least one error; see [`Report::has_environment_errors`] for the exit code.
pub fn load(path: &Path, options: &Options, check: &dyn Check) -> Result<Loaded, Report> {
    load_file(path, options, Some(check))
}

/// As [`load`], without the check of another crate: for a command that wants to repair what it refuses.
///
/// # Errors
/// As [`load`].
pub fn load_unchecked(path: &Path, options: &Options) -> Result<Loaded, Report> {
    load_file(path, options, None)
}

fn load_file(path: &Path, options: &Options, check: Option<&dyn Check>) -> Result<Loaded, Report> {
    let path = if path.is_dir() { path.join("system.toml") } else { path.to_path_buf() };
    if kernel::is_kernel_file(&path) {
        return Err(kernel::not_a_system(&path));
    }
    match bulkhead_files::read::text(&path, bulkhead_files::read::DESCRIPTION) {
        Ok(text) => resolve_text(&path, &text, options, check),
        Err(error) => {
            let mut report = Report::default();
            let message = format!("system description {} cannot be read: {}", path.display(), reason(&error));
            report.push(Diagnostic::new(Code::FileUnreadable, message));
            Err(report)
        }
    }
}

/// Checks a description that was read already; `path` names it in messages and is where its relative paths start.
///
/// # Errors
/// As [`load`].
pub fn load_text(path: &Path, text: &str, options: &Options, check: &dyn Check) -> Result<Loaded, Report> {
    resolve_text(path, text, options, Some(check))
}

/// As [`load_text`], without the check of another crate: for a benchmark, from whose measurements that check is made.
///
/// # Errors
/// As [`load`].
pub fn load_text_unchecked(path: &Path, text: &str, options: &Options) -> Result<Loaded, Report> {
    resolve_text(path, text, options, None)
}

fn resolve_text(path: &Path, text: &str, options: &Options, check: Option<&dyn Check>) -> Result<Loaded, Report> {
    let mut report = Report::default();
    let file = report.sources.add(path.display().to_string(), text);
    let mut is_demonstration = false;
    let system = match read_description(file, text, &mut report) {
        Read::Whole(description) => {
            is_demonstration = description.is_demonstration();
            resolve::system(&description, path, file, options, &mut report)
        }
        Read::Damaged(description) => {
            damaged::examine(&description, path, file, options, &mut report);
            None
        }
        Read::Nothing => None,
    };
    // With mistakes that have nothing to do with time, what is said about it holds all the same.
    if let Some((system, spans, _)) = &system
        && let Some(check) = check
        && report.leaves_time_alone()
    {
        check.check(system, spans).into_iter().for_each(|diagnostic| report.push(diagnostic));
    }
    report.sort();
    match system {
        Some((system, spans, host)) if !report.has_errors() => {
            Ok(Loaded { system, spans, warnings: report, is_demonstration, host })
        }
        _ => Err(report),
    }
}

/// What could be read of a description.
enum Read {
    /// All of it.
    Whole(description::Description),
    /// Some values could not be, and are left out.
    Damaged(description::Description),
    /// Too little for further checks.
    Nothing,
}

/// Reads the typed form of a description.
fn read_description(file: FileId, text: &str, report: &mut Report) -> Read {
    let (root, errors) = DeTable::parse_recoverable(text);
    push_syntax_errors(file, &errors, report);
    if !errors.is_empty() {
        return Read::Nothing;
    }
    let mut reader = decode::Reader::new(file);
    // A missing key of the root table is shown at the start of the text, not by underlining all of it.
    let description = description::Description::decode_root(root.get_ref(), Span::new(file, 0..0), &mut reader);
    let complete = !reader.incomplete;
    reader.diagnostics.into_iter().for_each(|diagnostic| report.push(diagnostic));
    match description {
        Some(description) if complete => Read::Whole(description),
        Some(description) => Read::Damaged(description),
        None => Read::Nothing,
    }
}

/// Reports what the TOML parser says.
///
/// After a mistake the parser continues and misunderstands the next lines, so of mistakes on neighbouring lines only
/// the first is reported.
fn push_syntax_errors(file: FileId, errors: &[toml::de::Error], report: &mut Report) {
    let mut last_line = None;
    report.omit(Severity::Error, errors.len().saturating_sub(diagnostic::MOST_DIAGNOSTICS));
    for error in errors.iter().take(diagnostic::MOST_DIAGNOSTICS) {
        let message = format!("this is not TOML: {}", error.message());
        let Some(range) = error.span() else {
            report.push(Diagnostic::new(Code::Syntax, message));
            continue;
        };
        let line = report.sources.position(file, range.start).line;
        if last_line.is_none_or(|last| line > last + 1) {
            report.push(Diagnostic::new(Code::Syntax, message).at(Span::new(file, range), ""));
        }
        last_line = Some(line);
    }
}

/// Says in plain words why a file could not be read; the operating system's number stays out of it.
#[must_use]
pub fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => String::from("there is no such file"),
        std::io::ErrorKind::PermissionDenied => String::from("permission denied"),
        std::io::ErrorKind::InvalidData => String::from("it is not text in UTF-8"),
        _ => error.to_string(),
    }
}
