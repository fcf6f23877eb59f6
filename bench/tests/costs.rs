//! What `bulkhead check` counts for the monitor is what this build takes.

use bulkhead_bench::costs::differences;

/// QV-38, SG-48: no cost is above its record, and no record is more than a tenth above its cost. `./x bench --record-costs`
/// writes it again.
#[test]
fn the_analysis_counts_what_the_monitor_takes() {
    let found = differences().unwrap_or_else(|failure| panic!("{}", failure.message));
    assert!(found.is_empty(), "the record in core/analysis is out of date, run ./x bench --record-costs: {found:?}");
}
