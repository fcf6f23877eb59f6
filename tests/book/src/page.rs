//! Listings of a page.

use crate::pattern::LINES_LEFT_OUT;

/// What the comment above a listing says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `<!-- not run: REASON -->`
    NotRun(String),
    /// `<!-- in the repository -->`: not in the copy.
    InRepository,
    /// `<!-- beside the next -->`: the commands of the next listing are typed while this one runs.
    BesideNext,
    /// `<!-- file: PATH -->`: the listing is written there.
    File(String),
    /// `<!-- file: PATH, before: TEXT -->`: the listing goes into the file, before the first line that starts so.
    Insertion(String, String),
    /// `<!-- part of: COMMAND -->`: these lines come, among others, when that command is typed, which a listing before does.
    PartOf(String),
    /// `<!-- shows: PATH -->`: the listing is that file without its comments.
    Shows(String),
}

/// A fenced block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Line of the page, from 1.
    pub line: usize,
    /// First word behind the fence; empty for a picture.
    pub language: String,
    /// The comment above, if it is one of ours.
    pub mark: Option<Mark>,
    /// The text with a line end behind each line.
    pub text: String,
}

/// A command of a listing, and what comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// Line of the page, from 1.
    pub line: usize,
    /// The command, without the prompt.
    pub command: String,
    /// What the page shows behind it; empty if it shows nothing.
    pub shown: String,
}

/// Reads the listings of a page.
///
/// # Errors
/// With line and reason for a listing without an end and for a comment that is nearly a mark.
pub fn listings(text: &str) -> Result<Vec<Listing>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(language) = lines[at].strip_prefix("```") else {
            let is_mark = mark(lines[at]).map_err(|why| format!("line {}: {why}", at + 1))?.is_some();
            let is_above = lines.get(at + 1).is_some_and(|below| below.starts_with("```"));
            if is_mark && !is_above {
                return Err(format!("line {}: this comment belongs right above a listing", at + 1));
            }
            at += 1;
            continue;
        };
        let above = at.checked_sub(1).and_then(|above| lines.get(above)).copied().unwrap_or_default();
        let body = lines[at + 1..].iter().position(|line| *line == "```");
        let Some(length) = body else { return Err(format!("line {}: a listing without an end", at + 1)) };
        let language = language.split([',', ' ']).next().unwrap_or_default().to_owned();
        let text = lines[at + 1..at + 1 + length].iter().map(|line| format!("{line}\n")).collect();
        found.push(Listing { line: at + 1, language, mark: mark(above)?, text });
        at += length + 2;
    }
    Ok(found)
}

/// Reads a comment; other lines are `None`.
fn mark(line: &str) -> Result<Option<Mark>, String> {
    let Some(words) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) else { return Ok(None) };
    let named = |name: &str| words.strip_prefix(name).map(|rest| rest.trim().to_owned());
    Ok(Some(match words {
        "in the repository" => Mark::InRepository,
        "beside the next" => Mark::BesideNext,
        _ if words.starts_with("part of: ") => Mark::PartOf(named("part of:").unwrap_or_default()),
        _ => match (named("not run:"), named("shows:"), named("file:")) {
            (Some(reason), _, _) if !reason.is_empty() => Mark::NotRun(reason),
            (_, Some(path), _) => Mark::Shows(path),
            (_, _, Some(path)) => match path.split_once(", before: ") {
                Some((path, before)) => Mark::Insertion(path.to_owned(), before.to_owned()),
                None => Mark::File(path),
            },
            _ => return Err(format!("no mark of a listing is `{words}`")),
        },
    }))
}

impl Listing {
    /// The commands of a listing in the language `console`: lines behind a `$`, each with what comes. A command that ends in a
    /// backslash continues in the next line.
    ///
    /// # Errors
    /// When the listing does not start with a command.
    pub fn commands(&self) -> Result<Vec<Typed>, String> {
        let mut found: Vec<Typed> = Vec::new();
        let mut goes_on = false;
        for (line, text) in (self.line + 1..).zip(self.text.lines()) {
            let last = found.last_mut();
            match (text.strip_prefix("$ "), last) {
                (None, Some(last)) if goes_on => last.command += &format!("\n{text}"),
                (None, Some(last)) => last.shown += &format!("{text}\n"),
                (None, None) => return Err(format!("line {line}: a console starts with a command, `$ ...`")),
                (Some(command), _) => found.push(Typed { line, command: command.to_owned(), shown: String::new() }),
            }
            let is_command = goes_on || text.starts_with("$ ");
            goes_on = is_command && text.ends_with('\\');
        }
        Ok(found)
    }
}

impl Typed {
    /// Whether the page shows something of the output that can be compared.
    #[must_use]
    pub fn shows_output(&self) -> bool {
        self.shown.lines().any(|line| !line.trim().is_empty() && line.trim() != LINES_LEFT_OUT)
    }
}

/// The lines of a description or a program without those that are comments or blank.
#[must_use]
pub fn without_comments(text: &str) -> Vec<&str> {
    let is_comment = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('#');
    text.lines()
        .filter(|line| !is_comment(line))
        .map(|line| line.split("  #").next().unwrap_or(line).trim_end())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# Title\n\n```console\n$ ls \\\n  -l\ntotal 0\n$ true\n```\n\n<!-- file: a/b.toml -->\n```toml\nx = 1\n```\n";

    #[test]
    fn listings_come_with_their_marks() {
        let found = listings(PAGE).expect("well formed");
        assert_eq!(found.len(), 2);
        let typed = found[0].commands().expect("commands");
        assert_eq!(
            (typed[0].line, typed[0].command.as_str(), typed[0].shown.as_str()),
            (4, "ls \\\n  -l", "total 0\n")
        );
        assert_eq!((typed[1].line, typed[1].command.as_str(), typed[1].shown.as_str()), (7, "true", ""));
        assert_eq!((found[1].mark.clone(), found[1].line), (Some(Mark::File("a/b.toml".into())), 11));
    }

    #[test]
    fn what_is_nearly_a_mark_is_refused() {
        let reasonless = PAGE.replace("file: a/b.toml", "not run:");
        assert!(listings(&reasonless).expect_err("no reason").contains("line 10"), "{:?}", listings(&reasonless));
        let apart = PAGE.replace("-->\n", "-->\n\n");
        assert!(listings(&apart).expect_err("a mark above nothing").contains("right above"));
        assert!(listings("```toml\nx = 1\n").expect_err("no end").contains("without an end"));
    }
}
