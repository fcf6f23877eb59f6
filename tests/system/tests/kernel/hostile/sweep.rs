//! Every encoding of a system instruction, and every SVC that is no call.

use super::instance::{Said, image, said};
use super::suite::{assert_as_expected, assert_unharmed};
use crate::places::Place;
use bulkhead_hostile_kernel::{ALLOWED, Allowed};
use std::collections::BTreeSet;

const NUMBERS: std::ops::RangeInclusive<u64> = 250..=252;

/// The encodings that came back in a sweep.
fn came_back(said: &Said, number: u64) -> BTreeSet<u16> {
    let (_, lines) = said.attacks.iter().find(|(one, _)| *one == number).expect("it was tried");
    let ranges = lines.iter().filter_map(|line| line.strip_prefix("came back: 0x")?.split_once(" to 0x"));
    let number = |text: &str| u16::from_str_radix(text, 16).expect("hexadecimal");
    ranges.flat_map(|(first, last)| number(first)..=number(last)).collect()
}

/// Compares them with what is allowed.
fn assert_allowed(said: &Said, place: Place) {
    let may = |one: &&Allowed| place == Place::NewerBoard || !one.is_newer;
    let expected = |is_so: fn(&Allowed) -> bool| {
        let allowed = || ALLOWED.iter().filter(may).filter(|one| is_so(one));
        (0..=u16::MAX).filter(|encoding| allowed().any(|one| one.has(*encoding))).collect::<BTreeSet<_>>()
    };
    let show = |set: &BTreeSet<u16>, other: &BTreeSet<u16>| {
        set.difference(other).map(|one| format!("{one:#x}")).collect::<Vec<_>>()
    };
    for (number, expected) in
        [(250, expected(|one| one.writes)), (251, expected(|one| one.reads)), (252, BTreeSet::new())]
    {
        let found = came_back(said, number);
        assert_eq!(
            (show(&found, &expected), show(&expected, &found)),
            (vec![], vec![]),
            "{place:?}, {number}: too many, too few"
        );
    }
}

/// CH-61: EL0 executes what is on the list, which gives a reason for each, and nothing else; each other encoding is a fault that the table counts.
#[test]
fn of_all_encodings_those_on_the_list_come_back_everywhere() {
    let image = image("kernel/sweep.elf", NUMBERS);
    let board = said(&image, Place::Board);
    assert_as_expected(&board, NUMBERS, Place::Board);
    assert_allowed(&board, Place::Board);
    assert_unharmed(&board, Place::Board);
    assert_eq!(said(&image, Place::Direct), board);
    let newer = said(&image, Place::NewerBoard);
    assert_allowed(&newer, Place::NewerBoard);
    assert_unharmed(&newer, Place::NewerBoard);
}
