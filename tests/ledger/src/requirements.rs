//! Which test shows which requirement.
//!
//! A test names the requirements that it shows: in its body, in the comment above it, in its name (`qv_9_...`), or in the head of
//! its file, which stands for all of the file. This module collects the names; it does not judge whether the test is good enough.

use crate::source::{Source, functions, test_items};
use crate::table::{cell, head, row};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A requirement that this part of the project promises, in short words of its own.
pub struct Requirement {
    /// Identifier.
    pub id: &'static str,
    /// What it asks for.
    pub text: &'static str,
}

const fn requirement(id: &'static str, text: &'static str) -> Requirement {
    Requirement { id, text }
}

/// Everything that the foundation covers. Deviations stand in the design records named here.
pub const COVERED: &[Requirement] = &[
    requirement(
        "QV-1",
        "A partition owns cores, a private range of RAM, devices, and its guest; nothing of a guest is shared.",
    ),
    requirement("QV-2", "One monitor per core; it always resumes the same guest and never switches stage-2 roots."),
    requirement("QV-3", "Size of the monitor and of the tables is small, measured and published."),
    requirement(
        "QV-5",
        "No exit in steady state, by counters (holds in `direct`; `mapped` pays one exit per interrupt, record 0003).",
    ),
    requirement("QV-6", "Exits happen for boot, faults, channels and recovery only (with the same deviation)."),
    requirement("QV-7", "Stage 2 gives read, write and execute per 4 KiB page; everything is private by default."),
    requirement("QV-8", "Monitor memory and translation tables are in no guest's map."),
    requirement(
        "QV-9",
        "An access outside the map reaches the local monitor with address, kind, program counter and syndrome; others do not notice.",
    ),
    requirement("QV-12", "Interrupts of a device go to its partition (one owner per interrupt, record 0004)."),
    requirement("QV-13", "What a guest may not see or change is denied: reads look like absence, writes are dropped."),
    requirement(
        "QV-16",
        "Interrupt mode is a choice per partition; a `mapped` guest cannot signal cores outside its partition.",
    ),
    requirement("QV-50", "Channel pages are mapped into the partitions named and into no other."),
    requirement("QV-51", "A status word at each end; the receiver may poll; a doorbell is optional."),
    requirement(
        "QV-52",
        "Ends of a channel have rates of their own; what one costs the other is bounded (by a core each, and the limiter).",
    ),
    requirement("QV-53", "Damage to a channel harms its two ends at most; messages carry sequence and checksum."),
    requirement("QV-70", "A fault is detected: stage-2 fault, or a call of the guest."),
    requirement("QV-74", "A partition restarts without a reboot and others do not change."),
    requirement("MZ-1", "The same guest binary runs with and without Bulkhead."),
    requirement(
        "MZ-2",
        "An interrupt of the running owner enters the guest without the monitor (in `direct`, record 0003).",
    ),
    requirement("MZ-3", "A passed-through device has one user and is accessed without exits."),
    requirement("MZ-4", "The guest's timer interrupt needs no monitor (in `direct`, record 0003)."),
    requirement("SG-60", "A managing partition watches, suspends, resumes and restarts another one."),
    requirement(
        "SG-61",
        "Heartbeat, progress without cooperation, and detection of fault, silence, power-off and reset.",
    ),
    requirement(
        "SG-62",
        "Restart: stop, quiet the interrupts, reload from a protected copy, check it, reset registers, go on.",
    ),
];

/// Requirements whose test is not written yet, with the reason. A row that has a test must go from here.
pub const WITHOUT_TEST: &[(&str, &str)] = &[
    ("QV-52", "the tests of the limiter show the bound on the machine's side; none cites it yet"),
    ("MZ-3", "the test of the passed-through clock shows it; it does not cite it yet"),
];

/// Tests by requirement: identifier to `file: function` (or the file alone).
pub type Citations = BTreeMap<String, BTreeSet<String>>;

/// Families of identifiers.
const FAMILIES: &[&str] = &["QV", "MZ", "SG", "CH", "PF", "MR", "RATE"];

/// Collects the citations of all tests of the repository.
#[must_use]
pub fn citations() -> Citations {
    let mut found = Citations::new();
    for (path, text) in crate::files(crate::CODE_FOLDERS, &[".rs"]) {
        // This crate names every identifier and shows none of them.
        if !path.starts_with("tests/ledger/") {
            cite_file(&path, &text, &mut found);
        }
    }
    found
}

fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "fuzz_targets")
}

/// Adds the citations of one file.
pub fn cite_file(path: &str, text: &str, found: &mut Citations) {
    let code = Source::new(text).code();
    let whole = std::iter::once(0..text.len()).collect();
    let places = if is_test_file(path) { whole } else { test_items(&code) };
    let functions = functions(&code);
    for (at, id) in identifiers(text) {
        if !places.iter().any(|place| place.contains(&at)) {
            continue;
        }
        let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let is_head = text[line_start..].trim_start().starts_with("//!");
        let around = functions.iter().rfind(|function| function.range.contains(&at));
        let next = functions.iter().find(|function| function.range.start > at);
        let place = match around.or(next) {
            Some(function) if !is_head => format!("{path}: {}", function.name),
            _ => path.to_owned(),
        };
        found.entry(id).or_default().insert(place);
    }
}

/// Returns identifiers such as `QV-9` (also `qv_9` in names) with their places.
fn identifiers(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for family in FAMILIES {
        for (spelling, separator) in [((*family).to_owned(), '-'), (family.to_lowercase(), '_')] {
            for (at, _) in text.match_indices(&spelling) {
                let joined = |letter: char| letter.is_ascii_alphabetic() || (separator == '-' && letter == '_');
                let Some(rest) = text[at + spelling.len()..].strip_prefix(separator) else { continue };
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                if !digits.is_empty() && !text[..at].ends_with(joined) {
                    found.push((at, format!("{family}-{digits}")));
                }
            }
        }
    }
    found
}

/// Last measured values by requirement, from `docs/measurements.json`: an object whose `measurements` is a list of objects with
/// `requirements` (list of identifiers), `name` and `value`.
#[must_use]
pub fn measured(json: &str) -> BTreeMap<String, Vec<String>> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let file: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    for entry in file["measurements"].as_array().into_iter().flatten() {
        let value = entry["value"].as_str().map_or_else(|| entry["value"].to_string(), str::to_owned);
        let name = entry["name"].as_str().unwrap_or("?");
        for id in entry["requirements"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str) {
            values.entry(id.to_owned()).or_default().push(format!("{name}: {value}"));
        }
    }
    values
}

/// Makes the page of requirements.
#[must_use]
pub fn page(citations: &Citations, measured: &BTreeMap<String, Vec<String>>) -> String {
    let mut text = String::from(
        "# Requirements and the tests that show them\n\n\
         Generated by `cargo test -p bulkhead-ledger` from the identifiers that tests cite; `BULKHEAD_BLESS=1` writes it. A test that\n\
         cites a requirement is a place to look, not a proof that the requirement is met. The last column is from\n\
         `docs/measurements.json`, where there is one: what the last published run measured. A dash means that no number belongs to the\n\
         requirement or that none was published.\n\n\
         ## Covered now\n\n",
    );
    text += &head(&["id", "requirement", "tests", "last measured"]);
    for requirement in COVERED {
        let numbers = measured.get(requirement.id).map_or_else(|| "–".to_owned(), |values| cell(&values.join("; ")));
        text += &row(&[requirement.id, &cell(requirement.text), &tests_cell(citations.get(requirement.id)), &numbers]);
    }
    text += "\n## Cited besides\n\nTests also cite these requirements, of which only a part exists so far.\n\n";
    text += &head(&["id", "tests"]);
    let mut others: Vec<_> = citations.iter().filter(|(id, _)| COVERED.iter().all(|one| one.id != *id)).collect();
    others.sort_by_key(|(id, _)| order(id));
    for (id, tests) in others {
        text += &row(&[id, &tests_cell(Some(tests))]);
    }
    if !WITHOUT_TEST.is_empty() {
        text += "\n## Without a test\n\n";
        for (id, why) in WITHOUT_TEST {
            writeln!(text, "- {id}: {why}").expect("a String");
        }
    }
    text
}

fn order(id: &str) -> (String, u32) {
    let (family, number) = id.split_once('-').unwrap_or((id, "0"));
    (family.to_owned(), number.parse().unwrap_or(0))
}

fn tests_cell(tests: Option<&BTreeSet<String>>) -> String {
    let Some(tests) = tests else { return "none".to_owned() };
    tests.iter().map(|test| format!("`{test}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_citation_belongs_to_the_test_around_it_or_after_it() {
        let text = "//! Head (QV-1).\n/// Above, MZ-2.\n#[test]\nfn first() {\n    // QV-13: inside\n}\n#[test]\nfn sg_62_by_name() {}\n";
        let mut found = Citations::new();
        cite_file("x/tests/y.rs", text, &mut found);
        let place = |id: &str| found[id].iter().cloned().collect::<Vec<_>>();
        assert_eq!(place("QV-1"), ["x/tests/y.rs"]);
        assert_eq!(place("MZ-2"), ["x/tests/y.rs: first"]);
        assert_eq!(place("QV-13"), ["x/tests/y.rs: first"]);
        assert_eq!(place("SG-62"), ["x/tests/y.rs: sg_62_by_name"]);
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn code_that_is_no_test_cites_nothing() {
        let mut found = Citations::new();
        cite_file("x/src/y.rs", "/// QV-1.\nfn a() {}\n#[cfg(test)]\nmod tests { /* QV-2 */ fn b() {} }", &mut found);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["QV-2"]);
    }

    #[test]
    fn measured_values_are_joined_by_requirement() {
        let values = measured(
            r#"{"measurements":[{"name":"exits","value":0,"requirements":["QV-5"]},{"name":"x","value":"a"}]}"#,
        );
        assert_eq!(values["QV-5"], ["exits: 0"]);
        assert!(measured("").is_empty());
    }
}
