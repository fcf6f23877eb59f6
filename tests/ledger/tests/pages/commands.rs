//! The commands of the tool and their exit codes.

use super::generated;
use bulkhead_ledger::items::constants;
use bulkhead_ledger::page;
use bulkhead_ledger::table::{cell, head, row};
use bulkhead_tool::Arguments;
use clap::{Arg, Command, CommandFactory};

/// The chapter about the command line: what `bulkhead --help` and `bulkhead COMMAND --help` print, from the definition that the
/// tool itself reads its arguments with. So neither a command nor an option can be missing.
pub(super) fn page() -> String {
    let mut text = String::from("# Commands\n\n") + &generated("the command line of the tool (`tool/src/lib.rs`)");
    let commands: Vec<(String, Command)> = Arguments::command().get_subcommands().flat_map(leaves).collect();
    assert!(commands.len() >= 10, "{} commands", commands.len());
    text += &head(&["command", "does"]);
    for (name, command) in &commands {
        let anchor = name.replace(' ', "-");
        text += &row(&[&format!("[`bulkhead {name}`](#bulkhead-{anchor})"), &cell(&about(command))]);
    }
    for (name, command) in commands {
        let about = about(&command);
        let command = command.bin_name(format!("bulkhead {name}"));
        text += &format!("\n## bulkhead {name}\n\n{about}\n\n{}", help(command));
    }
    text + &benchmark()
}

/// A command, or the commands of a group such as `board check`, by their whole names.
fn leaves(command: &Command) -> Vec<(String, Command)> {
    let name = command.get_name();
    if command.has_subcommands() {
        return command.get_subcommands().map(|one| (format!("{name} {}", one.get_name()), one.clone())).collect();
    }
    vec![(name.to_owned(), command.clone())]
}

/// The help of a command without its first sentence, which stands above it.
fn help(command: Command) -> String {
    let mut command = command.about(None::<&str>).long_about(None::<&str>);
    let help = command.render_long_help().to_string();
    for option in command.get_arguments().filter(|one| !one.is_hide_set()).filter_map(Arg::get_long) {
        assert!(help.contains(&format!("--{option}")), "the help of `{}` does not name --{option}", command.get_name());
    }
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", lines.join("\n").trim())
}

/// The benchmark, which is a program of the repository and no command of the tool.
fn benchmark() -> String {
    let mut command = bulkhead_bench::BenchArguments::command();
    command.build();
    let soak = command.find_subcommand("soak").expect("the random attacker").clone();
    let section = |title: &str, command: Command| format!("\n## {title}\n\n{}\n\n{}", about(&command), help(command));
    section("./x bench", command) + &section("./x bench soak", soak)
}

/// The sentence that says what a command does.
fn about(command: &Command) -> String {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    // clap takes the full stop away from a single sentence.
    if about.ends_with('.') { about } else { about + "." }
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
