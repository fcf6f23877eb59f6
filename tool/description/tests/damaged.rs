//! A value that cannot be read hides no mistake elsewhere, and none is reported that is not there.

mod support;

use bulkhead_description::load_text_unchecked;
use std::path::{Path, PathBuf};

/// Number of the table at the top level that a line is in.
fn table(lines: &[&str], line: usize) -> usize {
    let is_head = |line: &&&str| line.starts_with('[') && !line.contains('.') && line.trim_end().ends_with(']');
    lines.iter().take(line + 1).filter(is_head).count()
}

/// Every value of every good description is made unreadable in turn. What is reported is in its table.
#[test]
fn a_value_that_cannot_be_read_leads_to_no_mistake_in_another_table() {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir("tests/good").expect("fixtures").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let mut damaged = 0;
    for path in &paths {
        let text = std::fs::read_to_string(path).expect("a fixture");
        let lines: Vec<&str> = text.lines().collect();
        let Ok(undamaged) = load_text_unchecked(path, &text, &support::options()) else { panic!("{}", path.display()) };
        let known: Vec<&String> = undamaged.warnings.diagnostics.iter().map(|one| &one.message).collect();
        for (number, line) in lines.iter().enumerate() {
            let Some((key, value)) = line.split_once(" = ").filter(|(key, _)| !key.contains(['#', '{', '['])) else {
                continue;
            };
            // A value of several lines cannot be replaced by one of one line.
            if value.matches(['[', '{']).count() != value.matches([']', '}']).count() {
                continue;
            }
            let changed = format!("{key} = nan");
            let text: Vec<&str> =
                lines.iter().enumerate().map(|(at, line)| if at == number { changed.as_str() } else { line }).collect();
            let Err(report) = load_text_unchecked(path, &text.join("\n"), &support::options()) else {
                panic!("{}: `{changed}` is accepted", path.display());
            };
            damaged += 1;
            for one in report.diagnostics.iter().filter(|one| !known.contains(&&one.message)) {
                for label in
                    one.labels.iter().filter(|label| report.sources.get(label.span.file).text.contains(&changed))
                {
                    let at = report.sources.position(label.span.file, label.span.start).line - 1;
                    let what =
                        format!("{}: `{changed}` in line {}: {}", path.display(), number + 1, report.to_text(false));
                    // The place of a missing key of the whole file is its start.
                    assert!(at == 0 || table(&lines, at) == table(&lines, number), "{what}");
                }
            }
        }
    }
    assert!(damaged > 100, "{damaged} values");
}

/// With a mistake in another table, both are reported.
#[test]
fn what_can_be_examined_is_examined() {
    let text = std::fs::read_to_string("tests/bad/mistakes-of-every-stage.toml").expect("a fixture");
    let report = load_text_unchecked(Path::new("tests/bad/x.toml"), &text, &support::options()).expect_err("refused");
    let codes: Vec<&str> = report.diagnostics.iter().map(|one| one.code.name()).collect();
    assert!(codes.contains(&"BH0005") && codes.contains(&"BH0101") && codes.contains(&"BH0402"), "{codes:?}");
    assert!(!codes.contains(&"BH0502") && !codes.contains(&"BH0211"), "{codes:?}");
}
