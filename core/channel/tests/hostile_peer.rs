//! The hostile-peer driver on stable Rust: the committed corpus, seeded random scripts, and scripts found worth keeping.

mod support;

use std::fs;
use std::path::Path;
use support::hostile;

/// The corpus that the fuzz target starts from is also a regression test.
#[test]
fn the_committed_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ring_hostile_peer");
    let mut scripts = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is part of the repository") {
        hostile::run(&fs::read(entry.unwrap().path()).unwrap());
        scripts += 1;
    }
    assert!(scripts >= 8, "{scripts} scripts in {}", corpus.display());
}

/// 20,000 scripts of up to 400 bytes, the same in every run.
#[test]
fn seeded_random_scripts_pass() {
    let mut random = support::Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let length = random.next() as usize % 400;
        let script: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        hostile::run(&script);
    }
}

/// The driver notices what it claims to notice: a store to the peer's page is caught.
#[test]
#[should_panic(expected = "belongs to the peer")]
fn the_driver_catches_a_store_outside_the_own_area() {
    use bulkhead_channel::{Geometry, SamplingWriter};
    let geometry = Geometry::sampling(8).unwrap();
    let words = support::window(geometry);
    let wrong_end = support::Guarded::destination(&words);
    let _ = SamplingWriter::open(&wrong_end, geometry, 1);
}
