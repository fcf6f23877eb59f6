//! An attacker that makes random calls with random words in all registers, by seed.

use super::instance::{image, said};
use super::suite::{RANDOM, assert_as_expected, assert_unharmed};
use crate::places::Place;

/// CH-61: two seeds of 100,000 calls each, the short form: whatever is asked in whatever order, the victim does not notice, and the board and a partition do the same to the instruction.
#[test]
fn random_calls_reach_nobody() {
    let image = image("kernel/hostile.elf", RANDOM);
    let board = said(&image, Place::Board);
    assert_as_expected(&board, RANDOM, Place::Board);
    assert_unharmed(&board, Place::Board);
    assert_eq!(said(&image, Place::Direct), board);
}
