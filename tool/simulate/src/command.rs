//! The command `bulkhead simulate`.

use crate::event::{Nowhere, Sink};
use crate::instance::{InstanceSimulation, critical_instant};
use crate::json::JsonWriter;
use crate::simulation::{Counts, Limits, Simulation};
use crate::stage::Stage;
use crate::text::TextSink;
use crate::timeline::TimelineSink;
use bulkhead_description::command::{EXIT_ENVIRONMENT, EXIT_REFUSED, EXIT_USAGE, exit_code, print_report};
use bulkhead_description::kernel::is_kernel_file;
use bulkhead_description::scenario::{InstanceScenario, Loaded, load_instance, load_scenario};
use bulkhead_description::unit::duration_option;
use bulkhead_description::{Check, Options, Report};
use bulkhead_files::Output;
use bulkhead_files::write::Stream;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// How long to simulate when nobody says.
const DEFAULT_UNTIL_NS: u64 = 1_000_000_000;

/// Form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SimulateFormat {
    /// A chart, a table and the first events, for people.
    #[default]
    Text,
    /// Every event, as one JSON object.
    Json,
    /// A trace for the Perfetto UI.
    Perfetto,
    /// Nothing: with --rate, to measure.
    None,
}

/// Run the scheduler of shared cores, or of an instance of the real-time kernel, on a scenario.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct SimulateArguments {
    /// Scenario (TOML): a schedule, or the name of a system description or of an instance, and what arrives. Of a `NAME.kernel.toml` everything arrives at once.
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// How long to simulate, such as "100 ms" [default: what the scenario says, else "1 s"]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub until: Option<u64>,
    /// End after this many events.
    #[arg(long, value_name = "NUMBER")]
    pub events: Option<u64>,
    /// Of an instance: what each change of who works takes, such as "24 us"; who comes pays.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub exchange: Option<u64>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = SimulateFormat::Text)]
    pub format: SimulateFormat,
    /// File to write instead of the output stream; `perfetto` needs one.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Directory of built guests, for a system description whose paths begin with `guest:`.
    #[arg(long, value_name = "DIR")]
    pub guests: Option<PathBuf>,
    /// Say on the error stream how many events there were each second of real time.
    #[arg(long)]
    pub rate: bool,
}

const AFTER_HELP: &str = "\
The scheduler is the monitor's or the kernel's own code; the time of switches is left out.

Examples:
  bulkhead simulate docs/scenarios/quest-figure-4.toml
  bulkhead simulate scenario.toml --until \"50 ms\" --format json
  bulkhead simulate scenario.toml --format perfetto -o scenario.perfetto-trace
  bulkhead simulate flight.kernel.toml --until \"200 ms\"

Exit codes:
  0  simulated
  1  the scenario or its system description is refused
  2  wrong usage
  3  a file cannot be read or written";

fn duration(text: &str) -> Result<u64, String> {
    duration_option(text, "ms")
}

/// What is simulated.
enum Subject {
    Cores(Box<Simulation>),
    Instance(Box<InstanceSimulation>),
}

impl Subject {
    fn stage(&self) -> &dyn Stage {
        match self {
            Self::Cores(simulation) => simulation.as_ref(),
            Self::Instance(simulation) => simulation.as_ref(),
        }
    }

    fn run(&mut self, sink: &mut dyn Sink) -> io::Result<Counts> {
        match self {
            Self::Cores(simulation) => simulation.run(sink),
            Self::Instance(simulation) => simulation.run(sink),
        }
    }
}

/// Reads what is to be simulated, and says what the description's warnings are.
fn subject(arguments: &SimulateArguments, check: &dyn Check) -> Result<(Subject, u64), ExitCode> {
    let options = Options::from_environment(arguments.guests.clone());
    let path = &arguments.scenario;
    let loaded = if is_kernel_file(path) {
        load_instance(path, &options).map(|instance| {
            let (arrivals, made) = critical_instant(&instance);
            let warnings = Report::default();
            Loaded::Instance(Box::new(InstanceScenario { instance, arrivals, made, until_ns: None, warnings }))
        })
    } else {
        load_scenario(path, &options, check)
    };
    let loaded = loaded.map_err(|report| {
        print_report(&report);
        exit_code(&report)
    })?;
    let (until_ns, warnings) = match &loaded {
        Loaded::Cores(scenario) => (scenario.until_ns, &scenario.warnings),
        Loaded::Instance(scenario) => (scenario.until_ns, &scenario.warnings),
    };
    print_report(warnings);
    let until_ns = arguments.until.or(until_ns).unwrap_or(DEFAULT_UNTIL_NS);
    let limits = Limits { until_ns, events: arguments.events.unwrap_or(u64::MAX) };
    let made = match loaded {
        Loaded::Cores(_) if arguments.exchange.is_some() => {
            bulkhead_files::complain!("error: `--exchange` is for an instance: of shared cores switches cost nothing");
            return Err(ExitCode::from(EXIT_USAGE));
        }
        Loaded::Cores(scenario) => Simulation::new(*scenario, limits).map(|made| Subject::Cores(Box::new(made))),
        Loaded::Instance(scenario) => {
            let made = InstanceSimulation::new(*scenario, limits, arguments.exchange.unwrap_or(0));
            made.map(|made| Subject::Instance(Box::new(made)))
        }
    };
    made.map(|subject| (subject, until_ns)).map_err(|message| {
        bulkhead_files::complain!("error: {message}");
        ExitCode::from(EXIT_REFUSED)
    })
}

/// Runs `bulkhead simulate`.
#[must_use]
pub fn simulate(arguments: &SimulateArguments, check: &dyn Check) -> ExitCode {
    let (mut simulation, until_ns) = match subject(arguments, check) {
        Ok(found) => found,
        Err(code) => return code,
    };
    if arguments.format == SimulateFormat::Perfetto && arguments.output.is_none() {
        bulkhead_files::complain!("error: `--format perfetto` writes a binary file: name it with `-o FILE`");
        return ExitCode::from(EXIT_USAGE);
    }
    let start = Instant::now();
    match write(arguments, &mut simulation, until_ns) {
        Ok(counts) => {
            if arguments.rate {
                let seconds = start.elapsed().as_secs_f64();
                let rate = counts.events as f64 / seconds.max(f64::MIN_POSITIVE);
                let (events, choices) = (counts.events, counts.choices);
                bulkhead_files::complain!(
                    "{events} events and {choices} choices in {seconds:.2} s: {rate:.0} events per second"
                );
            }
            ExitCode::SUCCESS
        }
        // Of the output stream the end of the program speaks.
        Err(error) => match &arguments.output {
            None => ExitCode::SUCCESS,
            Some(path) => {
                bulkhead_files::complain!("error: cannot write to {}: {error}", path.display());
                ExitCode::from(EXIT_ENVIRONMENT)
            }
        },
    }
}

/// Where the result goes.
enum Destination {
    File(Stream),
    Output(BufWriter<Output>),
}

impl Destination {
    fn open(path: Option<&Path>) -> io::Result<Self> {
        Ok(match path {
            Some(path) => Self::File(Stream::create(path)?),
            None => Self::Output(BufWriter::new(Output)),
        })
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::File(stream) => stream.finish(),
            Self::Output(mut output) => output.flush(),
        }
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(stream) => stream.write(bytes),
            Self::Output(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(stream) => stream.flush(),
            Self::Output(output) => output.flush(),
        }
    }
}

fn write(arguments: &SimulateArguments, simulation: &mut Subject, until_ns: u64) -> io::Result<Counts> {
    let path = arguments.output.as_deref();
    match arguments.format {
        SimulateFormat::None => simulation.run(&mut Nowhere),
        SimulateFormat::Text => {
            let mut sink = TextSink::new(simulation.stage(), until_ns);
            let counts = simulation.run(&mut sink)?;
            let mut output = Destination::open(path)?;
            output.write_all(sink.text(simulation.stage(), counts).as_bytes())?;
            output.finish()?;
            Ok(counts)
        }
        SimulateFormat::Json => {
            let mut output = Destination::open(path)?;
            let mut sink = JsonWriter::new(&mut output, simulation.stage())?;
            let counts = simulation.run(&mut sink as &mut dyn Sink)?;
            sink.finish(simulation.stage())?;
            output.finish()?;
            Ok(counts)
        }
        SimulateFormat::Perfetto => {
            let mut sink = TimelineSink::new(simulation.stage());
            let counts = simulation.run(&mut sink)?;
            let timeline = sink.finish(counts.cut_ns.unwrap_or(until_ns));
            let mut output = Destination::open(path)?;
            output.write_all(&bulkhead_trace::perfetto::write(&timeline))?;
            output.finish()?;
            Ok(counts)
        }
    }
}
