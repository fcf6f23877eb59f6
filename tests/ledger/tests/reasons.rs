//! What the code cannot say itself is said beside it.

use bulkhead_ledger::{files, reasons};

/// Folders whose code is judged.
const FOLDERS: &[&str] = &["arch", "monitor"];

#[test]
fn assembly_barriers_orderings_and_inlining_have_reasons() {
    let mut missing = String::new();
    let files = files(FOLDERS, &[".rs", ".s"]);
    assert!(files.iter().filter(|(path, _)| path.ends_with(".s")).count() >= 3, "was a folder moved?");
    for (path, text) in files {
        if path.starts_with("monitor/src/tests/") {
            continue;
        }
        let sites = if path.ends_with(".s") { reasons::assembly(&text) } else { reasons::rust(&text) };
        for site in sites {
            missing += &format!("{path}:{}: {}\n", site.line, site.kind);
        }
    }
    assert!(missing.is_empty(), "say why, on the line or above it:\n{missing}");
}
