//! `systems/flight` on the bare board: the same bytes and the same judge as `bulkhead run systems/flight`.

use bulkhead_demo::flight::{Counts, FlightFacts, judge, places};
use bulkhead_description::Options;
use bulkhead_description::kernel::load_native;
use bulkhead_system_tests::kernel::run_bare;
use std::path::Path;

/// QV-21, QV-22, CH-60, CH-61, CH-63: the loop loses no period and is never later than `check` says, beside a driver that fails, tasks that spin, and an intruder; no attack
/// comes to anything else than its table says.
#[test]
fn what_the_flight_claims_is_true_on_the_board() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems/flight/flight.kernel.toml");
    let laid = load_native(&file, &Options::from_environment(None))
        .unwrap_or_else(|report| panic!("{}", report.to_text(false)));
    let places = places(&laid.bytes, &laid.components).expect("numbers in pages of components");
    let machine = run_bare(&laid.bytes, false);
    let counts = Counts::of_board(&machine, &places).expect("numbers in RAM");
    let control = laid.servers.iter().find(|server| server.name == "control").expect("a server");
    let facts = FlightFacts {
        counts: counts.named().expect("all numbers"),
        bound_ns: control.bound_ns.expect("a bound"),
        partition_faults: 0,
        elapsed_s: 0.0,
    };
    let summary = judge(&facts);
    println!("{}{summary}", String::from_utf8_lossy(machine.serial_text()));
    assert!(summary.all_true(), "{summary}");
}
