//! The table of what runs on which board ([`bulkhead_system_tests::boards`]) is about these scenarios.

use bulkhead_description::board::{BUILT_IN, built_in};
use bulkhead_system_tests::boards::{self, BOARDS};
use std::collections::BTreeSet;
use std::process::Command;

/// Names of all scenarios, as this program lists them.
fn scenarios() -> BTreeSet<String> {
    let program = std::env::current_exe().expect("a test knows its program");
    let output = Command::new(program).args(["--list", "--format", "terse"]).output().expect("it can be started");
    let text = String::from_utf8(output.stdout).expect("names are text");
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[test]
fn the_table_of_boards_names_scenarios_and_each_once() {
    let all = scenarios();
    assert!(all.len() > 200, "{} scenarios", all.len());
    for on in BOARDS {
        let cannot: Vec<&str> = on.cannot.iter().flat_map(|(_, names)| *names).copied().collect();
        let names: Vec<&str> = cannot.iter().chain(on.short).copied().collect();
        let unknown: Vec<&&str> = names.iter().filter(|name| !all.contains(**name)).collect();
        assert!(unknown.is_empty(), "{}: no such scenario: {unknown:?}", on.board);
        let different: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(different.len(), names.len(), "{}: a scenario stands there twice", on.board);
    }
}

/// Boards that are entered at EL3 run systems with two worlds, which have tests of their own.
#[test]
fn every_built_in_board_for_partitions_but_the_default_one_is_in_the_table() {
    let boards: Vec<_> = built_in().into_iter().filter(|board| board.secure.is_none()).collect();
    for board in &boards {
        assert_eq!(boards::on(&board.name).is_some(), board.name != BUILT_IN.default, "{}", board.name);
    }
    assert_eq!(BOARDS.len(), boards.len() - 1);
}
