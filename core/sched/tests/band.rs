//! Servers made at run time: what a band offers, what it refuses, and when it has room again.

mod support;

use bulkhead_sched::band::{Band, BandError, Bands, LIMITS, MAX_BANDS, ONE, Quick};
use bulkhead_sched::budget::Share;
use bulkhead_sched::kernel::KernelCore;

/// Four slots at level 1 below a slot at level 0: periods from 100 to 1000, 40 in all, at least 5 each.
const BAND: Band = Band {
    first_slot: 1,
    slots: 4,
    shortest_ticks: 100,
    longest_ticks: 1_000,
    budget_ticks: 40,
    smallest_ticks: 5,
    chunks: 4,
};

fn reserve() -> (Bands<16>, KernelCore<16>) {
    let mut core = KernelCore::empty();
    assert!(core.configure(0, [1, 2, 2, 2, 2]));
    let mut bands = Bands::new();
    assert!(bands.add(BAND));
    (bands, core)
}

/// QV-20, QV-37: a server is made if the band has room, and otherwise nothing has changed.
#[test]
fn a_band_admits_what_fits_and_nothing_else() {
    let (mut bands, mut core) = reserve();
    let refused = |bands: &mut Bands<16>, core: &mut KernelCore<16>, budget: u64, period: u64| {
        let before = format!("{bands:?} {core:?}");
        let refusal = bands.create(core, 0, 0, budget, period).expect_err("it cannot be");
        assert_eq!(format!("{bands:?} {core:?}"), before, "nothing has changed");
        refusal
    };
    for (budget, period) in [(4, 100), (10, 99), (10, 1_001), (41, 100)] {
        assert_eq!(refused(&mut bands, &mut core, budget, period), BandError::NotAdmitted, "{budget} in {period}");
    }
    assert_eq!(bands.create(&mut core, 0, 1, 10, 100), Err(BandError::Number));
    assert_eq!(bands.create(&mut core, 0, 0, 30, 500), Ok(1));
    assert_eq!(refused(&mut bands, &mut core, 11, 100), BandError::NotAdmitted, "41 of 40");
    assert_eq!(bands.create(&mut core, 0, 0, 5, 100), Ok(2));
    assert_eq!(bands.create(&mut core, 0, 0, 5, 1_000), Ok(3));
    assert_eq!((bands.taken_ticks(0), core.capacity_ticks(1, 0)), (40, 30));

    let (mut bands, mut core) = reserve();
    for slot in 1..=4 {
        assert_eq!(bands.create(&mut core, 0, 0, 5, 100), Ok(slot));
    }
    assert_eq!(refused(&mut bands, &mut core, 5, 100), BandError::Full);
    assert_eq!(
        (bands.destroy(&mut core, 0, 0), bands.destroy(&mut core, 0, 5)),
        (Err(BandError::Number), Err(BandError::Number))
    );
}

/// QV-20, QV-29: what a server used comes back before somebody else gets it, so ending and making servers gains nothing.
#[test]
fn room_is_free_when_what_was_used_is_back() {
    let (mut bands, mut core) = reserve();
    assert_eq!(bands.create(&mut core, 0, 0, 40, 200), Ok(1));
    core.wake(0, 1);
    core.next(0);
    core.advance(40);
    assert_eq!(bands.destroy(&mut core, 40, 1), Ok(()));
    assert!(!core.is_live(1));
    assert_eq!(bands.destroy(&mut core, 40, 1), Err(BandError::Number), "once");
    assert_eq!(bands.create(&mut core, 239, 0, 5, 100), Err(BandError::NotAdmitted));
    assert_eq!(bands.create(&mut core, 240, 0, 40, 100), Ok(1), "a period later");

    // The end of its budget was noticed 60 late: one and a half budgets of debt.
    let (mut bands, mut core) = reserve();
    assert_eq!(bands.create(&mut core, 0, 0, 40, 100), Ok(1));
    core.wake(0, 1);
    core.next(0);
    core.advance(100);
    assert_eq!(bands.destroy(&mut core, 100, 1), Ok(()));
    assert_eq!(bands.create(&mut core, 299, 0, 40, 100), Err(BandError::NotAdmitted));
    assert_eq!(bands.create(&mut core, 300, 0, 40, 100), Ok(1), "and its debts are paid");
}

/// QV-30, QV-37: a smaller budget leaves room one period later, a larger one needs it at once.
#[test]
fn a_change_counts_the_larger_of_both_for_a_period() {
    let (mut bands, mut core) = reserve();
    assert_eq!(bands.create(&mut core, 0, 0, 30, 200), Ok(1));
    assert_eq!(bands.set(&mut core, 10, 1, 41, 200), Err(BandError::NotAdmitted));
    assert_eq!(bands.set(&mut core, 10, 1, 30, 99), Err(BandError::NotAdmitted));
    assert_eq!(bands.set(&mut core, 10, 2, 30, 200), Err(BandError::Number));
    assert_eq!(bands.set(&mut core, 10, 1, 10, 100), Ok(()));
    assert_eq!(bands.taken_ticks(0), 30);
    assert_eq!(bands.create(&mut core, 209, 0, 11, 100), Err(BandError::NotAdmitted), "the old period counts");
    assert_eq!(bands.set(&mut core, 209, 1, 20, 100), Ok(()), "it had 30 just now");
    assert_eq!(bands.create(&mut core, 210, 0, 20, 100), Err(BandError::NotAdmitted), "a later plan waits as long");
    assert_eq!(bands.create(&mut core, 309, 0, 20, 100), Ok(2));
    assert_eq!(bands.taken_ticks(0), 40);
    assert_eq!(bands.destroy(&mut core, 320, 1), Ok(()));
    while bands.give_back(420) {}
    assert_eq!(bands.taken_ticks(0), 20);
}

#[test]
fn bands_that_cannot_be_are_refused() {
    let bands = |wrong: Band| Bands::<16>::new().add(wrong);
    assert!(bands(BAND));
    for wrong in [
        Band { slots: 0, ..BAND },
        Band { first_slot: 13, ..BAND },
        Band { shortest_ticks: 1_001, ..BAND },
        Band { longest_ticks: u64::MAX, ..BAND },
        Band { budget_ticks: 101, ..BAND },
        Band { smallest_ticks: 41, ..BAND },
        Band { smallest_ticks: 0, ..BAND },
        Band { chunks: 1, ..BAND },
        Band { chunks: 17, ..BAND },
    ] {
        assert!(!bands(wrong), "{wrong:?}");
    }
    let mut many = Bands::<16>::new();
    assert!(many.add(BAND) && !many.add(Band { first_slot: 4, ..BAND }), "two bands share no slot");
    let mut many = Bands::<16>::new();
    let added = (0..10).filter(|first_slot| many.add(Band { first_slot: *first_slot, slots: 1, ..BAND })).count();
    assert_eq!(added, MAX_BANDS);
}

/// QV-37: 1.0, 0.8284, 0.7798, 0.7568, 0.7435, 0.7348, 0.7286, 0.7241; the last row of `real-time.md` 4.1 by the equation's own words:
/// 10 in 40 and 20 in 50 with 4 % for others are admitted, and Quest's table I is not.
#[test]
fn the_published_test() {
    let in_ten_thousandths = |limit: &u64| limit * 10_000 / ONE;
    let first: Vec<u64> = LIMITS.iter().take(8).map(in_ten_thousandths).collect();
    assert_eq!(first, [10_000, 8_284, 7_797, 7_568, 7_434, 7_347, 7_286, 7_240], "rounded down");
    let io = Share { numerator: 4, denominator: 100 };
    let ut_01 = Quick::new().with_main(10, 40).with_main(20, 50).with_io(io);
    assert_eq!((ut_01.holds(), in_ten_thousandths(&ut_01.sum())), (true, 7_284));
    let ut_02 = (0..5).fold(Quick::new(), |quick, _| quick.with_main(18, 100));
    assert!(!ut_02.holds(), "0.9 of five servers");
    assert!(Quick::new().with_main(7, 7).holds() && !Quick::new().with_main(7, 7).with_io(io).holds());
    assert!((0..64).fold(Quick::new(), |quick, _| quick.with_main(1, 93)).holds());
    assert!(!(0..65).fold(Quick::new(), |quick, _| quick.with_main(1, 1_000)).holds(), "more than there are limits");
}

/// QV-37: where the published test decides as well, it can refuse what the band has room for; what has ended counts until it is back.
#[test]
fn a_band_with_the_published_test() {
    let mut core = KernelCore::<16>::empty();
    assert!(core.configure(0, [1, 2, 2, 2, 2]));
    let mut bands = Bands::new().with_published_test(Quick::new().with_main(50, 100));
    assert!(bands.add(BAND));
    assert_eq!(bands.create(&mut core, 0, 0, 33, 100), Err(BandError::NotAdmitted), "0.83 of two");
    assert_eq!(bands.create(&mut core, 0, 0, 32, 100), Ok(1), "0.82 of two");
    let full = *bands.published_test().expect("it decides");
    assert_eq!(bands.create(&mut core, 0, 0, 5, 1_000), Err(BandError::NotAdmitted), "0.825 of three");
    assert_eq!(bands.published_test(), Some(&full), "nothing has changed");
    assert_eq!(bands.set(&mut core, 0, 1, 20, 1_000), Ok(()));
    assert_eq!(bands.published_test(), Some(&full), "for a period");
    assert_eq!(bands.create(&mut core, 100, 0, 5, 1_000), Ok(2));
    for slot in [1, 2] {
        assert_eq!(bands.destroy(&mut core, 200, slot), Ok(()));
    }
    while bands.give_back(1_200) {}
    assert_eq!(bands.published_test(), Some(&Quick::new().with_main(50, 100)), "nothing drifts");
}
