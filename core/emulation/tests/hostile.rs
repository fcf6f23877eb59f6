//! Every fuzz target on seeded bytes, so that a plain `cargo test` attacks the emulation too (QV-13).

mod support;

use support::random::Random;
use support::targets::TARGETS;

/// Inputs per target.
const RUNS: u64 = 3000;
/// Longest input.
const BYTES: u64 = 1024;

#[test]
fn seeded_bytes_break_no_target() {
    for (number, (name, target)) in TARGETS.iter().enumerate() {
        let mut random = Random::new(number as u64);
        for run in 0..RUNS {
            let bytes: Vec<u8> = (0..random.below(BYTES)).map(|_| random.next() as u8).collect();
            let outcome = std::panic::catch_unwind(|| target(&bytes));
            assert!(outcome.is_ok(), "target {name}, run {run}: {bytes:?}");
        }
    }
}

#[test]
fn committed_seeds_break_no_target() {
    for (name, target) in TARGETS {
        let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let mut seeds = 0;
        for entry in entries {
            let path = entry.expect("a folder entry").path();
            target(&std::fs::read(&path).expect("a seed"));
            seeds += 1;
        }
        assert!(seeds > 0, "{folder} has no seed");
    }
}
