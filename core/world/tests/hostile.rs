//! What a hostile non-secure world can send, on seeded bytes: the bodies of the fuzz targets, so that a plain `cargo test` attacks too.

mod support;

use bulkhead_world::calls::{Caller, Window};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};
use std::path::Path;
use support::{TARGETS, calls};

/// SG-32: the committed seeds of every target hold.
#[test]
fn committed_seeds_break_no_target() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let seeds = entries.map(|entry| target(&std::fs::read(entry.expect("a folder entry").path()).expect("a seed")));
        assert!(seeds.count() > 0, "{} has no seed", folder.display());
    }
}

/// Ids that exist, ids beside them, and any.
fn ids() -> impl Strategy<Value = u64> {
    let near = (0..calls::known().len(), any::<u32>(), 0..3u32).prop_map(|(which, upper, beside)| {
        u64::from(upper) << 32 | u64::from(calls::known()[which].wrapping_add(beside).wrapping_sub(1))
    });
    prop_oneof![near, any::<u64>(), any::<u32>().prop_map(u64::from)]
}

/// Small, at a border, or any.
fn arguments() -> impl Strategy<Value = [u64; 7]> {
    let one = || {
        prop_oneof![0..4u64, (0..64u32).prop_map(|bit| 1 << bit), any::<u64>(), any::<i8>().prop_map(|one| one as u64)]
    };
    [one(), one(), one(), one(), one(), one(), one()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// SG-14, SG-32: any registers, any plan: only the listed ids act, and nothing but an error or a small number comes back.
    #[test]
    fn any_call_is_listed_or_refused(id in ids(), arguments in arguments(), first: u64, bytes: u64, doorbells: u32) {
        let mut x = [id; 8];
        x[1..].copy_from_slice(&arguments);
        calls::check(&x, &Caller { window: Window { first, bytes }, doorbells });
    }

    /// SG-32: a window holds what a wider arithmetic says it holds.
    #[test]
    fn a_window_holds_its_bytes_and_no_others(first: u64, bytes: u64, at in arguments(), length in arguments()) {
        let near = [first.wrapping_sub(1), first, first.wrapping_add(bytes), first.wrapping_add(bytes).wrapping_sub(1)];
        let wide = |number: u64| u128::from(number);
        for address in at.into_iter().chain(near) {
            for count in length.into_iter().chain([1, 2, bytes]) {
                let inside = count != 0 && address >= first && wide(address) + wide(count) <= wide(first) + wide(bytes);
                assert_eq!(Window { first, bytes }.holds(address, count), inside, "{address:#x} + {count:#x}");
            }
        }
    }
}
