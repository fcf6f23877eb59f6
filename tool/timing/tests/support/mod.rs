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
        std::fs::write(directory.join("payload.elf"), payload()).expect("a file can be written");
        directory
    });
    Options { guests: Some(directory.clone()), board: None }
}

/// An ELF file for the secure world: one segment of four bytes at the place for payloads.
fn payload() -> Vec<u8> {
    const PLACE: u64 = 0x0e02_0000;
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 183, 0, 1, 0, 0, 0];
    bytes.extend([PLACE, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend([0_u16, 0, 64, 56, 1, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    // A loadable segment, read and execute.
    bytes.extend([1_u32, 5].iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend([120, PLACE, PLACE, 4, 4, 4096].iter().flat_map(|word: &u64| word.to_le_bytes()));
    bytes.extend(0xd503_201f_u32.to_le_bytes());
    bytes
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
