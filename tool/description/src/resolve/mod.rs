//! From the written description to [`bulkhead_plan::model::System`].
//!
//! Each part of the description is resolved and checked by its own file; every check reports and continues. A part that
//! cannot be resolved becomes `None`, and checks between parts skip it, so that one mistake is not reported twice.

mod backing;
mod channel;
mod console;
mod demonstration;
mod device;
mod fit;
mod function;
mod health;
mod image;
mod kernel;
mod memory;
mod partition;
mod reference;
mod route;
mod rule;
pub(crate) mod scenario;
mod schedule;
mod secure;
mod server;
pub(crate) mod simulated;
mod spans;
mod virtio;

use crate::Options;
use crate::board::{self, ResolvedBoard};
use crate::code::Code;
use crate::decode::{Duration, Located, Size};
use crate::description::{DESCRIPTION_VERSION, Description};
use crate::diagnostic::{Diagnostic, Report};
use crate::guest_file::GuestFiles;
use crate::host::HostSide;
use crate::source::{FileId, Span};
use crate::spans::Spans;
use crate::suggest;
use crate::unit::{BadQuantity, parse_duration, parse_size};
use bulkhead_abi::{MAX_PARTITIONS, NAME_BYTES};
use bulkhead_plan::model::{self, System};
use std::path::Path;

/// Records that a core's trace ring may have.
const TRACE_RECORDS: std::ops::RangeInclusive<u64> = 128..=1_048_576;
/// Records when the description does not say.
const DEFAULT_TRACE_RECORDS: u64 = 4096;

/// What the checks share.
pub(crate) struct Resolver<'r> {
    /// The written description.
    pub(crate) description: &'r Description,
    /// Where mistakes go.
    pub(crate) report: &'r mut Report,
    /// The machine.
    pub(crate) board: ResolvedBoard,
    /// Guest files.
    pub(crate) files: GuestFiles,
    /// What is behind the PCI functions, once they are resolved.
    pub(crate) host: Vec<HostSide>,
    /// Places of the PCI functions, which are decided before the guests' images: the bytes of an instance have them in them.
    places: Option<Vec<function::Place>>,
}

/// A system, where its parts are written, and what is behind its PCI functions.
pub(crate) type Resolved = (System, Spans, Vec<HostSide>);

/// Resolves a description. The report holds at least one error when the result is `None`.
///
/// With mistakes that have nothing to do with time ([`Report::leaves_time_alone`]) there is a system nevertheless, with stand-ins, for
/// the check of time; it is not for building.
pub(crate) fn system(
    description: &Description,
    path: &Path,
    file: FileId,
    options: &Options,
    report: &mut Report,
) -> Option<Resolved> {
    if !supported(description, report) {
        return None;
    }
    let mut files = GuestFiles::new(path, options);
    files.hash(report.sources.get(file).text.as_bytes());
    let other = options.board.clone().map(|value| Located { value, span: description.board.span });
    let board = find_board(other.as_ref().unwrap_or(&description.board), path, &mut files, report);
    let Some(board) = board else {
        names(description, report);
        return None;
    };
    let facts = board.board.secure.clone();
    match (&description.secure, facts) {
        (None, None) => {}
        (None, Some(_)) => {
            names(description, report);
            report.push(secure::needed(description, &board.board.name));
            return None;
        }
        (Some(written), None) => {
            report.push(secure::impossible(description, written.span, &board.board.name));
            return None;
        }
        (Some(written), Some(facts)) => {
            let mut resolver = Resolver { description, report, board, files, host: Vec::new(), places: None };
            let (mut system, spans) = secure::system(&mut resolver, written, &facts)?;
            system.source_hash = resolver.files.finish();
            return Some((system, spans, resolver.host));
        }
    }
    let mut resolver = Resolver { description, report, board, files, host: Vec::new(), places: None };
    let (mut system, spans) = resolver.of_partitions(None)?;
    system.source_hash = resolver.files.finish();
    Some((system, spans, resolver.host))
}

/// Checks the version of the format.
fn supported(description: &Description, report: &mut Report) -> bool {
    if description.version.value != DESCRIPTION_VERSION {
        let message = format!("version {} of the system description is not supported", description.version.value);
        let diagnostic = Diagnostic::new(Code::UnsupportedVersion, message)
            .at(description.version.span, format!("this tool reads version {DESCRIPTION_VERSION}"));
        report.push(diagnostic.suggest(
            description.version.span,
            DESCRIPTION_VERSION.to_string(),
            "write the version that this tool reads",
        ));
        return false;
    }
    true
}

/// Finds the board file that a description names.
fn find_board(
    name: &Located<String>,
    path: &Path,
    files: &mut GuestFiles,
    report: &mut Report,
) -> Option<ResolvedBoard> {
    if let Some((known, text)) = board::BUILT_IN.files.iter().find(|(known, _)| *known == name.value) {
        files.hash(text.as_bytes());
        let file = report.sources.add(format!("boards/{known}.toml"), *text);
        return board::read(file, text, report);
    }
    if !name.ends_with(".toml") {
        let known: Vec<&str> = board::BUILT_IN.files.iter().map(|(known, _)| *known).collect();
        let mut diagnostic = Diagnostic::new(Code::UnknownBoard, format!("there is no board `{}`", name.value))
            .at(name.span, "")
            .help(format!(
                "built-in boards: {}; a path that ends in `.toml` names a board file of your own",
                suggest::list(&known)
            ));
        if let Some(meant) = suggest::closest(name, known.iter().copied()) {
            diagnostic = diagnostic.suggest(name.span, format!("\"{meant}\""), format!("did you mean `{meant}`?"));
        }
        report.push(diagnostic);
        return None;
    }
    let board_path = path.parent().unwrap_or(Path::new("")).join(&name.value);
    match bulkhead_files::read::text(&board_path, bulkhead_files::read::BOARD) {
        Ok(text) => {
            files.hash(text.as_bytes());
            let file = report.sources.add(board_path.display().to_string(), text.clone());
            board::read(file, &text, report)
        }
        Err(error) => {
            let message = format!("board file {} cannot be read: {}", board_path.display(), crate::reason(&error));
            report.push(
                Diagnostic::new(Code::FileUnreadable, message)
                    .at(name.span, "")
                    .help("the path is relative to the description"),
            );
            None
        }
    }
}

/// Checks that a name can be one.
fn name(name: &Located<String>, what: &str, report: &mut Report) {
    let good_start = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    let bad = name.chars().find(|letter| !(letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_')));
    let problem = if name.is_empty() {
        String::from("it is empty")
    } else if name.len() >= NAME_BYTES {
        format!("it has {} bytes and may have {}", name.len(), NAME_BYTES - 1)
    } else if let Some(letter) = bad {
        format!("it contains `{letter}`")
    } else if !good_start {
        String::from("it does not start with a letter or digit")
    } else {
        return;
    };
    let mut diagnostic =
        Diagnostic::new(Code::BadName, format!("`{}` cannot be the name of a {what}: {problem}", name.value))
            .at(name.span, "");
    diagnostic = diagnostic.help("names have 1 to 31 letters, digits, `-` and `_`, a letter or digit first");
    let repaired: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' })
        .take(NAME_BYTES - 1)
        .collect();
    if repaired != name.value && repaired.starts_with(|letter: char| letter.is_ascii_alphanumeric()) {
        diagnostic = diagnostic.suggest(name.span, format!("\"{repaired}\""), "a name that works");
    }
    report.push(diagnostic);
}

/// What is to be said of a bad size or time.
pub(crate) fn bad_quantity(bad: BadQuantity, span: Span) -> Diagnostic {
    let diagnostic = Diagnostic::new(Code::BadQuantity, bad.problem).at(span, "");
    match bad.replacement {
        Some(replacement) => diagnostic.suggest(span, format!("\"{replacement}\""), "perhaps you meant"),
        None => diagnostic,
    }
}

/// Checks a group of names: each can be one, no two are the same.
pub(crate) fn unique_names<'n>(all: impl Iterator<Item = &'n Located<String>>, what: &str, report: &mut Report) {
    let mut seen: Vec<&Located<String>> = Vec::new();
    for one in all {
        name(one, what, report);
        if let Some(first) = seen.iter().find(|other| other.value == one.value) {
            let message = format!("two {what}s are called `{}`", one.value);
            report.push(
                Diagnostic::new(Code::DuplicateName, message)
                    .at(one.span, "the name is taken")
                    .at(first.span, "by this one"),
            );
        } else {
            seen.push(one);
        }
    }
}

/// Checks every name of a description.
fn names(description: &Description, report: &mut Report) {
    name(&description.name, "system", report);
    unique_names(description.partition.iter().map(|partition| &partition.name), "partition", report);
    unique_names(description.channel.iter().map(|channel| &channel.name), "channel", report);
    unique_names(description.pci.iter().map(|function| &function.name), "PCI function", report);
    unique_names(description.virtio.iter().map(|device| &device.name), "virtio device", report);
    for partition in &description.partition {
        unique_names(partition.region.iter().map(|region| &region.name), "region", report);
        unique_names(partition.ports.iter().map(|port| &port.name), "port", report);
        unique_names(partition.servers.iter().filter_map(|server| server.name.as_ref()), "server", report);
        unique_names(partition.tasks.iter().map(|task| &task.name), "task", report);
    }
    if description.partition.is_empty() {
        report.push(
            Diagnostic::new(Code::NoPartition, "the system has no partition")
                .at(description.name.span, "this system")
                .help("add a table `[[partition]]`"),
        );
    }
    if let Some(extra) = description.partition.get(MAX_PARTITIONS) {
        let message =
            format!("{} partitions are too many: an image holds {MAX_PARTITIONS}", description.partition.len());
        report.push(Diagnostic::new(Code::TooManyPartitions, message).at(extra.name.span, "the first one too many"));
    }
}

impl Resolver<'_> {
    /// Reports a mistake.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.report.push(diagnostic);
    }

    /// Resolves the partitions and what is between them, below a payload or without one.
    fn of_partitions(&mut self, secure: Option<model::Secure>) -> Option<(System, Spans)> {
        names(self.description, self.report);
        self.roles();
        let memory_bytes = self.machine_memory();
        let (trace_enabled, trace_records) = self.trace(&TRACE_RECORDS, DEFAULT_TRACE_RECORDS);
        self.places = self.function_places();
        let partitions = self.partitions();
        self.cores();
        let devices = self.devices();
        let schedules = self.schedules();
        let servers = self.servers();
        let routes = self.routes();
        let tasks = self.tasks();
        self.console_receivers();
        self.memory(memory_bytes, &partitions);
        let channels = self.channels();
        let functions = self.functions(&partitions);
        let virtio = self.virtio(&partitions);
        self.count_doorbells(&channels, virtio.as_deref().unwrap_or_default());
        let of_functions = functions.as_ref().map_or(&[][..], |(functions, _)| functions);
        self.interrupts(&devices, &channels, of_functions, virtio.as_deref().unwrap_or_default());
        if !self.report.leaves_time_alone() {
            return None;
        }
        let board = self.board_with_interrupts(&devices);
        let (functions, host) = functions?;
        self.host = host;
        let mut partitions: Vec<_> = partitions.into_iter().collect::<Option<_>>()?;
        for (partition, devices) in partitions.iter_mut().zip(devices) {
            partition.devices = devices.into_iter().map(|device| device.index).collect();
        }
        for (index, partition) in partitions.iter_mut().enumerate() {
            let (route, device_routes) = routes.get(index)?.clone()?;
            (partition.route, partition.device_routes) = (route, device_routes);
            partition.servers = servers.get(index)?.clone()?;
            partition.tasks = tasks.get(index)?.clone()?;
        }
        let mut system = System {
            name: self.description.name.value.clone(),
            board,
            memory_bytes: memory_bytes.unwrap_or_default(),
            trace_records: trace_records.unwrap_or(DEFAULT_TRACE_RECORDS),
            trace_enabled,
            partitions,
            channels: channels.into_iter().collect::<Option<_>>()?,
            schedules: schedules.into_iter().collect::<Option<_>>()?,
            functions,
            virtio: virtio?,
            secure,
            source_hash: [0; 32],
        };
        self.limited_interrupts(&system);
        if !self.report.has_errors() {
            self.place_wires(&mut system);
            self.fit(&mut system);
        }
        Some((system, spans::of(self.description)))
    }

    /// Reads a size; a bad one is reported.
    pub(crate) fn size(&mut self, text: &Located<Size>) -> Option<u64> {
        self.quantity(text.span, parse_size(&text.value.0))
    }

    /// Reads a duration; a bad one is reported.
    pub(crate) fn duration(&mut self, text: &Located<Duration>) -> Option<u64> {
        self.quantity(text.span, parse_duration(&text.value.0))
    }

    fn quantity(&mut self, span: Span, result: Result<u64, BadQuantity>) -> Option<u64> {
        match result {
            Ok(amount) => Some(amount),
            Err(bad) => {
                self.push(bad_quantity(bad, span));
                None
            }
        }
    }

    /// Resolves the trace settings: how many records a ring may have, and how many it has when nothing is said.
    fn trace(&mut self, allowed: &std::ops::RangeInclusive<u64>, default: u64) -> (bool, Option<u64>) {
        let Some(trace) = &self.description.trace else {
            return (false, Some(default));
        };
        let enabled = trace.enabled.as_ref().is_none_or(|state| state.value);
        let Some(records) = &trace.records else {
            return (enabled, Some(default));
        };
        if records.value.is_power_of_two() && allowed.contains(&records.value) {
            return (enabled, Some(records.value));
        }
        let nearest = records.value.clamp(*allowed.start(), *allowed.end()).next_power_of_two();
        let message = format!("a trace ring cannot have {} records", records.value);
        let expected = format!("expected a power of two from {} to {}", allowed.start(), allowed.end());
        let diagnostic = Diagnostic::new(Code::BadTrace, message).at(records.span, expected);
        self.push(diagnostic.suggest(records.span, nearest.to_string(), "the next one that works"));
        (enabled, None)
    }

    /// The partition's name, for messages.
    pub(crate) fn partition_name(&self, index: usize) -> &str {
        self.description.partition.get(index).map_or("?", |partition| partition.name.as_str())
    }
}
