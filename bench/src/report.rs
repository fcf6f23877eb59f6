//! Rows as text, as JSON and as the page of the documentation.

use crate::boards::{MOST_ABOVE, OnBoard, too_long};
use crate::outcome::{Outcome, Verdict};
use crate::rows::{self, Row};
use bulkhead_files::table::table;
use serde_json::{Value, json};
use std::fmt::Write;

/// Said wherever numbers are printed.
pub(crate) const INSTRUCTIONS: &str = "All numbers of time are instructions, not cycles: counted by the emulator, the same on every host and in every run.";

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr $(, $($argument:tt)*)?) => {
        let _ = writeln!($out $(, $($argument)*)?);
    };
}

fn ceiling_text(row: &Row) -> String {
    row.ceiling.map_or_else(|| "none".to_owned(), |ceiling| format!("at most {}", row.unit.text(ceiling)))
}

/// The names with what they are.
pub(crate) fn list() -> String {
    let mut out = String::new();
    for row in rows::all() {
        let slow = if row.slow { " (slow)" } else { "" };
        line!(out, "{:<23} {}; {}{slow}", row.name, row.what, ceiling_text(row));
    }
    out
}

/// One row for people, as soon as it is measured.
pub(crate) fn text(outcome: &Outcome, with_runs: bool) -> String {
    let row = outcome.row;
    let mut out = String::new();
    line!(out, "{}: {}, {}: {}", row.name, outcome.value_text(), ceiling_text(row), outcome.verdict().text());
    line!(out, "  what    {}", row.what);
    line!(out, "  how     {}; ./x bench {}", row.how, row.name);
    if !row.peers.is_empty() {
        line!(out, "  others  {}", row.peers);
    }
    match &outcome.found {
        Ok(found) => found.details.iter().for_each(|detail| {
            line!(out, "  ours    {detail}");
        }),
        Err(failure) => {
            line!(out, "  error   {}", failure.message);
        }
    }
    for run in outcome.runs.iter().filter(|_| with_runs) {
        line!(out, "  run     {}", run.replace('\n', "\n          "));
    }
    out
}

/// How many rows hold, in one line.
pub(crate) fn verdict_line(outcomes: &[Outcome]) -> String {
    let count = |verdict| outcomes.iter().filter(|outcome| outcome.verdict() == verdict).count();
    let bad: Vec<&str> =
        outcomes.iter().filter(|outcome| !outcome.verdict().is_good()).map(|outcome| outcome.row.name).collect();
    let mut text = format!("{} of {} rows met", count(Verdict::Met), outcomes.len() - count(Verdict::Reported));
    if count(Verdict::Reported) != 0 {
        let _ = write!(text, ", {} without a ceiling", count(Verdict::Reported));
    }
    if !bad.is_empty() {
        let _ = write!(text, "; not met: {}", bad.join(", "));
    }
    text
}

/// One row for programs.
fn row_json(outcome: &Outcome) -> Value {
    let row = outcome.row;
    let found = outcome.found.as_ref();
    json!({
        "name": row.name,
        "what": row.what,
        "how": row.how,
        "command": format!("./x bench {}", row.name),
        "runs": outcome.runs,
        "peers": row.peers,
        "ceiling": row.ceiling,
        "number": found.ok().map(|found| found.value),
        "value": outcome.value_text(),
        "details": found.map(|found| found.details.clone()).unwrap_or_default(),
        "error": found.err().map(|failure| failure.message.clone()),
        "verdict": outcome.verdict().text(),
        "requirements": row.requirements,
    })
}

/// All rows for programs.
pub(crate) fn json_form(outcomes: &[Outcome]) -> Value {
    json!({
        "unit_of_time": "instruction",
        "all_met": outcomes.iter().all(|outcome| outcome.verdict().is_good()),
        "measurements": outcomes.iter().map(row_json).collect::<Vec<_>>(),
    })
}

/// The page of the documentation: one table, then what belongs beside each number.
pub(crate) fn page(outcomes: &[Outcome], head: &[String]) -> String {
    let mut out = String::from("# Measurements\n\nWritten by `./x bench --record`; do not edit. ");
    line!(out, "{INSTRUCTIONS}\n");
    for fact in head {
        line!(out, "- {fact}");
    }
    line!(out, "- {}", verdict_line(outcomes));
    line!(out, "\n| row | what | ours | ceiling | verdict | others |\n| --- | --- | --- | --- | --- | --- |");
    for outcome in outcomes {
        let row = outcome.row;
        line!(
            out,
            "| `{}` | {} | {} | {} | {} | {} |",
            row.name,
            cell(row.what),
            outcome.value_text(),
            ceiling_text(row),
            outcome.verdict().text(),
            cell(row.peers)
        );
    }
    for outcome in outcomes {
        line!(out, "\n## {}\n\n{}. `./x bench {}`\n", outcome.row.name, sentence(outcome.row.how), outcome.row.name);
        match &outcome.found {
            Ok(found) => found.details.iter().for_each(|detail| {
                line!(out, "- {detail}");
            }),
            Err(failure) => {
                line!(out, "- not measured: {}", failure.message);
            }
        }
        for run in &outcome.runs {
            line!(out, "\n```text\n{run}\n```");
        }
    }
    out
}

/// Where [`boards`] begins in the page.
pub(crate) const BOARDS: &str = "\n## Every board\n\n";

/// The rows of every board side by side, as a part of the page.
pub(crate) fn boards(all: &[OnBoard]) -> String {
    let mut out = String::from(BOARDS);
    line!(
        out,
        "Paths of the monitor on each built-in board; no more than {MOST_ABOVE} above the first. `./x bench boards --rows`\n"
    );
    let mut rows = board_rows(all).into_iter();
    let head = rows.next().unwrap_or_default();
    line!(out, "| {} |", head.join(" | "));
    line!(out, "| --- |{}", " --- |".repeat(all.len()));
    for row in rows {
        let (name, values) = row.split_first().map_or(("", [].as_slice()), |(name, values)| (name.as_str(), values));
        line!(out, "| `{name}` | {} |", values.join(" | "));
    }
    out
}

/// A head with the boards, and each row with its value on each.
fn board_rows(all: &[OnBoard]) -> Vec<Vec<String>> {
    let head = std::iter::once("row".to_owned()).chain(all.iter().map(|one| one.board.to_owned())).collect();
    let places = all.first().map(|one| one.outcomes.as_slice()).unwrap_or_default().iter().enumerate();
    let row = |(place, first): (usize, &Outcome)| {
        let values = all.iter().filter_map(|one| one.outcomes.get(place)).map(Outcome::value_text);
        std::iter::once(first.row.name.to_owned()).chain(values).collect()
    };
    std::iter::once(head).chain(places.map(row)).collect()
}

/// The same for people.
pub(crate) fn boards_text(all: &[OnBoard]) -> String {
    let mut out = table(&board_rows(all), 1, 0);
    let wrong = too_long(all);
    line!(out);
    for one in &wrong {
        line!(out, "more than {MOST_ABOVE} above the first, or without a value: {one}");
    }
    if wrong.is_empty() {
        line!(out, "no row is more than {MOST_ABOVE} above the first board's");
    }
    out
}

/// The same for programs.
pub(crate) fn boards_json(all: &[OnBoard]) -> Value {
    let row = |outcome: &Outcome| {
        let number = outcome.found.as_ref().ok().map(|found| found.value);
        json!({ "name": outcome.row.name, "number": number })
    };
    let board = |one: &OnBoard| json!({ "board": one.board, "rows": one.outcomes.iter().map(row).collect::<Vec<_>>() });
    all.iter().map(board).collect()
}

fn cell(text: &str) -> String {
    if text.is_empty() { "–".to_owned() } else { text.replace('|', "\\|") }
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;
    use crate::outcome::Found;

    fn outcomes() -> Vec<Outcome> {
        let values = [Ok(Found::new(0.0, ["busy core".to_owned()])), Ok(Found::new(61.0, []))];
        let failed = Err(Failure { message: "no QEMU".to_owned(), exit_code: 3 });
        let found = values.into_iter().chain([failed]);
        found
            .zip(rows::all())
            .map(|(found, row)| Outcome { row, found, runs: vec!["build\nqemu".to_owned()] })
            .collect()
    }

    #[test]
    fn a_missed_ceiling_and_a_missing_value_show_everywhere() {
        let outcomes = outcomes();
        let verdicts: Vec<_> = outcomes.iter().map(Outcome::verdict).collect();
        assert_eq!(verdicts, [Verdict::Met, Verdict::Missed, Verdict::NotMeasured]);
        assert_eq!(verdict_line(&outcomes), "1 of 3 rows met; not met: timer.mapped, exits.direct");
        let json = json_form(&outcomes);
        assert_eq!(json["all_met"], false);
        assert_eq!(json["measurements"][1]["number"], 61.0);
        assert_eq!(json["measurements"][2]["error"], "no QEMU");
        assert!(text(&outcomes[1], false).contains("61 instructions, at most 60 instructions: MISSED"));
        assert!(page(&outcomes, &[]).contains("| MISSED |"));
    }

    #[test]
    fn runs_are_shown_when_asked_for() {
        let outcome = &outcomes()[0];
        assert!(text(outcome, true).contains("  run     build\n          qemu\n"));
        assert!(!text(outcome, false).contains("qemu"));
    }

    #[test]
    fn the_list_has_every_row() {
        assert_eq!(list().lines().count(), rows::all().count());
    }
}
