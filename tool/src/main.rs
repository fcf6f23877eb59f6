//! The command `bulkhead`.
//!
//! The list of commands is in the library, so that the reference of the book is made of the same definition (tests/ledger).
#![forbid(unsafe_code)]
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod explain;
mod shell;

use bulkhead_demo as demo;
use bulkhead_description::{board, command as description};
use bulkhead_draft::command as draft;
use bulkhead_files::output;
use bulkhead_image as image;
use bulkhead_report as report;
use bulkhead_run::command as machine;
use bulkhead_simulate as simulate;
use bulkhead_timing as timing;
use bulkhead_tool::{Arguments, BoardCommand, Command};
use bulkhead_verify as verify;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Whatever reads a description refuses one whose time does not suffice.
    let check = timing::Assumptions::default();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(message) => return output::result(say(&message)),
    };
    output::result(match arguments.command {
        Command::Check(arguments) => match &arguments.check.explain {
            Some(code) => explain::explain(Some(code)),
            None => timing::command::check(&arguments),
        },
        Command::Build(arguments) => image::build(&arguments, &check),
        Command::Inspect(arguments) => image::inspect(&arguments, &check),
        Command::Verify(arguments) => verify::verify(&arguments),
        Command::Simulate { arguments, time } => simulate::simulate(&arguments, &time.assumptions()),
        Command::Run(arguments) => demo::run(&arguments, &check),
        Command::Attach(arguments) => machine::attach(&arguments),
        Command::Stats(arguments) => machine::stats(&arguments),
        Command::Trace(arguments) => machine::trace(&arguments),
        Command::Report(arguments) => report::report(&arguments, &check),
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Explain(arguments) => explain::explain(arguments.code.as_deref()),
        Command::Schema(arguments) => description::schema(&arguments),
        Command::Board { command: BoardCommand::Draft(arguments) } => draft::run(&arguments),
        Command::Board { command: BoardCommand::Check(arguments) } => board::command::check(&arguments),
        Command::Completions(arguments) => shell::completions(&arguments),
        Command::Man(arguments) => shell::man(&arguments),
    })
}

/// Prints what clap has to say: the text of `--help` (exit code 0), or what is wrong with the command line (2).
fn say(message: &clap::Error) -> ExitCode {
    let text = message.render();
    // clap's own styles, where the stream has colours.
    match message.use_stderr() {
        true if output::colours_of_errors() => output::complain(&text.ansi().to_string()),
        true => output::complain(&text.to_string()),
        false if output::colours() => output::print(&text.ansi().to_string()),
        false => output::print(&text.to_string()),
    }
    ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2))
}
