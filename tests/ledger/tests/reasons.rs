//! What the code cannot say itself is said beside it.

use bulkhead_ledger::{files, reasons};

/// Folders whose code is judged.
const FOLDERS: &[&str] = &["arch", "monitor"];

/// Files whose reasons are still to be written.
const TO_COME: &[&str] = &[
    "arch/src/el2/boot.s",
    "arch/src/el2/machine.rs",
    "arch/src/el2/mod.rs",
    "arch/src/el2/registers.rs",
    "arch/src/el2/reset.rs",
    "arch/src/el2/switch.s",
    "arch/src/el2/vectors.s",
    "arch/src/lib.rs",
];

#[test]
fn assembly_barriers_orderings_and_inlining_have_reasons() {
    let mut missing = String::new();
    let files = files(FOLDERS, &[".rs", ".s"]);
    assert!(files.iter().filter(|(path, _)| path.ends_with(".s")).count() >= 3, "was a folder moved?");
    for (path, text) in files {
        if path.starts_with("monitor/src/tests/") || TO_COME.contains(&path.as_str()) {
            continue;
        }
        let sites = if path.ends_with(".s") { reasons::assembly(&text) } else { reasons::rust(&text) };
        for site in sites {
            missing += &format!("{path}:{}: {}\n", site.line, site.kind);
        }
    }
    assert!(missing.is_empty(), "say why, on the line or above it:\n{missing}");
}
