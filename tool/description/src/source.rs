//! Texts that diagnostics point into, and positions in them.
//!
//! A position carries the file it belongs to, so that one diagnostic can point into the system description and into the
//! board file at once. The rejected alternative, passing the file along beside every range, loses it sooner or later.

use std::ops::Range;

/// A text that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name shown in diagnostics: the path as the user wrote it, or `boards/NAME.toml` for a built-in board file.
    pub name: String,
    /// The text.
    pub text: String,
    /// Where each line but the first starts, so that a position is found without reading the text again for each mistake.
    line_starts: Vec<usize>,
}

/// Index of a [`Source`] in its [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(usize);

/// Bytes `start..end` of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// Makes a span from a byte range.
    #[must_use]
    pub fn new(file: FileId, range: Range<usize>) -> Self {
        Self { file, start: range.start, end: range.end }
    }

    /// Returns the byte range.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// All texts of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    files: Vec<Source>,
}

/// A position as people count: from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Sources {
    /// Adds a text.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let text = text.into();
        let line_starts = text.match_indices('\n').map(|(newline, _)| newline + 1).collect();
        self.files.push(Source { name: name.into(), text, line_starts });
        FileId(self.files.len() - 1)
    }

    /// Returns a text. An id of another `Sources` gives an empty one.
    #[must_use]
    pub fn get(&self, file: FileId) -> &Source {
        static NONE: Source = Source { name: String::new(), text: String::new(), line_starts: Vec::new() };
        self.files.get(file.0).unwrap_or(&NONE)
    }

    /// Returns the text under a span, or nothing when the span is not one of this text.
    #[must_use]
    pub fn text(&self, span: Span) -> &str {
        self.get(span.file).text.get(span.range()).unwrap_or("")
    }

    /// Converts a byte offset to line and column.
    #[must_use]
    pub fn position(&self, file: FileId, offset: usize) -> Position {
        let Source { text, line_starts, .. } = self.get(file);
        let mut end = offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let lines_before = line_starts.partition_point(|start| *start <= end);
        let line_start = lines_before.checked_sub(1).and_then(|line| line_starts.get(line)).copied().unwrap_or(0);
        Position { line: lines_before + 1, column: text.get(line_start..end).unwrap_or("").chars().count() + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let mut sources = Sources::default();
        let file = sources.add("a", "é = 1\nb = 2\n");
        assert_eq!(sources.position(file, 0), Position { line: 1, column: 1 });
        assert_eq!(sources.position(file, 3), Position { line: 1, column: 3 });
        assert_eq!(sources.position(file, 7), Position { line: 2, column: 1 });
        assert_eq!(
            sources.position(file, 1),
            Position { line: 1, column: 1 },
            "inside a character counts as its start"
        );
        assert_eq!(sources.position(file, 999), Position { line: 3, column: 1 });
    }
}
