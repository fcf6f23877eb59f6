//! The attacks on devices in the threat model: each group leads to a test, and each break that was chosen beforehand to what refuses it and to what
//! lands. That what is named there exists is for `reference.rs` to say.

use bulkhead_ledger::page;
use std::collections::BTreeSet;

const PAGE: &str = "docs/threat-model.md";
/// Groups of attacks that were agreed on.
const GROUPS: u32 = 25;
/// Breaks that were agreed on.
const BREAKS: usize = 7;

/// The cells of the rows of the first table behind this text.
fn table(text: &str, behind: &str) -> Vec<Vec<String>> {
    let (_, rest) = text.split_once(behind).unwrap_or_else(|| panic!("{PAGE} has no {behind:?}"));
    let rows = rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    rows.skip(2).map(cells).collect()
}

/// Names of a file and something in it.
fn names(cell: &str) -> Vec<(&str, &str)> {
    cell.split('`').skip(1).step_by(2).filter_map(|name| name.split_once(": ")).collect()
}

/// `H1 to H6, H9` as numbers.
fn groups(cell: &str) -> Vec<u32> {
    let number = |word: &str| word.trim().trim_start_matches('H').parse().ok();
    let range = |part: &str| match part.split_once(" to ") {
        Some((first, last)) => number(first).zip(number(last)).map(|(first, last)| (first..=last).collect()),
        None => number(part).map(|one| vec![one]),
    };
    cell.split(',').filter_map(range).collect::<Vec<Vec<u32>>>().concat()
}

#[test]
fn every_group_of_attacks_leads_to_a_test_on_a_machine() {
    let rows = table(&page::read(PAGE), "\n## Devices\n");
    let mut found = BTreeSet::new();
    for row in &rows {
        let [group, attack, _, shown, broken] = &row[..] else { panic!("{row:?} has not five cells") };
        let groups = groups(group);
        let is_on_machine = |name: &(&str, &str)| name.0.starts_with("tests/system/tests/");
        assert!(!names(shown).is_empty(), "{attack}: no test is named");
        assert!(groups.is_empty() || names(shown).iter().any(is_on_machine), "{attack}: no test on a machine is named");
        let scripts = names(broken);
        assert!(scripts.iter().all(|(file, _)| file.starts_with("tests/mutants/")), "{attack}: {scripts:?}");
        assert!(!scripts.is_empty() || broken.starts_with('–'), "{attack}: neither a break nor a dash");
        found.extend(groups);
    }
    assert_eq!(found, (1..=GROUPS).collect());
}

#[test]
fn every_break_is_refused_and_lands() {
    let rows = table(&page::read(PAGE), "\nSeven breaks were chosen beforehand.");
    assert_eq!(rows.len(), BREAKS);
    for row in &rows {
        let [what, refused, lands] = &row[..] else { panic!("{row:?} has not three cells") };
        assert!(!names(refused).is_empty() && !names(lands).is_empty(), "{what}: something is not named");
        // What changes an image for `verify` has a name of its own there.
        let verify =
            names(refused).iter().find(|(file, _)| file.starts_with("tool/verify/")).map(|(file, _)| page::read(file));
        let quoted: Vec<&str> = refused.split('"').skip(1).step_by(2).collect();
        assert_eq!(verify.is_some(), !quoted.is_empty(), "{what}");
        let verify = verify.unwrap_or_default();
        for name in quoted {
            assert!(verify.contains(&format!("(\"{name}\", Code::")), "{what}: no change of an image is {name:?}");
        }
    }
}
