//! The scripts that break one place after the other: each place is there, exactly once. One that went away breaks nothing, and is noticed else when somebody runs the script.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What all of them take in.
const COMMON: &str = "common.sh";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../mutants")
}

fn scripts() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("the folder of the scripts");
    let mut scripts: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    scripts.retain(|path| path.file_name().is_some_and(|name| name != COMMON));
    scripts.sort();
    assert!(scripts.len() >= 6, "{scripts:?}");
    scripts
}

#[test]
fn each_place_that_is_broken_is_there_once() {
    for script in scripts() {
        let output = Command::new("sh").arg(&script).env("ON", "places").output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{}:\n{said}", script.display());
    }
}

/// What a script can break is in its list, by which it breaks all, and each that is in the list is another one.
#[test]
fn each_place_that_can_be_broken_is_in_the_list() {
    for script in scripts() {
        let text = std::fs::read_to_string(&script).expect("a text");
        let list = text.split_once("\nplaces=\"").and_then(|(_, list)| list.split_once('"'));
        let (list, _) = list.unwrap_or_else(|| panic!("{} has no list", script.display()));
        let list: Vec<_> = list.split_whitespace().filter(|one| *one != "\\").collect();
        let (_, rest) = text.split_once("\nbreak_place() {").expect("its places");
        let (places, _) = rest.split_once("\n}").expect("their end");
        // A label begins a line, eight places to the right.
        let label = |line: &str| {
            let (label, _) = line.strip_prefix("        ")?.split_once(')')?;
            label
                .bytes()
                .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'_')
                .then(|| label.to_owned())
        };
        let labels: BTreeSet<_> = places.lines().filter_map(label).collect();
        assert_eq!(labels, list.iter().map(|&one| one.to_owned()).collect(), "{}", script.display());
        assert_eq!(labels.len(), list.len(), "{}: one is in the list twice", script.display());
    }
}
