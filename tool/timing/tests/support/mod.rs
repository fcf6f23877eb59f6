//! Loading fixtures with the check of time.
#![allow(dead_code, reason = "each test program uses a part of it")]

use bulkhead_analysis::costs::Costs;
use bulkhead_description::{Options, Report, load};
use bulkhead_plan::model::System;
use bulkhead_timing::Assumptions;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Options with a directory of guests that holds one small binary.
pub(crate) fn options() -> Options {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("guests-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory can be made");
        std::fs::write(directory.join("tiny.bin"), [0; 16]).expect("a file can be written");
        directory
    });
    Options { guests: Some(directory.clone()), board: None }
}

/// The descriptions of a directory, in order. Paths are relative, so that texts hold no machine's paths.
pub(crate) fn fixtures(directory: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory of fixtures can be read")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no fixtures in {directory}");
    paths
}

/// Costs of no build, so that texts do not change when the measured ones do. Pre-emptions are rare with such a least stint, so that each
/// fixture shows what it is about.
const COSTS: Costs = Costs {
    switch: 400,
    interrupt_entry: 250,
    longest_passage: 1000,
    timer_latency: 150,
    doorbell: 400,
    publication: 0,
    trace: 0,
    least_stint: 4_000,
    after_loading: 200,
};

/// The assumptions of the tests.
pub(crate) const ASSUMED: Assumptions =
    Assumptions { instruction_ps: 16_000, costs: COSTS, provenance: "costs of a test" };

/// Checks a fixture in full.
pub(crate) fn check(path: &Path) -> (Option<System>, Report) {
    match load(path, &options(), &ASSUMED) {
        Ok(loaded) => (Some(loaded.system), loaded.warnings),
        Err(report) => (None, report),
    }
}

/// Compares a text with its snapshot, or writes that.
pub(crate) fn compare(snapshot: &Path, text: &str, failures: &mut Vec<String>) {
    if std::env::var_os("BULKHEAD_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(snapshot, text).expect("a snapshot can be written");
    } else if std::fs::read_to_string(snapshot).unwrap_or_default() != text {
        failures.push(format!("differs from {}:\n{text}", snapshot.display()));
    }
}
