//! Text of a board file: comments that wrap, keys, and values that are still to be found out.

use std::fmt::Write as _;

/// Columns of a comment.
const COLUMNS: usize = 116;

/// A value of a key.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// TOML.
    Known(String),
    /// What nobody has found out yet.
    Todo {
        /// What to find out, and where.
        sentence: String,
        /// TOML that a test writes there so that the rest of the file can be checked; no fact. `None` when the tree leaves no room for any.
        stand_in: Option<String>,
    },
}

impl Value {
    /// A value that is to be found out.
    pub(crate) fn todo(sentence: impl Into<String>, stand_in: impl Into<String>) -> Self {
        Self::todo_with_room(sentence, Some(stand_in.into()))
    }

    /// A value that is to be found out, in a place that the tree may not leave.
    pub(crate) fn todo_with_room(sentence: impl Into<String>, stand_in: Option<String>) -> Self {
        Self::Todo { sentence: sentence.into(), stand_in }
    }
}

/// The text under way, in both forms: with what is still to be found out, and with what tests write there.
#[derive(Debug, Default)]
pub(crate) struct Text {
    draft: String,
    filled: String,
    todos: usize,
    /// Some TODO has no value that a test could write.
    is_crowded: bool,
}

impl Text {
    /// The draft, the form in which every TODO has a value (if each can have one), and how many of them there are.
    #[must_use]
    pub(crate) fn finish(self) -> (String, Option<String>, usize) {
        (self.draft, Some(self.filled).filter(|_| !self.is_crowded), self.todos)
    }

    fn push(&mut self, text: &str) {
        self.draft.push_str(text);
        self.filled.push_str(text);
    }

    /// An empty line.
    pub(crate) fn gap(&mut self) {
        self.push("\n");
    }

    /// A line as it is.
    pub(crate) fn line(&mut self, text: &str) {
        self.push(text);
        self.gap();
    }

    /// A comment, in as many lines as it takes. What a tree contributes cannot end it: it is printable ASCII from here on.
    pub(crate) fn comment(&mut self, text: &str) {
        let mut line = String::from("#");
        for word in text.split(' ') {
            let word: String =
                word.chars().map(|letter| if letter.is_ascii_graphic() { letter } else { '?' }).collect();
            if line.len() > 1 && line.len().saturating_add(word.len()) >= COLUMNS {
                self.line(&line);
                line = String::from("#");
            }
            line.push(' ');
            line.push_str(&word);
        }
        self.line(line.trim_end());
    }

    /// A key with its value; behind it a remark.
    pub(crate) fn key(&mut self, name: &str, value: &Value) {
        self.push(name);
        self.push(" = ");
        self.value(value);
        self.gap();
    }

    /// A key whose value is known.
    pub(crate) fn known(&mut self, name: &str, value: impl Into<String>) {
        self.key(name, &Value::Known(value.into()));
    }

    /// A value, for what is put together by hand.
    pub(crate) fn value(&mut self, value: &Value) {
        match value {
            Value::Known(text) => self.push(text),
            Value::Todo { sentence, stand_in } => {
                self.draft.push_str(&quoted(&format!("TODO: {sentence}")));
                self.filled.push_str(stand_in.as_deref().unwrap_or_default());
                self.is_crowded |= stand_in.is_none();
                self.todos = self.todos.saturating_add(1);
            }
        }
    }
}

/// A basic string of TOML.
#[must_use]
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// A list of strings.
#[must_use]
pub(crate) fn strings(list: &[String]) -> String {
    let list: Vec<String> = list.iter().map(|text| quoted(text)).collect();
    format!("[{}]", list.join(", "))
}

/// An address: hexadecimal, in groups of four digits. Seven get a zero in front, as addresses of 32 bits are written.
#[must_use]
pub(crate) fn hex(number: u64) -> String {
    let mut digits = format!("{number:x}");
    if digits.len() == 7 {
        digits.insert(0, '0');
    }
    let first = digits.len() % 4;
    let mut text = String::from("0x");
    for (place, digit) in digits.chars().enumerate() {
        if place != 0 && place % 4 == first {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

/// A number with groups of three digits.
#[must_use]
pub(crate) fn decimal(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place != 0 && place % 3 == first {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

/// Numbers in order as ranges `first..=last`.
#[must_use]
pub(crate) fn ranges(numbers: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if number.checked_sub(1) == Some(*last) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

/// Ranges for people: `32 to 40, 45`.
#[must_use]
pub(crate) fn in_words(ranges: &[(u32, u32)]) -> String {
    let range = |(first, last): &(u32, u32)| match last.checked_sub(*first) {
        Some(0) => first.to_string(),
        _ => format!("{first} to {last}"),
    };
    let list: Vec<String> = ranges.iter().map(range).collect();
    if list.is_empty() { String::from("none") } else { list.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_groups() {
        assert_eq!(
            (hex(0), hex(0x0800_0000), hex(0x8_0000_0000)),
            ("0x0".into(), "0x0800_0000".into(), "0x8_0000_0000".into())
        );
        assert_eq!((decimal(5), decimal(62_500_000), decimal(1000)), ("5".into(), "62_500_000".into(), "1_000".into()));
    }

    #[test]
    fn ranges_join_neighbours() {
        let found = ranges([1, 2, 3, 5, 7, 8].into_iter());
        assert_eq!(found, [(1, 3), (5, 5), (7, 8)]);
        assert_eq!(in_words(&found), "1 to 3, 5, 7 to 8");
        assert_eq!(in_words(&[]), "none");
    }

    #[test]
    fn what_a_tree_says_ends_neither_a_comment_nor_a_string() {
        let mut text = Text::default();
        text.comment("a\nkey = 1 \u{7f}é");
        text.known("name", quoted("x\"\n\\"));
        text.key("enters_at", &Value::todo("say \"el2\"", "\"el2\""));
        let (draft, filled, todos) = text.finish();
        assert_eq!(draft, "# a?key = 1 ??\nname = \"x\\\"\\u000a\\\\\"\nenters_at = \"TODO: say \\\"el2\\\"\"\n");
        assert_eq!(filled.expect("there is room").lines().last(), Some("enters_at = \"el2\""));
        assert_eq!(todos, 1);
    }

    #[test]
    fn long_comments_become_several_lines() {
        let mut text = Text::default();
        text.comment(&"word ".repeat(60));
        let (draft, ..) = text.finish();
        assert!(
            draft.lines().count() == 3 && draft.lines().all(|line| line.starts_with("# word") && line.len() <= 118),
            "{draft}"
        );
    }
}
