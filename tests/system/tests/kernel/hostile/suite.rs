//! Every attack on the board and in every mode of a partition: each comes to what the table says, and the victim's rounds are as long as ever.

use super::instance::{Said, image, said};
use crate::places::Place;
use bulkhead_hostile_kernel::attacks;

/// What is tried together.
pub(super) const NUMBERS: std::ops::RangeInclusive<u64> = 1..=208;
/// Random attacks.
pub(super) const RANDOM: std::ops::RangeInclusive<u64> = 220..=221;
/// Instructions of the victim's round.
pub(super) const ROUND: u64 = 2065;

/// Compares what the attacks came to with the table.
pub(super) fn assert_as_expected(said: &Said, numbers: std::ops::RangeInclusive<u64>, place: Place) {
    assert!(said.attacks.iter().map(|(number, _)| *number).eq(numbers), "{place:?}: {said:?}");
    for (number, lines) in &said.attacks {
        let expected = attacks().find(|attack| attack.number == *number).map_or(&["ended"][..], |attack| attack.says);
        let lines = lines.iter().filter(|line| !line.starts_with("came back: 0x"));
        // Of a random one the end of the last line is not expected.
        let lines =
            lines.map(|line| if RANDOM.contains(number) { line.split(',').next().unwrap_or(line) } else { line });
        assert!(
            lines.clone().eq(expected.iter().copied()),
            "{place:?}, attack {number}: {:?}, not {expected:?}",
            lines.collect::<Vec<_>>()
        );
    }
}

/// The victim has found nothing that was not its own, and printed the same sum again and again; returns the lengths of its rounds.
pub(super) fn assert_unharmed(said: &Said, place: Place) -> Vec<(u64, u64)> {
    assert!(said.victim.len() >= 16 + 3, "{place:?}: {:?}", said.victim);
    lengths(said, place)
}

/// The same of a run that may be short.
pub(super) fn lengths(said: &Said, place: Place) -> Vec<(u64, u64)> {
    let [sums @ .., rounds, _, wrong] = &said.victim[..] else { panic!("{place:?}: {:?}", said.victim) };
    assert_eq!(wrong, "wrong: registers 0, memory 0, results 0, calls 0", "{place:?}");
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{place:?}: {sums:?}");
    let words: Vec<u64> = rounds.split([' ', ':']).filter_map(|word| word.parse().ok()).collect();
    words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// CH-61: nothing but a capability gives access. No attack reaches anybody else, or makes the partition fault.
#[test]
fn every_attack_comes_to_what_the_table_says_and_the_victim_does_not_notice() {
    let image = image("kernel/hostile.elf", NUMBERS);
    let board = said(&image, Place::Board);
    assert_as_expected(&board, NUMBERS, Place::Board);
    let lengths = assert_unharmed(&board, Place::Board);
    assert!(matches!(lengths[..], [(ROUND, rounds)] if rounds > 16 * 512), "{lengths:?}");
    // To the instruction, with and without a monitor below: only the monitor's own path shows, where an interrupt is mapped.
    for place in [Place::Direct, Place::Mapped, Place::Uart] {
        assert_eq!(said(&image, place), board, "{place:?}");
    }
    let shared = said(&image, Place::Shared);
    assert_as_expected(&shared, NUMBERS, Place::Shared);
    // Other lengths are those of rounds in which the monitor gave the core away.
    assert_eq!(assert_unharmed(&shared, Place::Shared)[0].0, ROUND);
}
