//! Every row is measured and stays below its ceiling; the long work of Linux is left to `./x bench`.

use bulkhead_bench::{Verdict, kernel_paths, measure, rows};
use bulkhead_system_tests::kernel::Place;
use bulkhead_system_tests::kernel::chaos::count_yields;
use bulkhead_system_tests::ways::{Way, count};

fn assert_below_ceilings(names: &[String]) {
    let outcomes = measure(names, |outcome| println!("{}: {}", outcome.row.name, outcome.value_text()));
    let outcomes = outcomes.unwrap_or_else(|failure| panic!("{}", failure.message));
    assert_eq!(outcomes.len(), names.len());
    for outcome in outcomes {
        let name = outcome.row.name;
        let found = outcome.found.as_ref().unwrap_or_else(|failure| panic!("{name}: {}", failure.message));
        assert!(
            matches!(outcome.verdict(), Verdict::Met | Verdict::Reported),
            "{name}: {} is more than {:?}: {:?}",
            outcome.value_text(),
            outcome.row.ceiling,
            found.details
        );
    }
}

/// QV-3, QV-5, QV-6, MZ-2, MZ-4, SP-18: size, exits in steady state, interrupt latency and switches, with their ceilings. SG-E2: sizes of the
/// secure monitor, the payload and Linux beside SafeG's, with 29,000 samples of each path. QV-5, QV-16, CF-2, CF-9: exits, stops and SGIs of an untrusted guest with direct
/// interrupts below a payload. SG-E4, SG-34, SG-44: the payload's tick alone, and an urgent interrupt of the other world.
#[test]
fn what_needs_no_linux_stays_below_its_ceiling() {
    let names: Vec<String> = rows::all().filter(|row| !row.slow).map(|row| row.name.to_owned()).collect();
    assert_below_ceilings(&names);
}

/// QV-6, QV-74, SG-62: exits of an idle Linux, the monitor's share of its boot, and its restart. SG-E1, SG-48: paths of EL3 in a run of Linux
/// below a payload, each of one length in 29,000 samples or more, and the payload's tick in it (SG-34), which takes less than a thousandth of Linux's work; of path 5 there are some dozens, and
/// the others are in the rows above.
#[test]
fn what_boots_linux_stays_below_its_ceiling() {
    let below_a_payload =
        ["secure.linux_path_2", "secure.linux_path_4", "secure.linux_path_5", "secure.linux_tick", "secure.linux_work"];
    assert_below_ceilings(
        &[&["exits.linux", "linux.boot", "restart.linux"], &below_a_payload[..]]
            .concat()
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>(),
    );
}

/// CH-60: the path that is shown of a row has as many instructions as the row's component counts without QEMU's log.
#[test]
fn the_sum_over_a_path_is_what_is_counted() {
    let sum = kernel_paths::sum("kernel.signal_peer").unwrap_or_else(|failure| panic!("{}", failure.message));
    let most = count(Way::SignalPeer, 8, Place::Board).most;
    assert_eq!(sum, (most, most));
    // Here a component is on the way that has the same addresses as the one that counts.
    let sum = kernel_paths::sum("kernel.yield").unwrap_or_else(|failure| panic!("{}", failure.message));
    let most = count_yields(8, Place::Board).iter().map(|row| row.most).max().unwrap_or(0);
    assert_eq!(sum, (most, most));
}
