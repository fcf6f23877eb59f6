//! The commands `run`, `attach`, `stats` and `trace`: arguments and functions for the command line.
//!
//! Exit codes are those of [`crate::exit_code`]; 0 to 3 mean the same as for the other commands.

mod attach;
mod dma;
mod instances;
mod listen;
mod log;
mod run;
pub mod show;
mod stats;
pub(crate) mod trace;
mod usage;
mod visitors;

pub use attach::{AttachArguments, attach};
pub use run::{RunArguments, exit_code_of, open, run, start, warn_of_version};
pub use stats::{StatsArguments, stats, stats_json, stats_text};
pub(crate) use trace::clock_text;
pub use trace::{TraceArguments, read_timeline, trace};
pub(crate) use usage::time_text;

use crate::control::Visit;
use crate::error::{RunError, exit_code};
use crate::image_file::ImagePlan;
use crate::observer::Observer;
use crate::ram::Ram;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs; `run` prints one JSON value per line.
    Json,
}

/// Which running machine a command looks at.
#[derive(Clone, Debug, clap::Args)]
pub struct RunChoice {
    /// Process id of the `bulkhead run` to look at [default: the only one, with $BULKHEAD_RUNS of those started with the same value]
    #[arg(long, value_name = "PID")]
    pub run: Option<String>,
    /// RAM file of a QEMU started by hand (see `run --dry-run`); needs `--image`.
    #[arg(long, value_name = "FILE", requires = "image", conflicts_with = "run")]
    pub ram: Option<PathBuf>,
    /// Image that runs in that RAM.
    #[arg(long, value_name = "FILE", requires = "ram")]
    pub image: Option<PathBuf>,
}

impl RunChoice {
    /// Opens the machine for reading.
    ///
    /// # Errors
    /// When there is no such machine.
    pub fn observe(&self) -> Result<Observer, RunError> {
        let (Some(ram), Some(image)) = (&self.ram, &self.image) else {
            let visit = Visit::connect(self.run.as_deref())?;
            return visit.observer().cloned();
        };
        let plan = ImagePlan::from_file(image)?;
        let ram = Ram::open(ram, plan.header.banks())?;
        Ok(Observer::new(Arc::new(ram), Arc::new(plan)))
    }

    /// Opens the machine for reading, and asks its run what the records of a payload come to; at least one of them is there.
    ///
    /// # Errors
    /// When there is no such machine, or nothing of it can be read.
    pub(crate) fn look(&self) -> Result<(Option<Observer>, Option<serde_json::Value>), RunError> {
        if self.ram.is_some() {
            return self.observe().map(|observer| (Some(observer), None));
        }
        let visit = Visit::connect(self.run.as_deref())?;
        if visit.payload().is_none() {
            visit.observer()?;
        }
        Ok(visit.into_parts())
    }
}

/// Prints an error, if there is one, and returns the exit code.
fn finish(result: Result<(), RunError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::from(exit_code::SUCCESS),
        Err(error) => {
            bulkhead_files::complain!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Parses a duration such as `60s`.
fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    bulkhead_description::unit::duration_option(text, "s").map(std::time::Duration::from_nanos)
}
