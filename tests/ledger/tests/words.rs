//! Words that make a reader stop are not used in our texts.

use bulkhead_ledger::files;

/// Each has a plainer expression: "the vCPU that", "whichever", "again", "a new one".
const STILTED: &[&str] = &["whoever", "anew"];
/// What people write: code, pages, descriptions, assembly.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".s"];
/// Files and folders that may use them, by what their paths start with.
const EXEMPT: &[&str] = &[
    // Quoted requirements, and the page that repeats them.
    "docs/specification/",
    "docs/requirements.md",
    // Quotes the subjects of commits.
    "docs/base-findings.md",
    // The list above.
    "tests/ledger/tests/words.rs",
];

/// The stilted words of a line. An identifier is one word: a function's name may contain them.
fn stilted(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|one: char| !one.is_alphanumeric() && one != '_');
    words.filter(|word| STILTED.iter().any(|stilted| word.eq_ignore_ascii_case(stilted)))
}

#[test]
fn stilted_words_are_found_in_any_case_and_as_words_alone() {
    let found: Vec<&str> = stilted("Whoever wanted it, started anew.").collect();
    assert_eq!(found, ["Whoever", "anew"]);
    assert_eq!(stilted("renewed Janewise six_start_anew whichever").count(), 0);
}

#[test]
fn our_texts_have_no_stilted_words() {
    let all = files(&[""], ENDINGS);
    for ending in ENDINGS {
        assert!(all.iter().filter(|(path, _)| path.ends_with(ending)).count() >= 5, "{ending}: was a folder moved?");
    }
    let mut found = String::new();
    for (path, text) in all.iter().filter(|(path, _)| !EXEMPT.iter().any(|exempt| path.starts_with(exempt))) {
        for (number, line) in (1..).zip(text.lines()) {
            for word in stilted(line) {
                found += &format!("{path}:{number}: {word}\n");
            }
        }
    }
    assert!(found.is_empty(), "say it more plainly:\n{found}");
}
