//! Writes the last full run to the documentation, and what was measured alone since then.

use crate::outcome::Found;
use crate::rows::{self, Row};
use crate::{Failure, Outcome, boards, report};
use bulkhead_description::Options;
use bulkhead_run::qemu;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes `docs/measurements.json` and `docs/measurements.md`.
pub(crate) fn write(outcomes: &[Outcome]) -> Result<(), Failure> {
    let boards = boards::measure(&boards::names(), |_, _| ())?;
    let date = date();
    let version = qemu::check_version(&qemu::program())?;
    let version = format!("{}.{}.{}", version.major, version.minor, version.micro);
    let mut form = report::json_form(outcomes);
    form["date"] = json!(date);
    form["boards"] = report::boards_json(&boards);
    form["command"] = json!("./x bench --record");
    form["qemu"] = json!(version);
    let guests = guest_packages();
    form["guest_packages"] = json!(guests);
    let mut head = vec![format!("date: {date}"), "command: `./x bench --record`".to_owned(), format!("QEMU {version}")];
    head.extend(guests.iter().map(|package| format!("guest package {package}")));
    save("measurements.json", &format!("{form:#}\n"))?;
    save("measurements.md", &(report::page(outcomes, &head) + &report::boards(&boards)))
}

/// Writes rows into what is recorded, with the day. The others, and the boards, stay as they are.
pub(crate) fn renew(outcomes: &[Outcome]) -> Result<(), Failure> {
    let recorded = load("measurements.json")?;
    let recorded: Value = serde_json::from_str(&recorded)
        .map_err(|cause| Failure::host(format!("docs/measurements.json is not what was recorded: {cause}")))?;
    let page = load("measurements.md")?;
    let boards = page.find(report::BOARDS).and_then(|at| page.get(at..)).unwrap_or_default();
    let (all, dates) = merged(outcomes, &recorded, &date());
    let mut form = report::json_form(&all);
    for (row, date) in form["measurements"].as_array_mut().into_iter().flatten().zip(&dates) {
        row["date"] = json!(date);
    }
    for key in ["date", "boards", "command", "qemu", "guest_packages"] {
        form[key] = recorded[key].clone();
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut head = vec![
        format!("date: {}", text(&form["date"])),
        format!("command: `{}`", text(&form["command"])),
        format!("QEMU {}", text(&form["qemu"])),
    ];
    let guests = form["guest_packages"].as_array().into_iter().flatten();
    head.extend(guests.map(|package| format!("guest package {}", text(package))));
    head.extend(later(&all, &dates, &text(&form["date"])));
    save("measurements.json", &format!("{form:#}\n"))?;
    save("measurements.md", &(report::page(&all, &head) + boards))
}

/// All rows that are measured or recorded, in the order of the table, with their days.
fn merged(outcomes: &[Outcome], recorded: &Value, today: &str) -> (Vec<Outcome>, Vec<String>) {
    let of_row = |row: &'static Row| {
        if let Some(outcome) = outcomes.iter().find(|outcome| outcome.row.name == row.name) {
            return Some((outcome.clone(), today.to_owned()));
        }
        let known = recorded["measurements"].as_array()?.iter().find(|known| known["name"] == row.name)?;
        let texts = |key: &str| {
            let texts = known[key].as_array().into_iter().flatten();
            texts.filter_map(|text| text.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let found = match known["number"].as_f64() {
            Some(value) => Ok(Found::new(value, texts("details"))),
            None => Err(Failure::wrong(known["error"].as_str().unwrap_or_default().to_owned())),
        };
        let date = known["date"].as_str().or(recorded["date"].as_str()).unwrap_or_default();
        Some((Outcome { row, found, runs: texts("runs") }, date.to_owned()))
    };
    rows::all().filter_map(of_row).unzip()
}

/// A line for each day on which rows were measured alone.
fn later(all: &[Outcome], dates: &[String], first: &str) -> Vec<String> {
    let days: BTreeSet<&String> = dates.iter().filter(|date| *date != first).collect();
    let line = |day: &String| {
        let of_day = all.iter().zip(dates).filter(|(_, date)| *date == day);
        let names: Vec<String> = of_day.map(|(outcome, _)| format!("`{}`", outcome.row.name)).collect();
        format!("measured alone on {day}: {}", names.join(", "))
    };
    days.into_iter().map(line).collect()
}

/// Debian packages of the Linux guest with their versions, as `./x` wrote them down.
pub(crate) fn guest_packages() -> Vec<String> {
    let path = Options::from_environment(None).guests.map(|guests| guests.join("linux/versions"));
    let text = path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Reads a file of the documentation.
fn load(name: &str) -> Result<String, Failure> {
    let path = bulkhead_ledger::repository().join("docs").join(name);
    std::fs::read_to_string(&path).map_err(|cause| Failure::host(format!("cannot read {}: {cause}", path.display())))
}

/// Writes a file of the documentation.
fn save(name: &str, text: &str) -> Result<(), Failure> {
    replace(&bulkhead_ledger::repository().join("docs").join(name), text)
}

/// Writes a file, so that a reader finds the old one or the new one.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    bulkhead_files::write::whole(path, text.as_bytes())
        .map_err(|error| Failure::host(format!("cannot write {}: {}", error.path.display(), error.cause)))
}

/// Today in UTC, as `2026-01-31`.
pub(crate) fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days since 1970-01-01 in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that is measured again has its new value and day; the others have theirs, and the sentences of today.
    #[test]
    fn a_row_measured_alone_leaves_the_others() {
        let mut all = rows::all();
        let (first, second) = (all.next().expect("a row"), all.next().expect("another row"));
        let recorded = json!({ "date": "2026-01-01", "measurements": [
            { "name": first.name, "number": 7.0, "details": ["as it was"], "runs": ["a run"] },
            { "name": second.name, "number": 8.0, "details": [], "runs": [] },
            { "name": "gone.row", "number": 9.0 },
        ] });
        let outcome = Outcome { row: second, found: Ok(Found::new(1.0, [])), runs: Vec::new() };
        let (all, dates) = merged(&[outcome], &recorded, "2026-01-02");
        assert_eq!(all.iter().map(|outcome| outcome.row.name).collect::<Vec<_>>(), [first.name, second.name]);
        assert_eq!(all[0].found, Ok(Found::new(7.0, ["as it was".to_owned()])));
        assert_eq!(
            (all[0].runs.as_slice(), &all[1].found),
            (["a run".to_owned()].as_slice(), &Ok(Found::new(1.0, [])))
        );
        assert_eq!(dates, ["2026-01-01", "2026-01-02"]);
        assert_eq!(later(&all, &dates, "2026-01-01"), [format!("measured alone on 2026-01-02: `{}`", second.name)]);
    }

    /// CH-60, CH-E4, CH-E5: each row of the kernel is recorded, and one that is counted 100,000 times over as many runs.
    #[test]
    fn each_row_of_the_kernel_is_recorded_over_all_its_runs() {
        let recorded: Value = serde_json::from_str(&load("measurements.json").expect("it is there")).expect("JSON");
        let recorded = recorded["measurements"].as_array().expect("a list");
        let is_over_all = |detail: &Value| detail.as_str().is_some_and(|text| text.contains(" in 100000 runs"));
        for row in rows::all().filter(|row| row.name.starts_with("kernel.")) {
            let known = recorded.iter().find(|known| known["name"] == row.name);
            let known = known.unwrap_or_else(|| panic!("{} is not recorded", row.name));
            assert_eq!(known["how"], row.how, "{}", row.name);
            let details = known["details"].as_array().expect("a list");
            let is_so = !row.how.contains("100,000 times") || details.iter().any(is_over_all);
            assert!(is_so, "{}: {details:?}", row.name);
        }
    }

    #[test]
    fn days_become_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_453, (2025, 12, 31)),
            (20_454, (2026, 1, 1)),
        ] {
            assert_eq!(civil(days), date, "{days}");
        }
    }
}
