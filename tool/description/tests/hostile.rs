//! Files that make work (A15 of docs/base-findings.md): a file with many mistakes costs as much as it has bytes, not its square. What a check keeps
//! and prints is what could grow: both are counted, and the harness would see a check that does not come back.

use bulkhead_description::diagnostic::MOST_DIAGNOSTICS;
use bulkhead_description::{Options, Severity, load_text_unchecked};
use std::path::Path;

const LINES: usize = 40_000;

fn errors_of(what: &str, body: &str) -> usize {
    let text = format!("version = 1\n{body}");
    let report = load_text_unchecked(Path::new("hostile.toml"), &text, &Options::default()).err();
    let report = report.unwrap_or_else(|| panic!("{what}: must be refused"));
    assert!(report.diagnostics.len() <= MOST_DIAGNOSTICS, "{what}: {} kept", report.diagnostics.len());
    assert_eq!(report.count(Severity::Error), report.diagnostics.len() + report.omitted(), "{what}");
    let shown = report.to_text(false);
    assert!(
        shown.len() < 8 * text.len().max(MOST_DIAGNOSTICS * 1000),
        "{what}: {} bytes for {}",
        shown.len(),
        text.len()
    );
    assert_eq!(report.omitted() > 0, shown.contains(" more of them are not shown"), "{what}");
    report.count(Severity::Error)
}

#[test]
fn many_mistakes_are_counted_and_a_few_shown() {
    let duplicates = errors_of("keys given twice", &"name = \"a\"\n".repeat(LINES));
    assert!(duplicates > LINES / 2, "{duplicates} errors");
    assert!(errors_of("tables given twice", &"[board]\n".repeat(LINES)) > LINES / 2);
    assert!(errors_of("keys of one line", &format!("name = {{ {} }}\n", "a = 1, ".repeat(LINES))) > 1);
    assert!(errors_of("brackets", &"[".repeat(LINES)) >= 1);
    let unknown: String = (0..LINES / 20).map(|number| format!("key{number} = 1\n")).collect();
    assert!(errors_of("unknown keys", &format!("name = \"a\"\n{unknown}")) >= LINES / 20);
}

/// Checks compare partitions with each other: a list ends before that matters.
#[test]
fn a_list_ends_before_it_is_compared_with_itself() {
    let partition =
        "[[partition]]\nname = \"p\"\ncores = [0]\nmemory = \"1 MiB\"\nimage = { kind = \"raw\", file = \"x\" }\n";
    let body = format!("name = \"a\"\nboard = \"qemu-virt\"\nmemory = \"64 MiB\"\n{}", partition.repeat(LINES / 20));
    assert_eq!(errors_of("partitions", &body), 1);
}
