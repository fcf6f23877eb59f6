//! Which test shows which requirement.
//!
//! A test names the requirements that it shows: in its body, in the comment above it, in its name (`qv_9_...`), or in the head of
//! its file, which stands for all of the file. An experiment's name has an E before its number (`SP-E2`, `sp_e2_...`). This module
//! collects the names; it does not judge whether the test is good enough. Ranges are not understood: `QV-1 to QV-3` names two.

use crate::promises;
use crate::promises::{FAMILIES as PROMISES, Family, State};
use crate::source::{Source, functions, test_items};
use crate::specification::Requirement;
use crate::table::{MISSING_REASON, cell, head, row};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Tests by requirement: identifier to `file: function` (or the file alone).
pub type Citations = BTreeMap<String, BTreeSet<String>>;

/// Families of identifiers.
const FAMILIES: &[&str] = &["QV", "MZ", "SP", "SG", "CH", "RR", "PF", "MR", "RATE", "CF"];

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

/// Returns identifiers such as `QV-9` and `MZ-E1` (also `qv_9` and `mz_e1` in names) with their places.
fn identifiers(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for family in FAMILIES {
        for (spelling, separator) in [((*family).to_owned(), '-'), (family.to_lowercase(), '_')] {
            for (at, _) in text.match_indices(&spelling) {
                let joined = |letter: char| letter.is_ascii_alphabetic() || (separator == '-' && letter == '_');
                let Some(rest) = text[at + spelling.len()..].strip_prefix(separator) else { continue };
                let experiment = if separator == '-' { 'E' } else { 'e' };
                let (letter, rest) = rest.strip_prefix(experiment).map_or(("", rest), |rest| ("E", rest));
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                if !digits.is_empty() && !text[..at].ends_with(joined) {
                    found.push((at, format!("{family}-{letter}{digits}")));
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
pub fn page(requirements: &[Requirement], citations: &Citations, measured: &BTreeMap<String, Vec<String>>) -> String {
    let states: BTreeMap<_, _> = promises::entries().collect();
    let mut text = String::from(
        "# Requirements and the tests that show them\n\n\
         Every requirement and experiment of the [specification](specification/requirements.md), in its own words and sense, and what\n\
         there is of it: *shown*, *in part* with what is missing, or *not built* with where or why.\n\n\
         Generated by `cargo test -p bulkhead-ledger`; `BULKHEAD_BLESS=1` writes it. States are in `tests/ledger/src/promises`, tests are\n\
         those that cite the identifier: a place to look, not a proof. The last column is from `docs/measurements.json`, where there\n\
         is one: what the last published run measured. A dash means that no number belongs to the requirement or that none was\n\
         published.\n\n",
    );
    text += &head(&["paper", "shown", "in part", "not built"]);
    for family in PROMISES {
        let count =
            |wanted: fn(&State) -> bool| family.entries().filter(|(_, state)| wanted(state)).count().to_string();
        let shown = count(|state| *state == State::Shown);
        let in_part = count(|state| matches!(state, State::InPart(_)));
        text += &row(&[family.title, &shown, &in_part, &count(|state| matches!(state, State::NotBuilt(_)))]);
    }
    for family in PROMISES {
        write_family(&mut text, family, requirements, &states, citations, measured);
    }
    text += "\n## Cited besides\n\nTests also cite these facts, measuring rules and golden examples of the specification.\n\n";
    text += &head(&["id", "tests"]);
    let mut others: Vec<_> = citations.iter().filter(|(id, _)| !states.contains_key(id.as_str())).collect();
    others.sort_by_key(|(id, _)| order(id));
    for (id, tests) in others {
        text += &row(&[id, &tests_cell(Some(tests))]);
    }
    text
}

fn write_family(
    text: &mut String,
    family: &Family,
    requirements: &[Requirement],
    states: &BTreeMap<&str, State>,
    citations: &Citations,
    measured: &BTreeMap<String, Vec<String>>,
) {
    writeln!(text, "\n## {}\n", family.title).expect("a String");
    *text += &head(&["id", "requirement", "state", "tests", "last measured"]);
    let prefix = format!("{}-", family.prefix);
    for Requirement { id, text: wanted } in requirements.iter().filter(|one| one.id.starts_with(&prefix)) {
        let state = match states.get(id.as_str()) {
            Some(State::Shown) => "shown".to_owned(),
            Some(State::InPart(missing)) => format!("in part: {missing}"),
            Some(State::NotBuilt(why)) => format!("not built: {why}"),
            None => MISSING_REASON.to_owned(),
        };
        let numbers = measured.get(id).map_or_else(|| "–".to_owned(), |values| cell(&values.join("; ")));
        *text += &row(&[id, &cell(wanted), &cell(&state), &tests_cell(citations.get(id)), &numbers]);
    }
}

/// Family, experiments behind the others, number.
fn order(id: &str) -> (String, bool, u32) {
    let (family, number) = id.split_once('-').unwrap_or((id, "0"));
    let digits = number.trim_start_matches('E');
    (family.to_owned(), digits.len() < number.len(), digits.parse().unwrap_or(0))
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
    fn experiments_and_every_family_are_known() {
        let text = "/// MZ-E1 (iv), SP-10, RR-03, XSP-1, SP-E, SP-EL2.\n#[test]\nfn sp_e4_rr_02_sp_el0() {}\n";
        let mut found = Citations::new();
        cite_file("x/tests/y.rs", text, &mut found);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["MZ-E1", "RR-02", "RR-03", "SP-10", "SP-E4"]);
    }

    #[test]
    fn experiments_stand_behind_the_others_of_their_family() {
        let mut ids = ["SP-E10", "SP-12", "SP-E2", "SG-50", "SP-2"];
        ids.sort_by_key(|id| order(id));
        assert_eq!(ids, ["SG-50", "SP-2", "SP-12", "SP-E2", "SP-E10"]);
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
