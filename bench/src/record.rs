//! Writes the last full run to the documentation.

use crate::{Failure, Outcome, boards, report};
use bulkhead_description::Options;
use bulkhead_run::qemu;
use serde_json::json;
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

/// Debian packages of the Linux guest with their versions, as `./x` wrote them down.
pub(crate) fn guest_packages() -> Vec<String> {
    let path = Options::from_environment(None).guests.map(|guests| guests.join("linux/versions"));
    let text = path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
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
    use super::civil;

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
