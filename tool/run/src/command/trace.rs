//! `bulkhead trace`: prints the trace records that are in the rings of a running machine.

use super::{RunChoice, finish};
use crate::observer::Observer;
use crate::perfetto::perfetto_json;
use crate::trace::Trace;
use std::io::Write;
use std::process::ExitCode;

/// Form of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TraceFormat {
    /// One line per record.
    Text,
    /// All fields of all records.
    Json,
    /// What the Perfetto UI opens.
    Perfetto,
}

impl TraceFormat {
    /// Returns the trace in this form.
    #[must_use]
    pub fn write(self, trace: &Trace, observer: &Observer) -> String {
        match self {
            Self::Text => trace.text(observer),
            Self::Json => format!("{}\n", trace.json(observer)),
            Self::Perfetto => format!("{}\n", perfetto_json(trace, observer)),
        }
    }
}

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
        #[arg(long, value_enum, default_value_t = TraceFormat::Text)]
        format: TraceFormat,
    },
}

/// Runs `bulkhead trace`.
#[must_use]
pub fn trace(arguments: &TraceArguments) -> ExitCode {
    let TraceAction::Dump { choice, format } = &arguments.action;
    finish(choice.observe().map(|observer| {
        let text = format.write(&Trace::read(&observer), &observer);
        // A reader that went away is no mistake.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
    }))
}
