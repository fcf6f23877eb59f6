//! `bulkhead run`: starts a system on QEMU and shows its consoles until it ends.

use super::log::Logs;
use super::show::{Show, partitions_json};
use super::trace::{timeline_of, write_timeline};
use super::visitors::Visitors;
use super::{Format, parse_duration};
use crate::console::ConsoleNames;
use crate::diagnosis::{place_of, reason_name, state_name};
use crate::error::{RunError, exit_code};
use crate::image_file::ImagePlan;
use crate::instance;
use crate::machine::{End, Event, Machine};
use crate::observer::Observer;
use crate::plugin::CountingOptions;
use crate::qemu::{Boot, MachineOptions, check_version};
use crate::source::{Source, SourceError};
use crate::trace::{NOT_RECORDING, TraceCollector};
use crate::worlds::WorldsTrace;
use bulkhead_abi::status::{STATE_OFF, STATE_STOPPED};
use bulkhead_description::Check;
use bulkhead_files::output::{self, FAULT, styled};
use bulkhead_files::{Output, write};
use bulkhead_trace::Timeline;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Time between two looks at the machine.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The same while input waits to be read.
const INPUT_INTERVAL: Duration = Duration::from_micros(200);
/// After such a pause an unfinished line (a prompt) is shown.
const PROMPT_PAUSE: Duration = Duration::from_millis(400);

/// Arguments of `bulkhead run`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct RunArguments {
    /// System description (TOML, or a directory with a `system.toml`), or an image that `bulkhead build` made.
    #[arg(value_name = "SYSTEM")]
    pub system: PathBuf,
    /// Directory of built guests, which the prefix `guest:` means [default: $BULKHEAD_GUESTS, else target/guests]
    #[arg(long, value_name = "DIR")]
    pub guests: Option<PathBuf>,
    /// ELF file of the monitor, or folder of its parts [default: $BULKHEAD_MONITOR, else what this tool contains]
    #[arg(long, value_name = "PATH")]
    pub monitor: Option<PathBuf>,
    /// Count instructions: each takes 2^SHIFT virtual nanoseconds, and runs repeat exactly.
    #[arg(long, value_name = "SHIFT", value_parser = clap::value_parser!(u8).range(0..=10))]
    pub icount: Option<u8>,
    /// Wait for a debugger on this local TCP port before the first instruction.
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "1234")]
    pub gdb: Option<u16>,
    /// Let a boot loader start the image from a disk, as on a board [default file: U-Boot for QEMU, as the board file names it]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub boot_loader: Option<Option<PathBuf>>,
    /// Print the QEMU command and do not start it.
    #[arg(long)]
    pub dry_run: bool,
    /// End the run with exit code 6 after this time, such as `60s`.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Show the console of this partition or UART only (may be repeated).
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// End the run when this partition is off or stopped, not only when all are.
    #[arg(long, value_name = "NAME")]
    pub until_off: Option<String>,
    /// Count the monitor's instructions on each core and show them at the end (slower).
    #[arg(long)]
    pub count: bool,
    /// Load a QEMU plugin (argument of QEMU's `-plugin`; may be repeated).
    #[arg(long, value_name = "PLUGIN")]
    pub plugin: Vec<String>,
    /// Write all trace records of the run to this file, for the Perfetto UI and for `bulkhead report`.
    #[arg(long, value_name = "FILE.perfetto-trace")]
    pub trace: Option<PathBuf>,
    /// Write each console to a file `PARTITION.log` in this directory, at the end of the run; replaces those of an earlier run.
    #[arg(long, value_name = "DIR")]
    pub log: Option<PathBuf>,
    /// Run a demonstration as any other system: nothing is judged.
    #[arg(long)]
    pub plain: bool,
    /// Further arguments for QEMU.
    #[arg(last = true, value_name = "QEMU ARGUMENT")]
    pub extra: Vec<String>,
}

impl RunArguments {
    /// Returns the first option that was given and that a demonstration cannot be judged with: it makes another run of it, or wants
    /// something from the one run that a demonstration does not consist of. A demonstration that counts instructions does so with `clock`.
    #[must_use]
    pub fn changes_a_demonstration(&self, clock: Option<u8>) -> Option<&'static str> {
        let options = [
            (self.plain, "--plain"),
            (self.dry_run, "--dry-run"),
            (self.icount.is_some() && self.icount != clock, "--icount"),
            (self.gdb.is_some(), "--gdb"),
            (!self.only.is_empty(), "--only"),
            (self.until_off.is_some(), "--until-off"),
            (self.count, "--count"),
            (!self.plugin.is_empty(), "--plugin"),
            (self.trace.is_some(), "--trace"),
            (self.log.is_some(), "--log"),
            (!self.extra.is_empty(), "arguments for QEMU"),
        ];
        options.into_iter().find_map(|(is_given, option)| is_given.then_some(option))
    }
}

/// Shown at the end of `bulkhead run --help`.
const EXIT_CODES: &str = "\
A description with `demonstration = true` is shown and judged as by `bulkhead demo`, with --guests, --monitor, --timeout and
--format; with any other option, --plain for example, it runs as every system. A demonstration that has a payload, or components of the
real-time kernel, always counts instructions, so --icount 4 changes nothing there.

Exit codes:
  0  every partition switched itself off, the machine powered off, or --until-off was met; of a demonstration, all was true
  1  the description or image was refused; of a demonstration, something was not true
  2  wrong usage
  3  the host lacks something: QEMU, its version, space for RAM, a compiler, a file
  4  QEMU failed
  5  a monitor failed, or none started
  6  --timeout passed
  7  the run ended and a partition was stopped by its health policy
  130  interrupted (Ctrl-C); nothing is left behind";

const NO_BOOT_LOADER: &str = "the board file names no boot loader for QEMU (`boot_loader` in `[qemu]`); name one: \
                              `--boot-loader=FILE`, which QEMU's `-bios` takes and which reads a virtio disk on PCI";

/// Refuses options that look into RAM of a monitor, where there is none: a system with a secure section keeps its state in secure RAM.
fn without_monitor(options: &MachineOptions, arguments: &RunArguments) -> Result<(), RunError> {
    if options.plan.is_some() {
        return Ok(());
    }
    let wanted = [
        (arguments.count, "--count"),
        (arguments.until_off.is_some(), "--until-off"),
        (arguments.boot_loader.is_some(), "--boot-loader"),
    ];
    match wanted.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => Err(RunError::Other(format!(
            "{option} is not built yet for a system with a secure section, which starts from flash and has no monitor at EL2"
        ))),
        None => Ok(()),
    }
}

/// Runs `bulkhead run` with the check that a description has to pass.
#[must_use]
pub fn run(arguments: &RunArguments, check: &dyn Check) -> ExitCode {
    exit_code_of(open(arguments, check).and_then(|source| start(source, arguments)))
}

/// Makes the exit code of a command, and says why it failed.
#[must_use]
pub fn exit_code_of(outcome: Result<u8, SourceError>) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            if !error.message.is_empty() {
                bulkhead_files::complain!("error: {}", error.message);
            }
            ExitCode::from(error.exit_code)
        }
    }
}

/// Runs a source and shows it; returns the exit code.
///
/// # Errors
/// When it cannot be started, or fails.
pub fn start(source: Source, arguments: &RunArguments) -> Result<u8, SourceError> {
    if arguments.dry_run {
        bulkhead_files::say!("{}", dry_run_text(&source));
        return Ok(exit_code::SUCCESS);
    }
    watch(source, arguments)
}

/// Opens what the arguments name, with their options for the machine.
///
/// # Errors
/// When it is refused.
pub fn open(arguments: &RunArguments, check: &dyn Check) -> Result<Source, SourceError> {
    let mut source = Source::open(&arguments.system, arguments.guests.clone(), arguments.monitor.as_deref(), check)?;
    let options = &mut source.options;
    options.icount_shift = arguments.icount;
    options.gdb_port = arguments.gdb;
    options.plugins.clone_from(&arguments.plugin);
    options.extra.clone_from(&arguments.extra);
    if let Some(file) = &arguments.boot_loader {
        let file = file.clone().or_else(|| options.facts.boot_loader.as_ref().map(PathBuf::from));
        options.boot = Boot::Loader(file.ok_or_else(|| RunError::Other(NO_BOOT_LOADER.to_owned()))?);
    }
    if let (true, Some(plan)) = (arguments.count, &options.plan) {
        options.counting = Some(CountingOptions::for_monitor(plan));
    }
    Ok(source)
}

/// Returns the command for a person to run by hand, with what to know about it.
fn dry_run_text(source: &Source) -> String {
    let has_flash = source.options.boot == Boot::Flash;
    let built = PathBuf::from(format!("{}.{}", source.name, if has_flash { "flash" } else { "img" }));
    let image = source.image_path.as_deref().unwrap_or(&built);
    let ram = format!("{}.ram", source.name);
    let has_disk = source.options.boot.loader().is_some();
    let boot = if has_disk { PathBuf::from(format!("{}.disk", source.name)) } else { image.to_path_buf() };
    let command = source.options.shell_command(&boot.to_string_lossy(), &ram);
    let origin = match (has_disk, source.image_path.is_some()) {
        (true, _) => format!("# Image and disk come from `bulkhead build --disk {}`.\n", boot.display()),
        (false, true) => String::new(),
        (false, false) if has_flash => "# The flash file comes from `bulkhead build`.\n".to_owned(),
        (false, false) => "# The image comes from `bulkhead build`.\n".to_owned(),
    };
    if has_flash {
        return format!("{origin}# The last serial line is the secure world's.\n{command}");
    }
    let watching =
        format!("# Consoles are in RAM: `bulkhead stats --ram {ram} --image {}` reads it.\n", image.display());
    format!("{origin}{watching}{command}")
}

/// Returns the place of a console, or an error that lists all names.
fn console_index(names: &ConsoleNames, name: &str) -> Result<usize, RunError> {
    names.place(name).ok_or_else(|| {
        RunError::Other(format!("the system has no console `{name}`; it has {}", names.all().join(", ")))
    })
}

/// Returns the index of a partition, or an error that lists all names.
fn partition_index(plan: &ImagePlan, name: &str) -> Result<usize, RunError> {
    plan.partition_named(name).ok_or_else(|| {
        RunError::Other(format!("the system has no partition `{name}`; it has {}", plan.partition_names().join(", ")))
    })
}

/// Says what to know about this QEMU before untrusted guests run on it.
///
/// # Errors
/// When it is none, or too old.
pub fn warn_of_version(options: &MachineOptions) -> Result<(), RunError> {
    if let Some(warning) = check_version(&options.qemu)?.warning() {
        bulkhead_files::complain!("warning: {warning}");
    }
    Ok(())
}

fn watch(source: Source, arguments: &RunArguments) -> Result<u8, SourceError> {
    let Source { name, options, .. } = source;
    without_monitor(&options, arguments)?;
    let names = options.console_names();
    let only = arguments.only.iter().map(|name| console_index(&names, name)).collect::<Result<Vec<_>, _>>()?;
    let until_off = match (&arguments.until_off, &options.plan) {
        (Some(name), Some(plan)) => Some(partition_index(plan, name)?),
        _ => None,
    };
    let show = Show::new(Output, arguments.format, output::colours(), names.clone(), only);
    // What comes at the end of a long run must not fail for a reason that was there at its start.
    if let Some(path) = &arguments.trace {
        write::probe(path).map_err(RunError::host(format!("cannot write the trace to {}", path.display())))?;
        let is_silent = |plan: &ImagePlan| plan.vcpus().all(|(_, vcpu)| vcpu.trace_enabled == 0);
        // Whether the kernel of an instance records is known when it has started.
        let is_silent = options.plan.as_ref().map_or(options.trace_plan().is_none(), is_silent);
        if is_silent && !instance::is_in(&options.image) {
            bulkhead_files::complain!("warning: {NOT_RECORDING}");
        }
    }
    let logs = arguments.log.as_deref().map(|path| Logs::create(path, &names)).transpose()?;
    warn_of_version(&options)?;
    let worlds = WorldsTrace::of(&options);
    let machine = Machine::start(options)?;
    let visitors = Visitors::start(&name, &machine, worlds.as_ref())?;
    if let Some(port) = arguments.gdb {
        bulkhead_files::complain!("waiting for a debugger: target remote 127.0.0.1:{port}");
    }
    let trace = machine.observer().filter(|_| arguments.trace.is_some()).map(TraceCollector::new);
    let input = Vec::new();
    let mut run = Run {
        name,
        machine,
        visitors,
        show,
        input,
        dropped: 0,
        limit: arguments.timeout,
        until_off,
        trace,
        worlds,
        logs,
    };
    run.machine.flush_lines_after(PROMPT_PAUSE);
    let outcome = run.until_end();
    run.finish(outcome, arguments).map_err(SourceError::from)
}

/// A run that is shown.
struct Run {
    name: String,
    machine: Machine,
    visitors: Visitors,
    show: Show<Output>,
    input: Vec<u8>,
    dropped: u64,
    limit: Option<Duration>,
    until_off: Option<usize>,
    trace: Option<TraceCollector>,
    worlds: Option<WorldsTrace>,
    logs: Option<Logs>,
}

/// What ended a run that did not fail.
enum Ended {
    /// The machine did.
    Machine(End),
    /// The awaited partition did.
    Partition,
    /// Nobody reads the output any more.
    OutputClosed,
}

impl Ended {
    fn name(&self) -> &'static str {
        match self {
            Self::Machine(End::AllEnded) => "all partitions ended",
            Self::Machine(End::PoweredOff) => "powered off",
            Self::Partition => "awaited partition ended",
            Self::OutputClosed => "output closed",
        }
    }
}

impl Run {
    fn until_end(&mut self) -> Result<Ended, RunError> {
        let start = Instant::now();
        loop {
            let events = self.machine.poll();
            if let (Some(trace), Some(observer)) = (&mut self.trace, self.machine.observer()) {
                trace.poll(observer);
            }
            if !self.show_all(&events) {
                return Ok(Ended::OutputClosed);
            }
            self.visitors.tell(&mut self.machine);
            if let Some(crash) = events.into_iter().find_map(crash_of) {
                return Err(crash);
            }
            if let Some(end) = self.machine.end()? {
                return Ok(Ended::Machine(end));
            }
            if self.awaited_partition_ended() {
                return Ok(Ended::Partition);
            }
            if let Some(limit) = self.limit.filter(|limit| start.elapsed() >= *limit) {
                return Err(self.machine.timeout("the system to end", limit));
            }
            self.forward_input()?;
            std::thread::sleep(if self.machine.has_input() { INPUT_INTERVAL } else { POLL_INTERVAL });
        }
    }

    fn awaited_partition_ended(&self) -> bool {
        let (Some(partition), Some(observer)) = (self.until_off, self.machine.observer()) else { return false };
        matches!(observer.status(partition).state, STATE_OFF | STATE_STOPPED)
    }

    /// Shows events; false when the output was closed.
    fn show_all(&mut self, events: &[Event]) -> bool {
        if let Some(logs) = &mut self.logs {
            events.iter().for_each(|event| logs.event(event));
        }
        events.iter().try_for_each(|event| self.show.event(event)).is_ok()
    }

    /// Passes what `attach` sent on to the serial line, as fast as the machine takes it.
    fn forward_input(&mut self) -> Result<(), RunError> {
        self.visitors.forward(&mut self.machine, &mut self.input)?;
        let dropped = self.machine.dropped_input();
        if dropped != self.dropped {
            bulkhead_files::complain!(
                "[{} bytes of console input dropped: the focus left before they were read]",
                dropped - self.dropped
            );
            self.dropped = dropped;
        }
        Ok(())
    }

    /// Stops the machine, shows what was left and the result, and returns the exit code.
    fn finish(mut self, outcome: Result<Ended, RunError>, arguments: &RunArguments) -> Result<u8, RunError> {
        let rest = self.machine.quit();
        self.show_all(&rest);
        let logged = self.logs.take().map_or(Ok(()), Logs::finish);
        if let Some((path, timeline)) = arguments.trace.as_ref().zip(self.take_timeline(arguments.icount)) {
            write_timeline(path, &timeline)?;
        }
        let stopped = self.machine.observer().map(stopped_partitions).unwrap_or_default();
        let code = match &outcome {
            Ok(_) if !stopped.is_empty() => exit_code::STOPPED,
            Ok(_) => exit_code::SUCCESS,
            Err(error) => error.exit_code(),
        };
        let result = outcome.as_ref().map_or_else(|error| error.to_string(), |ended| ended.name().to_owned());
        let summary = json!({
            "event": "end",
            "result": result,
            "exit_code": code,
            "elapsed_s": self.machine.elapsed().as_secs_f64(),
            "partitions": self.machine.observer().map(partitions_json),
            "instructions": self.counts_json(),
        });
        // The output may be closed; the exit code still tells.
        let _ = self.show.value(&summary);
        if arguments.format == Format::Text {
            self.print_summary(&stopped);
        }
        match (outcome, logged) {
            (Ok(_), logged) => logged.map(|()| code),
            (Err(error), Ok(())) => Err(error),
            (Err(error), Err(unwritten)) => {
                bulkhead_files::complain!("error: {unwritten}");
                Err(error)
            }
        }
    }

    /// Who ran when, in the rings of the monitor, in the payload's records, or in both on one time line.
    fn take_timeline(&mut self, icount: Option<u8>) -> Option<Timeline> {
        let collector = self.trace.take();
        let records = self.machine.take_records();
        let below = collector
            .zip(self.machine.observer())
            .map(|(collector, observer)| timeline_of(&collector.finish(observer), observer, &self.name, icount));
        let above = self.worlds.as_ref().zip(records);
        match (below, above, self.machine.observer()) {
            (Some(below), Some((worlds, records)), Some(observer)) => {
                Some(worlds.join(below, observer.plan(), icount, &records))
            }
            (None, Some((worlds, records)), _) => Some(worlds.timeline(&self.name, icount, &records)),
            (below, ..) => below,
        }
    }

    fn counts_json(&self) -> Value {
        let Ok(counts) = self.machine.counts() else { return Value::Null };
        let cores = counts.cores.iter().enumerate().map(|(core, counts)| {
            let monitor = counts.range("monitor");
            json!({
                "core": core,
                "all": counts.all,
                "monitor": monitor.map(|range| range.total),
                "all_since_guest_entry": counts.all_since,
                "monitor_since_guest_entry": monitor.map(|range| range.since),
            })
        });
        Value::Array(cores.collect())
    }

    fn print_summary(&self, stopped: &[String]) {
        for line in stopped {
            bulkhead_files::complain!("{}", styled(line, FAULT, output::colours_of_errors()));
        }
        let Ok(counts) = self.machine.counts() else { return };
        let mut text = String::from("instructions per core (counts, not cycles):\n");
        for (core, counts) in counts.cores.iter().enumerate().filter(|(_, counts)| counts.all > 0) {
            let since = counts.range("monitor").map_or(0, |range| range.since);
            let all = counts.all;
            text.push_str(&format!(
                "  core {core}: {all} in all, {since} in the monitor since its guest was entered\n"
            ));
        }
        bulkhead_files::output::print(&text);
    }
}

fn crash_of(event: Event) -> Option<RunError> {
    match event {
        Event::MonitorCrash(report) => Some(RunError::MonitorCrashed(report)),
        _ => None,
    }
}

/// Says which partitions their health policies stopped, and why.
fn stopped_partitions(observer: &Observer) -> Vec<String> {
    let stopped = (0..observer.partition_count()).filter_map(|partition| {
        let status = observer.status(partition);
        let name = observer.plan().partition_name(partition);
        let (state, reason) = (state_name(status.state), reason_name(status.reason));
        let place = place_of(observer.plan(), &status.fault);
        (status.state == STATE_STOPPED).then(|| format!("partition {name} was {state}: {reason} ({place})"))
    });
    stopped.collect()
}
