//! Rows 4, 5 and 7 to 11 of the kernel: how many instructions it takes from one thread to another, and for calls about time (CH-52, CH-60, CH-63, QV-23, QV-35, QV-37),
//! on the board and in `direct`.

use bulkhead_system_tests::kernel::Place;
use bulkhead_system_tests::ways::{Way, count};

/// The short form; `./x bench` counts 100,000.
const TIMES: u64 = 200;

/// What the kernel takes now, and how much more at most when a thread that looks all the time is cut off between two looks, a budget has another number of parts,
/// or other dates are filed. What is promised is in the rows of `./x bench`, most of which are missed.
const KNOWN: [(Way, u64, u64); 17] = [
    (Way::SignalPeer, 150, 0),
    (Way::SignalLess, 225, 0),
    (Way::SignalMore, 725, 0),
    (Way::SignalHeld, 785, 0),
    (Way::Switch, 580, 0),
    (Way::SignalDivided, 2_060, 0),
    (Way::SwitchDivided, 1_665, 0),
    (Way::Delegate, 1_350, 0),
    (Way::DelegateAll, 1_435, 0),
    (Way::Create, 1_010, 245),
    (Way::CreateTested, 1_090, 260),
    (Way::Interrupt, 1_055, 3),
    (Way::InterruptPibs, 1_595, 3),
    (Way::ComesBack, 815, 40),
    (Way::UsedUp, 1_065, 60),
    (Way::NullComputing, 182, 0),
    (Way::SignalMoreComputing, 975, 0),
];

#[test]
fn ways_between_threads_take_what_they_took() {
    for (way, ceiling, spread) in KNOWN {
        let board = count(way, TIMES, Place::Board);
        println!("{way:?}: {board:?}");
        assert!(board.times == TIMES && board.least <= ceiling, "{way:?}: {board:?}");
        assert!(board.most - board.least <= spread, "{way:?}: {board:?}");
        let direct = count(way, TIMES, Place::Direct);
        assert_eq!(direct.least, board.least, "{way:?}: {direct:?}");
        assert!(direct.most - direct.least <= spread, "{way:?}: {direct:?}");
    }
}
