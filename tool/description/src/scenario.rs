//! Scenarios of `bulkhead simulate`: shared cores, and what arrives at their vCPUs.
//!
//! The cores are those of a system description, or are written in the scenario with the same tables `[[schedule]]` and
//! `[[partition]]`, reduced to what matters for time. Both ways end in a [`System`], so that a simulation begins with the same plan of
//! a core as an image does, and the same mistakes get the same diagnostics.

use crate::decode::{self, Duration, Located, table, words};
use crate::description::Trust;
use crate::diagnostic::{Diagnostic, Report};
use crate::sharing::{Schedule, Server};
use crate::source::Span;
use crate::{Check, Code, Options, push_syntax_errors, reason, resolve};
use bulkhead_plan::model::System;
use std::path::Path;
use toml::de::DeTable;

table! {
    /// A scenario.
    pub struct Scenario {
        /// System description whose shared cores are simulated, relative to this file; instead of tables of its own.
        system: Option<Located<String>>,
        /// Board of a scenario with tables of its own; default the one that is meant where none is named. It gives the counter, whose ticks are the unit of time.
        board: Option<Located<String>>,
        /// How long to simulate; default `"1 s"`.
        until: Option<Located<Duration>>,
        /// Partitions and their servers.
        #[schemars(default)]
        partition: Vec<Located<ScenarioPartition>>,
        /// Schedules of the cores.
        #[schemars(default)]
        schedule: Vec<Located<Schedule>>,
        /// What arrives.
        #[schemars(default)]
        arrival: Vec<Located<Arrival>>,
    }
}

table! {
    /// A partition, as far as its time goes.
    pub struct ScenarioPartition {
        /// Name.
        name: Located<String>,
        /// Default `untrusted`; it decides the default anchor of sporadic servers.
        trust: Option<Located<Trust>>,
        /// Board cores, by index; vCPU n runs on the n-th entry.
        cores: Located<Vec<Located<u64>>>,
        /// Under `round-robin`: interrupts of others may end its turn; default true.
        preemptible: Option<Located<bool>>,
        /// Claims of its vCPUs on the time of shared cores.
        #[schemars(default)]
        servers: Vec<Located<Server>>,
    }
}

words! {
    /// What arrives at a vCPU.
    pub enum ArrivalKind {
        /// Work of the guest: the vCPU becomes ready and runs for it.
        Work = "work",
        /// An interrupt: it opens interrupt gates, wakes the vCPU, and its handler runs before other work.
        Interrupt = "interrupt",
    }
}

table! {
    /// Arrivals at one vCPU: periodic (`period`), at given times (`at`), sporadic (`minimum` and `maximum`), or always busy (`busy`).
    pub struct Arrival {
        /// The partition, or `partition.1` for its vCPU 1.
        vcpu: Located<String>,
        /// Default `work`.
        kind: Option<Located<ArrivalKind>>,
        /// How long the vCPU runs for each.
        work: Option<Located<Duration>>,
        /// The first one; default 0.
        offset: Option<Located<Duration>>,
        /// Distance of periodic arrivals.
        period: Option<Located<Duration>>,
        /// Times of arrivals.
        at: Option<Located<Vec<Located<Duration>>>>,
        /// Shortest distance of sporadic arrivals.
        minimum: Option<Located<Duration>>,
        /// Longest distance of sporadic arrivals.
        maximum: Option<Located<Duration>>,
        /// Seed of sporadic arrivals; default 1.
        seed: Option<Located<u64>>,
        /// How many come each time; default 1.
        burst: Option<Located<u64>>,
        /// Distance within a burst; default 0.
        spacing: Option<Located<Duration>>,
        /// From `offset` on there is work without end.
        busy: Option<Located<bool>>,
        /// A request of this client of the vCPU's PIBS server, by its place in the order of periods, from 0.
        client: Option<Located<u64>>,
    }
}

/// When arrivals come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// At every period from the offset on.
    Periodic {
        /// Period, more than 0.
        period_ns: u64,
    },
    /// At these times, in order, counted from the offset.
    At(Vec<u64>),
    /// With distances chosen by a seeded generator.
    Spaced {
        /// Shortest distance, more than 0.
        minimum_ns: u64,
        /// Longest distance.
        maximum_ns: u64,
        /// Seed.
        seed: u64,
    },
    /// One, whose work never ends.
    Busy,
}

/// Checked arrivals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedArrival {
    /// Partition.
    pub partition: usize,
    /// Its vCPU.
    pub vcpu: usize,
    /// An interrupt rather than work.
    pub is_interrupt: bool,
    /// How long the vCPU runs for each; 0 with [`Pattern::Busy`].
    pub work_ns: u64,
    /// The first one.
    pub offset_ns: u64,
    /// When they come.
    pub pattern: Pattern,
    /// How many come each time.
    pub burst: u64,
    /// Distance within a burst.
    pub spacing_ns: u64,
    /// Client of the vCPU's PIBS server.
    pub client: Option<usize>,
}

/// A checked scenario.
#[derive(Clone, Debug)]
pub struct LoadedScenario {
    /// The system. Of a scenario with tables of its own, what is not about time is empty.
    pub system: System,
    /// What arrives.
    pub arrivals: Vec<CheckedArrival>,
    /// How long to simulate, if the scenario says.
    pub until_ns: Option<u64>,
    /// Warnings of the system description.
    pub warnings: Report,
}

/// Reads and checks a scenario. `check` judges the system description that it names; cores of the scenario itself may be anything, so
/// that what is refused can be looked at.
///
/// # Errors
/// The report holds at least one error; see [`Report::has_environment_errors`] for the exit code.
pub fn load_scenario(path: &Path, options: &Options, check: &dyn Check) -> Result<LoadedScenario, Report> {
    match bulkhead_files::read::text(path, bulkhead_files::read::SCENARIO) {
        Ok(text) => load_scenario_text(path, &text, options, check),
        Err(error) => {
            let mut report = Report::default();
            let message = format!("scenario {} cannot be read: {}", path.display(), reason(&error));
            report.push(Diagnostic::new(Code::FileUnreadable, message));
            Err(report)
        }
    }
}

/// Checks a scenario that was read already; `path` names it in messages and is where its relative paths start.
///
/// # Errors
/// As [`load_scenario`].
pub fn load_scenario_text(
    path: &Path,
    text: &str,
    options: &Options,
    check: &dyn Check,
) -> Result<LoadedScenario, Report> {
    let mut report = Report::default();
    let file = report.sources.add(path.display().to_string(), text);
    let (root, errors) = DeTable::parse_recoverable(text);
    push_syntax_errors(file, &errors, &mut report);
    if !errors.is_empty() {
        return Err(report);
    }
    let mut reader = decode::Reader::new(file);
    let scenario = Scenario::decode_table(root.get_ref(), Span::new(file, 0..0), &mut reader);
    let complete = !reader.incomplete;
    reader.diagnostics.into_iter().for_each(|diagnostic| report.push(diagnostic));
    let loaded = match scenario.filter(|_| complete) {
        Some(scenario) => resolve::scenario::load(&scenario, path, file, options, check, &mut report)?,
        None => None,
    };
    report.sort();
    match loaded {
        Some(loaded) if !report.has_errors() => Ok(LoadedScenario { warnings: report, ..loaded }),
        _ => Err(report),
    }
}
