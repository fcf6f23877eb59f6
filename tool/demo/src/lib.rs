//! `bulkhead demo`: the main promise, shown and counted.
//!
//! A real-time controller, stock FreeRTOS, two stock Debian Linux and an intruder share one board, FreeRTOS and the second
//! Linux even one core. The first Linux crashes its kernel and is restarted, the intruder attacks throughout, and at the end
//! the controller must have lost no period, no instruction to the monitor and no byte of output. Each number comes from RAM
//! of the machine: counters, status and usage pages of the monitors and console rings. The demonstration exits 0 only if all
//! of it was true.
//!
//! The reference for "no byte changed" is the controller alone, on the same image builder, in a run with instruction counting
//! (its output does not depend on time). Wall-clock lateness is printed as host noise and never judged: several emulated
//! cores share two host cores. What the shared core promised is judged in a run of its own ([`SharedTime`]).
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod facts;
mod shared;
mod summary;

pub use facts::Facts;
pub use shared::{Compared, SharedTime, VcpuTime};
pub use summary::Summary;

use bulkhead_abi::status::{STATE_OFF, STATE_STOPPED};
use bulkhead_description::{Options, find_above, load};
use bulkhead_plan::model::System;
use bulkhead_run::command::Format;
use bulkhead_run::command::show::Show;
use bulkhead_run::{Event, Machine, MachineOptions, Observer, RunError, exit_code};
use bulkhead_timing::Assumptions;
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Where the demonstration system is, below the repository.
const SYSTEM_PATH: &str = "systems/demo/system.toml";
/// The controller, and the others that the story is about.
const CONTROL: &str = "control";
const LINUX: &str = "linux";
const INTRUDER: &str = "intruder";
/// Two that share a core.
const RTOS: &str = "rtos";
const OFFICE: &str = "office";
const NAMES: [&str; 5] = [CONTROL, LINUX, INTRUDER, RTOS, OFFICE];
const REFERENCE_LIMIT: Duration = Duration::from_secs(600);

/// Runs the demonstration system and checks what it claims.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct DemoArguments {
    /// Another description with the partitions `control`, `linux`, `intruder`, `rtos` and `office`, the last two on one core.
    system: Option<PathBuf>,

    /// Leave the system running; `bulkhead attach NAME` in another terminal, Ctrl-C ends it.
    #[arg(long)]
    interactive: bool,

    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 150)]
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
    match show_it(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(exit_code::FAILURE),
        Err(Failure { message, code }) => {
            if !message.is_empty() {
                bulkhead_files::complain!("error: {message}");
            }
            ExitCode::from(code)
        }
    }
}

/// Why there is no summary.
struct Failure {
    message: String,
    code: u8,
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self { message: error.to_string(), code: error.exit_code() }
    }
}

fn show_it(arguments: &DemoArguments) -> Result<bool, Failure> {
    if arguments.interactive {
        return run_interactively(arguments);
    }
    let started = Instant::now();
    let say = |text: &str| {
        if arguments.format == Format::Text {
            bulkhead_files::say!("demo: {text}");
        }
    };
    let system = load_system(arguments)?;
    say("checking and building the image");
    let image = build(&system)?;
    let expected =
        bulkhead_verify::Expected::read(None).map_err(|message| Failure { message, code: exit_code::HOST })?;
    if let Some(finding) = bulkhead_verify::verify_bytes(&image, &expected).findings.first() {
        return Err(Failure {
            message: format!("the image does not pass `bulkhead verify`: {finding}"),
            code: exit_code::FAILURE,
        });
    }
    say("the finished image was read again: no page is writable by two partitions, no interrupt has two owners");
    say("reference run: the controller alone");
    let reference = reference_output(&system)?;
    say("now all partitions together");
    let options = MachineOptions::for_system(&system, image)?;
    let names = options.console_names();
    let mut machine = Machine::start(options)?;
    let colour = bulkhead_files::output::colours() && arguments.format == Format::Text;
    let mut show = Show::new(bulkhead_files::Output, Format::Text, colour, names, Vec::new());
    let limit = Duration::from_secs(arguments.timeout_s);
    watch(&mut machine, (arguments.format == Format::Text).then_some(&mut show), limit)?;
    let mut facts = Facts::collect(&machine, &reference)?;
    drop(machine);
    say("the shared core once more, alone and on a clock that counts instructions");
    facts.shared = shared::measure(&system, OFFICE)?;
    facts.elapsed_s = started.elapsed().as_secs_f64();
    let summary = Summary::new(facts);
    match arguments.format {
        Format::Text => bulkhead_files::output::print(&summary.to_string()),
        Format::Json => bulkhead_files::say!("{}", summary.json()),
    }
    Ok(summary.all_true())
}

fn system_path(arguments: &DemoArguments) -> PathBuf {
    arguments.system.clone().or_else(|| find_above(SYSTEM_PATH)).unwrap_or_else(|| PathBuf::from(SYSTEM_PATH))
}

/// The same system as `bulkhead run` runs it: to look at with `attach` and `stats` for as long as one likes.
fn run_interactively(arguments: &DemoArguments) -> Result<bool, Failure> {
    let host =
        |cause: io::Error| Failure { message: format!("cannot start `bulkhead run`: {cause}"), code: exit_code::HOST };
    bulkhead_files::say!(
        "demo: in another terminal, `bulkhead attach linux` and `bulkhead stats` look into it; Ctrl-C here ends it"
    );
    let program = std::env::current_exe().map_err(host)?;
    let status = Command::new(program).arg("run").arg(system_path(arguments)).status().map_err(host)?;
    Ok(status.success())
}

fn load_system(arguments: &DemoArguments) -> Result<System, Failure> {
    let path = system_path(arguments);
    let loaded = load(&path, &Options::from_environment(None), &Assumptions::default()).map_err(|report| {
        bulkhead_description::command::print_report(&report);
        let code = if report.has_environment_errors() { exit_code::HOST } else { exit_code::FAILURE };
        Failure { message: String::new(), code }
    })?;
    for wanted in NAMES {
        if !loaded.system.partitions.iter().any(|partition| partition.name == wanted) {
            let message = format!("{} has no partition `{wanted}`, which the demonstration is about", path.display());
            return Err(Failure { message, code: exit_code::FAILURE });
        }
    }
    Ok(loaded.system)
}

fn build(system: &System) -> Result<Vec<u8>, Failure> {
    let monitor = bulkhead_image::read_monitor(None, bulkhead_plan::part_of(system))
        .map_err(|error| Failure { message: error.to_string(), code: exit_code::HOST })?;
    let image = bulkhead_image::build_image(system, &monitor)
        .map_err(|error| Failure { message: error.to_string(), code: exit_code::FAILURE })?;
    Ok(image.bytes)
}

/// Output of the controller without the other partitions, byte for byte.
fn reference_output(system: &System) -> Result<Vec<u8>, Failure> {
    let mut alone = system.clone();
    alone.partitions.retain(|partition| partition.name == CONTROL);
    alone.channels.clear();
    alone.schedules.clear();
    let mut options = MachineOptions::for_system(&alone, build(&alone)?)?;
    options.icount_shift = Some(0);
    let mut machine = Machine::start(options)?;
    machine.wait_for_end(REFERENCE_LIMIT)?;
    machine.finish();
    Ok(facts::output_of(&machine, CONTROL))
}

/// Shows the run until the story is told: controller done, Linux off after its restart, office off, intruder at its end.
fn watch(
    machine: &mut Machine,
    mut show: Option<&mut Show<bulkhead_files::Output>>,
    limit: Duration,
) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let mut events = machine.poll();
        let ended = machine.end()?.is_some() || is_told(machine);
        if ended {
            events.extend(machine.quit());
        }
        for event in events {
            if let Event::MonitorCrash(report) = event {
                return Err(RunError::MonitorCrashed(report).into());
            }
            if let Some(show) = show.as_deref_mut()
                && show.event(&event).is_err()
            {
                return Ok(());
            }
        }
        if ended {
            return Ok(());
        }
        if start.elapsed() > limit {
            return Err(machine.timeout("the demonstration to end", limit).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_told(machine: &Machine) -> bool {
    let Some(observer) = machine.observer() else { return false };
    [CONTROL, LINUX, INTRUDER, OFFICE].iter().all(|name| has_ended(observer, name))
}

/// States whether a partition is off or stopped.
fn has_ended(observer: &Observer, name: &str) -> bool {
    let index = observer.plan().partition_named(name);
    index.is_some_and(|index| matches!(observer.status(index).state, STATE_OFF | STATE_STOPPED))
}
