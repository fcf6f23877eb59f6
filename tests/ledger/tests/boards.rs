//! Boards are facts in files: no code knows one by its name.

use bulkhead_description::board::BUILT_IN;
use bulkhead_ledger::code_lines::without_tests;
use bulkhead_ledger::files;
use bulkhead_ledger::source::Source;

/// Folders of what is built for boards, and not for one board.
const FOLDERS: &[&str] = &["core", "arch", "monitor", "tool"];

/// Words that name a board or its machine: the built-in boards, and the first word of what QEMU calls each.
fn names() -> Vec<String> {
    let machines = bulkhead_description::board::built_in().into_iter().filter_map(|board| board.qemu);
    let machines = machines.flat_map(|qemu| [Some(qemu.machine), qemu.bare_machine]).flatten();
    let files = BUILT_IN.files.iter().map(|(name, _)| (*name).to_owned());
    files.chain(machines.map(|machine| format!("\"{machine}\""))).collect()
}

/// The lines of a file, without its comments and its tests, that name a board.
fn naming(text: &str, names: &[String]) -> Vec<String> {
    let code = without_tests(&Source::new(text).without_comments());
    let named = |line: &&str| names.iter().any(|name| line.contains(name.as_str()));
    code.lines().filter(named).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn code_that_names_a_board_is_found() {
    let text = "// qemu-virt\nfn board() -> &'static str { \"qemu-virt\" }\n#[cfg(test)]\nmod tests { const A: &str = \"qemu-virt\"; }\n";
    assert_eq!(naming(text, &names()).len(), 1);
}

/// Only the generated list names boards; which of them is meant where none is named is one of its fields.
#[test]
fn no_code_knows_a_board_by_its_name() {
    let names = names();
    assert!(names.len() >= 2 * BUILT_IN.files.len(), "{names:?}");
    let all = files(FOLDERS, &[".rs", ".s"]);
    assert!(all.len() > 300, "{} files: was a folder moved?", all.len());
    let sources = all.iter().filter(|(path, _)| !path.contains("/tests/"));
    let found: Vec<_> =
        sources.flat_map(|(path, text)| naming(text, &names).into_iter().map(move |line| (path, line))).collect();
    assert!(found.is_empty(), "{found:#?}");
}
