//! Properties of the budget rules on random histories (`real-time.md` section 7): the protocol R1..R4 and the bounds P1,
//! P2, P3, P4, P5, P7, P8, P9, P13 and P14.
//!
//! The seed is printed; `BULKHEAD_SEED` and `BULKHEAD_CASES` replace it and the number of cases.

mod support;

use bulkhead_sched::budget::{
    Anchor, Budget, BudgetRule, Client, Deferrable, Pibs, PibsRule, Polling, Share, Sporadic, SporadicParameters,
};
use bulkhead_sched::cyclic::{CyclicTable, Window};
use bulkhead_sched::server::Server;
use support::random::{Random, check, stair};
use support::{Event, Pairs, Simulation, most_in, pairs};

fn any_sporadic(random: &mut Random, anchor: Anchor) -> Sporadic {
    let period_ticks = random.within(2, 40);
    let budget_ticks = random.within(1, period_ticks);
    let chunks = [2, 3, 4, 8][random.within(0, 3) as usize];
    let smallest_chunk_ticks = random.within(1, budget_ticks);
    let parameters =
        SporadicParameters { budget_ticks, period_ticks, smallest_chunk_ticks, chunks, anchor, lag_clamp: true };
    Sporadic::new(parameters, 0).expect("valid")
}

fn any_anchor(random: &mut Random) -> Anchor {
    if random.flip() { Anchor::Eligible } else { Anchor::Dispatch }
}

/// Lengths around the period at which a wrong bound shows first.
fn windows(period: u64) -> [u64; 8] {
    [1, period / 3, period / 2, period - 1, period, period + 1, 2 * period, 3 * period + 5].map(|length| length.max(1))
}

/// Drives one rule as the most important server of a core: random waking, blocking, pre-emption for up to `held` ticks
/// between runs, and exhaustion noticed up to `late` ticks late. Returns its runs.
fn history(rule: &mut impl BudgetRule, random: &mut Random, steps: u64, held: u64, late: u64) -> Pairs {
    let mut now = random.within(0, 5);
    let mut runs = Pairs::new();
    rule.wake(now);
    for _ in 0..steps {
        match rule.capacity_ticks(now) {
            0 => now = rule.next_event_ticks(now).expect("budget comes back"),
            capacity => {
                rule.dispatch(now);
                let used = if random.flip() { random.within(1, capacity) } else { capacity + random.within(0, late) };
                runs.push((now, now + used));
                now += used;
                rule.charge(now, used);
            }
        }
        if random.next().is_multiple_of(3) {
            rule.block(now);
            now += random.within(0, 30);
            rule.wake(now);
        } else if held > 0 && random.flip() {
            now += random.within(0, held);
        }
    }
    runs
}

fn check_chunks(rule: &Sporadic) {
    let chunks = pairs(rule.chunks());
    let parameters = rule.parameters();
    assert_eq!(chunks.iter().map(|chunk| chunk.1).sum::<u64>(), parameters.budget_ticks, "I1: {chunks:?}");
    assert!(chunks.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "I2: {chunks:?}");
    assert!(!chunks.is_empty() && chunks.len() <= usize::from(parameters.chunks), "I3: {chunks:?}");
    assert!(chunks[0].1 >= parameters.smallest_chunk_ticks, "I4: {chunks:?}");
}

/// QV-24, QV-28, QV-30: the sum is the budget, no two pieces overlap, the list keeps its length, no piece is too small.
#[test]
fn p1_the_chunks_keep_their_invariants() {
    check("P1", |random| {
        let anchor = any_anchor(random);
        let mut rule = any_sporadic(random, anchor);
        let mut now = 0;
        for _ in 0..24 {
            now += random.within(0, 15);
            match random.within(0, 4) {
                0 => rule.wake(now),
                1 => rule.dispatch(now),
                2 => rule.charge_unused(now, random.within(0, 50)),
                _ => {
                    let most = if random.next().is_multiple_of(8) { 200 } else { rule.capacity_ticks(now) };
                    let used = random.within(0, most);
                    now += used;
                    rule.charge(now, used);
                }
            }
            check_chunks(&rule);
        }
    });
}

/// QV-29, QV-31.
#[test]
fn p2_no_window_exceeds_its_envelope() {
    check("P2", |random| {
        // Dispatch: the envelope is the stair, whatever holds the server up. Eligible at the top: the same, as J is 0.
        let anchor = any_anchor(random);
        let held = if anchor == Anchor::Dispatch { 60 } else { 0 };
        let mut rule = any_sporadic(random, anchor);
        let SporadicParameters { budget_ticks, period_ticks, .. } = *rule.parameters();
        let runs = history(&mut rule, random, 12, held, 0);
        for window in windows(period_ticks) {
            assert!(
                most_in(&runs, window) <= stair(window, budget_ticks, period_ticks),
                "{anchor:?} {window}: {runs:?}"
            );
        }
    });
}

/// QV-31.
#[test]
fn p5_a_starved_server_catches_up_with_twice_its_budget_at_most() {
    check("P5", |random| {
        let mut rule = any_sporadic(random, Anchor::Eligible);
        let SporadicParameters { budget_ticks, period_ticks, .. } = *rule.parameters();
        let runs = history(&mut rule, random, 16, 150, 0);
        assert!(most_in(&runs, period_ticks) <= 2 * budget_ticks, "{:?}: {runs:?}", rule.parameters());
    });
}

/// SG-42.
#[test]
fn p7_a_deferrable_server_keeps_the_grid_and_the_double_hit_is_reached() {
    check("P7", |random| {
        let period = random.within(2, 40);
        let budget = random.within(1, period);
        let mut rule = Deferrable::new(budget, period, 0).expect("valid");
        let runs = history(&mut rule, random, 12, 20, 0);
        for window in windows(period) {
            assert!(most_in(&runs, window) <= stair(window + period - budget, budget, period), "{window}: {runs:?}");
        }
        // The adversary: late in one grid window, then at once in the next.
        let mut rule = Deferrable::new(budget, period, 0).expect("valid");
        rule.charge(period, budget);
        assert_eq!(rule.capacity_ticks(period), budget, "2C in 2C");
    });
}

#[test]
fn p13_a_polling_server_never_double_hits() {
    check("P13", |random| {
        let period = random.within(2, 40);
        let budget = random.within(1, period);
        let mut rule = Polling::new(budget, period, 0).expect("valid");
        // Nothing holds it up, so it is used from a grid point on or not at all.
        let runs = history(&mut rule, random, 12, 0, 0);
        for window in windows(period) {
            assert!(most_in(&runs, window) <= window.div_ceil(period) * budget, "{window}: {runs:?}");
        }
    });
}

#[test]
fn p14_lateness_adds_itself_once_to_any_window() {
    check("P14", |random| {
        let late = random.within(0, 5);
        let anchor = any_anchor(random);
        let mut rule = any_sporadic(random, anchor);
        let SporadicParameters { budget_ticks, period_ticks, .. } = *rule.parameters();
        let runs = history(&mut rule, random, 12, 0, late);
        for window in windows(period_ticks) {
            let bound = stair(window, budget_ticks, period_ticks) + late;
            assert!(most_in(&runs, window) <= bound, "{anchor:?} {window}, {late} late: {runs:?}");
        }
    });
}

fn any_rule(random: &mut Random) -> Budget {
    let period = random.within(2, 40);
    let budget = random.within(1, period);
    match random.within(0, 3) {
        0 => Budget::Deferrable(Deferrable::new(budget, period, 0).expect("valid")),
        1 => Budget::Polling(Polling::new(budget, period, 0).expect("valid")),
        _ => {
            let anchor = any_anchor(random);
            Budget::Sporadic(any_sporadic(random, anchor))
        }
    }
}

#[test]
fn r1_to_r4_hold_for_every_rule() {
    check("R1-R4", |random| {
        let mut rule = any_rule(random);
        let mut now = 0;
        for _ in 0..12 {
            now += random.within(0, 12);
            // R3: reports at one instant create no time.
            let before = rule.capacity_ticks(now);
            for _ in 0..random.within(1, 4) {
                match random.within(0, 2) {
                    0 => rule.wake(now),
                    1 => rule.dispatch(now),
                    _ => rule.block(now),
                }
            }
            let capacity = rule.capacity_ticks(now);
            // A new date may join chunks that touch, so what is usable in one piece grows, but only by what was due by its end.
            if !matches!(rule, Budget::Sporadic(_)) {
                assert!(capacity <= before, "R3: {before} became {capacity} in {rule:?}");
            }
            // R4, and R2: nothing changes before the event that was announced.
            let event = rule.next_event_ticks(now);
            assert!(event.is_none_or(|event| event > now), "R4: {rule:?}");
            if let Some(event) = event {
                let silent = random.within(now, event - 1);
                assert_eq!(rule.capacity_ticks(silent), capacity, "R2: {rule:?}");
                assert!(rule.clone().capacity_ticks(event) >= capacity, "R2: {rule:?}");
                now = silent;
            }
            // R1: a run inside one piece leaves no more than was there.
            let capacity = rule.capacity_ticks(now);
            let used = random.within(0, capacity);
            if let Budget::Sporadic(sporadic) = &mut rule {
                sporadic.charge(now + used, used);
                check_chunks(sporadic);
            } else {
                let mut idle = rule.clone();
                rule.charge(now + used, used);
                assert!(rule.capacity_ticks(now + used) <= idle.capacity_ticks(now + used), "R1: {rule:?}");
            }
            now += used;
        }
    });
}

/// Sporadic servers above an unlimited task, and the task's response by analysis: the fixed point of
/// `cost + sum ceil(R / period) * budget`. `None` when there is none within 2000 ticks.
fn response(cost: u64, servers: &[(u64, u64)]) -> Option<u64> {
    let mut response = cost;
    loop {
        let next = cost + servers.iter().map(|server| response.div_ceil(server.1) * server.0).sum::<u64>();
        if next == response {
            return Some(response);
        }
        response = next;
        if response > 2_000 {
            return None;
        }
    }
}

#[test]
fn p3_and_p4_a_task_below_sporadic_servers_keeps_its_periodic_bound() {
    check("P3, P4", |random| {
        let rules = [0, 1].map(|_| {
            let anchor = any_anchor(random);
            any_sporadic(random, anchor)
        });
        let costs = rules.each_ref().map(|rule| (rule.parameters().budget_ticks, rule.parameters().period_ticks));
        let cost = random.within(1, 10);
        let Some(bound) = response(cost, &costs) else {
            return;
        };
        let [first, second] = rules.map(Budget::Sporadic);
        let mut simulation = Simulation::new([
            (0, Server::new(0, first)),
            (1, Server::new(1, second)),
            (2, Server::new(2, Budget::Unlimited)),
        ]);
        for vcpu in [0, 1] {
            let mut time = 0;
            for _ in 0..random.within(1, 5) {
                simulation.work(time, vcpu, random.within(1, 30));
                time += random.within(0, 50);
            }
        }
        let released = random.within(0, 60);
        simulation.work(released, 2, cost).run(released + bound);
        assert!(simulation.done.iter().any(|done| done.vcpu == 2), "{costs:?}, cost {cost}: not done within {bound}");
    });
}

/// SG-47.
#[test]
fn p8_below_a_deferrable_server_the_periodic_bound_is_broken_and_the_jittered_one_holds() {
    check("P8", |random| {
        let period = random.within(4, 40);
        let budget = random.within(1, period / 3);
        let cost = random.within(1, period - 2 * budget);
        // The adversary uses the end of one grid window and the beginning of the next, just when the task is released.
        let released = period - budget;
        let mut simulation = Simulation::new([
            (0, Server::new(0, support::deferrable(budget, period))),
            (1, Server::new(1, Budget::Unlimited)),
        ]);
        simulation.work(released, 0, support::ALWAYS).work(released, 1, cost).run(released + 4 * period);
        let measured = simulation.worst_response(1);
        let mut bound = cost;
        while cost + (bound + period - budget).div_ceil(period) * budget != bound {
            bound = cost + (bound + period - budget).div_ceil(period) * budget;
        }
        assert_eq!(measured, bound, "budget {budget}, period {period}, cost {cost}");
        let periodic = response(cost, &[(budget, period)]).expect("light load");
        assert!(measured > periodic, "the periodic formula says {periodic}, which this phasing must break");
    });
}

/// QV-33, QV-34.
#[test]
fn p9_a_pibs_server_stays_within_its_window_bound() {
    check("P9", |random| {
        let denominator = random.within(2, 30) as u32;
        let share = Share { numerator: random.within(1, u64::from(denominator) - 1) as u32, denominator };
        let floor = random.within(u64::from(denominator), 60);
        let clients = [Client { period_ticks: floor, priority: 0 }, Client { period_ticks: 3 * floor, priority: 1 }];
        let rule = Pibs::new(share, PibsRule::Corrected, &clients, 1, 0).expect("the grant is at least one tick");
        let grant = rule.grant_ticks();
        let mut simulation = Simulation::new([(0, Server::new(0, Budget::Pibs(rule)))]);
        let mut time = 0;
        for _ in 0..12 {
            simulation.at(time, 0, Event::Request(0, random.within(0, 1) as usize, random.within(1, 12)));
            time += random.within(0, 40);
        }
        simulation.run(6 * floor);
        for window in [grant, floor, floor + 1, 3 * floor] {
            // U * (d + J) + G * (1 - U), in whole ticks. J: dates are rounded up, so a grant is up to a tick late.
            let (up, down) = (u64::from(share.numerator), u64::from(share.denominator));
            let bound = (up * (window + 1) + grant * (down - up)) / down;
            let most = simulation.most_in(0, window);
            assert!(most <= bound, "{share:?}, grant {grant}, window {window}: {most} > {bound}");
        }
    });
}

/// R3 for the sporadic rule, whose pieces join: a server that runs as soon and as long as it may gets no more, at any
/// time, after reports than without them.
#[test]
fn r3_reports_at_one_instant_bring_a_sporadic_server_nothing() {
    fn served(rule: &mut Sporadic, from: u64, ticks: u64) -> Vec<u64> {
        let mut total = 0;
        let mut curve = Vec::new();
        for now in from..from + ticks {
            if rule.capacity_ticks(now) > 0 {
                rule.charge(now + 1, 1);
                total += 1;
            }
            curve.push(total);
        }
        curve
    }
    check("R3 sporadic", |random| {
        let anchor = any_anchor(random);
        // Enough chunks: in a full ring a part waits for another one, and joining two of them makes room.
        let parameters = SporadicParameters { chunks: 16, ..*any_sporadic(random, anchor).parameters() };
        let mut rule = Sporadic::new(parameters, 0).expect("valid");
        history(&mut rule, random, 8, 60, 3);
        let now = random.within(200, 1_200);
        let mut silent = rule.clone();
        for _ in 0..random.within(1, 4) {
            match random.within(0, 2) {
                0 => rule.wake(now),
                1 => rule.dispatch(now),
                _ => rule.block(now),
            }
        }
        check_chunks(&rule);
        let ticks = 2 * rule.parameters().period_ticks;
        let (without, with) = (served(&mut silent, now, ticks), served(&mut rule, now, ticks));
        assert!(with.iter().zip(&without).all(|(with, without)| with <= without), "{with:?} {without:?}");
    });
}

/// A busy owner waits a period at the most, however often the ends of its budget are noticed late, and however full the ring is of
/// what these debts have left: no whole budget waits for a part of one (`real-time.md` 2.1, *The smaller one waits*).
#[test]
fn a_debt_in_a_full_ring_darkens_no_period() {
    check("debts in a full ring", |random| {
        let (period_ticks, budget_ticks) = (6_250_000, 125_000);
        let smallest_chunk_ticks = random.within(1, 1_250);
        let chunks = random.within(2, 8) as u8;
        let anchor = Anchor::Dispatch;
        let parameters =
            SporadicParameters { budget_ticks, period_ticks, smallest_chunk_ticks, chunks, anchor, lag_clamp: false };
        let mut rule = Sporadic::new(parameters, 0).expect("valid");
        let (late, spread, delay) = (random.within(50, 3_000), random.within(1, 400), random.within(1, 2_000));
        let splits = random.within(2, 300);
        let mut now = 0;
        rule.wake(now);
        for _ in 0..400 {
            if rule.capacity_ticks(now) == 0 {
                let again = rule.next_event_ticks(now).expect("it comes back");
                assert!(again - now <= period_ticks, "dark for {} ticks: {parameters:?}", again - now);
                now = again + random.within(0, delay);
            }
            rule.dispatch(now);
            let capacity_ticks = rule.capacity_ticks(now);
            // A part, or all and what passes until the end is noticed; then the loading of the next one.
            let is_part = random.within(1, splits) == 1;
            let used = if is_part { random.within(1, capacity_ticks) } else { capacity_ticks + random.within(60, 260) };
            now += used;
            rule.charge(now, used);
            if !is_part {
                let loading = late + random.within(0, spread);
                now += loading;
                rule.charge(now, loading);
            }
            check_chunks(&rule);
        }
    });
}

/// QV-30, a change of modes (4.6): no window of the shorter period holds more than the larger budget, across the change as well.
#[test]
fn a_changed_budget_keeps_the_cap() {
    check("reconfigure", |random| {
        let mut rule = any_sporadic(random, Anchor::Dispatch);
        let old = *rule.parameters();
        let period_ticks = random.within(2, 40);
        let budget_ticks = random.within(1, period_ticks);
        let new = SporadicParameters {
            budget_ticks,
            period_ticks,
            smallest_chunk_ticks: random.within(1, budget_ticks),
            ..old
        };
        let mut runs = Pairs::new();
        let mut now = 0;
        let changed_at = random.within(0, 80);
        let mut changed = false;
        rule.wake(0);
        while now < 240 {
            if !changed && now >= changed_at {
                rule.reconfigure(new, now).expect("valid");
                check_chunks(&rule);
                changed = true;
            }
            if rule.capacity_ticks(now) > 0 && !random.next().is_multiple_of(4) {
                rule.dispatch(now);
                runs.push((now, now + 1));
                rule.charge(now + 1, 1);
            } else if random.next().is_multiple_of(8) {
                rule.block(now);
                rule.wake(now);
            }
            now += 1;
        }
        let window = old.period_ticks.min(new.period_ticks);
        let bound = old.budget_ticks.max(new.budget_ticks);
        assert!(most_in(&runs, window) <= bound, "{old:?} to {new:?} at {changed_at}: {runs:?}");
    });
}

/// The answer of a time table depends on the instant alone, and its grid on the origin alone (SG-50).
#[test]
fn a_table_lookup_depends_on_nothing_but_the_instant() {
    check("table", |random| {
        let major = random.within(10, 200);
        let mut windows = Vec::new();
        let mut free = 0;
        while free + 2 < major && windows.len() < 6 {
            let offset_ticks = random.within(free, (free + 10).min(major - 1));
            let length_ticks = random.within(1, (major - offset_ticks).min(20));
            windows.push(Window { offset_ticks, length_ticks, name: random.within(0, 3) as u8 });
            free = offset_ticks + length_ticks;
        }
        let origin = random.within(0, 50);
        let table = CyclicTable::new(origin, major, &windows).expect("valid");
        let now = random.within(0, 2_000);
        let slot = table.slot(now);
        for _ in 0..4 {
            let _ = table.slot(random.within(0, 2_000));
        }
        assert_eq!(table.slot(now), slot, "whatever was asked before");
        assert!(slot.until_ticks > now);
        let inside = random.within(now, slot.until_ticks - 1);
        assert_eq!(table.slot(inside), slot, "{now} and {inside} lie between the same boundaries");
        if now >= origin {
            let later = table.slot(now + 7 * major);
            assert_eq!((later.window, later.until_ticks), (slot.window, slot.until_ticks + 7 * major));
            let end = table.frame_end_ticks(now);
            assert!(end > now && end - now <= major && (end - origin).is_multiple_of(major));
        }
    });
}
