//! The golden examples of `real-time.md` that are formulas, under their ids.

use bulkhead_analysis::admission::{
    below_a_deferrable_server, equation_one, equation_one_hyperbolic, hyperbolic, io_share, liu_layland,
    liu_layland_limit_in_ten_thousandths, sum,
};
use bulkhead_analysis::demand::{Demand, events_in_window, sliding_events_in_window};
use bulkhead_analysis::envelope::stair;
use bulkhead_analysis::guest::{Task, responses};
use bulkhead_analysis::migration::{ClockReadings, clock_adjustment, migration_time};
use bulkhead_analysis::notification::Notification;
use bulkhead_analysis::ratio::Ratio;
use bulkhead_analysis::response::Contention;
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::supply::Supply;
use bulkhead_analysis::table::{Share, ShareFault, Table, TableFault, Window, faults, share_fault};

fn below(demands: Vec<Demand>, blocking_ticks: u64) -> Contention {
    Contention { demands, blocking_ticks, ..Contention::none() }
}

#[test]
fn ds_01_windows_of_a_deferrable_server() {
    assert_eq!([4, 10, 20].map(|window| stair(window + 8, 2, 10)), [4, 4, 6]);
}

/// SG-47.
#[test]
fn ds_02_the_periodic_formula_is_wrong_below_a_deferrable_server() {
    let wrong = below(vec![Demand::periodic(2, 10)], 0);
    let right = below(vec![Demand::DoubleHit { budget_ticks: 2, period_ticks: 10 }], 0);
    assert_eq!(
        (wrong.response(5, 1_000, &Steps::default()), right.response(5, 1_000, &Steps::default())),
        (Some(7), Some(9))
    );
}

/// SG-47.
#[test]
fn ds_03_admission_below_a_deferrable_server() {
    let server = Ratio::new(1, 5);
    let accepts = |shares: [(u128, u128); 2]| {
        below_a_deferrable_server(&server, &shares.map(|(numerator, denominator)| Ratio::new(numerator, denominator)))
    };
    assert!(accepts([(1, 4), (1, 4)]));
    // By the product 1.3 * 1.2 = 1.56 <= 11/7 only.
    assert!(accepts([(3, 10), (1, 5)]));
    assert!(!accepts([(3, 10), (1, 4)]));
    // K = 11/7 exactly: a single task of 4/7 is the last that fits.
    assert!(below_a_deferrable_server(&server, &[Ratio::new(4, 7)]));
    assert!(!below_a_deferrable_server(&server, &[Ratio::new(4001, 7000)]));
}

/// UT-01, QV-37: the constants of the table of limits, and the seed's example.
#[test]
fn ut_01_equation_one_accepts_the_figure() {
    let limits = [10_000, 8_284, 7_797, 7_568, 7_434, 7_347, 7_286, 7_240];
    for (count, limit) in (1..).zip(limits) {
        assert_eq!(liu_layland_limit_in_ten_thousandths(count), limit, "{count} servers");
    }
    let mains = [Ratio::new(10, 40), Ratio::new(20, 50)];
    let io = [io_share(4, 100)];
    let left = equation_one(&mains, &io);
    assert_eq!(left, Ratio::new(1821, 2500));
    assert_eq!(left.in_units(10_000), 7_284);
    assert!(liu_layland(&left, 2) && equation_one_hyperbolic(&mains, &io));
}

/// UT-02, QV-38: the seed's own experiment (five servers with periods 100 to 800 in units of its table) fails every quick
/// test, and the exact analysis accepts it.
#[test]
fn ut_02_the_seeds_experiment_needs_the_exact_analysis() {
    let set: [(u64, u64); 5] = [(10, 50), (20, 100), (20, 100), (20, 100), (10, 100)];
    let mains: Vec<Ratio> = set.iter().map(|(cost, period)| Ratio::new((*cost).into(), (*period).into())).collect();
    assert_eq!(sum(&mains), Ratio::new(9, 10));
    assert!(!liu_layland(&sum(&mains), 5) && !hyperbolic(&mains) && !equation_one_hyperbolic(&mains, &[]));
    let responses: Vec<_> = (0..set.len())
        .map(|number| {
            let above = set[..number].iter().map(|(cost, period)| Demand::periodic(*cost, *period)).collect();
            below(above, 0).response(set[number].0, set[number].1, &Steps::default()).expect("accepted")
        })
        .collect();
    assert_eq!(responses, [10, 30, 50, 80, 90]);
}

#[test]
fn ut_03_the_hyperbolic_test_is_better_and_exact() {
    let shares = [Ratio::new(1, 2), Ratio::new(1, 3)];
    assert!(!liu_layland(&sum(&shares), 2));
    assert!(hyperbolic(&shares), "the product is exactly 2");
    assert!(!hyperbolic(&[Ratio::new(1, 2), Ratio::new(333_333_334, 1_000_000_000)]));
}

#[test]
fn ut_04_one_of_each_kind_above() {
    let demands = vec![
        Demand::periodic(2, 10),
        Demand::DoubleHit { budget_ticks: 3, period_ticks: 20 },
        Demand::Share { grant_ticks: 2, numerator: 5, denominator: 100 },
        Demand::Events { cost_ticks: 1, events: 1, period_ticks: 15 },
    ];
    assert_eq!(below(demands.clone(), 0).response(6, 1_000, &Steps::default()), Some(28));
    assert_eq!(below(demands.clone(), 1).response(6, 1_000, &Steps::default()), Some(29));
    // An unlimited one above gives no bound at all, a limit below the answer neither.
    assert_eq!(below(demands.clone(), 0).response(6, 27, &Steps::default()), None);
    let unlimited = demands.into_iter().chain([Demand::Unlimited]).collect();
    assert_eq!(below(unlimited, 0).response(6, 1_000, &Steps::default()), None);
}

#[test]
fn sup_01_and_02_supply_of_a_periodic_resource() {
    let resource = Supply::periodic_resource(4, 10);
    let given = [6, 12, 13, 16, 22, 23, 26, 36].map(|window| resource.in_window(window, &Steps::default()));
    assert_eq!(given, [0, 0, 1, 4, 4, 5, 8, 12]);
    assert_eq!(resource.blackout(&Steps::default()), Some(12));
    let explicit = Supply::Explicit { budget_ticks: 4, period_ticks: 10, response_ticks: 7 };
    assert_eq!([9, 10, 13, 19, 20].map(|window| explicit.in_window(window, &Steps::default())), [0, 1, 4, 4, 5]);
    assert_eq!(explicit.blackout(&Steps::default()), Some(9));
}

#[test]
fn sup_03_tasks_in_a_guest() {
    let task = |cost_ticks, period_ticks| Task { cost_ticks, period_ticks, deadline_ticks: period_ticks };
    let tasks = [task(2, 30), task(3, 40)];
    assert_eq!(responses(&Supply::periodic_resource(4, 10), &tasks, &Steps::default()), [Some(14), Some(23)]);
    assert_eq!(responses(&Supply::Whole, &tasks, &Steps::default()), [Some(2), Some(5)]);
    // The order of the list does not matter, the deadlines do.
    assert_eq!(responses(&Supply::Whole, &[tasks[1], tasks[0]], &Steps::default()), [Some(5), Some(2)]);
    assert_eq!(responses(&Supply::Nothing, &tasks, &Steps::default()), [None, None]);
}

#[test]
fn ss_10_supply_of_the_dispatch_anchor() {
    let given = |split| Supply::Dispatched { budget_ticks: 2, period_ticks: 10, jitter_ticks: 6, split };
    let whole = given(false);
    assert_eq!(
        (
            whole.in_window(1_600, &Steps::default()),
            whole.in_window(14, &Steps::default()),
            whole.in_window(16, &Steps::default())
        ),
        (200, 0, 2)
    );
    assert_eq!(whole.blackout(&Steps::default()), Some(14));
    // Split by others with too few chunks, half of that is certain.
    let split = given(true);
    assert_eq!(
        (
            split.in_window(1_600, &Steps::default()),
            split.in_window(14, &Steps::default()),
            split.in_window(16, &Steps::default())
        ),
        (100, 0, 1)
    );
    assert_eq!(split.blackout(&Steps::default()), Some(14));
}

fn arinc() -> [Window; 3] {
    [(0, 20, 0), (20, 30, 1), (50, 10, 0)].map(|(offset_ticks, length_ticks, owner)| Window {
        offset_ticks,
        length_ticks,
        owner,
    })
}

#[test]
fn arinc_01_supply_and_gaps_of_a_table() {
    let [a, b] = [0, 1].map(|owner| Table::of_owner(100, &arinc(), owner, 0));
    assert_eq!([40, 41, 60, 70, 100].map(|window| a.supply(window)), [0, 1, 10, 10, 30]);
    assert_eq!((a.longest_gap(), b.longest_gap()), (Some(40), Some(70)));
    assert_eq!(Supply::Table(a).blackout(&Steps::default()), Some(40));
    assert_eq!(Supply::Table(b).blackout(&Steps::default()), Some(70));
    assert_eq!(Table::of_owner(100, &arinc(), 2, 0).longest_gap(), None);
}

/// SG-50: what makes a table valid.
#[test]
fn tables_and_shares_are_checked() {
    let mut windows = arinc();
    assert_eq!(faults(100, &windows, 0), []);
    // Windows of two owners without a gap lose a switch; the one after the idle end of the frame does not.
    assert_eq!(
        faults(100, &windows, 3),
        [TableFault::NoGap { window: 1, lost_ticks: 3 }, TableFault::NoGap { window: 2, lost_ticks: 3 }]
    );
    assert_eq!(Table::of_owner(100, &windows, 1, 3).longest_gap(), Some(73));
    windows[1].offset_ticks = 19;
    assert_eq!(faults(100, &windows, 3), [TableFault::Overlap(1)]);
    windows[1] = Window { offset_ticks: 20, length_ticks: 0, owner: 1 };
    windows[2].length_ticks = 51;
    assert_eq!(faults(100, &windows, 0), [TableFault::Empty(1), TableFault::Outside(2)]);
    let share = |period_ticks, duration_ticks| Share { owner: 0, period_ticks, duration_ticks };
    assert_eq!(share_fault(100, &arinc(), &share(50, 10)), None);
    assert_eq!(share_fault(100, &arinc(), &share(30, 1)), Some(ShareFault::Period));
    let short = Some(ShareFault::Short { period_start_ticks: 50, given_ticks: 10 });
    assert_eq!(share_fault(100, &arinc(), &share(50, 11)), short);
}

/// RATE-01's counts as bounds, RATE-03 and CH-32: a double hit, and four senders of a millisecond.
#[test]
fn rate_03_events_in_a_window() {
    let four_senders = 4 * events_in_window(1, 100, 1_000);
    assert_eq!((four_senders, four_senders * 849), (44, 37_356));
    let limited = Demand::Events { cost_ticks: 849, events: 4, period_ticks: 100 };
    assert_eq!(limited.in_window(1_000), Some(37_356));
    for (window, period) in [(1u64, 10u64), (9, 10), (10, 10), (11, 10), (100, 7)] {
        assert!(events_in_window(3, period, window) <= 3 * (window / period + 2), "CH-32's wider bound");
        assert!(sliding_events_in_window(3, period, window) < events_in_window(3, period, window));
    }
    assert_eq!(events_in_window(2, 10, 10), 4, "twice the limit in one window's length");
}

/// CH-38: within the limit, beyond it with and without a latch, and without polling.
#[test]
fn rate_02_from_message_to_handling() {
    let base = Notification {
        delivery_ticks: 1_000,
        limiter_period_ticks: Some(100_000),
        latched: false,
        polling_ticks: Some((1_000_000, 5_000)),
        receiver_response_ticks: 40_000,
    };
    let polled = base.bound();
    assert_eq!((polled.within_limit_ticks, polled.held_back_ticks), (41_000, Some(1_045_000)));
    assert_eq!(Notification { latched: true, ..base }.bound().held_back_ticks, Some(141_000));
    assert_eq!(Notification { polling_ticks: None, ..base }.bound().held_back_ticks, None, "a dropped last message");
    let unlimited = Notification { limiter_period_ticks: None, ..base };
    assert_eq!(unlimited.bound().held_back_ticks, Some(41_000));
}

#[test]
fn mig_01_time_of_a_migration() {
    let times = |work| {
        let time = migration_time(work, 100, 500);
        (time.equation_ticks, time.fresh_ticks, time.safe_ticks)
    };
    assert_eq!(times(54), (54, 54, Some(854)));
    assert_eq!(times(250), (1_050, 1_050, Some(1_850)));
    assert_eq!(times(100), (500, 100, Some(900)));
}

#[test]
fn mig_02_adjustment_of_clocks() {
    let readings = ClockReadings { source_ticks: 1_000_000, destination_ticks: 5_004_600, reading_ticks: 50 };
    let [average, least, most] = [2_271, 1_900, 2_900].map(|message| clock_adjustment(&readings, message));
    assert_eq!(average, Some(4_002_229));
    assert_eq!(average.map(|adjustment| adjustment + 2_000_000), Some(6_002_229));
    assert_eq!(least, Some(4_002_600));
    assert_eq!(least.zip(most).map(|(least, most)| least - most), Some(1_000), "late by at most the spread");
    assert_eq!(clock_adjustment(&readings, 5_000_000), None);
}
