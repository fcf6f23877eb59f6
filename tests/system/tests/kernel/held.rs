//! Interrupts that stay active until their driver says done: masked by the controller on the board and in every mode of a partition, while others pass
//! (QV-35, CH-64).

use crate::places::{Place, Probes, run, with_timer};

/// What the monitor takes of an interrupt while another one is in a list register. A prototype saw 175, with a timer that rang again at once.
const WHILE_HELD: u64 = 149;
/// What the probe calls these.
const HOLDS: u64 = 100;
const SLEEPS: u64 = 101;
const SPINS: u64 = 102;
const HOLDS_AND_SPINS: u64 = 103;
const HOLDS_AND_FAULTS: u64 = 104;
const SPINS_LATER: u64 = 105;

/// Ten periods pass while the interrupt is held and bring nothing; the kernel's timer passes; after each `done` it comes again.
#[test]
fn a_held_interrupt_is_masked_everywhere_and_others_pass() {
    let image = with_timer(&[HOLDS], 0).bytes();
    let expected = [
        "component 100: ABI version 6, counter 62500000 Hz",
        "first: Ok((1, 1))",
        "held: Err(TimedOut)",
        "done: Ok(())",
        "second: Ok((1, 1))",
        "done: Ok(())",
        "third: Ok((1, 1))",
        "done: Ok(()), Err(Busy)",
    ];
    for place in [Place::Board, Place::NewerBoard] {
        assert_eq!(run(&image, place), expected, "{place:?}");
    }
    for place in Place::PARTITIONS {
        assert_eq!(run(&image, place), expected, "{place:?}");
    }
}

/// Instructions that the kernel's timer takes from a thread that runs.
fn longest(image: &[u8], place: Place) -> u64 {
    let lines = run(image, place);
    let found = lines.iter().find_map(|line| line.strip_prefix("longest ")?.strip_suffix(" ticks")?.parse().ok());
    found.unwrap_or_else(|| panic!("{place:?}: {lines:?}"))
}

/// In `direct` an interrupt takes what it takes on the board; in `mapped` 23 instructions more, and
/// [`WHILE_HELD`] while another one is held: then it leaves the monitor's fast path.
#[test]
fn what_an_interrupt_takes_differs_by_the_monitors_path_alone() {
    let alone = Probes::of([SLEEPS, SPINS]).bytes();
    let held = with_timer(&[SLEEPS, HOLDS_AND_SPINS], 1).bytes();
    let on = |place| (longest(&alone, place), longest(&held, place));
    let (board, direct, mapped) = (on(Place::Board), on(Place::Direct), on(Place::Mapped));
    println!(
        "longest absence in instructions, alone and with another held: board {board:?}, direct {direct:?}, mapped {mapped:?}"
    );
    assert_eq!(direct, board);
    assert_eq!((mapped.0 - board.0, mapped.1 - board.1), (23, WHILE_HELD));
}

/// What a driver held that is no more is masked and inactive: it never comes again, and the kernel's timer is as cheap as if nobody had held anything.
#[test]
fn a_driver_that_faults_leaves_its_interrupt_masked_and_inactive() {
    let image = with_timer(&[SLEEPS, SPINS_LATER, HOLDS_AND_FAULTS], 2).bytes();
    let on = |place| {
        let lines = run(&image, place);
        let fault = |line: &&String| line.starts_with("kernel: component 0x2, thread 0x2, fault 0x1,");
        assert_eq!(lines.iter().filter(fault).count(), 1, "{place:?}: {lines:?}");
        // The other thread's date, and nothing of the 39 periods.
        assert!(lines.contains(&"1 absences".to_owned()), "{place:?}: {lines:?}");
        longest(&image, place)
    };
    let (board, direct, mapped) = (on(Place::Board), on(Place::Direct), on(Place::Mapped));
    println!("longest absence behind a driver that faulted: board {board}, direct {direct}, mapped {mapped}");
    assert_eq!((direct, mapped - board), (board, 23));
}
