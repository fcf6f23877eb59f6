//! `bulkhead trace`: prints the trace records that are in the rings of a running machine.

use super::{Format, RunChoice, finish};
use crate::trace::Trace;
use std::io::Write;
use std::process::ExitCode;

/// Arguments of `bulkhead trace`.
#[derive(Clone, Debug, clap::Args)]
pub struct TraceArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: TraceAction,
}

/// Actions of `bulkhead trace`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum TraceAction {
    /// Print the records in the rings now, merged by time.
    Dump {
        /// The machine.
        #[command(flatten)]
        choice: RunChoice,
        /// Form of the output.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
}

/// Runs `bulkhead trace`.
#[must_use]
pub fn trace(arguments: &TraceArguments) -> ExitCode {
    let TraceAction::Dump { choice, format } = &arguments.action;
    finish(choice.observe().map(|observer| {
        let trace = Trace::read(&observer);
        let text = match format {
            Format::Text => trace.text(&observer),
            Format::Json => format!("{}\n", trace.json(&observer)),
        };
        // A reader that went away is no mistake.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
    }))
}
