//! Rows on every built-in board: the price of a board beside the reference.
//!
//! A row is measured on a board by building its system for it; the bare board, with which some rows compare, stays the reference, because
//! instructions of a guest are the same on both. What is promised is the difference: the paths of the monitor do not depend on the board, so
//! that what they cost more there is what its interrupt controller or its core asks for.

use super::built_in;
use crate::lab::Lab;
use crate::{Failure, Outcome, measure_in, rows};

/// Most that a row may be above the same row on the reference board.
pub const MOST_ABOVE: f64 = 3.0;

/// Groups of the rows that make sense on every board: paths through the monitor.
const GROUPS: &[&str] = &["timer", "exits", "doorbell", "trace", "console", "call", "sgi", "shared"];

/// Rows of these groups that are about the reference board, and why.
const NOT: &[(&str, &str)] = &[
    ("exits.process", "its guest reads the clock of that board"),
    ("shared.switch", "its device is the clock of that board; shared.doorbell has the same switch"),
    ("shared.switch_eager", "its device is the clock of that board"),
];

/// The rows of one board.
#[derive(Debug)]
pub struct OnBoard {
    /// Its name.
    pub board: &'static str,
    /// The rows, in the order of the table.
    pub outcomes: Vec<Outcome>,
}

/// Names of the rows that are measured on every board.
#[must_use]
pub fn names() -> Vec<String> {
    let sensible =
        |row: &&rows::Row| !row.slow && GROUPS.contains(&row.group()) && NOT.iter().all(|(name, _)| *name != row.name);
    rows::all().filter(sensible).map(|row| row.name.to_owned()).collect()
}

/// Measures rows on every built-in board, the reference first.
///
/// # Errors
/// When a name is no row, or the monitor cannot be read.
pub fn measure(names: &[String], mut each: impl FnMut(&str, &Outcome)) -> Result<Vec<OnBoard>, Failure> {
    let on = |board: &'static str| {
        let outcomes = measure_in(&Lab::on(board)?, names, |outcome| each(board, outcome))?;
        Ok(OnBoard { board, outcomes })
    };
    built_in().map(on).collect()
}

/// What a row is above the reference board's; `None` when either has no value.
#[must_use]
pub fn above(reference: &Outcome, other: &Outcome) -> Option<f64> {
    let (reference, other) = (reference.found.as_ref().ok()?, other.found.as_ref().ok()?);
    Some(other.value - reference.value)
}

/// Rows without a value on some board, or more than [`MOST_ABOVE`] above the reference there; in words.
#[must_use]
pub fn too_long(all: &[OnBoard]) -> Vec<String> {
    let Some((reference, others)) = all.split_first() else { return Vec::new() };
    let pairs = others.iter().flat_map(|other| {
        reference.outcomes.iter().zip(&other.outcomes).map(move |(one, there)| (other.board, one, there))
    });
    let is_too_long =
        |(_, one, there): &(&str, &Outcome, &Outcome)| above(one, there).is_none_or(|more| more > MOST_ABOVE);
    let words = |(board, one, there): (&str, &Outcome, &Outcome)| {
        format!("{}: {} on {}, {} on {board}", one.row.name, one.value_text(), reference.board, there.value_text())
    };
    pairs.filter(is_too_long).map(words).collect()
}
