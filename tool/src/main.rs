//! The command `bulkhead`.
//!
//! Only the list of commands is here. Each command is a pair of arguments and a function in the crate of its task, so that
//! a task can be used without the command line and this file stays a table.
#![forbid(unsafe_code)]

use bulkhead_description::command;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Partitions that nothing can break out of: check, build, verify and run a system.
#[derive(Debug, Parser)]
#[command(name = "bulkhead", version, propagate_version = true, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Shown at the end of `bulkhead --help`.
const EXIT_CODES: &str = "\
Exit codes:
  0  done, or accepted
  1  refused by a check
  2  wrong usage
  3  environment: a file, a program or the machine";

/// The commands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Check a system description and report every mistake.
    Check(command::CheckArguments),
    /// Explain a code such as BH0101, or list all codes.
    Explain(command::ExplainArguments),
    /// Print the JSON Schema of system descriptions or board files, for editors.
    Schema(command::SchemaArguments),
}

fn main() -> ExitCode {
    // clap ends the program itself for `--help` (0) and for wrong usage (2).
    match Arguments::parse().command {
        Command::Check(arguments) => command::check(&arguments),
        Command::Explain(arguments) => command::explain(&arguments),
        Command::Schema(arguments) => command::schema(&arguments),
    }
}
