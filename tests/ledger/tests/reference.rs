//! The reference chapters of the book are what the types and constants say.

mod pages;

use bulkhead_ledger::page;

/// Folder of the reference chapters.
const FOLDER: &str = "docs/book/src/reference";

#[test]
fn the_reference_chapters_are_current() {
    for (name, text) in pages::all() {
        page::check(&format!("{FOLDER}/{name}"), &text);
    }
}

#[test]
fn every_chapter_is_in_the_summary_and_exists() {
    let summary = page::read("docs/book/src/SUMMARY.md");
    let listed: Vec<&str> = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(listed.len() > 10, "{listed:?}");
    for path in &listed {
        assert!(
            !page::read(&format!("docs/book/src/{path}")).is_empty(),
            "SUMMARY.md names {path}, which does not exist"
        );
    }
    for (path, _) in bulkhead_ledger::files(&["docs/book/src"], &[".md"]) {
        let relative = path.trim_start_matches("docs/book/src/");
        assert!(relative == "SUMMARY.md" || listed.contains(&relative), "{path} is not in SUMMARY.md");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = bulkhead_ledger::repository();
    for (path, text) in bulkhead_ledger::files(&["docs"], &[".md"]) {
        let folder = root.join(&path).parent().expect("a folder").to_path_buf();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let is_local = !target.is_empty() && !target.contains("://") && !target.contains(' ');
            assert!(!is_local || folder.join(target).exists(), "{path}: the link to {target} leads nowhere");
        }
    }
}
