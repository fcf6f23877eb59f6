//! Lines of code that are linked at EL2.
//!
//! A line counts if something is left of it without comments, tests and white space. Data and declarations count like statements:
//! a reader of the trusted code reads them too. Counted by file, not by what the linker keeps, so the number is an upper bound.

use crate::source::{Source, test_items};

/// Crates linked at EL2: name and folder.
pub const EL2_CRATES: &[(&str, &str)] = &[
    ("bulkhead-abi", "core/abi/src"),
    ("bulkhead-arch", "arch/src"),
    ("bulkhead-arm", "core/arm/src"),
    ("bulkhead-emulation", "core/emulation/src"),
    ("bulkhead-monitor", "monitor/src"),
    ("bulkhead-sched", SCHED_FOLDER),
    ("bulkhead-schedule", "core/schedule/src"),
    ("bulkhead-words", "core/words/src"),
];

/// Files of these folders that are not linked at EL2: host tests, and the lists of registers that documentation and tests are made from.
const LEFT_OUT: &[&str] =
    &["arch/src/fake.rs", "core/emulation/src/registers.rs", "core/emulation/src/state.rs", "monitor/src/tests"];

/// Modules of `bulkhead-sched` that EL2 uses. The monitor shares the crate with analyser and simulator, and each function of it that
/// nobody at EL2 calls is left out by the linker. The test below compares the list with what EL2 names.
const SCHED_AT_EL2: &[&str] = &["budget", "cyclic", "dates", "dispatch", "limiter", "quantum", "ready", "server"];
const SCHED_FOLDER: &str = "core/sched/src";

/// States whether a file is linked at EL2.
fn is_linked(path: &str) -> bool {
    if LEFT_OUT.iter().any(|left_out| path.starts_with(left_out)) {
        return false;
    }
    let Some(module) = path.strip_prefix(SCHED_FOLDER).and_then(|rest| rest.strip_prefix('/')) else { return true };
    let module = module.split(['/', '.']).next().unwrap_or_default();
    module == "lib" || SCHED_AT_EL2.contains(&module)
}

/// Code lines of one crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeLines {
    /// Rust.
    pub rust: usize,
    /// Assembly files.
    pub assembly: usize,
}

impl CodeLines {
    /// Returns both together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.rust + self.assembly
    }
}

/// Crates that are counted apart: monitor, analysis and simulator share scheduler and words, each tested as a crate of its own, and
/// the facts of the architecture are constants that guests use as well.
pub const SHARED_CRATES: &[&str] = &["bulkhead-arm", "bulkhead-sched", "bulkhead-schedule", "bulkhead-words"];

/// Counts the code lines of each crate at EL2.
#[must_use]
pub fn at_el2() -> Vec<(&'static str, CodeLines)> {
    EL2_CRATES.iter().map(|(name, folder)| (*name, of_folder(folder))).collect()
}

fn of_folder(folder: &str) -> CodeLines {
    let mut lines = CodeLines::default();
    for (path, text) in crate::files(&[folder], &[".rs", ".s"]).into_iter().filter(|(path, _)| is_linked(path)) {
        if path.ends_with(".s") {
            lines.assembly += assembly(&text);
        } else {
            lines.rust += rust(&text);
        }
    }
    lines
}

/// Counts lines of Rust without blanks, comments and items for tests.
#[must_use]
pub fn rust(text: &str) -> usize {
    let source = Source::new(text);
    let mut kept = source.without_comments().into_bytes();
    for range in test_items(&source.code()) {
        kept[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    String::from_utf8_lossy(&kept).lines().filter(|line| !line.trim().is_empty()).count()
}

/// Counts lines of assembly without blanks and comments.
#[must_use]
pub fn assembly(text: &str) -> usize {
    let without_comment = |line: &str| line.split("//").next().unwrap_or_default().trim().to_owned();
    text.lines().filter(|line| !without_comment(line).is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every module of `bulkhead-sched` that code at EL2 names is in the list, and what those use in turn.
    #[test]
    fn the_modules_of_sched_at_el2_are_listed() {
        for (_, folder) in EL2_CRATES {
            let prefix = if *folder == SCHED_FOLDER { "crate::" } else { "bulkhead_sched::" };
            for (path, text) in crate::files(&[folder], &[".rs"]).iter().filter(|(path, _)| is_linked(path)) {
                let code = Source::new(text).code();
                for (start, _) in code.match_indices(prefix) {
                    let name: String = code[start + prefix.len()..]
                        .chars()
                        .take_while(|one| one.is_alphanumeric() || *one == '_')
                        .collect();
                    assert!(
                        SCHED_AT_EL2.contains(&name.as_str()),
                        "{path} uses bulkhead_sched::{name}; add it to SCHED_AT_EL2"
                    );
                }
            }
        }
    }

    #[test]
    fn only_code_counts() {
        let text = "//! Head.\n\n/// Doc.\nfn a() {\n    // why\n    b(); // what\n}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\nconst S: &str = \"//\";\n";
        assert_eq!(rust(text), 4);
        assert_eq!(assembly("// head\nlabel:\n    mov x0, x1 // why\n\n"), 2);
    }
}
