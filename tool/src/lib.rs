//! The command line of `bulkhead`: every command with its arguments.
//!
//! Only the list of commands is here. Each command is a pair of arguments and a function in the crate of its task, so that
//! a task can be used without the command line and this file stays a table. A library, because the book's reference of the
//! commands is rendered from this very definition (tests/ledger).
#![forbid(unsafe_code)]

use bulkhead_demo as demo;
use bulkhead_description::command as description;
use bulkhead_image as image;
use bulkhead_report as report;
use bulkhead_run::command as machine;
use bulkhead_simulate as simulate;
use bulkhead_timing as timing;
use bulkhead_verify as verify;
use clap::{Parser, Subcommand};

/// Partitions that nothing can break out of: check, build, verify and run a system.
#[derive(Debug, Parser)]
#[command(name = "bulkhead", version, propagate_version = true, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Shown at the end of `bulkhead --help`.
const EXIT_CODES: &str = "\
Exit codes:
  0  done, or accepted
  1  refused by a check
  2  wrong usage
  3  environment: a file, a program or the machine
  4 and more  `run` only, see `bulkhead run --help`

Environment:
  BULKHEAD_GUESTS  directory of built guests, which the prefix `guest:` means
  BULKHEAD_BOARD   board in place of the one that a description names: a built-in one, or the path of a board file
  BULKHEAD_QEMU    the QEMU program";

/// The commands, in the order of use.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a system description and report every mistake.
    Check(timing::command::CheckArguments),
    /// Build the boot image of a system.
    Build(image::BuildArguments),
    /// Show what a system is made of: memory, interrupts, device trees.
    Inspect(image::InspectArguments),
    /// Read a finished image again and prove that its partitions are isolated.
    Verify(verify::VerifyArguments),
    /// Run the scheduler of shared cores on a scenario, without a machine.
    Simulate {
        /// What is simulated.
        #[command(flatten)]
        arguments: simulate::SimulateArguments,
        /// With what the system that the scenario names is checked.
        #[command(flatten)]
        time: timing::assumption::InstructionTime,
    },
    /// Run a system on QEMU with one console per partition.
    Run(machine::RunArguments),
    /// Connect to one partition's console of a running system.
    Attach(machine::AttachArguments),
    /// Show counters and states of a running system.
    Stats(machine::StatsArguments),
    /// Write the trace of a running system for the Perfetto UI.
    Trace(machine::TraceArguments),
    /// Write everything that is known of a system, and of a run of it, on one HTML page.
    Report(report::ReportArguments),
    /// Run the demonstration: a crash, many attacks, and a controller that notices nothing.
    Demo(demo::DemoArguments),
    /// Explain a code such as BH0101, or list all codes.
    Explain(description::ExplainArguments),
    /// Print the JSON Schema of system descriptions or board files, for editors.
    Schema(description::SchemaArguments),
    /// Make drafts of board files, and look at them.
    Board {
        /// What to do.
        #[command(subcommand)]
        command: BoardCommand,
    },
    /// Print the script with which a shell completes commands and options.
    Completions(CompletionsArguments),
    /// Write the manual pages.
    Man(ManArguments),
}

/// The commands about board files, in the order of use.
#[derive(Debug, Subcommand)]
pub enum BoardCommand {
    /// Make a draft of a board file from a device tree.
    Draft(bulkhead_draft::command::DraftArguments),
    /// Say whether Bulkhead can run on a board, and what is in the way.
    Check(bulkhead_description::board::command::BoardCheckArguments),
}

/// Shown at the end of `bulkhead completions --help`.
const COMPLETIONS_HELP: &str = "\
Where the script goes:
  bash  bulkhead completions bash > ~/.local/share/bash-completion/completions/bulkhead
  zsh   bulkhead completions zsh > DIR/_bulkhead, where DIR is in $fpath
  fish  bulkhead completions fish > ~/.config/fish/completions/bulkhead.fish";

/// Arguments of `bulkhead completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct CompletionsArguments {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Arguments of `bulkhead man`.
#[derive(Debug, clap::Args)]
pub struct ManArguments {
    /// Directory for the pages, which is made if it is missing; `man` finds those in ~/.local/share/man/man1.
    #[arg(value_name = "DIR")]
    pub directory: std::path::PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_description() {
        for command in Arguments::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{} has none", command.get_name());
        }
    }
}
