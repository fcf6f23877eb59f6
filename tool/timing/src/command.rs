//! The command `check`: the description's own check, with the bounds of shared cores and suggestions.

use crate::assumption::{Assumptions, InstructionTime};
use crate::check::Keeping;
use crate::suggest::{Answer, suggest};
use crate::text::server_name;
use crate::{json, text};
use bulkhead_analysis::steps::Steps;
use bulkhead_description::command::{
    CHECK_HELP, CheckArguments as DescriptionCheck, EXIT_REFUSED, EXIT_USAGE, Format, exit_code, print, print_report,
    summary,
};
use bulkhead_description::kernel;
use bulkhead_description::pairs;
use bulkhead_description::source::Sources;
use bulkhead_description::unit::format_duration;
use bulkhead_description::{Loaded, Options, Report, Severity, load, load_unchecked};
use bulkhead_plan::model::{GuestImage, InstanceServer};
use serde_json::{Value, json as value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// Shown at the end of `bulkhead check --help`, after what the description's check says.
const TIMING_HELP: &str = "
JSON of shared cores, in `timing` (accepted systems; times in ns, null where there is no bound):
  instruction_ps, costs, provenance, steps (of the analysis, at most 40 million), doorbells[],
  cores[] (core, kind, servers[], vcpus[], interrupts[], information);
  servers[]: number, name, partition, vcpu, rule, priority, budget_ns, period_ns, verdict, response_ns, most_in_period_ns,
  most_below_ns, blackout_ns, supply_ppm; vcpus[]: slot, partition, vcpu, conforming_wait_ns, drained_wait_ns, blackout_ns, supply_ppm,
  tasks[] (name, response_ns, deadline_ns); interrupts[]: partition, vcpu, source, route, limit, handler_ns, conforming_ns,
  drained_ns, deadline_ns; doorbells[]: channel, within_limit_ns, held_back_ns, polls_ns.
Of instances of the real-time kernel, in `instances[]` (partition, servers[]), and in `servers[]` where an instance is checked by itself: name, number,
  servers (of a band, otherwise null), rule, level, budget_ns, period_ns, response_ns, background, holder, clients[] (name, response_ns).
With --suggest, `suggestions[]`: core, found, changes[] (server, old_ns, new_ns, file, line, old, new).";

fn help() -> String {
    format!("{CHECK_HELP}\n{TIMING_HELP}")
}

/// Arguments of `bulkhead check`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = help())]
#[group(id = "timing-check")]
pub struct CheckArguments {
    /// What the description's check takes.
    #[command(flatten)]
    pub check: DescriptionCheck,
    /// Where time does not suffice, look for budgets that do and print the lines to change.
    #[arg(long)]
    pub suggest: bool,
    /// What an instruction takes.
    #[command(flatten)]
    pub time: InstructionTime,
}

/// Runs `bulkhead check`, without `--explain`, which needs the codes of other commands too.
#[must_use]
pub fn check(arguments: &CheckArguments) -> ExitCode {
    let assumptions = arguments.time.assumptions();
    let check = Keeping::new(assumptions);
    let Some(description) = &arguments.check.description else {
        bulkhead_files::complain!(
            "error: name a system description, or a code after `--explain`; see `bulkhead check --help`"
        );
        return ExitCode::from(EXIT_USAGE);
    };
    let options = Options::from_environment(description.guests.clone());
    if kernel::is_kernel_file(&description.system) {
        return instance(arguments, &description.system, &options);
    }
    let result = load(&description.system, &options, &check);
    let suggestions = match arguments.suggest {
        true => suggestions(&description.system, &options, &assumptions),
        false => Ok(Vec::new()),
    };
    // Without them the report says why: the same mistakes were found by the full check.
    finish(arguments, &check, &result, &suggestions.unwrap_or_default())
}

/// Checks the description of an instance of the real-time kernel by itself, as it is on the bare board.
fn instance(arguments: &CheckArguments, path: &Path, options: &Options) -> ExitCode {
    let result = kernel::load_native(path, options);
    let report = match &result {
        Ok(laid) => &laid.warnings,
        Err(report) => report,
    };
    match arguments.check.format {
        Format::Json => {
            let mut whole = report.to_json();
            if let Ok(laid) = &result {
                whole["servers"] = kernel::text::json(&laid.servers);
            }
            print(&format!("{whole:#}\n"));
        }
        Format::Text => {
            print_report(report);
            result.iter().for_each(|laid| print(&laid.summary(path)));
        }
    }
    let is_denied = arguments.check.deny_warnings && report.count(Severity::Warning) > 0;
    if is_denied { ExitCode::from(EXIT_REFUSED) } else { exit_code(report) }
}

/// Instances of the real-time kernel with their servers, by the names of their partitions.
fn instances(loaded: &Loaded) -> impl Iterator<Item = (&str, &[InstanceServer])> {
    loaded.system.partitions.iter().filter_map(|partition| match &partition.image {
        GuestImage::Kernel { servers, .. } => Some((partition.name.as_str(), servers.as_slice())),
        _ => None,
    })
}

/// Prints everything and returns the exit code.
fn finish(
    arguments: &CheckArguments,
    check: &Keeping,
    result: &Result<Loaded, Report>,
    suggestions: &[Suggestion],
) -> ExitCode {
    let report = match result {
        Ok(loaded) => &loaded.warnings,
        Err(report) => report,
    };
    match arguments.check.format {
        Format::Json => {
            let mut whole = report.to_json();
            if let Ok(loaded) = result {
                if !loaded.system.virtio.is_empty() {
                    whole["virtio"] = pairs::json(&loaded.system);
                }
                let instances = instances(loaded)
                    .map(|(name, servers)| value!({ "partition": name, "servers": kernel::text::json(servers) }));
                let instances: Vec<Value> = instances.collect();
                if !instances.is_empty() {
                    whole["instances"] = Value::from(instances);
                }
                whole["timing"] = json::json(&loaded.system, &loaded.spans, check.bounds(&loaded.system));
            }
            if arguments.suggest {
                whole["suggestions"] = suggestions.iter().map(Suggestion::to_json).collect();
            }
            print(&format!("{whole:#}\n"));
        }
        Format::Text => {
            print_report(report);
            if let Ok(loaded) = result {
                print(&summary(loaded));
                for (name, servers) in instances(loaded) {
                    let text = kernel::text::servers(servers);
                    print(&if text.is_empty() { text } else { format!("{name}: {text}") });
                }
                print(&text::text(&loaded.system, &loaded.spans, check.bounds(&loaded.system)));
            }
            suggestions.iter().for_each(|suggestion| print(&suggestion.to_text()));
        }
    }
    match result {
        Err(report) => exit_code(report),
        Ok(_) if arguments.check.deny_warnings && report.count(Severity::Warning) > 0 => ExitCode::from(EXIT_REFUSED),
        Ok(_) => ExitCode::SUCCESS,
    }
}

/// A suggestion with the text that it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    board_core: usize,
    /// Empty when nothing was found.
    lines: Vec<Line>,
    changes: Vec<Value>,
    found: bool,
}

/// A line of the description before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    file: String,
    number: usize,
    old: String,
    new: String,
}

impl Suggestion {
    /// The suggestion as lines to change, in the form of a patch.
    #[must_use]
    pub fn to_text(&self) -> String {
        if !self.found {
            return format!(
                "core {}: no budgets were found that fit; the periods or the number of guests have to change\n",
                self.board_core
            );
        }
        let mut text = format!("core {}: with these budgets it passes\n", self.board_core);
        for line in &self.lines {
            let _ = writeln!(text, "--- {}:{}\n-{}\n+{}", line.file, line.number, line.old, line.new);
        }
        text
    }

    fn to_json(&self) -> Value {
        value!({ "core": self.board_core, "found": self.found, "changes": self.changes })
    }
}

/// Looks for budgets that make a system pass. Empty when it passes as it is.
///
/// # Errors
/// When the description has mistakes that have nothing to do with time.
pub fn suggestions(path: &Path, options: &Options, assumptions: &Assumptions) -> Result<Vec<Suggestion>, Report> {
    let loaded = load_unchecked(path, options)?;
    let answers = suggest(&loaded.system, assumptions, &Steps::of_a_suggestion());
    Ok(answers.into_iter().map(|answer| suggestion(&loaded, answer)).collect())
}

fn suggestion(loaded: &Loaded, answer: Answer) -> Suggestion {
    let (board_core, changes) = match answer {
        Answer::Nothing { board_core } => {
            return Suggestion { board_core, lines: Vec::new(), changes: Vec::new(), found: false };
        }
        Answer::Budgets { board_core, changes } => (board_core, changes),
    };
    let sources = &loaded.warnings.sources;
    let mut edits = BTreeMap::new();
    let mut values = Vec::new();
    for change in changes {
        let spans = loaded.spans.partitions.get(change.server.partition);
        let span = spans.and_then(|spans| spans.servers.get(change.server.server)).and_then(|server| server.budget);
        let new = format!("\"{}\"", format_duration(change.new_ns));
        let mut entry = value!({
            "server": server_name(&loaded.system, &loaded.spans, change.server),
            "old_ns": change.old_ns,
            "new_ns": change.new_ns,
        });
        if let Some(span) = span {
            let file = sources.get(span.file);
            entry["file"] = Value::from(file.name.clone());
            entry["line"] = Value::from(sources.position(span.file, span.start).line);
            entry["old"] = Value::from(file.text.get(span.range()));
            entry["new"] = Value::from(new.clone());
            edits.insert((span.file, span.start), (span.end, new));
        }
        values.push(entry);
    }
    let lines = changed_lines(sources, &edits);
    Suggestion { board_core, lines, changes: values, found: true }
}

/// Whole lines with every edit in them.
fn changed_lines(
    sources: &Sources,
    edits: &BTreeMap<(bulkhead_description::source::FileId, usize), (usize, String)>,
) -> Vec<Line> {
    let mut lines: BTreeMap<_, Vec<(usize, usize, &str)>> = BTreeMap::new();
    for ((file, start), (end, new)) in edits {
        let number = sources.position(*file, *start).line;
        lines.entry((*file, number)).or_default().push((*start, *end, new));
    }
    let line = |((file, number), edits): ((_, usize), Vec<(usize, usize, &str)>)| {
        let source = sources.get(file);
        let first = edits.first().map_or(0, |edit| edit.0);
        let from = source.text.get(..first).and_then(|text| text.rfind('\n')).map_or(0, |place| place + 1);
        let to =
            source.text.get(first..).and_then(|text| text.find('\n')).map_or(source.text.len(), |place| first + place);
        let old = source.text.get(from..to).unwrap_or_default().to_owned();
        let mut new = old.clone();
        for (start, end, text) in edits.iter().rev().filter(|(start, end, _)| from <= *start && *end <= to) {
            new.replace_range(start - from..end - from, text);
        }
        Line { file: source.name.clone(), number, old, new }
    };
    lines.into_iter().map(line).collect()
}
