//! Markdown tables whose last column is written by hand.

use std::collections::BTreeMap;

/// What stands in the last column until somebody says why.
pub const MISSING_REASON: &str = "(say why)";

/// Reads the reasons of the tables in a text: first cell to last cell, markup of the first cell removed.
#[must_use]
pub fn reasons(text: &str) -> BTreeMap<String, String> {
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    rows.filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let (first, last) = (cells.first()?, cells.last()?);
        (cells.len() > 1).then(|| (first.trim_matches('`').to_owned(), (*last).to_owned()))
    })
    .collect()
}

/// Returns the reason of a row, or the text that says that it is missing.
#[must_use]
pub fn reason<'a>(reasons: &'a BTreeMap<String, String>, key: &str) -> &'a str {
    reasons.get(key).map_or(MISSING_REASON, String::as_str)
}

/// Makes a cell of a text: one line, no column separators.
#[must_use]
pub fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Makes a row.
#[must_use]
pub fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Makes the two lines at the top of a table.
#[must_use]
pub fn head(titles: &[&str]) -> String {
    let line = titles.iter().map(|_| "---").collect::<Vec<_>>();
    row(titles) + &row(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_survive() {
        let text = head(&["file", "n", "why"]) + &row(&["`a.rs`", "3", "because, of | it"]);
        let text = text.replace("of | it", &cell("of|it"));
        assert_eq!(reason(&reasons(&text), "a.rs"), "because, of\\|it");
        assert_eq!(reason(&reasons(&text), "b.rs"), MISSING_REASON);
    }
}
