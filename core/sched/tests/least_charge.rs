//! The least charge of a server (`real-time.md` 1.5): worked by hand for each budget rule, and on random histories.

mod support;

use bulkhead_sched::budget::{
    Anchor, Budget, BudgetRule, Client, Deferrable, Pibs, PibsRule, Polling, Share, Sporadic, SporadicParameters,
};
use bulkhead_sched::server::{Gate, OnEmpty, Server};
use support::random::{Random, check, stair};
use support::{ALWAYS, Event, Simulation, deferrable, dispatched, eligible, parameters, polling};

/// A server of vCPU 0 alone on its core.
fn alone(budget: Budget, least: u64) -> Simulation {
    Simulation::new([(0, Server::new(5, budget).charged_at_least(least))])
}

/// What is left of the window of a deferrable or polling server.
fn left(simulation: &Simulation, server: u8) -> i64 {
    match &simulation.core.server(server).expect("exists").budget {
        Budget::Deferrable(rule) => rule.left_ticks(),
        Budget::Polling(rule) => rule.left_ticks(),
        _ => panic!("server {server} has no window"),
    }
}

/// QV-24, QV-41: a short run is charged L, a longer one what it is, and the account of time says what ran.
#[test]
fn an_early_sleep_costs_the_least_charge_and_a_late_one_what_it_was() {
    let until = |time| {
        let mut simulation = alone(eligible(10, 100), 3);
        simulation.work(0, 0, 1).work(10, 0, 5).run(time);
        simulation
    };
    // One tick of 0 and two that did not run come back together; the rest is there when they would have run.
    assert_eq!(until(5).chunks(0), [(3, 7), (100, 3)]);
    let simulation = until(20);
    assert_eq!(simulation.chunks(0), [(15, 2), (100, 3), (110, 5)]);
    assert_eq!(simulation.core.usage(0).budgeted_ticks, 6, "no time passes by a charge");
}

/// QV-28: as lateness, it is paid by the next budget and never forgiven.
#[test]
fn a_charge_beyond_what_is_left_is_a_debt() {
    let until = |time, budget| {
        let mut simulation = alone(budget, 6);
        simulation.work(0, 0, 8).work(20, 0, 1).work(30, 0, ALWAYS).run(time);
        simulation
    };
    let chunks = until(25, eligible(10, 100)).chunks(0);
    assert_eq!(chunks, [(104, 4), (120, 2), (200, 4)], "one of six ran, two were left");
    // Four of the six that the replenishment costs are there, late by the debt, and the two of 120 pay the rest.
    assert_eq!(until(230, eligible(10, 100)).of(0), [(0, 8), (20, 21), (104, 108), (200, 208), (220, 222)]);
    assert_eq!(left(&until(25, deferrable(10, 100)), 0), -4);
    assert_eq!(until(250, deferrable(10, 100)).of(0), [(0, 8), (20, 21), (100, 106), (200, 210)]);

    // What is left is forgotten by a sleep, what is owed is not.
    let until = |time, least| {
        let mut simulation = alone(polling(10, 100), least);
        simulation.work(0, 0, 1).work(50, 0, ALWAYS).run(time);
        simulation
    };
    assert_eq!((left(&until(20, 12), 0), left(&until(20, 6), 0)), (-2, 0));
    assert_eq!(until(250, 12).of(0), [(0, 1), (100, 108), (200, 206)], "two owed, and four of twelve");
}

fn pibs() -> Budget {
    let clients = [Client { period_ticks: 100, priority: 5 }];
    let share = Share { numerator: 1, denominator: 10 };
    Budget::Pibs(Pibs::new(share, PibsRule::Corrected, &clients, 1, 0).expect("valid"))
}

/// QV-34: used for the client, so that the next grant is later by it.
#[test]
fn a_driver_pays_with_the_date_of_its_next_grant() {
    let mut simulation = alone(pibs(), 5);
    simulation.at(0, 0, Event::Request(0, 0, 1)).at(10, 0, Event::Request(0, 0, 1)).run(80);
    assert_eq!(simulation.of(0), [(0, 1), (50, 51)]);
}

/// QV-39: also the budget that comes back to a guest that did not sleep begins an activation, and one that is used up ends it.
#[test]
fn a_replenishment_is_charged_and_an_exhaustion_settles() {
    let until = |time| {
        let mut simulation = alone(deferrable(10, 100), 6);
        // Two ticks are left when it wakes, it still runs when they are used up, and sleeps after one tick of the next window.
        simulation.work(0, 0, 8).work(20, 0, 3).run(time);
        simulation
    };
    assert_eq!(left(&until(99), 0), -4);
    let simulation = until(120);
    assert_eq!(left(&simulation, 0), 0, "six after the debt, one of them used, five charged");
    assert_eq!(simulation.of(0), [(0, 8), (20, 22), (100, 101)]);
}

/// A guest may be stopped while it is pre-empted, in a later window than that in which it ran.
#[test]
fn what_is_missing_is_charged_to_the_window_in_which_it_is_found() {
    let mut rule = Deferrable::new(10, 100, 0).expect("valid");
    rule.charge(98, 3);
    rule.charge_unused(102, 5);
    assert_eq!(rule.left_ticks(), 5);
}

/// A remainder that is too small waits and is not used up: pre-empted there, a server pays nothing for it, and what it runs later
/// still counts.
#[test]
fn a_remainder_that_waits_ends_no_activation() {
    let chunks = |least| {
        let rule = SporadicParameters { smallest_chunk_ticks: 4, ..parameters(4, 50, Anchor::Dispatch) };
        let mut simulation = Simulation::new([
            (1, Server::new(0, eligible(10, 40))),
            (0, Server::new(5, Budget::Sporadic(Sporadic::new(rule, 0).expect("valid"))).charged_at_least(least)),
        ]);
        simulation.work(0, 0, 5).work(3, 1, 2).run(200);
        (simulation.of(1), simulation.chunks(1))
    };
    assert_eq!(chunks(4), chunks(0));
    assert_eq!(chunks(4).0, [(0, 3), (49, 51)], "it slept with all paid");
}

/// QV-39, SG-48: a guest above takes the core 10,000 times in each order, and the victim's account is as if nothing is charged at least.
#[test]
fn ten_thousand_pre_emptions_change_no_account() {
    let accounts = |budget: fn(u64, u64) -> Budget, least| {
        let mut simulation = Simulation::new([
            (1, Server::new(0, Budget::Unlimited)),
            (0, Server::new(5, budget(30_000, 60_000)).charged_at_least(least)),
        ]);
        // It sleeps a little after the last of them.
        simulation.work(0, 0, 21_000);
        for number in 0..10_000 {
            simulation.work(10 + 3 * number, 1, 1);
        }
        simulation.run(40_000);
        assert_eq!(simulation.of(0).len(), 10_000);
        let server = simulation.core.server(1).expect("exists").clone();
        (format!("{:?}", server.budget), simulation.of(1))
    };
    for budget in [eligible, dispatched, deferrable, polling] {
        assert_eq!(accounts(budget, 5_000), accounts(budget, 0));
    }
}

/// Gates are wake-ups; the background pays nothing and counts for nothing; a donor is charged for the server that was chosen.
#[test]
fn gates_background_and_donors() {
    let gated = Server::new(1, eligible(10, 100)).gated(Gate::InterruptPending(1)).charged_at_least(4);
    let mut simulation = Simulation::new([(0, gated), (0, Server::new(5, Budget::Unlimited))]);
    simulation.work(0, 0, ALWAYS);
    for time in [10, 20] {
        simulation.at(time, 0, Event::Pending(1)).at(time + 1, 0, Event::Pending(0));
    }
    simulation.run(50);
    assert_eq!(simulation.chunks(0), [(24, 2), (110, 4), (120, 4)]);

    let falls = Server::new(5, eligible(10, 100)).on_empty(OnEmpty::Background(9)).charged_at_least(10);
    let mut simulation = Simulation::new([(0, falls)]);
    // Drained by 10, in the background until 60; the sleep there ends nothing that is missing.
    simulation.work(0, 0, 60).work(70, 0, 1).run(90);
    assert_eq!((simulation.of(0), simulation.background_of(0)), (vec![(0, 10)], vec![(10, 60), (70, 71)]));
    assert_eq!(simulation.chunks(0), [(100, 10)]);

    let paid = Server::new(1, Budget::Unlimited).paid_by(1).charged_at_least(4);
    let mut simulation = Simulation::new([(1, paid), (0, Server::new(5, eligible(10, 100)))]);
    simulation.work(0, 1, 1).run(50);
    assert_eq!(simulation.chunks(1), [(4, 6), (100, 4)]);
}

fn any_budget(random: &mut Random) -> (Budget, u64, u64) {
    let (period, budget) = (random.within(30, 80), random.within(6, 25));
    let made = match random.within(0, 3) {
        0 => Budget::Deferrable(Deferrable::new(budget, period, 0).expect("valid")),
        1 => Budget::Polling(Polling::new(budget, period, 0).expect("valid")),
        _ => {
            let anchor = if random.flip() { Anchor::Eligible } else { Anchor::Dispatch };
            let rule = SporadicParameters {
                smallest_chunk_ticks: random.within(1, budget / 2),
                chunks: [2, 3, 8, 16][random.within(0, 3) as usize],
                ..parameters(budget, period, anchor)
            };
            Budget::Sporadic(Sporadic::new(rule, 0).expect("valid"))
        }
    };
    (made, budget, period)
}

/// P15: however a guest sleeps and wakes, it takes the core from others no more often than its budgets hold its least charge, and
/// once for each piece that a budget comes back in; its victim is chosen whenever it does not run.
#[test]
fn p15_no_guest_pre_empts_more_often_than_its_budget_holds_least_charges() {
    let mut most = 0;
    check("P15", |random| {
        let (budget, budget_ticks, period) = any_budget(random);
        // A charge takes no time: a budget that is in hand may be charged at once, and the next one when it is due.
        let (pieces, late) = match &budget {
            Budget::Sporadic(rule) if rule.parameters().anchor == Anchor::Dispatch => {
                (u64::from(rule.parameters().chunks), 0)
            }
            Budget::Sporadic(rule) => (u64::from(rule.parameters().chunks), budget_ticks),
            _ => (0, period - 1),
        };
        let least = random.within(2, budget_ticks / 2);
        let mut simulation = Simulation::new([
            (1, Server::new(0, budget).charged_at_least(least)),
            (0, Server::new(5, Budget::Unlimited)),
        ]);
        simulation.work(0, 0, ALWAYS);
        let mut time = 0;
        while time < 1_000 {
            simulation.work(time, 1, 1);
            time += random.within(2, 2 + least);
        }
        simulation.run(1_000);
        let runs = simulation.of(0);
        for window in [period, 2 * period + 1, 5 * period] {
            let begun = |from: u64| runs.iter().filter(|run| run.0 >= from && run.0 < from + window).count() as u64;
            let counted = runs.iter().map(|run| begun(run.0)).max().unwrap_or(0);
            let charged = (window + least + late).div_ceil(period) * budget_ticks + least;
            let bound = charged / least + 1 + (window / period + 2) * pieces;
            assert!(
                counted <= bound,
                "window {window}: {counted} > {bound}, least {least} {:?} {runs:?}",
                simulation.core.server(0)
            );
            most = most.max(counted);
            // What it is charged without running takes nothing from anybody (P2).
            let grid_ticks = if pieces == 0 { period - budget_ticks } else { 0 };
            let ran = simulation.most_in(0, window);
            let bound = stair(window + grid_ticks, budget_ticks, period);
            assert!(
                ran <= bound,
                "window {window}: {ran} > {bound}, least {least}: {runs:?} {:?}",
                simulation.core.server(0)
            );
        }
    });
    assert!(most > 3, "nobody pre-empted");
}
