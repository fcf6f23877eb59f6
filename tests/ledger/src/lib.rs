//! Keeps the documentation honest: what it says about the code is counted again by a test.
//!
//! Four kinds of statement rot in prose: how much unsafe code there is, how much code runs at EL2, what is linked, and
//! which test shows which requirement. Here each is computed from the sources, written to `docs/`, and compared by a test of this crate.
//! A reader who wants the new state sets `BULKHEAD_BLESS=1`; then the test writes the file instead of comparing. Columns written by hand (the reasons)
//! survive that, and a row without a reason fails.
//!
//! The counting works on text with comments and literals blanked ([`source`]), not on a syntax tree: a parser of Rust would
//! be the largest dependency of the repository, for three questions that a lexer answers.
#![forbid(unsafe_code)]

pub mod code_lines;
pub mod items;
pub mod kernel_lines;
pub mod page;
pub mod promises;
pub mod reasons;
pub mod requirements;
pub mod secure_monitor;
pub mod source;
pub mod specification;
pub mod table;
pub mod unsafe_sites;

use std::path::{Path, PathBuf};

/// Returns the root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.ancestors().nth(2).unwrap_or(crate_folder).to_path_buf()
}

/// Returns every file below `folders` (relative to the repository) whose name ends in one of `endings`, sorted, as
/// (path relative to the repository with forward slashes, text). Build products are left out.
#[must_use]
pub fn files(folders: &[&str], endings: &[&str]) -> Vec<(String, String)> {
    let root = repository();
    let mut found = Vec::new();
    for folder in folders {
        collect(&root, &root.join(folder), endings, &mut found);
    }
    found.sort();
    found
}

fn collect(root: &Path, folder: &Path, endings: &[&str], found: &mut Vec<(String, String)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "corpus" && !name.starts_with('.') {
                collect(root, &path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending))
            && let (Ok(text), Ok(relative)) = (std::fs::read_to_string(&path), path.strip_prefix(root))
        {
            found.push((relative.to_string_lossy().replace('\\', "/"), text));
        }
    }
}

/// Folders with code of the project.
pub const CODE_FOLDERS: &[&str] = &[
    "arch",
    "bench",
    "components",
    "core",
    "fuzz",
    "guests",
    "linux",
    "monitor",
    "sdk",
    "secure-monitor",
    "tests",
    "tool",
];
