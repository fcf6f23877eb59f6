//! Powers: what the compiler cannot see of them.
//!
//! Values of `monitor/src/life/powers.rs` can be made in that room alone: its compiler says so. That the acts behind them have no
//! other door, a store to a route for example, is seen here, in the text.

use bulkhead_ledger::code_lines::without_tests;
use bulkhead_ledger::files;
use bulkhead_ledger::source::Source;

/// What only a door may name, and where its doors are.
const ACTS: &[(&str, &[&str])] = &[
    // A route of the distributor: offset and value.
    ("gic::route", &["monitor/src/interrupts/mod.rs"]),
    ("IROUTER", &[]),
    (".power_off(", &["monitor/src/life/health.rs"]),
    ("MayPowerOff for", &["monitor/src/life/powers.rs"]),
    (".start_core(", &["monitor/src/entry/mod.rs"]),
    // A vCPU is told to stand, or a partition to be started from nothing.
    ("fetch_or(vcpu_state::STAND", &["monitor/src/life/lifecycle.rs"]),
    ("store(vcpu_state::", &["monitor/src/life/lifecycle.rs"]),
    // The right to manage others.
    ("FLAG_MANAGES", &["monitor/src/life/powers.rs"]),
];

#[test]
fn what_needs_a_power_has_one_door() {
    let sources: Vec<(String, String)> = files(&["monitor/src"], &[".rs"])
        .into_iter()
        .filter(|(path, _)| !path.starts_with("monitor/src/tests/"))
        .map(|(path, text)| (path, Source::new(&without_tests(&text)).code().to_owned()))
        .collect();
    assert!(sources.len() > 20, "the monitor was moved: {} files", sources.len());
    for (act, doors) in ACTS {
        let named: Vec<&str> =
            sources.iter().filter(|(_, code)| code.contains(act)).map(|(path, _)| path.as_str()).collect();
        assert_eq!(named, *doors, "`{act}` needs a power, see `monitor/src/life/powers.rs`");
    }
}

/// A route that is written as a number would pass the test above: no number of the monitor is one.
#[test]
fn no_register_of_the_distributor_is_a_number() {
    for (path, text) in files(&["monitor/src"], &[".rs"]) {
        if !path.starts_with("monitor/src/tests/") {
            let code = Source::new(&without_tests(&text)).code().to_owned();
            assert!(!code.contains("0x6000") && !code.contains("0x6_000"), "{path}: use `Vcpu::route`");
        }
    }
}
