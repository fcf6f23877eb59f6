//! `bulkhead demo`, and `bulkhead run` of a system that is a demonstration: the main promise, shown and counted.
//!
//! A real-time controller, stock FreeRTOS, stock Debian Linux and an intruder share one board, some of them even a core. Linux
//! crashes its kernel and is restarted, the intruder attacks throughout, and at the end the controller must have lost no period and
//! no byte of output, and no instruction to the monitor if its core is its own. Each number comes from RAM of the machine:
//! counters, status and usage pages of the monitors and console rings. The demonstration exits 0 only if all of it was true.
//!
//! Two worlds on one core are another story ([`worlds`]), partitions below a payload a third ([`hybrid`]), and devices with DMA a fourth
//! ([`devices`]), and an instance of the real-time kernel a fifth ([`flight`]).
//!
//! A description says `demonstration = true`; what of the story its system can show follows from it ([`Cast`]).
//!
//! The reference for "no byte changed" is the controller alone, on the same image builder, in a run with instruction counting
//! (its output does not depend on time). Wall-clock lateness is printed as host noise and never judged: several emulated
//! cores share two host cores. What the shared core promised is judged in a run of its own ([`SharedTime`]).
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod alone;
mod cast;
mod claims;
pub mod devices;
mod facts;
pub mod flight;
pub mod hybrid;
mod shared;
mod stage;
mod story;
mod summary;
mod uart;
pub mod worlds;

pub use cast::Cast;
pub use claims::judge;
pub use facts::Facts;
pub use shared::{Compared, LoopTime, SharedTime, VcpuTime};
pub use summary::Summary;
pub use uart::UartFacts;

use bulkhead_description::{Check, find_above};
use bulkhead_plan::model::System;
use bulkhead_run::MachineOptions;
use bulkhead_run::command::{Format, RunArguments, exit_code_of, open, start, warn_of_version};
use bulkhead_run::exit_code;
use bulkhead_run::source::{SourceError, load_or_say, machine_of};
use bulkhead_timing::Assumptions;
use clap::Args;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use story::{Shown, Story};
use worlds::WorldStory;

/// Where the demonstration system is, below the repository.
const SYSTEM_PATH: &str = "systems/demo/system.toml";
/// The roles; which of them there are is checked with the description.
const CONTROL: &str = "control";
const LINUX: &str = "linux";
const INTRUDER: &str = "intruder";
const RTOS: &str = "rtos";
const OFFICE: &str = "office";
/// Time that the run with all partitions gets if nothing else is said.
const DEFAULT_LIMIT_S: u64 = 300;

/// Runs the demonstration system and checks what it claims.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct DemoArguments {
    /// Another description that says `demonstration = true`, or its directory in `systems`.
    system: Option<PathBuf>,

    /// Leave the system running; `bulkhead attach NAME` in another terminal, Ctrl-C ends it.
    #[arg(long)]
    interactive: bool,

    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_LIMIT_S)]
    timeout_s: u64,

    /// Form of the output: with `json`, the summary alone.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

const AFTER_HELP: &str = "\
Examples:
  bulkhead demo                    shows everything, ends by itself
  bulkhead demo --format json      prints the summary as one JSON object
  bulkhead demo --interactive      leaves it running with consoles attached
  bulkhead demo dual-world         another one: two worlds on one core
  bulkhead demo hybrid             a third: partitions below a payload, on four cores
  bulkhead demo devices            a fourth: disks and networks, and who attacks with them
  bulkhead demo flight             a fifth: components of the real-time kernel

Exit codes:
  0  everything that was shown was true
  1  something was not; the summary says what
  3  the host lacks something
  4  QEMU failed
  5  a monitor failed
  6  the time limit passed";

/// Runs `bulkhead demo`.
#[must_use]
pub fn demo(arguments: &DemoArguments) -> ExitCode {
    let outcome = if arguments.interactive { run_interactively(arguments) } else { show_it(arguments) };
    exit_code_of(outcome.map(code_of))
}

/// Runs `bulkhead run`: a demonstration is shown and judged as by `bulkhead demo`, unless the options make another run of it.
#[must_use]
pub fn run(arguments: &RunArguments, check: &dyn Check) -> ExitCode {
    let started = Instant::now();
    exit_code_of(open(arguments, check).and_then(|mut source| {
        let Some(system) = source.demonstration.take() else { return start(source, arguments) };
        let clock = system.secure.as_ref().map(|_| worlds::ICOUNT_SHIFT);
        let clock = clock.or_else(|| flight::partition_of(&system).map(|_| flight::ICOUNT_SHIFT));
        if let Some(option) = arguments.changes_a_demonstration(clock) {
            if !(arguments.plain || arguments.dry_run) {
                bulkhead_files::complain!(
                    "note: with {option} a demonstration runs as any other system: nothing is judged"
                );
            }
            return start(source, arguments);
        }
        warn_of_version(&source.options)?;
        let told = Told {
            path: &arguments.system,
            guests: arguments.guests.clone(),
            monitor: arguments.monitor.as_deref(),
            limit: arguments.timeout.unwrap_or(Duration::from_secs(DEFAULT_LIMIT_S)),
            shown: Shown { events: Some(arguments.format), summary: arguments.format },
            started,
        };
        told.tell(&system, source.options).map(code_of)
    }))
}

fn code_of(is_true: bool) -> u8 {
    if is_true { exit_code::SUCCESS } else { exit_code::FAILURE }
}

fn show_it(arguments: &DemoArguments) -> Result<bool, SourceError> {
    let started = Instant::now();
    let path = system_path(arguments);
    let loaded = load_or_say(&path, None, &Assumptions::default())?;
    if !loaded.is_demonstration {
        let message = format!("{} is no demonstration: it does not say `demonstration = true`", path.display());
        return Err(SourceError { message, exit_code: exit_code::FAILURE });
    }
    let shown = Shown { events: (arguments.format == Format::Text).then_some(Format::Text), summary: arguments.format };
    shown.say("checking and building the image");
    let mut options = machine_of(&loaded.system, None)?;
    options.give(&loaded.system, &loaded.host)?;
    let limit = Duration::from_secs(arguments.timeout_s);
    Told { path: &path, guests: None, monitor: None, limit, shown, started }.tell(&loaded.system, options)
}

/// How a demonstration is told, whichever it is.
struct Told<'a> {
    path: &'a Path,
    guests: Option<PathBuf>,
    monitor: Option<&'a Path>,
    limit: Duration,
    shown: Shown,
    started: Instant,
}

impl Told<'_> {
    fn tell(self, system: &System, options: MachineOptions) -> Result<bool, SourceError> {
        let Self { path, guests, monitor, limit, shown, started } = self;
        if let Some(secure) = &system.secure {
            let attacks = worlds::attacks_beside(path);
            let story = WorldStory { system, attacks, guests, options, monitor, limit, shown, started };
            return if secure.hybrid().is_some() { hybrid::tell(story) } else { story.tell() };
        }
        let story = Story { system, options, monitor, limit, shown, started };
        if flight::partition_of(system).is_some() {
            return flight::tell(story);
        }
        if system.virtio.is_empty() { story.tell() } else { devices::tell(story, guests) }
    }
}

/// The description that was named, by its path or by the name of its directory in `systems`.
fn system_path(arguments: &DemoArguments) -> PathBuf {
    let Some(named) = &arguments.system else {
        return find_above(SYSTEM_PATH).unwrap_or_else(|| PathBuf::from(SYSTEM_PATH));
    };
    let is_name = named.components().count() == 1 && named.extension().is_none() && !named.exists();
    let known = is_name.then(|| find_above(&format!("systems/{}/system.toml", named.display()))).flatten();
    known.unwrap_or_else(|| named.clone())
}

/// The same system as any other is run: to look at with `attach` and `stats` for as long as one likes.
fn run_interactively(arguments: &DemoArguments) -> Result<bool, SourceError> {
    let host = |cause: io::Error| SourceError {
        message: format!("cannot start `bulkhead run`: {cause}"),
        exit_code: exit_code::HOST,
    };
    bulkhead_files::say!(
        "demo: in another terminal, `bulkhead attach linux` and `bulkhead stats` look into it; Ctrl-C here ends it"
    );
    let program = std::env::current_exe().map_err(host)?;
    let status = Command::new(program).args(["run", "--plain"]).arg(system_path(arguments)).status().map_err(host)?;
    Ok(status.success())
}
