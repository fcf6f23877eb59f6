//! Places where the compiler's guarantees end.

use crate::source::Source;
use crate::table::{cell, head, reason, reasons, row};
use std::fmt::Write;

/// Unsafe sites of one file, by form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    /// `unsafe { }`.
    pub blocks: usize,
    /// `unsafe fn`.
    pub functions: usize,
    /// `unsafe impl` and `unsafe trait`.
    pub implementations: usize,
    /// `unsafe extern` blocks.
    pub foreign: usize,
    /// `#[unsafe(...)]`.
    pub attributes: usize,
}

impl Sites {
    /// Returns all forms together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.blocks + self.functions + self.implementations + self.foreign + self.attributes
    }

    fn add(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.functions += other.functions;
        self.implementations += other.implementations;
        self.foreign += other.foreign;
        self.attributes += other.attributes;
    }

    fn cells(&self) -> [String; 6] {
        [self.blocks, self.functions, self.implementations, self.foreign, self.attributes, self.total()]
            .map(|count| count.to_string())
    }
}

/// Counts the sites of a text.
#[must_use]
pub fn count(text: &str) -> Sites {
    let code = Source::new(text).code();
    let mut sites = Sites::default();
    for (at, word) in code.match_indices("unsafe") {
        let before = code[..at].chars().next_back();
        let rest = &code[at + word.len()..];
        let is_part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
        if is_part(before) || is_part(rest.chars().next()) {
            continue;
        }
        let rest = rest.trim_start();
        let up_to_body = rest.split('{').next().unwrap_or_default();
        if rest.starts_with('{') {
            sites.blocks += 1;
        } else if rest.starts_with('(') {
            sites.attributes += 1;
        } else if rest.starts_with("impl") || rest.starts_with("trait") {
            sites.implementations += 1;
        } else if rest.starts_with("extern") && !up_to_body.contains("fn ") {
            sites.foreign += 1;
        } else if up_to_body.contains("fn ") || rest.starts_with("extern") {
            sites.functions += 1;
        }
    }
    sites
}

/// Parts of the system in the order of trust: title and folders. A folder within another part's folder is its own.
const PARTS: &[(&str, &[&str])] = &[
    (
        "At EL2",
        &[
            "core/words",
            "core/abi",
            "core/arm",
            "core/device",
            "core/emulation",
            "core/sched",
            "core/schedule",
            "arch",
            "monitor",
        ],
    ),
    ("Shared by guests and tools", &["core/guest-abi", "core/channel", "core/plan", "core/virtqueue"]),
    ("In the real-time kernel and its components", &["arch/src/el1/kernel", "kernel", "components", "sdk/component"]),
    ("In guests", &["arch/src/el1", "sdk", "guests", "linux"]),
    ("On the host", &["tool", "tests", "bench", "fuzz"]),
];

/// Makes the ledger; reasons are taken from the text of the old one.
#[must_use]
pub fn ledger(old: &str) -> String {
    let known = reasons(old);
    let mut text = String::from(
        "# Unsafe ledger\n\n\
         Every place where Rust's guarantees rest on a person's argument, counted by file. `cargo test -p bulkhead-ledger` counts again and fails\n\
         when this page is wrong; `BULKHEAD_BLESS=1 cargo test -p bulkhead-ledger` writes it. The reasons are written by hand and survive.\n\n\
         Clippy refuses an unsafe block without a SAFETY comment (`undocumented_unsafe_blocks`) in every crate, so each block below has one.\n\
         The macros `read_register!` and `write_register!` hold one block each and are used in many places; they count once, where they are\n\
         defined. Assembly files are not Rust and not counted here.\n",
    );
    for (title, folders) in PARTS {
        let mut sum = Sites::default();
        let mut rows = String::new();
        let others: Vec<&str> = PARTS.iter().filter(|part| part.0 != *title).flat_map(|part| part.1).copied().collect();
        let is_others = |path: &str| {
            others.iter().any(|other| path.starts_with(other) && !folders.iter().any(|own| own.starts_with(other)))
        };
        for (path, source) in crate::files(folders, &[".rs"]).into_iter().filter(|(path, _)| !is_others(path)) {
            let sites = count(&source);
            if sites.total() > 0 {
                sum.add(&sites);
                rows += &site_row(&format!("`{path}`"), &sites, &cell(reason(&known, &path)));
            }
        }
        let titles = ["file", "blocks", "functions", "impls", "foreign", "attributes", "all", "why it is needed"];
        let total = site_row(&format!("all: {}", title.to_lowercase()), &sum, "the sum");
        write!(text, "\n## {title}\n\n{}{rows}{total}", head(&titles)).expect("a String");
    }
    text
}

fn site_row(name: &str, sites: &Sites, why: &str) -> String {
    let [blocks, functions, implementations, foreign, attributes, total] = sites.cells();
    row(&[name, &blocks, &functions, &implementations, &foreign, &attributes, &total, why])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_counted_once() {
        let text = "#![deny(unsafe_op_in_unsafe_fn)] // unsafe {\n#[unsafe(no_mangle)] pub unsafe extern \"C\" fn a() { unsafe { b() } }\n\
                    unsafe extern \"C\" { fn c(); }\nunsafe impl Send for X {}\nunsafe fn d() {}\nlet s = \"unsafe {\";";
        let sites = count(text);
        assert_eq!(sites, Sites { blocks: 1, functions: 2, implementations: 1, foreign: 1, attributes: 1 });
    }
}
