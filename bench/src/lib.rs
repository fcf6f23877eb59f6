//! `./x bench`: every number that Bulkhead promises, measured on the reader's machine.
//!
//! A *row* ([`rows::all`]) is one number: what it is, how it is measured, what others reach on the same work, the ceiling that it
//! must not pass, and a function that measures it. Rows share runs of the emulator through a [`lab::Lab`]. The command
//! prints rows as they come and ends with 0 only if all that ran are met; `--record` writes them to `docs/measurements.json` and
//! `docs/measurements.md`, from where the documentation takes them.
//!
//! All numbers of time are **instructions, not cycles**: the emulator counts instructions exactly and knows nothing of caches
//! and pipelines. On hardware a trap costs more than its instructions. What an instruction count is good for: it repeats exactly, so a test
//! can assert it, and it compares designs on the same work. The rejected alternative, wall-clock time of an emulator on a shared host, measures the host.
#![forbid(unsafe_code)]
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod boards;
mod command;
pub mod costs;
mod devices;
pub mod experiments;
mod hybrid;
mod kernel;
pub mod kernel_paths;
mod lab;
mod linux;
mod masks;
pub mod model;
mod outcome;
mod paths;
mod record;
mod remote;
mod report;
mod restarts;
pub mod rows;
mod scheduler;
mod secure;
mod secure_sizes;
mod shared;
mod siblings;
mod soak;
mod static_size;
mod steady;
mod symbols;
mod ticks;

pub use command::{BenchArguments, bench};
pub use outcome::{Outcome, Verdict};

use bulkhead_run::{RunError, exit_code};

/// Why a row has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong, where, and what to do.
    pub message: String,
    /// Exit code of the command.
    pub exit_code: u8,
}

impl Failure {
    /// Something of this machine is missing.
    pub(crate) fn host(message: String) -> Self {
        Self { message, exit_code: exit_code::HOST }
    }

    /// Something ran and did not do what it should.
    pub(crate) fn wrong(message: String) -> Self {
        Self { message, exit_code: exit_code::FAILURE }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self { message: error.to_string(), exit_code: error.exit_code() }
    }
}

/// Measures rows by their names or groups, in the order of the table; all rows without names.
///
/// # Errors
/// When a name is no row and no group, or the monitor cannot be read. A row that cannot be measured is an [`Outcome`].
pub fn measure(names: &[String], each: impl FnMut(&Outcome)) -> Result<Vec<Outcome>, Failure> {
    measure_in(&lab::Lab::open()?, names, each)
}

fn measure_in(lab: &lab::Lab, names: &[String], mut each: impl FnMut(&Outcome)) -> Result<Vec<Outcome>, Failure> {
    let chosen = rows::choose(names)?;
    let outcomes = chosen.into_iter().map(|row| {
        let outcome = Outcome { row, found: (row.measure)(lab), runs: lab.take_runs() };
        each(&outcome);
        outcome
    });
    Ok(outcomes.collect())
}
