//! Which scenarios run on which built-in board.

use super::generated;
use bulkhead_ledger::table::{head, row};
use bulkhead_system_tests::boards::{BOARDS, Reason};
use std::fmt::Write;

/// The chapter with what cannot run on a board, and why, and what every test run tries there.
pub(super) fn page() -> String {
    let mut text = String::from("# Scenarios on each board\n\n") + &generated("`tests/system/src/boards.rs`");
    text += "The scenarios of `tests/system` are systems on QEMU. `./x test` runs all of them on the default board, and on every other built-in\n\
             board those that touch priorities, groups, timers, restarts and memory, and the attacks. `./x bench boards --suite` runs all that can\n\
             run on every board. It fails as well when a scenario below could run: each but those that name their boards themselves is\n\
             tried, and has to fail for its reason.\n";
    for on in BOARDS {
        writeln!(text, "\n## {}\n", on.board).expect("a String");
        text += &head(&["cannot run", "scenarios"]);
        for reason in Reason::ALL {
            let names = || on.cannot.iter().filter(|(other, _)| *other == reason).flat_map(|(_, names)| *names);
            text += &row(&[reason.text(), &names().count().to_string()]);
        }
        for (reason, names) in on.cannot {
            writeln!(text, "\nA scenario that {}:\n", reason.text()).expect("a String");
            list(&mut text, names);
        }
        writeln!(text, "\n{} are run there by `./x test`:\n", on.short.len()).expect("a String");
        list(&mut text, on.short);
    }
    text
}

fn list(text: &mut String, names: &[&str]) {
    names.iter().for_each(|name| writeln!(text, "- `{name}`").expect("a String"));
}
