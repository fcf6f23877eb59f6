//! The command `bulkhead bench`.

use crate::{Failure, measure, record, report};
use bulkhead_run::command::Format;
use bulkhead_run::exit_code;
use clap::Args;
use std::process::ExitCode;

/// Measures every promised number and compares it with its ceiling.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct BenchArguments {
    /// Rows (`timer.direct`) or groups (`timer`) to measure [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print the names of the rows and what they are, and measure nothing.
    #[arg(long, conflicts_with_all = ["names", "record"])]
    list: bool,

    /// Leave out the rows that boot Linux; the rest takes about a minute.
    #[arg(long)]
    short: bool,

    /// Print the commands of the runs as well: how the image is built and how QEMU is started.
    #[arg(long)]
    commands: bool,

    /// Write the rows to docs/measurements.json and docs/measurements.md of the repository; needs all of them.
    #[arg(long, conflicts_with_all = ["names", "short"])]
    record: bool,

    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

const AFTER_HELP: &str = "\
All numbers of time are instructions, not cycles.

Examples:
  bulkhead bench                     measures everything, in some minutes
  bulkhead bench timer               measures one group
  bulkhead bench --short             leaves out what boots Linux
  bulkhead bench --format json       prints one JSON object

Exit codes:
  0  every row that ran is met
  1  a row is missed, or a run did not do what it should
  2  wrong usage, or no such row
  3  the host lacks something
  4  QEMU failed
  5  a monitor failed
  6  a run did not end";

/// Runs `bulkhead bench`.
#[must_use]
pub fn bench(arguments: &BenchArguments) -> ExitCode {
    match run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("error: {}", failure.message);
            ExitCode::from(failure.exit_code)
        }
    }
}

fn run(arguments: &BenchArguments) -> Result<u8, Failure> {
    if arguments.list {
        print!("{}", report::list());
        return Ok(exit_code::SUCCESS);
    }
    let is_text = arguments.format == Format::Text;
    if is_text {
        println!("{}\n", report::INSTRUCTIONS);
    }
    let names = if arguments.short { without_slow(&arguments.names)? } else { arguments.names.clone() };
    let outcomes = measure(&names, |outcome| {
        if is_text {
            println!("{}", report::text(outcome, arguments.commands));
        }
    })?;
    match arguments.format {
        Format::Text => println!("{}", report::verdict_line(&outcomes)),
        Format::Json => println!("{:#}", report::json_form(&outcomes)),
    }
    if arguments.record {
        record::write(&outcomes)?;
    }
    let failed = outcomes.iter().find_map(|outcome| outcome.found.as_ref().err());
    let all_good = outcomes.iter().all(|outcome| outcome.verdict().is_good());
    Ok(match failed {
        Some(failure) => failure.exit_code,
        None if all_good => exit_code::SUCCESS,
        None => exit_code::FAILURE,
    })
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
