//! The board files of the repository, built into the tool.

use super::read;
use crate::diagnostic::Report;
use bulkhead_plan::model;

/// Board files that are built into the tool.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Name and text of each.
    pub files: &'static [(&'static str, &'static str)],
    /// Name of the board that is meant where none is named: by a scenario, or by a guest without a monitor.
    pub default: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// Returns the boards that the tool knows without a file, for commands that look at a machine and have no description.
#[must_use]
pub fn built_in() -> Vec<model::Board> {
    let read = |(name, text): &(&str, &str)| {
        let mut report = Report::default();
        let file = report.sources.add(format!("boards/{name}.toml"), *text);
        read(file, text, &mut report).map(|resolved| resolved.board)
    };
    BUILT_IN.files.iter().filter_map(read).collect()
}

/// Returns the built-in board of a name.
#[must_use]
pub fn built_in_board(name: &str) -> Option<model::Board> {
    built_in().into_iter().find(|board| board.name == name)
}
