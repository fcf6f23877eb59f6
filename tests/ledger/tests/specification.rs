//! Citations of the specification lead somewhere: file and section.
//!
//! Code cites `docs/specification` by bare names, as in "real-time.md 2.1", because a path in each comment would be longer than what
//! it says. So a renamed file or a section with another number would be noticed by nobody.

use bulkhead_ledger::{CODE_FOLDERS, files, page, repository};

/// Folder of the specification.
const FOLDER: &str = "docs/specification";

/// Paths that a design for later names. What exists has to go from here.
const PLANNED: &[&str] = &["arch/el1"];

/// Everything that cites: sources, descriptions and documents.
fn texts() -> Vec<(String, String)> {
    let folders = [CODE_FOLDERS, &["boards", "docs", "systems"]].concat();
    let mut texts = files(&folders, &[".rs", ".s", ".c", ".h", ".ld", ".toml", ".md"]);
    for name in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Cargo.toml"] {
        texts.push((name.to_owned(), page::read(name)));
    }
    texts
}

/// Every word that ends in `.md`, with the text behind it.
fn documents_named(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices(".md").filter_map(|(at, _)| {
        let behind = &text[at + 3..];
        let goes_on = behind.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '/');
        let start = at - text[..at].rsplit(|letter| !is_part(letter)).next().unwrap_or_default().len();
        let name = text[start..at + 3].trim_start_matches(['.', '/']);
        (start < at && !goes_on).then_some((name, behind))
    })
}

/// The section that stands right behind a name, such as "2.1", "1b" or "7"; links and code letters in between are passed over.
fn section(behind: &str) -> Option<&str> {
    let behind = behind.trim_start_matches(['`', ']']);
    let behind = match behind.strip_prefix('(') {
        Some(link) => link.split_once(')')?.1,
        None => behind,
    };
    let behind = behind.trim_start_matches(' ');
    let words = ["sections ", "section ", "parts ", "part "];
    let behind = words.iter().find_map(|word| behind.strip_prefix(word)).unwrap_or(behind);
    let length = behind.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.').unwrap_or(behind.len());
    let section = behind[..length].trim_end_matches('.');
    section.starts_with(|letter: char| letter.is_ascii_digit()).then_some(section)
}

#[test]
fn documents_that_sources_name_exist() {
    let mut known: Vec<String> = files(&["."], &[".md"]).into_iter().map(|(path, _)| path).collect();
    known.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(str::to_owned));
    let mut named = 0;
    for (path, text) in texts().iter().filter(|(path, _)| !path.starts_with("tests/ledger/")) {
        for (name, _) in documents_named(text) {
            let exists = known.iter().any(|one| one == name || one.ends_with(&format!("/{name}")));
            assert!(exists || FOREIGN.contains(&name), "{path} names {name}, which does not exist");
            named += 1;
        }
    }
    assert!(named > 300, "only {named} names were recognised");
}

/// Documents of other projects.
const FOREIGN: &[&str] = &["CHANGES.md", "configurator.md", "hypervisor/doc/spec.md"];

#[test]
fn sections_that_are_cited_exist() {
    let specification = files(&[FOLDER], &[".md"]);
    assert!(specification.len() >= 7, "{} files", specification.len());
    let mut cited = 0;
    for (path, text) in texts() {
        for (name, behind) in documents_named(&text) {
            let file = name.rsplit('/').next().unwrap_or(name);
            let Some((_, found)) = specification.iter().find(|(one, _)| one.rsplit('/').next() == Some(file)) else {
                continue;
            };
            let is_of_it = name == file || name.contains("specification/");
            let Some(section) = section(behind).filter(|_| is_of_it && file != "README.md") else { continue };
            let has = found.lines().filter(|line| line.starts_with('#')).any(|line| {
                let number = line.trim_start_matches('#').split_whitespace().next().unwrap_or_default();
                number.trim_end_matches('.') == section
            });
            assert!(has, "{path} cites {name} {section}, which is no section of it");
            cited += 1;
        }
    }
    assert!(cited > 60, "only {cited} sections were recognised");
}

#[test]
fn designs_name_what_exists_or_is_planned() {
    for planned in PLANNED {
        assert!(!repository().join(planned).exists(), "{planned} exists, so it is no longer planned");
        let names = files(&[FOLDER], &[".md"]).iter().any(|(_, text)| text.contains(&format!("`{planned}`")));
        assert!(names, "no design names {planned}");
    }
    let places = [CODE_FOLDERS, &["boards", "docs", "systems"]].concat();
    for (path, text) in files(&[FOLDER], &[".md"]) {
        for token in text.split('`').skip(1).step_by(2) {
            let first = token.split('/').next().unwrap_or_default();
            let is_path = token.contains('/') && !token.contains(['*', '\n']) && places.contains(&first);
            let is_known = repository().join(token).exists() || PLANNED.contains(&token);
            assert!(!is_path || is_known, "{path} names `{token}`, which neither exists nor is planned");
        }
    }
}

#[test]
fn no_text_names_an_issue_by_its_number() {
    for (path, text) in texts() {
        let words = text.to_lowercase();
        for (at, _) in words.match_indices("issue ") {
            let behind = &words[at + 6..];
            let is_number = behind.starts_with(|letter: char| letter.is_ascii_digit());
            assert!(!is_number, "{path} names an issue by its number, which a reader of the repository cannot look up");
        }
    }
}

#[test]
fn names_and_sections_are_recognised() {
    let text = "see `real-time.md` 2.1.2, [a.md](../x/a.md) part 1b; docs/caveats.md. And b.md section 7.";
    let found: Vec<_> = documents_named(text).map(|(name, behind)| (name, section(behind))).collect();
    let wanted = [
        ("real-time.md", Some("2.1.2")),
        ("a.md", Some("1b")),
        ("x/a.md", None),
        ("docs/caveats.md", None),
        ("b.md", Some("7")),
    ];
    assert_eq!(found, wanted);
}
