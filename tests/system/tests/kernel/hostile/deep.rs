//! Calls into a hostile service, to the last frame and out of it.

use super::instance::{image_with_service, said};
use super::suite::{ROUND, assert_as_expected, lengths};
use crate::places::Place;

const NUMBERS: std::ops::RangeInclusive<u64> = 300..=320;
/// Ticks that the service needs: some, so that the fast path looks at the time.
const NEEDS: u64 = 1_000;

/// CH-8, CH-10, CH-61: a callee takes its caller's thread and nothing else: each stack is free again, whichever way a thread left it, and the victim does not notice.
#[test]
fn a_hostile_callee_has_its_callers_thread_and_nothing_else() {
    for needs_ticks in [0, NEEDS] {
        let image = image_with_service(NUMBERS, needs_ticks);
        let board = said(&image, Place::Board);
        assert_as_expected(&board, NUMBERS, Place::Board);
        let rounds = lengths(&board, Place::Board);
        assert!(matches!(rounds[..], [(ROUND, rounds)] if rounds > 128), "{rounds:?}");
        assert_eq!(said(&image, Place::Direct), board);
    }
}
