//! `bulkhead trace`: the trace records that are in the rings of a running machine, as a Perfetto trace or as text.

use super::{RunChoice, finish};
use crate::control::Visit;
use crate::error::RunError;
use crate::observer::Observer;
use crate::trace::Trace;
use bulkhead_trace::{Timeline, perfetto, text};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `bulkhead trace`.
#[derive(Clone, Debug, clap::Args)]
pub struct TraceArguments {
    /// The machine.
    #[command(flatten)]
    pub choice: RunChoice,
    /// Look at this trace file instead of a running machine.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "ram"], requires = "text")]
    pub file: Option<PathBuf>,
    /// Print one line per event instead of writing a file.
    #[arg(long)]
    pub text: bool,
    /// Where the trace goes, for the Perfetto UI and for `bulkhead report` [default: SYSTEM.perfetto-trace]
    #[arg(short, long, value_name = "FILE", conflicts_with = "text")]
    pub output: Option<PathBuf>,
}

/// Runs `bulkhead trace`.
#[must_use]
pub fn trace(arguments: &TraceArguments) -> ExitCode {
    finish(timeline(arguments).and_then(|timeline| {
        if arguments.text {
            // A reader that went away is no mistake.
            bulkhead_files::output::print(&text::lines(&timeline));
            return Ok(());
        }
        let default = || PathBuf::from(format!("{}.{}", timeline.layout.system, perfetto::FILE_EXTENSION));
        let path = arguments.output.clone().unwrap_or_else(default);
        write_timeline(&path, &timeline)
    }))
}

fn timeline(arguments: &TraceArguments) -> Result<Timeline, RunError> {
    if let Some(path) = &arguments.file {
        return read_timeline(path);
    }
    let (system, observer) = if arguments.choice.ram.is_some() {
        ("system".to_owned(), arguments.choice.observe()?)
    } else {
        let visit = Visit::connect(arguments.choice.run.as_deref())?;
        let observer = visit.observer()?.clone();
        (visit.system, observer)
    };
    let mut timeline = Trace::read(&observer).timeline(&observer, CLOCK_UNKNOWN);
    timeline.layout.system = system;
    Ok(timeline)
}

/// What the times of a machine are whose start is not known.
const CLOCK_UNKNOWN: &str = "exact only if the run counts instructions (--icount)";
/// What the times of a machine without instruction counting are.
const CLOCK_HOST: &str = "the host's clock: order and counts mean something, times do not";

/// Returns what the times of a machine are.
pub(crate) fn clock_text(icount: Option<u8>) -> String {
    icount.map_or_else(
        || CLOCK_HOST.to_owned(),
        |shift| format!("instructions, not cycles: each takes {} ns", 1_u64 << shift),
    )
}

/// Reads a trace file; what is wrong with it becomes a warning of the timeline, unless nothing can be read.
///
/// # Errors
/// When it cannot be read or is no trace of Bulkhead.
pub fn read_timeline(path: &Path) -> Result<Timeline, RunError> {
    let bytes = bulkhead_files::read::bytes(path, bulkhead_files::read::TRACE)
        .map_err(RunError::host(format!("cannot read the trace {}", path.display())))?;
    perfetto::read(&bytes).map_err(|error| RunError::Other(format!("{}: {error}", path.display())))
}

/// Returns the timeline of a system's records, with its name.
pub(super) fn timeline_of(trace: &Trace, observer: &Observer, system: &str, icount: Option<u8>) -> Timeline {
    let mut timeline = trace.timeline(observer, &clock_text(icount));
    timeline.layout.system = system.to_owned();
    timeline
}

/// Writes a trace file, and says on the error stream what is missing in it.
pub(super) fn write_timeline(path: &Path, timeline: &Timeline) -> Result<(), RunError> {
    for warning in &timeline.warnings {
        bulkhead_files::complain!("warning: {warning}");
    }
    for (core, lost) in timeline.lost.iter().enumerate().filter(|(_, lost)| **lost > 0) {
        bulkhead_files::complain!(
            "warning: core {core}: {lost} older records were overwritten before they could be read"
        );
    }
    bulkhead_files::write::whole(path, &perfetto::write(timeline))
        .map_err(|error| error.cause)
        .map_err(RunError::host(format!("cannot write the trace to {}", path.display())))?;
    bulkhead_files::complain!("{} events in {}; open it in the Perfetto UI", timeline.events.len(), path.display());
    Ok(())
}
