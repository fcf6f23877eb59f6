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

/// Paths that a reader makes or that a benchmark writes, by what they start with.
const MADE_BY_READERS: &[&str] = &["systems/mine", "guests/display", "boards/NAME", "docs/measurements"];

#[test]
fn files_and_tests_that_documents_name_exist() {
    let mut named = 0;
    let documents = bulkhead_ledger::files(&["docs"], &[".md"]);
    // Generated chapters repeat what the sources say, other projects' paths included; designs name what is planned
    // (tests/specification.rs).
    let is_elsewhere = |path: &str| path.starts_with(FOLDER) || path.starts_with("docs/specification/");
    for (path, text) in documents.iter().filter(|(path, _)| !is_elsewhere(path)) {
        for token in text.split('`').skip(1).step_by(2).filter(|token| is_path(token)) {
            let (file, function) = token.split_once(": ").unwrap_or((token, ""));
            let found = bulkhead_ledger::repository().join(file);
            assert!(found.exists(), "{path} names `{file}`, which does not exist");
            let has_function = function.is_empty() || page::read(file).contains(&definition(file, function));
            assert!(has_function, "{path} names the test `{function}`, which is not in {file}");
            named += 1;
        }
    }
    assert!(named > 100, "only {named} names were recognised");
}

/// Records with a table of mistakes, and where descriptions with them are.
const MISTAKES: &[(&str, &[&str])] = &[
    ("docs/design-records/0045-bad-input-of-devices.md", &["tool/description/tests/bad"]),
    (
        "docs/design-records/0068-largest-counts-and-bad-input-of-instances.md",
        &["tool/description/tests/kernels/bad", "tool/description/tests/bad"],
    ),
];

/// Each mistake that a record promises to refuse has a description that gives its code.
#[test]
fn mistakes_that_records_promise_to_refuse_have_fixtures() {
    for (record, folders) in MISTAKES {
        let text = page::read(record);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
        let mut shown = 0;
        for row in rows.iter().filter(|row| row.len() == 5 && row[2].starts_with("BH")) {
            let (codes, fixtures) = (row[2].split([',', ' ']), row[3].split('`').skip(1).step_by(2));
            let names: Vec<&str> = fixtures.filter(|name| !name.contains('/')).collect();
            for code in codes.filter(|word| word.starts_with("BH")) {
                let gives = |name: &&str| folders.iter().any(|folder| expects(folder, name, code));
                let is_elsewhere = row[3].contains('/');
                assert!(is_elsewhere || names.iter().any(gives), "{record}: {row:?} and no {code}");
                shown += 1;
            }
        }
        assert!(shown >= 15, "{record}: only {shown} codes were recognised");
    }
}

/// A description of this name says that it gives the code.
fn expects(folder: &str, name: &str, code: &str) -> bool {
    let texts = ["kernel.toml", "toml"].map(|ending| page::read(&format!("{folder}/{name}.{ending}")));
    let codes = texts.iter().filter_map(|text| text.lines().next()?.strip_prefix("# expect: "));
    codes.flat_map(str::split_whitespace).any(|one| one == code)
}

/// How a test stands in its file, or a place that is broken on purpose in its script.
fn definition(file: &str, name: &str) -> String {
    if file.ends_with(".sh") { format!("\n        {name})") } else { format!("fn {name}(") }
}

/// Tells a path of the repository from other words in code letters.
fn is_path(token: &str) -> bool {
    let first = token.split('/').next().unwrap_or_default();
    let is_folder = bulkhead_ledger::CODE_FOLDERS.contains(&first) || matches!(first, "boards" | "docs" | "systems");
    let is_plain =
        !token.contains(['*', '$', '<', '\n']) && !MADE_BY_READERS.iter().any(|made| token.starts_with(made));
    token.contains('/') && is_folder && is_plain
}
