//! Rust text seen as code, comments and literals.

use std::ops::Range;

/// What a stretch of text is, if it is not code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Comment,
    Literal,
}

/// Rust text with the places of comments and literals.
#[derive(Debug)]
pub struct Source<'a> {
    text: &'a str,
    spans: Vec<(Kind, Range<usize>)>,
}

impl<'a> Source<'a> {
    /// Finds comments and literals.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, spans: scan(text.as_bytes()) }
    }

    /// Returns the text with comments as spaces; offsets and lines stay.
    #[must_use]
    pub fn without_comments(&self) -> String {
        self.masked(|kind| kind == Kind::Comment)
    }

    /// Returns the text with comments and literals as spaces; offsets and lines stay.
    #[must_use]
    pub fn code(&self) -> String {
        self.masked(|_| true)
    }

    /// Returns the comments, one string for each.
    pub fn comments(&self) -> impl Iterator<Item = &'a str> {
        let text = self.text;
        let comments = self.spans.iter().filter(|(kind, _)| *kind == Kind::Comment);
        comments.filter_map(move |(_, range)| text.get(range.clone()))
    }

    fn masked(&self, hide: impl Fn(Kind) -> bool) -> String {
        let mut bytes = self.text.as_bytes().to_vec();
        for (_, range) in self.spans.iter().filter(|(kind, _)| hide(*kind)) {
            bytes[range.clone()].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn scan(bytes: &[u8]) -> Vec<(Kind, Range<usize>)> {
    let mut spans = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let after_name = at > 0 && is_name(bytes[at - 1]);
        let (kind, length) = if rest.starts_with(b"//") {
            (Kind::Comment, rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()))
        } else if rest.starts_with(b"/*") {
            (Kind::Comment, block_comment(rest))
        } else if rest[0] == b'"' {
            (Kind::Literal, quoted(rest, b'"'))
        } else if rest[0] == b'r' && (!after_name || matches!(bytes[at - 1], b'b' | b'c')) && raw_string(rest) > 0 {
            (Kind::Literal, raw_string(rest))
        } else if rest[0] == b'\'' && is_character(rest) {
            (Kind::Literal, quoted(rest, b'\''))
        } else {
            at += 1;
            continue;
        };
        spans.push((kind, at..at + length));
        at += length;
    }
    spans
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn block_comment(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Length of a literal from its opening to its closing quote.
fn quoted(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Length of a raw string that starts here, or 0.
fn raw_string(bytes: &[u8]) -> usize {
    let hashes = bytes[1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = &bytes[2 + hashes..];
    body.windows(end.len()).position(|window| window == end).map_or(bytes.len(), |found| 2 + hashes + found + end.len())
}

/// Tells a character from a lifetime.
fn is_character(bytes: &[u8]) -> bool {
    match bytes.get(1) {
        Some(b'\\') => true,
        Some(first) => {
            let width = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            bytes.get(1 + width) == Some(&b'\'')
        }
        None => false,
    }
}

/// Returns the ranges of items under `#[cfg(test)]` in masked code.
#[must_use]
pub fn test_items(code: &str) -> Vec<Range<usize>> {
    items_under("#[cfg(test)]", code, code)
}

/// Returns the ranges of items under an attribute. Strings are masked in `code`, so the attribute is looked for in `text`, of which
/// `code` is the masked form.
#[must_use]
pub fn items_under(attribute: &str, text: &str, code: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (start, _) in text.match_indices(attribute).filter(|(start, _)| code[*start..].starts_with("#[")) {
        if found.last().is_none_or(|last| last.end <= start) {
            found.push(documentation_start(text, start)..item_end(code, start + attribute.len()));
        }
    }
    found
}

/// Start of the documentation above an attribute at `start`, which would be left without its item; `start` when there is none.
fn documentation_start(text: &str, start: usize) -> usize {
    let is_above = |line: &&str| matches!(line.trim_start().get(..2), Some("//" | "#["));
    let line_start = text[..start].rfind('\n').map_or(0, |end| end + 1);
    let above: usize = text[..line_start].split_inclusive('\n').rev().take_while(is_above).map(str::len).sum();
    if above == 0 { start } else { line_start - above }
}

/// End of the item that starts at or after `from`: its semicolon, closing brace, or comma (a field, or the value of one), further
/// attributes skipped.
fn item_end(code: &str, from: usize) -> usize {
    let mut nesting = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => nesting += 1,
            b')' | b']' => nesting = nesting.saturating_sub(1),
            b';' if nesting == 0 => return at + 1,
            // Those of `Result<(), E>` are no end of a function.
            b',' if nesting == 0 && !code[from..at].contains("fn ") => return at + 1,
            // The braces of `use a::{b, c};` are not its end.
            b'{' if nesting == 0 && code[..at].ends_with("::") => {
                return at + code[at..].find(';').map_or(0, |end| end + 1);
            }
            b'{' if nesting == 0 => return braces_end(code, at),
            _ => {}
        }
    }
    code.len()
}

/// One past the brace that closes the one at `open`.
#[must_use]
pub fn braces_end(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// A function: name, and from its `fn` to its closing brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub range: Range<usize>,
}

/// Returns the functions with a body in masked code, in order of appearance.
#[must_use]
pub fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        if start > 0 && code.as_bytes().get(start - 1).copied().is_some_and(is_name) {
            continue;
        }
        let name: String = code[start + 3..].bytes().take_while(|byte| is_name(*byte)).map(char::from).collect();
        if !name.is_empty() {
            found.push(Function { name, range: start..item_end(code, start) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_told_from_code() {
        let text = "let a = \"// no /* comment\"; // unsafe { }\n/* a /* b */ c */ let r = r#\"un\"safe\"#; let c = '\"'; fn f<'a>() {}";
        let source = Source::new(text);
        assert_eq!(
            source.code().split_whitespace().collect::<Vec<_>>().join(" "),
            "let a = ; let r = ; let c = ; fn f<'a>() {}"
        );
        assert!(source.without_comments().contains("// no /* comment"));
        assert_eq!(source.comments().count(), 2);
        assert_eq!(source.code().len(), text.len());
    }

    #[test]
    fn test_items_end_where_they_end() {
        let text = "#[cfg(test)]\n#[path = x]\nmod other;\nfn a() { b(); }\n#[cfg(test)]\nmod tests { fn c() { {} } }\nfn d() {}";
        let ranges = test_items(text);
        assert_eq!(ranges.len(), 2);
        assert!(text[ranges[0].clone()].ends_with("mod other;"));
        assert!(text[ranges[1].clone()].ends_with("{ fn c() { {} } }"));
    }

    #[test]
    fn items_of_a_feature_are_found() {
        let shared = "#[cfg(feature = \"shared\")]";
        let text = format!(
            "struct A {{\n    {shared}\n    b: C,\n    d: E,\n}}\n// {shared}\n{shared}\nuse f::{{g, h}};\nfn i() {{}}"
        );
        let source = Source::new(&text);
        let ranges = items_under(shared, &text, &source.code());
        let items: Vec<&str> = ranges.iter().map(|range| text[range.clone()].lines().last().unwrap().trim()).collect();
        assert_eq!(items, ["b: C,", "use f::{g, h};"]);
    }

    #[test]
    fn functions_are_found_with_their_bodies() {
        let found = functions("impl X { fn one(&self) -> [u8; 2] { inner() } }\nfn two() {}");
        let names: Vec<_> = found.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
    }
}
