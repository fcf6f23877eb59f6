//! Damaged device trees never make the tool panic, and what it makes of them is a board file.
//!
//! A stable stand-in for fuzzing: the same seeds give the same bytes on every machine. Each tree is that of a QEMU machine with a few
//! changes of the kinds that matter in the format: tokens, lengths, offsets, cells and phandles.

use crate::random::Random;
use crate::{attack, edit};

const TREES: [&[u8]; 2] = [
    include_bytes!("../../../../fuzz/corpus/device_tree/qemu-virt.dtb"),
    include_bytes!("../../../../fuzz/corpus/device_tree/xlnx-versal-virt.dtb"),
];
/// Mutants of each tree.
const MUTANTS: u64 = 3_000;

/// Changes a tree: now and then its structure, else the cell of a value.
fn mutate(tree: &mut Vec<u8>, values: &[usize], random: &mut Random) {
    let put = |tree: &mut Vec<u8>, place: usize, value: u32| {
        if let Some(cell) = tree.get_mut(place..place + 4) {
            cell.copy_from_slice(&value.to_be_bytes());
        }
    };
    match random.index(20) {
        // A field of the header.
        0 => {
            let value = [0, 4, 40, 0x7fff_ffff, u32::MAX, random.next() as u32 % 0x4000][random.index(6)];
            put(tree, random.index(10) * 4, value);
        }
        1 => {
            let length = random.index(tree.len());
            tree.truncate(length);
        }
        // A token, a length or the offset of a name.
        2 | 3 => put(tree, random.index(tree.len() / 4) * 4, random.index(16) as u32),
        4 => {
            let place = random.index(tree.len());
            if let Some(byte) = tree.get_mut(place) {
                *byte = random.next() as u8;
            }
        }
        // A value becomes another one of the tree: phandles, addresses, kinds of interrupts.
        5..=10 => {
            let from = values[random.index(values.len())];
            let value = tree.get(from..from + 4).map_or(0, |cell| u32::from_be_bytes(cell.try_into().expect("a cell")));
            put(tree, values[random.index(values.len())], value);
        }
        // A small one: cells, flags, kinds.
        11..=15 => put(tree, values[random.index(values.len())], random.index(18) as u32),
        _ => {
            let value = [0, u32::MAX, 0x8000_0000, 0x7fff_ffff, random.next() as u32][random.index(5)];
            put(tree, values[random.index(values.len())], value);
        }
    }
}

#[test]
fn damaged_trees_never_panic() {
    let (mut accepted, mut refused) = (0, 0);
    for (number, good) in TREES.into_iter().enumerate() {
        let values: Vec<usize> = edit::parts(good).values.into_iter().flat_map(|value| value.step_by(4)).collect();
        assert!(attack::device_tree(good), "the tree itself is good");
        for seed in 0..MUTANTS {
            let mut random = Random(seed * 31 + number as u64);
            let mut tree = good.to_vec();
            for _ in 0..=random.index(8) {
                mutate(&mut tree, &values, &mut random);
            }
            if attack::device_tree(&tree) {
                accepted += 1;
            } else {
                refused += 1;
            }
        }
    }
    assert!(accepted > 1_500 && refused > 1_500, "no mixture any more: {accepted} accepted, {refused} refused");
}

/// The fuzzer's: a window of a PCI host bridge covers RAM, or what is reserved does, so no place of RAM or of an image is right.
#[test]
fn a_board_without_a_place_is_a_limit() {
    assert!(attack::device_tree(include_bytes!("../../../../fuzz/corpus/device_tree/windows-everywhere.dtb")));
    assert!(attack::device_tree(include_bytes!("../../../../fuzz/corpus/device_tree/reserved-bank.dtb")));
    assert!(attack::device_tree(include_bytes!("../../../../fuzz/corpus/device_tree/no-controller.dtb")));
}

/// The fuzzer's: its windows leave no address at all, so that nothing can stand for what the tree does not state.
#[test]
fn a_tree_without_room_has_no_filled_draft() {
    let tree = include_bytes!("../../../../fuzz/corpus/device_tree/no-room.dtb");
    assert!(attack::device_tree(tree));
    assert_eq!(bulkhead_draft::draft(tree, "a test").map(|draft| draft.filled), Ok(None));
}

#[test]
fn trees_that_are_cut_off_are_refused() {
    for good in TREES {
        for length in 0..good.len() {
            assert!(!attack::device_tree(&good[..length]), "{length} of {} bytes", good.len());
        }
    }
}
