//! Scenarios of `bulkhead simulate`: shared cores, and what arrives at their vCPUs.
//!
//! The cores are those of a system description, or are written in the scenario with the same tables `[[schedule]]` and
//! `[[partition]]`, reduced to what matters for time. Both ways end in a [`System`], so that a simulation begins with the same plan of
//! a core as an image does, and the same mistakes get the same diagnostics.
//!
//! Or a scenario is about an instance of the real-time kernel (`instance`), with arrivals at its threads and servers ([`InstanceScenario`]).

use crate::decode::{self, Duration, Located, table, words};
use crate::description::Trust;
use crate::diagnostic::{Diagnostic, Report};
use crate::sharing::{Schedule, Server};
use crate::source::Span;
use crate::{Check, Code, Options, push_syntax_errors, reason, resolve};
use bulkhead_kernel_abi::boot::{BandRow, ServerRow, TcapRow, ThreadRow};
use bulkhead_plan::model::{InstanceServer, System};
use bulkhead_plan::ticks;
use std::path::Path;
use toml::de::DeTable;

table! {
    /// A scenario.
    pub struct Scenario {
        /// System description whose shared cores are simulated, relative to this file; instead of tables of its own.
        system: Option<Located<String>>,
        /// Instance of the real-time kernel that is simulated instead of shared cores: with `system` the name of its partition, otherwise a
        /// description `NAME.kernel.toml` relative to this file.
        instance: Option<Located<String>>,
        /// Of an instance: servers that a component makes in its bands.
        #[schemars(default)]
        made: Vec<Located<Made>>,
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
    /// A server that is made in a band while the instance runs, if the band admits it.
    pub struct Made {
        /// Name, by which arrivals know it.
        name: Located<String>,
        /// Band.
        band: Located<String>,
        /// Budget.
        budget: Located<Duration>,
        /// Period.
        period: Located<Duration>,
        /// When it is made; default 0.
        at: Option<Located<Duration>>,
        /// When it is ended; without it never.
        end: Option<Located<Duration>>,
    }
}

table! {
    /// Arrivals at one vCPU, thread or server: periodic (`period`), at given times (`at`), sporadic (`minimum` and `maximum`), or always busy (`busy`).
    pub struct Arrival {
        /// The partition, or `partition.1` for its vCPU 1.
        vcpu: Option<Located<String>>,
        /// Of an instance: the thread, `component.thread`.
        thread: Option<Located<String>>,
        /// Of an instance: the server, as if a further thread of it did the work; or the name of one that is made.
        server: Option<Located<String>>,
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

/// An instance that is simulated: what its image says, and what it is called.
#[derive(Clone, Debug)]
pub struct SimulatedInstance {
    /// Name: of its partition, or of its file.
    pub name: String,
    /// Ticks of the counter in a second.
    pub counter_hz: u64,
    /// Names of the threads, `component.thread`, by number.
    pub threads: Vec<String>,
    /// Rows of the threads.
    pub thread_rows: Vec<ThreadRow>,
    /// Rows of the temporal capabilities.
    pub tcaps: Vec<TcapRow>,
    /// Rows of the servers.
    pub servers: Vec<ServerRow>,
    /// Rows of the bands.
    pub bands: Vec<BandRow>,
    /// What is certain of servers and bands, the most important first.
    pub facts: Vec<InstanceServer>,
}

impl SimulatedInstance {
    /// The server that a thread runs on; none for one that has only time which others give it.
    #[must_use]
    pub fn server_of(&self, thread: usize) -> Option<u16> {
        let row = self.thread_rows.get(thread)?;
        let server = self.tcaps.get(usize::from(row.tcap)).map_or(row.server, |tcap| tcap.server);
        (usize::from(server) < self.servers.len()).then_some(server)
    }

    /// The smallest piece of a budget that is worth a switch: what is left when somebody else takes the core may be less, and then waits for the next one.
    #[must_use]
    pub fn smallest_ns(&self, fact: &InstanceServer) -> u64 {
        let of_band = self.bands.iter().find(|band| fact.band.is_some() && band.first_server == fact.number);
        let of_server = self.servers.get(usize::from(fact.number)).map_or(0, |row| row.smallest_chunk_ticks);
        ticks::to_ns(of_band.map_or(of_server, |band| band.smallest_budget_ticks), self.counter_hz)
    }

    /// How many clients a server has; 0 of one that works for nobody.
    #[must_use]
    pub fn clients(&self, server: u16) -> usize {
        self.servers.get(usize::from(server)).map_or(0, |row| row.clients.count_ones() as usize)
    }
}

/// Where something arrives in an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// At this thread.
    Thread(usize),
    /// At one that is no component's, on this server.
    Server(u16),
    /// At one on a server that is made, by its place in the scenario.
    Made(usize),
}

/// Something that arrives in an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceArrival {
    /// Where.
    pub target: Target,
    /// What and when; partition and vCPU are 0.
    pub arrival: CheckedArrival,
}

/// A server that is made in a band.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeServer {
    /// Name.
    pub name: String,
    /// Number of the band.
    pub band: usize,
    /// Budget.
    pub budget_ns: u64,
    /// Period.
    pub period_ns: u64,
    /// When it is made.
    pub at_ns: u64,
    /// When it is ended.
    pub end_ns: Option<u64>,
}

/// A checked scenario of an instance.
#[derive(Clone, Debug)]
pub struct InstanceScenario {
    /// The instance.
    pub instance: SimulatedInstance,
    /// What arrives.
    pub arrivals: Vec<InstanceArrival>,
    /// What is made.
    pub made: Vec<MadeServer>,
    /// How long to simulate, if the scenario says.
    pub until_ns: Option<u64>,
    /// Warnings of the description.
    pub warnings: Report,
}

/// A checked scenario of either kind.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// Of shared cores.
    Cores(Box<LoadedScenario>),
    /// Of an instance.
    Instance(Box<InstanceScenario>),
}

impl Loaded {
    /// The scenario of shared cores, if it is one.
    #[must_use]
    pub fn into_cores(self) -> Option<LoadedScenario> {
        match self {
            Self::Cores(scenario) => Some(*scenario),
            Self::Instance(_) => None,
        }
    }
}

/// Reads an instance by itself, as it is on the bare board, to be simulated.
///
/// # Errors
/// The report of its description.
pub fn load_instance(path: &Path, options: &Options) -> Result<SimulatedInstance, Report> {
    resolve::simulated::native(path, options)
}

/// Reads and checks a scenario. `check` judges the system description that it names; cores of the scenario itself may be anything, so
/// that what is refused can be looked at.
///
/// # Errors
/// The report holds at least one error; see [`Report::has_environment_errors`] for the exit code.
pub fn load_scenario(path: &Path, options: &Options, check: &dyn Check) -> Result<Loaded, Report> {
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
pub fn load_scenario_text(path: &Path, text: &str, options: &Options, check: &dyn Check) -> Result<Loaded, Report> {
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
    let Some(scenario) = scenario.filter(|_| complete) else {
        report.sort();
        return Err(report);
    };
    let loaded = match &scenario.instance {
        Some(named) => resolve::simulated::load(&scenario, named, (path, file), options, check, &mut report)?
            .map(|loaded| Loaded::Instance(Box::new(loaded))),
        None => {
            let loaded = resolve::scenario::load(&scenario, path, file, options, check, &mut report)?;
            loaded.map(|loaded| Loaded::Cores(Box::new(loaded)))
        }
    };
    report.sort();
    match loaded {
        Some(_) | None if report.has_errors() => Err(report),
        Some(Loaded::Cores(mut loaded)) => {
            loaded.warnings = report;
            Ok(Loaded::Cores(loaded))
        }
        Some(Loaded::Instance(mut loaded)) => {
            loaded.warnings = report;
            Ok(Loaded::Instance(loaded))
        }
        None => Err(report),
    }
}
