//! How many instructions each call of the real-time kernel takes at most, as it was measured.

use super::generated;
use bulkhead_kernel_abi::call::ROWS;
use bulkhead_ledger::page;
use bulkhead_ledger::table::{cell, head, row};
use bulkhead_system_tests::largest::{RECORD, ceiling, name_of};
use serde_json::Value;

/// The chapter about largest counts.
pub(super) fn page() -> String {
    let known: Vec<Value> =
        serde_json::from_str(&page::read(RECORD)).unwrap_or_else(|error| panic!("{RECORD}: {error}"));
    let mut text = String::from("# Largest counts of the kernel's calls\n\n") + &generated(&format!("`{RECORD}`"));
    text += "Instructions, not cycles, each call measured in the state that its row names by the component `largest`, on the bare board and in `direct`; the larger one counts. \
             A count is from the call to the caller's next instruction, or to the first look at the counter of who runs next. The kernel's own numbers of a run are in `bulkhead stats`.\n\n\
             A call in slices looks for interrupts between them, so no interrupt waits for the whole of it; how long it can wait is row 13 of `./x bench kernel`.\n\n\
             `cargo test -p bulkhead-system-tests --test kernel -- largest --nocapture` measures all of this again and prints it, and fails where a call takes more than its ceiling: what was measured, with room \
             of at least 5, 50 above 500, and a fiftieth above 2,500. With `BULKHEAD_BLESS=1` in front it writes the numbers.\n\n";
    text += &head(&["n", "call", "instructions", "ceiling", "measured with"]);
    for call in ROWS {
        let name = name_of(call);
        let one = known.iter().find(|one| one["call"] == name.as_str());
        let one = one.unwrap_or_else(|| {
            panic!("{RECORD} has no `{name}`: BULKHEAD_BLESS=1 makes the test that measures write it again")
        });
        let count = one["instructions"].as_u64().unwrap_or_else(|| panic!("{name} has no number"));
        let state = one["state"].as_str().unwrap_or_default();
        let number = call.call.number().to_string();
        let called = format!("`{}`", name.replace('.', " "));
        text += &row(&[&number, &called, &count.to_string(), &ceiling(count).to_string(), &cell(state)]);
    }
    text
}
