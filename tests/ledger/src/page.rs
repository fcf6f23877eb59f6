//! Committed pages that a test compares with what the sources say today.

use crate::repository;
use crate::table::MISSING_REASON;

/// Set to 1, it makes the tests write the pages instead of comparing them.
pub const UPDATE_VARIABLE: &str = "BULKHEAD_BLESS";

/// Reads a page of the repository; empty when there is none.
#[must_use]
pub fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_default()
}

/// Compares a page with what it should be, or writes it when asked to.
///
/// # Panics
/// When they differ, when a reason is missing, or when the page cannot be written.
pub fn check(path: &str, wanted: &str) {
    if std::env::var_os(UPDATE_VARIABLE).is_some() {
        let file = repository().join(path);
        let folder = file.parent().expect("a page lies in a folder");
        std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        std::fs::write(&file, wanted).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let found = read(path);
    if found != wanted {
        let difference = found.lines().zip(wanted.lines()).find(|(old, new)| old != new);
        let (old, new) = difference.unwrap_or(("(the end)", "(more or fewer lines)"));
        panic!(
            "{path} is not what the sources say.\n  committed: {old}\n  should be: {new}\n\
             Look whether the change is meant; if so, run `{UPDATE_VARIABLE}=1 cargo test -p bulkhead-ledger` and commit the page."
        );
    }
    let missing: Vec<&str> = wanted.lines().filter(|line| line.contains(MISSING_REASON)).collect();
    assert!(
        missing.is_empty(),
        "{path}: rows without a reason; write it into the last column:\n{}",
        missing.join("\n")
    );
}
