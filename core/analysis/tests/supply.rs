//! P11: supply functions equal brute force, tick by tick; and so do tables, what is left over, and the bounds of the published
//! round robin.

mod support;

use bulkhead_analysis::demand::{Demand, events_in_window};
use bulkhead_analysis::guest::{Task, responses};
use bulkhead_analysis::response::Contention;
use bulkhead_analysis::round_robin::{OnInterrupt, Reading, Ring};
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::supply::Supply;
use bulkhead_analysis::table::{Table, Window};
use bulkhead_sched::quantum::{QuantumRing, RingParameters};
use support::random::{Random, check, check_some};

/// Least service of a pattern of ticks in any window; `most` looks for the most instead.
fn extreme(pattern: &[bool], window: usize, most: bool) -> u64 {
    let mut sums = vec![0u64];
    for tick in pattern {
        sums.push(sums[sums.len() - 1] + u64::from(*tick));
    }
    let windows = (0..=pattern.len() - window).map(|start| sums[start + window] - sums[start]);
    if most { windows.max() } else { windows.min() }.expect("the pattern is longer than the window")
}

/// Service in each period as late as allowed, after one that was as early as it can be.
fn worst_pattern(budget: u64, period: u64, response: u64, periods: u64) -> Vec<bool> {
    let served = |tick: u64| {
        let (number, inside) = (tick / period, tick % period);
        let start = if number == 0 { 0 } else { response - budget };
        (start..start + budget).contains(&inside)
    };
    (0..periods * period).map(served).collect()
}

#[test]
fn p11_periodic_supply_equals_brute_force() {
    check("P11 periodic", |random| {
        let period = random.within(2, 20);
        let budget = random.within(1, period);
        let response = random.within(budget, period);
        let supply = Supply::Explicit { budget_ticks: budget, period_ticks: period, response_ticks: response };
        let worst = worst_pattern(budget, period, response, 8);
        for window in 1..=4 * period {
            assert_eq!(
                supply.in_window(window, &Steps::default()),
                extreme(&worst, window as usize, false),
                "window {window}: {supply:?}"
            );
        }
        let amount = random.within(1, 3 * budget);
        let least = (0..).find(|window| supply.in_window(*window, &Steps::default()) >= amount);
        assert_eq!(supply.least_window(amount, &Steps::default()), least, "{supply:?}");
        // A budget that is placed elsewhere gives no less.
        let mut pattern = Vec::new();
        for _ in 0..8 {
            let start = random.within(0, response - budget);
            pattern.extend((0..period).map(|tick| (start..start + budget).contains(&tick)));
        }
        let window = random.within(1, 4 * period);
        assert!(extreme(&pattern, window as usize, false) >= supply.in_window(window, &Steps::default()));
    });
}

#[test]
fn p11_supply_of_a_table_equals_brute_force() {
    check_some("P11 table", 4, |random| {
        let major = random.within(4, 40);
        let mut windows = Vec::new();
        let mut place = 0;
        while place < major && windows.len() < 5 {
            let offset_ticks = random.within(place, major - 1);
            let length_ticks = random.within(1, major - offset_ticks);
            windows.push(Window { offset_ticks, length_ticks, owner: random.within(0, 1) as usize });
            place = offset_ticks + length_ticks;
        }
        let table = Table::of_owner(major, &windows, 0, 0);
        let open = |tick: u64| {
            windows
                .iter()
                .any(|window| window.owner == 0 && (window.offset_ticks..window.end_ticks()).contains(&(tick % major)))
        };
        let pattern: Vec<bool> = (0..6 * major).map(open).collect();
        for window in 1..=3 * major {
            assert_eq!(table.supply(window), extreme(&pattern, window as usize, false), "{windows:?}, window {window}");
            assert_eq!(table.most(window), extreme(&pattern, window as usize, true), "{windows:?}, window {window}");
        }
        let total: u64 = windows.iter().filter(|one| one.owner == 0).map(|one| one.length_ticks).sum();
        if total == 0 {
            assert_eq!((table.least_window(1), table.longest_gap()), (None, None));
            return;
        }
        let amount = random.within(1, 2 * total);
        assert_eq!(table.least_window(amount), (0..).find(|window| table.supply(*window) >= amount));
        assert_eq!(Supply::Table(table.clone()).blackout(&Steps::default()), table.longest_gap());
    });
}

/// What more important periodic work leaves is what is idle from its common release on.
#[test]
fn p11_what_is_left_over_equals_brute_force() {
    check_some("P11 rest", 2, |random| {
        let count = random.within(1, 3);
        let above: Vec<(u64, u64)> = (0..count).map(|_| (random.within(1, 4), random.within(5, 25))).collect();
        let contention = Contention {
            demands: above.iter().map(|(budget, period)| Demand::periodic(*budget, *period)).collect(),
            ..Contention::none()
        };
        let supply = Supply::Rest(Box::new(contention));
        let mut backlog = 0;
        let mut idle = 0;
        for tick in 0..120u64 {
            backlog += above.iter().filter(|(_, period)| tick % period == 0).map(|(budget, _)| budget).sum::<u64>();
            if backlog > 0 {
                backlog -= 1;
            } else {
                idle += 1;
            }
            assert_eq!(supply.in_window(tick + 1, &Steps::default()), idle, "window {}: {above:?}", tick + 1);
        }
    });
}

#[test]
fn tasks_in_a_guest_equal_a_search() {
    check_some("tasks", 4, |random| {
        let period = random.within(3, 12);
        let budget = random.within(1, period);
        let supply = Supply::periodic_resource(budget, period);
        let tasks: Vec<Task> = (0..random.within(1, 3))
            .map(|number| {
                let period_ticks = random.within(10, 60);
                Task { cost_ticks: random.within(1, 5), period_ticks, deadline_ticks: 4 * period_ticks + number }
            })
            .collect();
        for (number, (task, response)) in tasks.iter().zip(responses(&supply, &tasks, &Steps::default())).enumerate() {
            let rivals = || {
                tasks
                    .iter()
                    .enumerate()
                    .filter(|(other, rival)| *other != number && rival.deadline_ticks < task.deadline_ticks)
            };
            let needed = |time: u64| {
                task.cost_ticks
                    + rivals().map(|(_, rival)| time.div_ceil(rival.period_ticks) * rival.cost_ticks).sum::<u64>()
            };
            let search = (1..2_000).find(|time| supply.in_window(*time, &Steps::default()) >= needed(*time));
            if let Some(search) = search {
                assert_eq!(response, Some(search), "{tasks:?} in {supply:?}");
            } else {
                assert!(response.is_none_or(|ticks| ticks >= 2_000));
            }
        }
    });
}

/// CH-32: a limiter with windows on a grid, at every phase.
#[test]
fn events_of_a_limiter_equal_brute_force() {
    check("limiter", |random| {
        let (events, period) = (random.within(1, 5), random.within(2, 20));
        let window = random.within(1, 5 * period);
        // At every instant of a grid window, all of its events may come at once.
        let most = (0..period).map(|start| events * ((start + window - 1) / period - start / period + 1)).max();
        let bound = events_in_window(events, period, window);
        assert!(most <= Some(bound), "{events} in {period}, window {window}");
        if window % period != 1 {
            assert_eq!(most, Some(bound), "{events} in {period}, window {window}: reached");
        }
    });
}

/// Worst start and completion of a handler of guest 0 over every phase of a ring of busy guests.
fn worst(parameters: RingParameters, handler: u64) -> (u64, u64) {
    let round = u64::from(parameters.guests) * parameters.quantum_ticks;
    let mut worst = (0, 0);
    for phase in 0..round {
        let mut ring = QuantumRing::new(0, parameters).expect("valid");
        (0..parameters.guests).for_each(|guest| ring.set_ready(guest, true));
        (1..=phase).for_each(|now| ring.advance(now));
        ring.interrupt(0);
        let (mut waited, mut handled, mut started) = (0, 0, None);
        while handled < handler {
            if ring.running() == Some(0) {
                started = started.or(Some(waited));
                handled += 1;
            }
            waited += 1;
            ring.advance(phase + waited);
        }
        worst = (worst.0.max(started.expect("handled")), worst.1.max(waited));
    }
    worst
}

/// MZ-13, MZ-15, MZ-20, MZ-21, MZ-22.
#[test]
fn bounds_of_the_round_robin_hold_in_every_phase() {
    let any_ring = |random: &mut Random| {
        let guests = random.within(2, 5);
        let policies = [OnInterrupt::None, OnInterrupt::Recycle, OnInterrupt::Reset, OnInterrupt::ResetExtend];
        let policy = policies[random.within(0, 3) as usize];
        let latched = random.flip();
        let quantum = random.within(2, 9);
        let preemptible: Vec<bool> = (0..guests).map(|_| random.flip()).collect();
        let bits = preemptible.iter().enumerate().fold(0, |bits, (guest, open)| bits | u32::from(*open) << guest);
        let ring = Ring {
            preemptible,
            interrupting: vec![true, false, false, false],
            turn_ticks: quantum,
            quantum_ticks: quantum,
            policy,
            reading: if latched { Reading::Latched } else { Reading::Masked },
        };
        let parameters = RingParameters {
            guests: guests as u8,
            quantum_ticks: quantum,
            on_interrupt: policy,
            reading: if latched { Reading::Latched } else { Reading::Masked },
            ring_moves: false,
            preemptible: bits,
        };
        (ring, parameters)
    };
    check("round robin", |random| {
        let (ring, parameters) = any_ring(random);
        let handler = random.within(1, 2 * ring.quantum_ticks);
        let (start, completion) = worst(parameters, handler);
        let bound = ring.bound(0, true, handler, 0);
        assert!(start <= bound.start_ticks, "{start} > {bound:?}: {ring:?}");
        assert!(completion <= bound.completion_ticks, "{completion} > {bound:?}, handler {handler}: {ring:?}");
        let exact = ring.reading == Reading::Masked && handler <= ring.quantum_ticks;
        if exact && ring.policy != OnInterrupt::Reset && ring.policy != OnInterrupt::Recycle {
            assert_eq!((start, completion), (bound.start_ticks, bound.completion_ticks), "reached: {ring:?}");
        }
    });
}

#[test]
fn rr_01_and_rr_02_are_the_table_of_bounds() {
    let bound = |closed: &[usize], policy| {
        let ring = Ring {
            preemptible: (0..4).map(|guest| !closed.contains(&guest)).collect(),
            interrupting: vec![true, false, false, false],
            turn_ticks: 30,
            quantum_ticks: 30,
            policy,
            reading: Reading::Masked,
        };
        let bound = ring.bound(0, true, 2, 0);
        (bound.start_ticks, bound.completion_ticks)
    };
    let policies = [OnInterrupt::None, OnInterrupt::Recycle, OnInterrupt::Reset, OnInterrupt::ResetExtend];
    assert_eq!(policies.map(|policy| bound(&[], policy)), [(90, 92), (0, 92), (0, 92), (0, 2)]);
    assert_eq!(
        [OnInterrupt::Recycle, OnInterrupt::ResetExtend].map(|policy| bound(&[1, 2], policy)),
        [(60, 92), (60, 62)]
    );
    assert_eq!(
        [OnInterrupt::Recycle, OnInterrupt::ResetExtend].map(|policy| bound(&[1, 3], policy)),
        [(30, 92), (30, 32)]
    );
    // MZ-20: without `preempt` the policy does not matter.
    let ring = Ring {
        preemptible: vec![true; 4],
        interrupting: vec![true, false, false, false],
        turn_ticks: 30,
        quantum_ticks: 30,
        policy: OnInterrupt::ResetExtend,
        reading: Reading::Masked,
    };
    assert_eq!(ring.bound(0, false, 2, 0).completion_ticks, 92);
    assert_eq!(ring.supply(0).blackout(&Steps::default()), Some(90));
}
