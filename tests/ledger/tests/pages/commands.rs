//! The commands of the tool and their exit codes.

use super::generated;
use bulkhead_ledger::items::{constants, variants};
use bulkhead_ledger::page;
use bulkhead_ledger::table::{cell, head, row};
use clap::{Args, Command};

/// Adds the arguments of a command, if this crate knows them.
fn with_arguments(name: &str) -> Option<Command> {
    use bulkhead_description::command as description;
    use bulkhead_run::command as machine;
    let command = Command::new("bulkhead").bin_name(format!("bulkhead {name}"));
    Some(match name {
        "check" => description::CheckArguments::augment_args(command),
        "explain" => description::ExplainArguments::augment_args(command),
        "schema" => description::SchemaArguments::augment_args(command),
        "build" => bulkhead_image::BuildArguments::augment_args(command),
        "inspect" => bulkhead_image::InspectArguments::augment_args(command),
        "verify" => bulkhead_verify::VerifyArguments::augment_args(command),
        "run" => machine::RunArguments::augment_args(command),
        "simulate" => bulkhead_simulate::SimulateArguments::augment_args(command),
        "report" => bulkhead_report::ReportArguments::augment_args(command),
        "attach" => machine::AttachArguments::augment_args(command),
        "stats" => machine::StatsArguments::augment_args(command),
        "bench" => bulkhead_bench::BenchArguments::augment_args(command),
        "demo" => bulkhead_demo::DemoArguments::augment_args(command),
        "trace" => machine::TraceArguments::augment_args(command),
        _ => return None,
    })
}

/// The chapter about the command line.
pub(super) fn page() -> String {
    let mut text = String::from("# Commands\n\n") + &generated("`tool/src/main.rs` and the arguments of each command");
    let commands = variants(&page::read("tool/src/main.rs"));
    assert!(commands.len() >= 10, "{commands:?}");
    text += &head(&["command", "does"]);
    for command in &commands {
        let name = command.name.to_lowercase();
        text += &row(&[&format!("[`bulkhead {name}`](#bulkhead-{name})"), &cell(&command.documentation)]);
    }
    for command in &commands {
        let name = command.name.to_lowercase();
        text += &format!("\n## bulkhead {name}\n\n{}\n\n", command.documentation);
        match with_arguments(&name) {
            Some(command) => {
                // The types' own comments, which clap would print, repeat the line above.
                let help = command.about(None::<&str>).long_about(None::<&str>).render_long_help().to_string();
                let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
                text += &format!("```text\n{}\n```\n", lines.join("\n").trim());
            }
            None => text += &format!("`bulkhead {name} --help` lists its arguments.\n"),
        }
    }
    text
}

/// The chapter about exit codes.
pub(super) fn exit_codes() -> String {
    let from = generated("`tool/run/src/error.rs`");
    let mut text = format!(
        "# Exit codes\n\n{from}`check`, `build`, `inspect`, `verify`, `explain` and `schema` use 0 to 3; the commands that look at a machine use all.\n\n{}",
        head(&["code", "name", "meaning"])
    );
    let codes = constants(&page::read("tool/run/src/error.rs"), "");
    assert!(codes.len() >= 8, "{codes:?}");
    for code in codes {
        text += &row(&[&code.value, &format!("`{}`", code.name), &cell(&code.documentation)]);
    }
    text + &row(&["130", "", "Interrupted by Ctrl-C; nothing is left behind."])
}
