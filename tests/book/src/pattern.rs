//! Compares what a command printed with what a page shows.
//!
//! In a page
//!
//! - `~` before a number means: a number of the build or of the host. Any number matches, and after a time any unit of time;
//! - `…` in a line stands for any text, also for none;
//! - a line `...` stands for any lines, also for none.
//!
//! Blank lines and the widths of columns are not compared. Lines of a partition's console (`name | text`) are compared console by
//! console: the order between two consoles is the host's.

use std::fmt::Write as _;

/// Stands for lines that are left out.
pub const LINES_LEFT_OUT: &str = "...";
/// Stands for text that is left out.
pub const TEXT_LEFT_OUT: char = '…';
/// Stands before a number of the build or of the host.
pub const ABOUT: char = '~';
/// Units that a time may come in.
const UNITS_OF_TIME: &[&str] = &["ns", "us", "µs", "ms", "s"];

/// A piece of a shown line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Letter(char),
    AnyText,
    /// Any number; with any unit of time behind it, if the page shows one.
    AnyNumber {
        has_unit: bool,
    },
}

/// Says whether a printed line is what a page shows.
#[must_use]
pub fn line_matches(shown: &str, printed: &str) -> bool {
    let printed: Vec<char> = squeezed(printed).chars().collect();
    pieces_match(&pieces(&squeezed(shown)), &printed)
}

/// One blank wherever there are some, none at the ends. The narrow blanks in numbers stay.
fn squeezed(line: &str) -> String {
    line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

fn pieces(shown: &str) -> Vec<Piece> {
    let letters: Vec<char> = shown.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(letter) = letters.get(at) {
        let number = if *letter == ABOUT { number_length(&letters[at + 1..]) } else { 0 };
        at += 1;
        if number > 0 {
            at += number;
            let unit = unit_length(&letters[at..]);
            at += unit;
            found.push(Piece::AnyNumber { has_unit: unit > 0 });
        } else if *letter == TEXT_LEFT_OUT {
            found.push(Piece::AnyText);
        } else {
            found.push(Piece::Letter(*letter));
        }
    }
    found
}

/// Letters of the number that a text starts with: `0x` and hexadecimal digits, or digits with points and separators between.
fn number_length(text: &[char]) -> usize {
    if let ['0', 'x', rest @ ..] = text {
        return 2 + rest.iter().take_while(|letter| letter.is_ascii_hexdigit()).count();
    }
    let is_of_number = |letter: &&char| letter.is_ascii_digit() || matches!(letter, '.' | ',' | '\u{a0}' | '\u{202f}');
    let length = text.iter().take_while(is_of_number).count();
    // A sentence may end behind a number.
    length - text[..length].iter().rev().take_while(|letter| !letter.is_ascii_digit()).count()
}

/// Letters of the blank and the unit of time behind a number; 0 if there is none.
fn unit_length(text: &[char]) -> usize {
    let [' ', rest @ ..] = text else { return 0 };
    let word: String = rest.iter().take_while(|letter| letter.is_alphabetic()).collect();
    if UNITS_OF_TIME.contains(&word.as_str()) { 1 + word.chars().count() } else { 0 }
}

fn pieces_match(pieces: &[Piece], printed: &[char]) -> bool {
    match pieces {
        [] => printed.is_empty(),
        [Piece::AnyText, rest @ ..] => (0..=printed.len()).any(|skipped| pieces_match(rest, &printed[skipped..])),
        [Piece::Letter(letter), rest @ ..] => {
            printed.split_first().is_some_and(|(first, printed)| first == letter && pieces_match(rest, printed))
        }
        [Piece::AnyNumber { has_unit }, rest @ ..] => {
            let number = number_length(printed);
            let unit = if *has_unit { unit_length(&printed[number..]) } else { 0 };
            number > 0 && (unit > 0) == *has_unit && pieces_match(rest, &printed[number + unit..])
        }
    }
}

/// Says where what was printed differs from what is shown; `None` when it does not.
#[must_use]
pub fn difference(shown: &str, printed: &str) -> Option<String> {
    let shown: Vec<&str> = shown.lines().filter(|line| !line.trim().is_empty()).collect();
    let printed: Vec<&str> = printed.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut consoles: Vec<Option<&str>> = shown.iter().chain(&printed).map(|line| console(line)).collect();
    consoles.sort_unstable();
    consoles.dedup();
    let mut text = String::new();
    for of in consoles {
        // Lines that are left out may be of any console.
        let here = |line: &&str| console(line) == of || line.trim() == LINES_LEFT_OUT;
        let wanted: Vec<&str> = shown.iter().copied().filter(here).collect();
        let found: Vec<&str> = printed.iter().copied().filter(|line| console(line) == of).collect();
        if let Some(at) = first_unmatched(&wanted, &found) {
            let place = of.map_or(String::new(), |name| format!(" (console of {name})"));
            let wanted = wanted.get(at).unwrap_or(&"(nothing more)");
            writeln!(text, "shown{place}, and not printed there: {wanted}").expect("a String grows");
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Name of the partition whose console a line came from.
fn console(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('|')?;
    let name = name.trim();
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_');
    is_name.then_some(name)
}

/// Index of the shown line that the printed ones fail at; `None` when all match. Lines left out take as few as possible.
fn first_unmatched(shown: &[&str], printed: &[&str]) -> Option<usize> {
    let (mut at, mut line, mut furthest) = (0, 0, 0);
    let mut gap: Option<(usize, usize)> = None;
    loop {
        furthest = furthest.max(at);
        match shown.get(at) {
            Some(text) if text.trim() == LINES_LEFT_OUT => {
                gap = Some((at, line));
                at += 1;
                continue;
            }
            Some(text) if printed.get(line).is_some_and(|found| line_matches(text, found)) => {
                at += 1;
                line += 1;
                continue;
            }
            None if line == printed.len() => return None,
            _ => {}
        }
        // The last gap takes one line more.
        match &mut gap {
            Some((start, taken)) if *taken < printed.len() => {
                *taken += 1;
                at = *start + 1;
                line = *taken;
            }
            _ => return Some(furthest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_build_match_any_number_and_nothing_else() {
        assert!(line_matches("file ~148 KiB, ~0xf398b0c2", "file 1,160 KiB, 0x1"));
        assert!(line_matches("waits ~9.945 ms, shares ~0.00 %.", "waits 312 us, shares 14.73 %."));
        assert!(!line_matches("file ~148 KiB", "file many KiB"));
        assert!(!line_matches("file ~148 KiB", "file 148 MiB"), "only times may come in another unit");
        assert!(!line_matches("waits ~9.945 ms", "waits 9.945"));
        assert!(!line_matches("2 cores", "3 cores"), "a number without a mark is compared");
    }

    #[test]
    fn text_left_out_is_any_text() {
        assert!(line_matches("sha256 …", "  sha256 68d76554"));
        assert!(line_matches("linux: … with 1 CPUs", "linux: 6.1.0 with 1 CPUs"));
        assert!(!line_matches("linux: … with 1 CPUs", "linux: 6.1.0 with 2 CPUs"));
    }

    #[test]
    fn lines_left_out_are_any_lines() {
        assert_eq!(difference("a\n...\nd", "a\nb\nc\nd\n"), None);
        assert_eq!(difference("a\n...\nd", "a\nd\n\n"), None);
        assert_eq!(difference("...\nc\n...", "a\nb\nc\nd\n"), None);
        assert!(difference("a\n...\nd", "a\nb\nd\ne\n").is_some());
        assert!(difference("a\nb", "a\n").expect("a line less").contains("there: b"));
        assert!(difference("a", "a\nb\n").expect("a line more").contains("(nothing more)"));
        assert!(difference("b\na", "a\nb\n").is_some(), "the order counts");
    }

    #[test]
    fn consoles_are_compared_one_by_one() {
        let shown = "control | start\ndisplay | one\ncontrol | done\ndisplay | two\n";
        let other_order = "display | one\ncontrol | start\ndisplay | two\ncontrol | done\n";
        assert_eq!(difference(shown, other_order), None);
        let swapped = other_order.replace("one", "x").replace("two", "one").replace('x', "two");
        assert!(difference(shown, &swapped).expect("another order").contains("console of display"));
        assert_eq!(console("10 | memory = 4"), None, "an excerpt of a file is no console");
    }
}
