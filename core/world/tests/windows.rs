//! Windows of the cyclic mode: their grid, what is raised, and the record of disturbances against a count of single ticks (SG-50 to SG-52).

use bulkhead_sched::cyclic::{TableError, Window};
use bulkhead_world::flash::{WindowPlan, WindowsPlan};
use bulkhead_world::windows::{Change, Disturbance, Windows};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

const fn window(offset_ticks: u64, length_ticks: u64, name: u8) -> Window {
    Window { offset_ticks, length_ticks, name }
}

/// Two windows of server 1 and one of server 0, with gaps before the first and behind the second.
const TABLE: [Window; 3] = [window(10, 20, 1), window(30, 10, 0), window(60, 40, 1)];
const MAJOR: u64 = 100;

/// SG-50: boundaries are on the absolute grid, however late somebody looks; adjacent windows change in one step.
#[test]
fn servers_are_raised_in_their_windows() {
    let mut windows = Windows::new(1000, MAJOR, &TABLE).unwrap();
    assert_eq!((windows.elapse(999), windows.next_event_ticks(), windows.raised()), (None, 1000, None));
    let expected = [
        (1000, None, None, 1010),
        (1010, None, Some(1), 1030),
        (1033, Some(1), Some(0), 1040),
        (1040, Some(0), None, 1060),
        (1099, None, Some(1), 1100),
        (1100, Some(1), None, 1110),
        (1110, None, Some(1), 1130),
    ];
    for (now, lower, raise, next) in expected {
        let change = Change { lower, raise, starts: raise.is_some() };
        assert_eq!((windows.elapse(now), windows.next_event_ticks()), (Some(change), next), "at {now}");
        assert_eq!(windows.elapse(now), None, "once");
    }
}

/// SG-50: tables that make no sense are refused, and which window is wrong is said.
#[test]
fn overlaps_are_refused() {
    let refused = |windows: &[Window]| Windows::new(0, MAJOR, windows).err();
    assert_eq!(refused(&[window(0, 20, 0), window(19, 10, 1)]), Some(TableError::Overlap(1)));
    assert_eq!(refused(&[window(30, 20, 0), window(0, 10, 1)]), Some(TableError::Overlap(1)));
    assert_eq!(refused(&[window(0, 10, 0), window(20, 0, 1)]), Some(TableError::Window(1)));
    assert_eq!(refused(&[window(90, 11, 0)]), Some(TableError::Window(0)));
    assert_eq!(refused(&[window(0, 10, 0), window(10, 10, 5)]), Some(TableError::Window(1)), "there is no server 5");
    assert_eq!(refused(&[]), Some(TableError::WindowCount));
}

/// SG-51, SG-52: each start is told, and what a window lost to others is recorded by window: the worst of all rounds.
#[test]
fn disturbances_are_recorded() {
    let mut windows = Windows::new(0, MAJOR, &TABLE).unwrap();
    let mut starts = 0;
    for round in 0..3u64 {
        let base = round * MAJOR;
        for boundary in [0, 10, 30, 40, 60] {
            starts += u32::from(windows.elapse(base + boundary).is_some_and(|change| change.starts));
            match boundary {
                // Server 1 begins `round` ticks late, and is interrupted for 5 ticks.
                10 => {
                    windows.switch(Some(1), base + 10 + round);
                    windows.switch(None, base + 20);
                    windows.switch(Some(1), base + 25);
                }
                // It goes on where server 0 should run: that is nothing to server 0.
                30 => windows.switch(Some(1), base + 30),
                40 => windows.switch(None, base + 45),
                _ => (),
            }
        }
    }
    windows.elapse(300);
    assert_eq!(starts, 9);
    let record =
        |rounds, latest_start_ticks, most_lost_ticks| Disturbance { rounds, latest_start_ticks, most_lost_ticks };
    let all: Vec<Disturbance> = (0..3).filter_map(|place| windows.disturbance(place).copied()).collect();
    assert_eq!(all, [record(3, 2, 7), record(3, 10, 10), record(3, 40, 40)]);
}

/// SG-50, SG-52: a window in which the world could not run, because it was loaded or stood, says nothing of the payload's tasks.
#[test]
fn windows_without_a_world_are_not_recorded() {
    let mut windows = Windows::new(0, MAJOR, &TABLE).unwrap();
    windows.set_world(false);
    windows.elapse(35);
    windows.set_world(true);
    windows.elapse(60);
    windows.switch(Some(1), 61);
    windows.elapse(120);
    windows.set_world(false);
    windows.elapse(135);
    let all: Vec<Disturbance> = (0..3).filter_map(|place| windows.disturbance(place).copied()).collect();
    assert_eq!(all[..2], [Disturbance::default(); 2], "begun without a world, or ended without one");
    assert_eq!(all[2], Disturbance { rounds: 1, latest_start_ticks: 1, most_lost_ticks: 1 });
}

/// SG-50: the table of a world plan, and what is none.
#[test]
fn a_plan_becomes_its_table() {
    let mut plan = WindowsPlan { major_ticks: MAJOR, count: 3, ..WindowsPlan::NONE };
    for (to, from) in plan.windows.iter_mut().zip(TABLE) {
        let server = u32::from(from.name);
        *to = WindowPlan { offset_ticks: from.offset_ticks, length_ticks: from.length_ticks, server, reserved: 0 };
    }
    let mut windows = Windows::of_plan(7, &plan).unwrap();
    assert_eq!(windows.elapse(47).and_then(|change| change.raise), None);
    assert_eq!(windows.elapse(67).and_then(|change| change.raise), Some(1));
    assert!(Windows::of_plan(0, &WindowsPlan::NONE).is_none());
    plan.windows[1].server = 256;
    assert!(Windows::of_plan(0, &plan).is_none(), "and not server 0");
    assert!(Windows::of_plan(0, &WindowsPlan { count: 33, ..plan }).is_none());
}

/// SG-50: a caller that was away for more than a round finds the grid where it was.
#[test]
fn a_caller_that_was_away_finds_the_grid() {
    let mut windows = Windows::new(0, MAJOR, &TABLE).unwrap();
    for (now, raise, next) in
        [(10, Some(1), 30), (1_000_000_035, Some(0), 1_000_000_040), (u64::MAX / 2 + 5, Some(1), 0)]
    {
        assert_eq!(windows.elapse(now).map(|change| change.raise), Some(raise));
        assert!(windows.next_event_ticks() > now && (next == 0 || windows.next_event_ticks() == next));
    }
    assert!(windows.disturbance(0).is_some_and(|record| record.rounds >= 1 && record.most_lost_ticks <= 20));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// SG-50, SG-52: any table, any switches, a caller that is late by less than a round: what is raised at each look, and each record, is what
    /// counting single ticks says.
    #[test]
    fn records_agree_with_single_ticks(
        lengths in vec((0..4u64, 1..9u64, 0..3u8), 1..6),
        switches in vec((1..12u64, any::<bool>(), 0..3usize), 1..60),
        origin in 0..20u64,
    ) {
        let (mut table, mut end) = (Vec::new(), 0);
        for (gap, length, name) in lengths {
            table.push(window(end + gap, length, name));
            end += gap + length;
        }
        let major = end + 2;
        let mut windows = Windows::new(origin, major, &table).unwrap();
        let at = |now: u64| {
            let offset = now.checked_sub(origin)? % major;
            table.iter().position(|one| (one.offset_ticks..one.offset_ticks + one.length_ticks).contains(&offset))
        };
        let (mut now, mut running) = (0u64, None);
        let mut model = vec![Disturbance::default(); table.len()];
        // First run and ticks that were run, of the window that is open.
        let mut open: (Option<u64>, u64) = (None, 0);
        for (ticks, runs, server) in switches {
            for _ in 0..ticks.min(major) {
                if let Some(place) = at(now) {
                    let one = table[place];
                    let since = (now - origin) % major - one.offset_ticks;
                    if since == 0 {
                        open = (None, 0);
                    }
                    if running == Some(usize::from(one.name)) {
                        open = (open.0.or(Some(since)), open.1 + 1);
                    }
                    if since + 1 == one.length_ticks {
                        let record = &mut model[place];
                        record.rounds += 1;
                        record.latest_start_ticks = record.latest_start_ticks.max(open.0.unwrap_or(one.length_ticks));
                        record.most_lost_ticks = record.most_lost_ticks.max(one.length_ticks - open.1);
                    }
                }
                now += 1;
            }
            windows.elapse(now);
            assert_eq!(windows.raised(), at(now).map(|place| usize::from(table[place].name)), "at {now}");
            running = runs.then_some(server);
            windows.switch(running, now);
        }
        let records: Vec<Disturbance> = (0..table.len()).filter_map(|place| windows.disturbance(place).copied()).collect();
        assert_eq!(records, model, "until {now}: {table:?}");
    }
}
