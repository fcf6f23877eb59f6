//! The table builder against a model: a map from page to output, and a walker written for this test alone.

use bulkhead_abi::PhysicalAddress;
use bulkhead_plan::tables::{Attributes, BLOCK_BYTES, MapError, Mapping, Tables};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PAGE: u64 = 4096;
const BASE: u64 = 0x4030_0000;

/// What a leaf says of one page: output address and attribute bits, and whether it came from a block.
type Leaf = (u64, u64, bool);

/// Reads every leaf of the tables, page by page, straight from the bytes.
fn walk(tables: &Tables) -> BTreeMap<u64, Leaf> {
    let bytes = tables.bytes();
    let mut leaves = BTreeMap::new();
    let read = |table: u64, index: u64| {
        let at = (table - BASE + index * 8) as usize;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    };
    let address = |entry: u64| entry & 0xffff_ffff_f000;
    let attributes = |entry: u64| entry & !0xffff_ffff_f003;
    for first in 0..512 {
        let entry = read(tables.root().0, first);
        if entry == 0 {
            continue;
        }
        assert_eq!(entry & 3, 3, "the builder makes no 1 GiB blocks");
        for second in 0..512 {
            let input = first << 30 | second << 21;
            let inner = read(address(entry), second);
            match inner & 3 {
                0 => assert_eq!(inner, 0),
                1 => {
                    for page in 0..512 {
                        leaves.insert(input + page * PAGE, (address(inner) + page * PAGE, attributes(inner), true));
                    }
                }
                3 => {
                    for third in 0..512 {
                        let leaf = read(address(inner), third);
                        if leaf != 0 {
                            assert_eq!(leaf & 3, 3);
                            leaves.insert(input | third << 12, (address(leaf), attributes(leaf), false));
                        }
                    }
                }
                _ => panic!("reserved descriptor"),
            }
        }
    }
    leaves
}

const KINDS: [Attributes; 4] =
    [Attributes::STAGE2_RAM, Attributes::STAGE2_SHARED_READ, Attributes::EL2_TEXT, Attributes::EL2_DEVICE];

/// Mappings that do not overlap: each starts after a gap behind the one before it, some on a block boundary.
fn mappings() -> impl Strategy<Value = Vec<Mapping>> {
    let one = (0..700_u64, 1..1600_u64, any::<bool>(), any::<bool>(), 0..4_usize, 0..0x4_0000_u64);
    prop::collection::vec(one, 1..12).prop_map(|choices| {
        let mut next = 0x3fe0_0000;
        let mut mappings = Vec::new();
        for (gap, pages, aligned_input, aligned_output, kind, output) in choices {
            next += gap * PAGE;
            if aligned_input {
                next = next.next_multiple_of(BLOCK_BYTES);
            }
            let output = if aligned_output { output << 21 } else { output << 12 };
            let attributes = KINDS[kind];
            mappings.push(Mapping { input: next, output: PhysicalAddress(output), bytes: pages * PAGE, attributes });
            next += pages * PAGE;
        }
        mappings
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every page leads where its mapping says with the bits it says, and nothing else is mapped (QV-7).
    #[test]
    fn tables_hold_the_mappings_and_nothing_else(mappings in mappings()) {
        let tables = Tables::build(PhysicalAddress(BASE), &mappings).unwrap();
        let leaves = walk(&tables);
        let mut pages = 0;
        for mapping in &mappings {
            for offset in (0..mapping.bytes).step_by(PAGE as usize) {
                let (output, attributes, _) = leaves[&(mapping.input + offset)];
                prop_assert_eq!(output, mapping.output.0 + offset);
                prop_assert_eq!(attributes, mapping.attributes.0);
                pages += 1;
            }
        }
        prop_assert_eq!(leaves.len(), pages);
    }

    /// A 2 MiB block is used wherever one mapping covers it with both addresses aligned, and nowhere else.
    #[test]
    fn blocks_are_used_where_possible(mappings in mappings()) {
        let leaves = walk(&Tables::build(PhysicalAddress(BASE), &mappings).unwrap());
        for mapping in &mappings {
            let congruent = (mapping.input ^ mapping.output.0) % BLOCK_BYTES == 0;
            for offset in (0..mapping.bytes).step_by(PAGE as usize) {
                let block = (mapping.input + offset) / BLOCK_BYTES * BLOCK_BYTES;
                let whole = block >= mapping.input && block + BLOCK_BYTES <= mapping.input + mapping.bytes;
                prop_assert_eq!(leaves[&(mapping.input + offset)].2, congruent && whole);
            }
        }
    }

    /// Whatever is mapped a second time is refused.
    #[test]
    fn overlaps_are_refused(
        mappings in mappings(),
        pick in any::<prop::sample::Index>(),
        page in any::<prop::sample::Index>(),
        block in any::<bool>(),
    ) {
        let target = mappings[pick.index(mappings.len())];
        let inside = target.input + page.index((target.bytes / PAGE) as usize) as u64 * PAGE;
        let (input, bytes) = if block { (inside / BLOCK_BYTES * BLOCK_BYTES, BLOCK_BYTES) } else { (inside, PAGE) };
        let mut all = mappings.clone();
        all.push(Mapping { input, output: PhysicalAddress(0), bytes, attributes: Attributes::STAGE2_RAM });
        let result = Tables::build(PhysicalAddress(BASE), &all);
        prop_assert!(matches!(result, Err(MapError::Overlap { .. })), "{:?}", result.map(|tables| tables.page_count()));
    }
}

fn one(input: u64, output: u64, bytes: u64) -> Result<Tables, MapError> {
    let output = PhysicalAddress(output);
    Tables::build(PhysicalAddress(BASE), &[Mapping { input, output, bytes, attributes: Attributes::STAGE2_RAM }])
}

#[test]
fn misaligned_ranges_are_refused() {
    assert!(matches!(one(8, 0, PAGE), Err(MapError::Misaligned { .. })));
    assert!(matches!(one(0, 8, PAGE), Err(MapError::Misaligned { .. })));
    assert!(matches!(one(0, 0, PAGE + 8), Err(MapError::Misaligned { .. })));
}

#[test]
fn ranges_beyond_39_bits_are_refused() {
    assert!(one((1 << 39) - PAGE, 0, PAGE).is_ok());
    assert!(matches!(one((1 << 39) - PAGE, 0, 2 * PAGE), Err(MapError::OutOfRange { .. })));
    assert!(matches!(one(u64::MAX - PAGE + 1, 0, PAGE), Err(MapError::OutOfRange { .. })));
}

#[test]
fn an_aligned_gibibyte_takes_the_root_alone() {
    assert_eq!(one(0x4000_0000, 0x8000_0000, 1 << 30).unwrap().page_count(), 1);
    assert_eq!(
        one(0x4000_0000, 0x8020_0000, 1 << 30).unwrap().page_count(),
        2,
        "blocks of 2 MiB where it is not aligned"
    );
}

/// Bits written out by hand from the Arm ARM, so that a slip in the constants shows.
#[test]
fn descriptors_have_the_bits_of_the_manual() {
    let leaf = |attributes| {
        let mapping = Mapping { input: 0, output: PhysicalAddress(0x1234_5000), bytes: PAGE, attributes };
        let bytes = Tables::build(PhysicalAddress(BASE), &[mapping]).unwrap().bytes();
        u64::from_le_bytes(bytes[8192..8200].try_into().unwrap())
    };
    assert_eq!(leaf(Attributes::EL2_TEXT), 0x0000_0000_1234_57c7);
    assert_eq!(leaf(Attributes::EL2_READ), 0x0040_0000_1234_57c7);
    assert_eq!(leaf(Attributes::EL2_WRITE), 0x0040_0000_1234_5747);
    assert_eq!(leaf(Attributes::EL2_SHARED_WRITE), 0x0040_0000_1234_574b);
    assert_eq!(leaf(Attributes::EL2_DEVICE), 0x0040_0000_1234_5743);
    assert_eq!(leaf(Attributes::STAGE2_RAM), 0x0000_0000_1234_57ff);
    assert_eq!(leaf(Attributes::STAGE2_SHARED_READ), 0x0040_0000_1234_5757);
    assert_eq!(leaf(Attributes::STAGE2_SHARED_WRITE), 0x0040_0000_1234_57d7);
    assert_eq!(leaf(Attributes::STAGE2_DEVICE), 0x0040_0000_1234_57c7);
}
