//! The newest lines of one partition, numbered from the start of the run.

use crate::console::Line;
use std::collections::VecDeque;

/// Lines kept; older ones are forgotten, their numbers stay used.
const KEPT_LINES: usize = 65_536;

/// A partition's lines.
#[derive(Clone, Debug, Default)]
pub struct LineLog {
    lines: VecDeque<Line>,
    forgotten: usize,
}

impl LineLog {
    /// Adds a line.
    pub(crate) fn push(&mut self, line: Line) {
        self.lines.push_back(line);
        if self.lines.len() > KEPT_LINES {
            self.lines.pop_front();
            self.forgotten += 1;
        }
    }

    /// Returns the number that the next line will get: how many there were so far.
    #[must_use]
    pub fn total(&self) -> usize {
        self.forgotten + self.lines.len()
    }

    /// Returns the lines with this number or a higher one, with their numbers, oldest first.
    pub fn since(&self, number: usize) -> impl Iterator<Item = (usize, &Line)> {
        let skip = number.saturating_sub(self.forgotten);
        self.lines.iter().enumerate().skip(skip).map(|(index, line)| (self.forgotten + index, line))
    }

    /// Returns all kept lines, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// Returns the newest line.
    #[must_use]
    pub fn latest(&self) -> Option<&Line> {
        self.lines.back()
    }
}
