//! The table builder against a model: a map from page to output, and a walker written for this test alone.

use bulkhead_abi::PhysicalAddress;
use bulkhead_plan::tables::{AddressBits, Attributes, BLOCK_BYTES, MapError, Mapping, Tables};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PAGE: u64 = 4096;
const BASE: u64 = 0x4030_0000;
/// What guests have, and boards whose memory ends below 512 GiB.
const SMALL: AddressBits = AddressBits { input: 39, output: 48 };
/// The root is at level 0.
const LARGE: AddressBits = AddressBits { input: 44, output: 48 };

/// What a leaf says of one page: output address and attribute bits, and whether it came from a block.
type Leaf = (u64, u64, bool);

/// Reads every leaf of the tables, page by page, straight from the bytes.
fn walk(tables: &Tables, bits: AddressBits) -> BTreeMap<u64, Leaf> {
    let bytes = tables.bytes();
    let mut leaves = BTreeMap::new();
    let read = |table: u64, index: u64| {
        let at = (table - BASE + index * 8) as usize;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    };
    let address = |entry: u64| entry & 0xffff_ffff_f000;
    let attributes = |entry: u64| entry & !0xffff_ffff_f003;
    let roots: Vec<(u64, u64)> = match bits.input {
        0..=39 => vec![(0, tables.root().0)],
        _ => {
            let entries = (0..512).map(|index| (index << 39, read(tables.root().0, index)));
            let used = entries.filter(|(_, entry)| *entry != 0).inspect(|(_, entry)| assert_eq!(entry & 3, 3));
            used.map(|(input, entry)| (input, address(entry))).collect()
        }
    };
    for (base, first) in roots.into_iter().flat_map(|root| (0..512).map(move |first| (root, first))) {
        let (base, entry) = (base.0 | first << 30, read(base.1, first));
        if entry == 0 {
            continue;
        }
        assert_eq!(entry & 3, 3, "the builder makes no 1 GiB blocks");
        for second in 0..512 {
            let input = base | second << 21;
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

/// Mappings that do not overlap: each starts after a gap behind the one before it, some on a block boundary. They begin in front of a
/// boundary of what an entry of level 1, or of level 0, covers.
fn mappings() -> impl Strategy<Value = (AddressBits, Vec<Mapping>)> {
    let one = (0..700_u64, 1..1600_u64, any::<bool>(), any::<bool>(), 0..4_usize, 0..0x4_0000_u64);
    let spaces = prop::sample::select(vec![(SMALL, 0x4000_0000), (LARGE, 3 << 39)]);
    (spaces, prop::collection::vec(one, 1..12)).prop_map(|((bits, boundary), choices)| {
        let mut next = boundary - BLOCK_BYTES;
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
        (bits, mappings)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every page leads where its mapping says with the bits it says, and nothing else is mapped (QV-7).
    #[test]
    fn tables_hold_the_mappings_and_nothing_else((bits, mappings) in mappings()) {
        let tables = Tables::build(PhysicalAddress(BASE), bits, &mappings).unwrap();
        let leaves = walk(&tables, bits);
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
    fn blocks_are_used_where_possible((bits, mappings) in mappings()) {
        let leaves = walk(&Tables::build(PhysicalAddress(BASE), bits, &mappings).unwrap(), bits);
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
        (bits, mappings) in mappings(),
        pick in any::<prop::sample::Index>(),
        page in any::<prop::sample::Index>(),
        block in any::<bool>(),
    ) {
        let target = mappings[pick.index(mappings.len())];
        let inside = target.input + page.index((target.bytes / PAGE) as usize) as u64 * PAGE;
        let (input, bytes) = if block { (inside / BLOCK_BYTES * BLOCK_BYTES, BLOCK_BYTES) } else { (inside, PAGE) };
        let mut all = mappings.clone();
        all.push(Mapping { input, output: PhysicalAddress(0), bytes, attributes: Attributes::STAGE2_RAM });
        let result = Tables::build(PhysicalAddress(BASE), bits, &all);
        prop_assert!(matches!(result, Err(MapError::Overlap { .. })), "{:?}", result.map(|tables| tables.page_count()));
    }
}

fn one(input: u64, output: u64, bytes: u64) -> Result<Tables, MapError> {
    one_of(SMALL, input, output, bytes)
}

fn one_of(bits: AddressBits, input: u64, output: u64, bytes: u64) -> Result<Tables, MapError> {
    let output = PhysicalAddress(output);
    Tables::build(PhysicalAddress(BASE), bits, &[Mapping { input, output, bytes, attributes: Attributes::STAGE2_RAM }])
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

/// The ends of what a board of 44 bits can have: the last page of an identity map and of a guest's, and one page too many.
#[test]
fn addresses_of_44_bits_are_mapped_to_the_last_page() {
    let (last, end) = ((1 << 44) - PAGE, 1 << 44);
    let identity = AddressBits { input: 44, output: 44 };
    let tables = one_of(identity, last, last, PAGE).unwrap();
    assert_eq!(tables.page_count(), 4, "a root of level 0 and one table of each other level");
    assert_eq!(
        walk(&tables, identity).into_iter().map(|(input, leaf)| (input, leaf.0)).collect::<Vec<_>>(),
        [(last, last)]
    );
    let guest = AddressBits { input: 39, output: 44 };
    let tables = one_of(guest, 0x4000_0000, last, PAGE).unwrap();
    assert_eq!(walk(&tables, guest)[&0x4000_0000].0, last);
    for (bits, input, output) in [(identity, last, 0), (identity, 0, last), (guest, 0x4000_0000, last)] {
        let error = one_of(bits, input, output, 2 * PAGE).map(|tables| tables.page_count());
        assert_eq!(error, Err(MapError::OutOfRange { input, output, bits }));
        assert!(error.unwrap_err().to_string().contains("the 44 of a physical one"));
    }
    assert!(matches!(one_of(identity, end, 0, PAGE), Err(MapError::OutOfRange { .. })));
    // A root of level 0 that nothing needs costs its page and one table.
    let small = |bits| one_of(bits, 0x4000_0000, 0x4000_0000, PAGE).unwrap().page_count();
    assert_eq!([small(guest), small(identity)], [3, 4]);
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
        let bytes = Tables::build(PhysicalAddress(BASE), SMALL, &[mapping]).unwrap().bytes();
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
