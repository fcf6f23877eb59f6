//! `bulkhead report`: gathers what a page is written from and writes it.

use crate::experiment::Experiment;
use crate::page::{Evidence, Input, write};
use crate::timing::{CoreTiming, ServerNames, Timing};
use crate::worlds::{WorldsInput, write_worlds};
use bulkhead_description::{Options, Report, load};
use bulkhead_files::read;
use bulkhead_flash::Flash;
use bulkhead_image::{BuiltFlash, Image, build_flash, build_image, read_monitor, world_maps};
use bulkhead_plan::model::{Secure, System};
use bulkhead_plan::{fronts, part_of};
use bulkhead_run::command::read_timeline;
use bulkhead_run::worlds::PAYLOAD;
use bulkhead_timing::{Assumptions, payload};
use bulkhead_trace::{ChannelLayout, Layout, ServerLayout, Timeline};
use bulkhead_verify::world::{FlashVerdict, SecureMonitor, verify_flash, verify_hybrid};
use bulkhead_verify::{Expected, Finding};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code for a description or an image that is refused.
const REFUSED: u8 = 1;
/// Exit code for a file that is missing or cannot be written.
const ENVIRONMENT: u8 = 3;

/// Arguments of `bulkhead report`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArguments {
    /// System description, or the directory that holds `system.toml`.
    pub system: PathBuf,
    /// Directory of built guests, for paths that begin with `guest:`.
    #[arg(long, value_name = "DIR")]
    pub guests: Option<PathBuf>,
    /// ELF file of the monitor, or folder of its parts [default: $BULKHEAD_MONITOR, else what this tool contains]
    #[arg(long, value_name = "PATH")]
    pub monitor: Option<PathBuf>,
    /// Trace of a run of this system (`bulkhead run --trace`), to be shown and measured.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Directory with results of `./x bench`, to be shown as tables and plots.
    #[arg(long, value_name = "DIR")]
    pub bench: Option<PathBuf>,
    /// Page to write [default: NAME.html]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Why there is no page; everything was said already if the message is empty.
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    fn environment(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: ENVIRONMENT }
    }
}

/// Runs `bulkhead report`.
///
/// Exit codes: 0 the page was written, 1 the description or the image is refused, 3 a file is missing or cannot be written.
#[must_use]
pub fn report(arguments: &ReportArguments, assumptions: &Assumptions) -> ExitCode {
    match gather_and_write(arguments, assumptions) {
        Ok(code) => code,
        Err(failure) => {
            if !failure.message.is_empty() {
                bulkhead_files::complain!("error: {}", failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

fn gather_and_write(arguments: &ReportArguments, assumptions: &Assumptions) -> Result<ExitCode, Failure> {
    let options = Options::from_environment(arguments.guests.clone());
    let loaded = load(&arguments.system, &options, assumptions).map_err(|report| {
        bulkhead_description::command::print_report(&report);
        Failure { message: String::new(), code: if report.has_environment_errors() { ENVIRONMENT } else { REFUSED } }
    })?;
    let system = loaded.system;
    if let Some(secure) = &system.secure {
        return report_worlds(arguments, assumptions, (&system, secure), &loaded.warnings);
    }
    report_partitions(arguments, assumptions, &system, loaded.warnings)
}

/// The page of a system without a secure section.
fn report_partitions(
    arguments: &ReportArguments,
    assumptions: &Assumptions,
    system: &System,
    warnings: Report,
) -> Result<ExitCode, Failure> {
    let image = read_monitor(arguments.monitor.as_deref(), part_of(system))
        .and_then(|monitor| build_image(system, &monitor))
        .map_err(|error| Failure {
            message: error.to_string(),
            code: if error.is_environment() { ENVIRONMENT } else { REFUSED },
        })?;
    let expected = Expected::read(arguments.monitor.as_deref()).map_err(Failure::environment)?;
    let timing = Timing::of_system(system, &server_names(&arguments.system), assumptions);
    let timeline = arguments.trace.as_deref().map(|path| timeline(path, system, &timing.cores)).transpose()?;
    let experiments = arguments.bench.as_deref().map(Experiment::read_all).transpose().map_err(Failure::environment)?;
    let evidence = evidence_of(&image.bytes, &expected, warnings);
    let page = write(Input {
        system,
        plan: &image.plan,
        evidence: &evidence,
        timing: &timing,
        timeline: timeline.as_ref(),
        experiments: experiments.as_deref().unwrap_or_default(),
    });
    save(arguments, system, &page)?;
    judge(&evidence.verdict.findings)
}

/// Writes the page.
fn save(arguments: &ReportArguments, system: &System, page: &str) -> Result<(), Failure> {
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.html", system.name)));
    bulkhead_files::write::whole(&output, page.as_bytes()).map_err(|error| {
        Failure::environment(format!("cannot write the report to {}: {}", output.display(), error.cause))
    })?;
    bulkhead_files::say!("report of {} in {}", system.name, output.display());
    Ok(())
}

fn judge(findings: &[Finding]) -> Result<ExitCode, Failure> {
    let Some(finding) = findings.first() else { return Ok(ExitCode::SUCCESS) };
    Err(Failure {
        message: format!("the image is not verified: {finding}; the report has all findings"),
        code: REFUSED,
    })
}

/// The page of a system with a secure section.
fn report_worlds(
    arguments: &ReportArguments,
    assumptions: &Assumptions,
    (system, secure): (&System, &Secure),
    warnings: &Report,
) -> Result<ExitCode, Failure> {
    if arguments.bench.is_some() {
        let message = "`--bench` is not built yet for a system with a secure section; leave it out";
        return Err(Failure { message: message.to_owned(), code: REFUSED });
    }
    let BuiltFlash { flash, below } = build_flash(system, arguments.monitor.as_deref()).map_err(|error| Failure {
        message: error.to_string(),
        code: if error.is_environment() { ENVIRONMENT } else { REFUSED },
    })?;
    let (verdict, evidence) = judge_flash(arguments, &flash, below.as_ref())?;
    let nothing = || Failure::environment("the secure section went away while it was read");
    let maps = world_maps(system, &flash).ok_or_else(nothing)?;
    let bounds = payload::bounds(system, assumptions).ok_or_else(nothing)?;
    let timeline = arguments.trace.as_deref().map(|path| worlds_timeline(path, system, secure)).transpose()?;
    let timing = Timing::of_system(system, &server_names(&arguments.system), assumptions);
    let below = below.as_ref().zip(evidence.as_ref()).map(|(image, evidence)| Input {
        system,
        plan: &image.plan,
        evidence,
        timing: &timing,
        timeline: timeline.as_ref(),
        experiments: &[],
    });
    let page = write_worlds(&WorldsInput {
        system,
        secure,
        flash: &flash,
        maps: &maps,
        warnings,
        verdict: &verdict,
        flash_hash: &hexadecimal(&bulkhead_verify::hash(&flash.bytes)),
        bounds: &bounds,
        assumptions,
        timeline: timeline.as_ref(),
        below: below.as_ref(),
    });
    save(arguments, system, &page)?;
    judge(&verdict.findings)
}

/// Reads a flash file again, and by itself the image of partitions in it.
fn judge_flash(
    arguments: &ReportArguments,
    flash: &Flash,
    below: Option<&Image>,
) -> Result<(FlashVerdict, Option<Evidence>), Failure> {
    let monitor = arguments.monitor.as_deref();
    let Some(image) = below else {
        let expected = SecureMonitor::read(monitor).map_err(Failure::environment)?;
        return Ok((verify_flash(&flash.bytes, &expected), None));
    };
    let above = SecureMonitor::read_of_cores(monitor).map_err(Failure::environment)?;
    // As `build`: `--monitor` names the secure monitor, and the one below it is the one that is found.
    let expected = Expected::read(None).map_err(Failure::environment)?;
    let evidence = evidence_of(&image.bytes, &expected, Report::default());
    Ok((verify_hybrid(&flash.bytes, &above, &expected), Some(evidence)))
}

/// What is known of an image.
fn evidence_of(image: &[u8], expected: &Expected, warnings: Report) -> Evidence {
    Evidence {
        warnings,
        verdict: bulkhead_verify::verify_bytes(image, expected),
        image_hash: hexadecimal(&bulkhead_verify::hash(image)),
        image_bytes: image.len() as u64,
    }
}

/// Reads the names of servers. The description was just accepted; should it be gone, servers go by number.
fn server_names(system: &Path) -> ServerNames {
    let path = if system.is_dir() { system.join("system.toml") } else { system.to_path_buf() };
    ServerNames::of_description(&read::text(&path, read::DESCRIPTION).unwrap_or_default())
}

/// Reads the trace and gives it the names of the description, which knows more of them than an image does.
fn timeline(path: &Path, system: &System, cores: &[CoreTiming]) -> Result<Timeline, Failure> {
    let mut timeline =
        read_timeline(path).map_err(|error| Failure { message: error.to_string(), code: error.exit_code() })?;
    let described = layout(system, cores, &timeline.layout);
    if described.partitions != timeline.layout.partitions || !same_shape(&described, &timeline.layout) {
        let message = format!(
            "{} is a trace of another system: it has the partitions {} on {} cores, {} has {} on {}",
            path.display(),
            timeline.layout.partitions.join(", "),
            timeline.layout.cores.len(),
            system.name,
            described.partitions.join(", "),
            described.cores.len(),
        );
        return Err(Failure { message, code: REFUSED });
    }
    timeline.layout = described;
    Ok(timeline)
}

/// The same of two worlds. A payload knows what kind a server is, the description its name.
fn worlds_timeline(path: &Path, system: &System, secure: &Secure) -> Result<Timeline, Failure> {
    let mut timeline =
        read_timeline(path).map_err(|error| Failure { message: error.to_string(), code: error.exit_code() })?;
    let world = secure.below_name().unwrap_or("world");
    let described: Vec<&str> = system.partitions.iter().map(|partition| partition.name.as_str()).collect();
    let layout = &mut timeline.layout;
    for (shown, channel) in layout.channels.iter_mut().zip(&system.channels) {
        shown.name.clone_from(&channel.name);
    }
    // Rings of partitions that were looked at while they ran; a payload's records are nowhere then.
    if !described.is_empty() && layout.partitions == described {
        timeline.warnings.push(WITHOUT_PAYLOAD.to_owned());
        return Ok(timeline);
    }
    let (payload, below) = (described.len(), described.len() + 1);
    let mut servers: Vec<_> = secure.servers.iter().collect();
    servers.sort_by_key(|server| std::cmp::Reverse(server.priority));
    let has_names = layout.partitions.len() == below + 1
        && layout.partitions.iter().zip(described.iter().chain([&PAYLOAD])).all(|(traced, known)| traced == known)
        && (secure.hybrid().is_some() || layout.partitions[below] == world);
    let core = layout.cores.iter_mut().find(|core| core.slots.iter().any(|slot| slot.partition == payload));
    let place = core.as_ref().and_then(|core| core.slots.iter().position(|slot| slot.partition == below));
    let traced = core.map(|core| core.servers.as_mut_slice()).unwrap_or_default();
    // Those of the payload are behind them.
    let is_below = |server: &ServerLayout| Some(server.slot) == place;
    let has_all = traced.iter().take_while(|server| is_below(server)).count() == servers.len();
    if !has_names || !has_all {
        let message = format!("{} is a trace of another system than {}", path.display(), system.name);
        return Err(Failure { message, code: REFUSED });
    }
    for (shown, server) in traced.iter_mut().zip(servers) {
        shown.name = format!("{world}.{}", server.name);
    }
    if let Some(name) = layout.partitions.get_mut(below) {
        world.clone_into(name);
    }
    Ok(timeline)
}

/// What is missing in a trace of partitions below a payload that was taken while they ran.
const WITHOUT_PAYLOAD: &str = "the records of the payload are not in this trace: `bulkhead run --trace` alone has them";

fn layout(system: &System, cores: &[CoreTiming], traced: &Layout) -> Layout {
    let doorbell = |index: usize| traced.channels.get(index).and_then(|channel| channel.doorbell_interrupt);
    let channels = system.channels.iter().enumerate().map(|(index, channel)| ChannelLayout {
        name: channel.name.clone(),
        source: channel.source.partition,
        destination: channel.destination.partition,
        doorbell_interrupt: doorbell(index),
    });
    let of_virtio = system.virtio.iter().enumerate().flat_map(|(device, one)| {
        [("notifications", one.front, one.back), ("interrupts", one.back, one.front)].map(
            |(what, source, destination)| {
                let index = fronts::channel_of(system, device, source == one.front);
                let name = format!("{}, {what}", one.name);
                ChannelLayout { name, source, destination, doorbell_interrupt: doorbell(index) }
            },
        )
    });
    Layout {
        system: system.name.clone(),
        clock: traced.clock.clone(),
        partitions: system.partitions.iter().map(|partition| partition.name.clone()).collect(),
        cores: cores.iter().map(CoreTiming::layout).collect(),
        channels: channels.chain(of_virtio).collect(),
    }
}

/// States whether both have the same vCPUs and numbers of servers on the same cores.
fn same_shape(one: &Layout, other: &Layout) -> bool {
    let shape = |layout: &Layout| -> Vec<_> {
        layout.cores.iter().map(|core| (core.is_shared, core.slots.clone(), core.servers.len())).collect()
    };
    shape(one) == shape(other)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
