//! `bulkhead completions` and `bulkhead man`: what shells and `man` know of the command line, from its one definition.

use bulkhead_files::{output, write};
use bulkhead_tool::{Arguments, CompletionsArguments, ManArguments};
use clap::CommandFactory;
use clap_mangen::Man;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code when a file cannot be written.
const ENVIRONMENT: u8 = 3;

/// Prints the script that makes a shell complete commands and options.
pub(crate) fn completions(arguments: &CompletionsArguments) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "bulkhead", &mut script);
    output::print(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

/// Writes a manual page for the program and for each of its commands: all or none.
pub(crate) fn man(arguments: &ManArguments) -> ExitCode {
    match pages().and_then(|pages| write_all(&arguments.directory, &pages)) {
        Ok(number) => {
            bulkhead_files::say!("{number} pages in {}", arguments.directory.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            bulkhead_files::complain!("error: cannot write manual pages to {}: {error}", arguments.directory.display());
            ExitCode::from(ENVIRONMENT)
        }
    }
}

/// File names and texts of the pages.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    // `man bulkhead-check`, as `git` names its pages: that is what a built command is called.
    let groups = program.get_subcommands().flat_map(|one| std::iter::once(one).chain(one.get_subcommands()));
    let all: Vec<_> = std::iter::once(&program).chain(groups).cloned().collect();
    let render = |command: clap::Command| {
        let page = Man::new(command);
        let mut text = Vec::new();
        page.render(&mut text)?;
        Ok((page.get_filename(), text))
    };
    all.into_iter().map(render).collect()
}

fn write_all(directory: &Path, pages: &[(String, Vec<u8>)]) -> io::Result<usize> {
    std::fs::create_dir_all(directory)?;
    let paths: Vec<PathBuf> = pages.iter().map(|(name, _)| directory.join(name)).collect();
    let files: Vec<(&Path, &[u8])> =
        paths.iter().zip(pages).map(|(path, (_, text))| (path.as_path(), text.as_slice())).collect();
    write::together(&files).map_err(|error| error.cause)?;
    Ok(files.len())
}
