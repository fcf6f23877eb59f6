//! The command `board draft`: makes a draft of a board file from a device tree.

use crate::{Draft, draft};
use bulkhead_description::command::{EXIT_ENVIRONMENT, EXIT_REFUSED, print};
use bulkhead_description::reason;
use bulkhead_files::{complain, read, say, write};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Shown at the end of `bulkhead board draft --help`.
const DRAFT_HELP: &str = "\
A value that the tree does not have is a TODO with what to find out; the other comments name the nodes that facts come from.

Examples:
  bulkhead board draft board.dtb -o boards/mine.toml
  bulkhead board draft /sys/firmware/fdt -o mine.toml    the tree of this machine, under Linux on the board
  bulkhead board draft board.dtb                         prints the draft

Exit codes:
  0  written, perhaps with warnings
  1  the file is no device tree of a machine
  2  wrong usage
  3  a file cannot be read or written, or is there already";

/// Arguments of `bulkhead board draft`.
#[derive(Args, Clone, Debug)]
#[command(after_help = DRAFT_HELP)]
pub struct DraftArguments {
    /// Flattened device tree (.dtb).
    #[arg(value_name = "TREE")]
    pub tree: PathBuf,
    /// Board file to write; `-` is the output stream [default: -]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace a board file that is there.
    #[arg(long)]
    pub force: bool,
}

/// Runs `bulkhead board draft`.
#[must_use]
pub fn run(arguments: &DraftArguments) -> ExitCode {
    match make(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            complain!("error: {message}");
            ExitCode::from(code)
        }
    }
}

fn make(arguments: &DraftArguments) -> Result<(), (u8, String)> {
    let tree = arguments.tree.display();
    let bytes = read::bytes(&arguments.tree, read::DEVICE_TREE)
        .map_err(|error| (EXIT_ENVIRONMENT, format!("device tree {tree} cannot be read: {}", reason(&error))))?;
    let name = arguments.tree.file_name().unwrap_or_default().to_string_lossy();
    let draft = draft(&bytes, &name).map_err(|error| (EXIT_REFUSED, format!("{tree}: {error}")))?;
    for warning in &draft.warnings {
        complain!("warning: {tree}: {warning}");
    }
    let output = arguments.output.as_deref().filter(|path| *path != Path::new("-"));
    match output {
        None => print(&draft.text),
        Some(path) => publish(path, &draft, arguments.force)?,
    }
    Ok(())
}

/// Writes the draft, but over no work of a person.
fn publish(path: &Path, draft: &Draft, force: bool) -> Result<(), (u8, String)> {
    let shown = path.display();
    if !force && std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file() || found.is_symlink()) {
        let message =
            format!("{shown} is there already, perhaps with values that somebody found out; --force replaces it");
        return Err((EXIT_ENVIRONMENT, message));
    }
    write::whole(path, draft.text.as_bytes()).map_err(|error| {
        (EXIT_ENVIRONMENT, format!("{} cannot be written: {}", error.path.display(), reason(&error.cause)))
    })?;
    say!("{shown}: {} values are still to be found out (TODO); then: bulkhead board check {shown}", draft.todos);
    Ok(())
}
