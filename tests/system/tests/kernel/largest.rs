//! Every call has a largest count, which the page of the reference says (CH-60).

use bulkhead_system_tests::largest::{RECORD, ceiling, largest};
use serde_json::{Value, json};

const HELP: &str =
    "if that is meant, run this test with BULKHEAD_BLESS=1, and then `BULKHEAD_BLESS=1 cargo test -p bulkhead-ledger`";

/// What the page is made of.
fn known() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let text = std::fs::read_to_string(format!("{path}{RECORD}")).unwrap_or_else(|error| panic!("{RECORD}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{RECORD}: {error}"))
}

/// CH-60: no call takes more than the ceiling of its row of the page, in a state that its bound names; none is without a row, and no row says far more than is so.
#[test]
fn no_call_takes_more_than_the_page_says() {
    let found = largest();
    let rows: Vec<Value> =
        found.iter().map(|one| json!({ "call": one.name, "instructions": one.count, "state": one.state })).collect();
    // For people: `-- largest --nocapture` is the command that shows the numbers of this tree.
    found.iter().for_each(|one| println!("{:>8} {}: {}", one.count, one.name, one.state));
    if std::env::var_os("BULKHEAD_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        std::fs::write(format!("{path}{RECORD}"), format!("{:#}\n", json!(rows)))
            .unwrap_or_else(|error| panic!("{RECORD}: {error}"));
    }
    let known = known();
    assert_eq!(known.len(), rows.len(), "calls of {RECORD}; {HELP}");
    let mut wrong = Vec::new();
    for (known, (row, one)) in known.iter().zip(rows.iter().zip(&found)) {
        assert_eq!((&known["call"], &known["state"]), (&row["call"], &row["state"]), "{HELP}");
        let most = ceiling(known["instructions"].as_u64().unwrap_or_else(|| panic!("{known} has no number")));
        if one.count > most || 2 * one.count < most {
            wrong.push(format!("{}: {} instructions, and the page has a ceiling of {most}", one.name, one.count));
        }
    }
    assert!(wrong.is_empty(), "{}\n{HELP}", wrong.join("\n"));
}
