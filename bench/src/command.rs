//! The command line of `./x bench`.

use crate::boards::{self, BoardsArguments};
use crate::experiments::{self, Done, Experiment, LEAST_TIGHTNESS, Length, median_tightness};
use crate::soak::{self, SoakArguments};
use crate::{Failure, Outcome, costs, kernel_paths, measure, record, report};
use bulkhead_run::command::Format;
use bulkhead_run::exit_code;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Measure every promised number and compare it with its ceiling.
#[derive(Clone, Debug, Parser)]
// As it is typed: `./x` builds what is measured, then calls this program.
#[command(name = "bench", bin_name = "./x bench", after_help = AFTER_HELP)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct BenchArguments {
    /// Rows (`timer.direct`), groups (`timer`) or experiments (`mips-rtt`; `experiments` for all) [default: everything]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print the names of rows and experiments and what they are, and measure nothing.
    #[arg(long, conflicts_with_all = ["names", "record"])]
    list: bool,

    /// Leave out what boots Linux, unless it is an experiment that is named, and take fewer samples in experiments; the rest takes
    /// some minutes.
    #[arg(long)]
    short: bool,

    /// Print the commands of the runs as well: how the image is built and how QEMU is started.
    #[arg(long)]
    commands: bool,

    /// Write the rows to docs/measurements.json and docs/measurements.md of the repository, and experiments, in their full and in their
    /// short forms, to docs/experiments.json; without names everything, else what is named, and the rest stays as it was recorded.
    #[arg(long, conflicts_with = "short")]
    record: bool,

    /// Measure the rows `costs` and write them to core/analysis, from where `bulkhead check` takes them; then build again.
    #[arg(long, conflicts_with_all = ["names", "short", "record", "list"])]
    record_costs: bool,

    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    #[command(subcommand)]
    task: Option<Task>,
}

/// What is no row and no experiment.
#[derive(Clone, Debug, Subcommand)]
enum Task {
    /// Let a random attacker run beside victims whose bounds `bulkhead check` computes, for as many seeds as you like.
    Soak(SoakArguments),
    /// Make drafts of board files from the device trees of hundreds of real boards, and count what they lack; or run what there is on every
    /// built-in board.
    Boards(BoardsArguments),
    /// Print what the kernel executes in its rows, by function or instruction by instruction.
    KernelPaths(kernel_paths::PathsArguments),
}

const AFTER_HELP: &str = "\
All numbers of time are instructions, not cycles.

Examples:
  ./x bench                     measures everything, in about an hour
  ./x bench --list              prints what there is to measure
  ./x bench --short             leaves out what boots Linux
  ./x bench timer               measures one group of rows
  ./x bench secure              measures what runs at EL3 of two worlds, experiments included
  ./x bench kernel.fork         runs one experiment of the kernel
  ./x bench mips-rtt            runs one experiment and writes target/bench/mips-rtt.json
  ./x bench --format json       prints one JSON object
  ./x bench --record            measures everything and writes it down in docs/
  ./x bench --record mips-rtt   runs one experiment, in full and short, and writes it down
  ./x bench --record size       measures one group of rows and writes it down
  ./x bench --record-costs      measures what `bulkhead check` counts for the monitor, and writes it down
  ./x bench soak --minutes 60   lets the random attacker run for an hour
  ./x bench kernel-paths        prints what the kernel executes in its rows
  ./x bench boards              says on how many real boards Bulkhead could run, by their device trees
  ./x bench boards --rows       prints what the monitor costs on each built-in board
  ./x bench boards --suite      runs the scenarios of the tests on each built-in board

Exit codes:
  0  every row that ran is met
  1  a row is missed, or a run did not do what it should
  2  wrong usage, or no such row
  3  the host lacks something
  4  QEMU failed
  5  a monitor failed
  6  a run did not end";

/// Runs `./x bench`.
#[must_use]
pub fn bench(arguments: &BenchArguments) -> ExitCode {
    match run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            bulkhead_files::complain!("error: {}", failure.message);
            ExitCode::from(failure.exit_code)
        }
    }
}

fn run(arguments: &BenchArguments) -> Result<u8, Failure> {
    match &arguments.task {
        Some(Task::Soak(arguments)) => return soak::run(arguments),
        Some(Task::Boards(arguments)) => return boards::run(arguments),
        Some(Task::KernelPaths(arguments)) => return kernel_paths::run(arguments),
        None => {}
    }
    if arguments.list {
        bulkhead_files::output::print(&report::list());
        for experiment in experiments::all() {
            let slow = if experiment.slow { " (slow)" } else { "" };
            bulkhead_files::say!("{:<23} {}{slow}", experiment.name, experiment.what);
        }
        return Ok(exit_code::SUCCESS);
    }
    if arguments.record_costs {
        bulkhead_files::say!("written to {}; build again", costs::record()?.display());
        return Ok(exit_code::SUCCESS);
    }
    let is_text = arguments.format == Format::Text;
    let (chosen, rows) = choose(arguments)?;
    if is_text {
        bulkhead_files::say!("{}\n", report::INSTRUCTIONS);
    }
    let outcomes = match rows {
        None => Vec::new(),
        Some(names) => measure(&names, |outcome| {
            if is_text {
                bulkhead_files::say!("{}", report::text(outcome, arguments.commands));
            }
        })?,
    };
    // Before the experiments, which take longer: what is measured is not lost when somebody ends them.
    if arguments.record && !outcomes.is_empty() {
        if arguments.names.is_empty() { record::write(&outcomes)? } else { record::renew(&outcomes)? }
    }
    let done = run_experiments(&chosen, arguments)?;
    match arguments.format {
        Format::Text => {
            if !outcomes.is_empty() {
                bulkhead_files::say!("{}", report::verdict_line(&outcomes));
            }
            if !done.is_empty() {
                bulkhead_files::say!("{}", experiment_line(&done));
            }
        }
        Format::Json => {
            let mut form = report::json_form(&outcomes);
            form["experiments"] = done.iter().map(Done::json).collect();
            bulkhead_files::say!("{form:#}");
        }
    }
    Ok(exit_code_of(&outcomes, &done))
}

fn exit_code_of(outcomes: &[Outcome], done: &[Done]) -> u8 {
    let failed = outcomes.iter().find_map(|outcome| outcome.found.as_ref().err());
    let failed = failed.or_else(|| done.iter().find_map(|done| done.findings.as_ref().err()));
    let all_good = outcomes.iter().all(|outcome| outcome.verdict().is_good()) && done.iter().all(Done::holds);
    match failed {
        Some(failure) => failure.exit_code,
        None if all_good => exit_code::SUCCESS,
        None => exit_code::FAILURE,
    }
}

/// The experiments and the rows that are named; no rows at all when only experiments are.
fn choose(arguments: &BenchArguments) -> Result<(Vec<&'static Experiment>, Option<Vec<String>>), Failure> {
    let (experiments, rows): (Vec<&String>, Vec<&String>) =
        arguments.names.iter().partition(|name| experiments::named(name).is_some() || *name == "experiments");
    let wanted = |experiment: &&Experiment| {
        let named = experiments.iter().any(|name| *name == experiment.name);
        // A group of rows has the experiments that begin with its name.
        let of_group = |group: &&String| {
            experiment.name.strip_prefix(group.as_str()).is_some_and(|rest| rest.starts_with(['-', '.']))
        };
        let all = arguments.names.is_empty()
            || experiments.iter().any(|name| *name == "experiments")
            || rows.iter().any(of_group);
        // One that is named has a short form as well.
        named || all && !(arguments.short && experiment.slow)
    };
    let chosen = experiments::all().filter(wanted).collect();
    if !experiments.is_empty() && rows.is_empty() {
        return Ok((chosen, None));
    }
    let names: Vec<String> = rows.into_iter().cloned().collect();
    let names = if arguments.short { without_slow(&names)? } else { names };
    Ok((chosen, Some(names)))
}

/// Runs experiments, as many at once as the host has processors: each runs one machine at a time, and instructions are the same on a
/// busy host. What is found is printed, written and recorded as soon as it is there: the rest may take an hour.
fn run_experiments(chosen: &[&'static Experiment], arguments: &BenchArguments) -> Result<Vec<Done>, Failure> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(chosen.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((place, experiment)) = take_next(&next, chosen) {
                    let result = run_experiment(experiment, arguments);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The next experiment that nobody has taken, with its place in the order.
fn take_next(next: &AtomicUsize, chosen: &[&'static Experiment]) -> Option<(usize, &'static Experiment)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    chosen.get(place).map(|experiment| (place, *experiment))
}

/// Runs one, says what it found, and records it when that is asked for.
fn run_experiment(experiment: &'static Experiment, arguments: &BenchArguments) -> Result<Done, Failure> {
    let length = if arguments.short { Length::Short } else { Length::Full };
    let done = experiments::run(experiment, length)?;
    let path = experiments::write(&done)?;
    if arguments.format == Format::Text {
        bulkhead_files::say!("{}\n  written to {}\n", done.text(arguments.commands), path.display());
    }
    if arguments.record && done.holds() {
        experiments::record(&done)?;
    }
    Ok(done)
}

/// How many experiments hold, in one line.
fn experiment_line(done: &[Done]) -> String {
    let bad: Vec<&str> = done.iter().filter(|done| !done.holds()).map(|done| done.experiment.name).collect();
    let mut text = format!("{} of {} experiments met", done.len() - bad.len(), done.len());
    if !bad.is_empty() {
        text.push_str(&format!("; not met: {}", bad.join(", ")));
    }
    let findings = done.iter().filter_map(|done| done.findings.as_ref().ok());
    if let Some(median) = median_tightness(findings.flat_map(|findings| &findings.bounds)) {
        text.push_str(&format!("; median tightness of all bounds {median:.2}, at least {LEAST_TIGHTNESS}"));
    }
    text
}

/// The chosen rows that do not boot Linux.
fn without_slow(names: &[String]) -> Result<Vec<String>, Failure> {
    let chosen = crate::rows::choose(names)?;
    let quick: Vec<String> = chosen.iter().filter(|row| !row.slow).map(|row| row.name.to_owned()).collect();
    if quick.is_empty() {
        let message = "all of these rows boot Linux, which --short leaves out".to_owned();
        return Err(Failure { message, exit_code: exit_code::USAGE });
    }
    Ok(quick)
}
