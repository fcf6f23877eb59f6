//! Properties of whole cores on random systems (`real-time.md` section 7): P5b, P6, P6b and P10, gate storms, delegation,
//! and SAFEG-01 over every phase.

mod support;

use bulkhead_sched::budget::{Anchor, Budget, Client, Deferrable, Pibs, PibsRule, Share, Sporadic, SporadicParameters};
use bulkhead_sched::dispatch::Core;
use bulkhead_sched::server::{Gate, Server};
use support::random::{Random, check, stair};
use support::{ALWAYS, Event, Simulation, most_in};

fn any_server(random: &mut Random, anchor: Anchor, clamp: bool) -> SporadicParameters {
    let period_ticks = random.within(4, 40);
    let budget_ticks = random.within(1, period_ticks.div_ceil(2));
    SporadicParameters {
        budget_ticks,
        period_ticks,
        smallest_chunk_ticks: 1,
        chunks: [2, 3, 4, 8][random.within(0, 3) as usize],
        anchor,
        lag_clamp: clamp,
    }
}

fn sporadic(parameters: SporadicParameters) -> Budget {
    Budget::Sporadic(Sporadic::new(parameters, 0).expect("valid"))
}

/// Worst response of each server's budget by analysis, the most important first; `None` when one misses its period.
fn responses(servers: &[SporadicParameters]) -> Option<Vec<u64>> {
    let one = |place: usize, server: &SporadicParameters| {
        let mut response = server.budget_ticks;
        loop {
            let above = servers.iter().take(place);
            let interference: u64 = above.map(|one| response.div_ceil(one.period_ticks) * one.budget_ticks).sum();
            match server.budget_ticks + interference {
                next if next > server.period_ticks => return None,
                next if next == response => return Some(response),
                next => response = next,
            }
        }
    };
    servers.iter().enumerate().map(|(place, server)| one(place, server)).collect()
}

/// Random work for each vCPU until about `until`.
fn load(simulation: &mut Simulation, random: &mut Random, vcpus: u8, until: u64) {
    for vcpu in 0..vcpus {
        let mut time = random.within(0, 20);
        while time < until {
            simulation.work(time, vcpu, random.within(1, 25));
            time += random.within(1, 40);
        }
    }
}

#[test]
fn p5b_the_lag_clamp_changes_nothing_where_every_response_holds() {
    let schedulable = std::cell::Cell::new(0u64);
    check("P5b", |random| {
        let servers: Vec<SporadicParameters> = (0..3).map(|_| any_server(random, Anchor::Eligible, true)).collect();
        if responses(&servers).is_none() {
            return;
        }
        schedulable.set(schedulable.get() + 1);
        let seed = random.next();
        let runs = [true, false].map(|lag_clamp| {
            let list = servers.iter().zip(0u8..).map(|(server, number)| {
                (number, Server::new(number, sporadic(SporadicParameters { lag_clamp, ..*server })))
            });
            let mut simulation = Simulation::new(list);
            load(&mut simulation, &mut Random(seed), 3, 120);
            simulation.run(200);
            simulation.runs
        });
        assert_eq!(runs[0], runs[1], "{servers:?}");
    });
    assert!(schedulable.get() > 10_000 || support::random::is_short(), "{} systems say little", schedulable.get());
}

/// Least of the runs that lies in any window of `length` within `from..to`.
fn least_in(runs: &[(u64, u64)], length: u64, from: u64, to: u64) -> u64 {
    let inside = |start: u64| -> u64 {
        let end = start + length;
        runs.iter().map(|run| run.1.min(end).saturating_sub(run.0.max(start))).sum()
    };
    let edges = runs.iter().flat_map(|run| [run.0, run.1]);
    let starts = edges.flat_map(|edge| [Some(edge), edge.checked_sub(length)]).flatten().chain([from]);
    starts.filter(|start| *start >= from && start + length <= to).map(inside).min().unwrap_or(u64::MAX)
}

/// Supply of a resource with an explicit deadline: nothing for `period + response - 2 * budget`, then the budget in each period.
fn explicit_deadline_supply(window: u64, server: &SporadicParameters, response: u64) -> u64 {
    let blackout = (server.period_ticks + response).saturating_sub(2 * server.budget_ticks);
    let rest = window.saturating_sub(blackout);
    stair(rest, server.budget_ticks, server.period_ticks)
}

#[test]
fn p6_a_busy_owner_is_supplied_as_computed() {
    check("P6", |random| {
        let anchor = if random.flip() { Anchor::Eligible } else { Anchor::Dispatch };
        let mut servers: Vec<SporadicParameters> = (0..2).map(|_| any_server(random, Anchor::Eligible, true)).collect();
        // With fewer chunks than pieces a part would wait for another one (SS-08), which no supply function says.
        let own = SporadicParameters { chunks: 16, ..any_server(random, anchor, true) };
        servers.push(own);
        let Some(bounds) = responses(&servers) else {
            return;
        };
        let response = bounds[2];
        let list = servers.iter().zip(0u8..).map(|(server, number)| (number, Server::new(number, sporadic(*server))));
        let mut simulation = Simulation::new(list);
        let end = 8 * own.period_ticks;
        load(&mut simulation, random, 2, end);
        simulation.work(0, 2, ALWAYS).run(end);
        let runs = simulation.of(2);
        let (budget, period) = (own.budget_ticks, own.period_ticks);
        for window in [period - 1, period, period + response, 2 * period, 3 * period + 1] {
            let supplied = least_in(&runs, window, 0, end);
            let explicit = explicit_deadline_supply(window, &own, response);
            // The periodic resource knows nothing of responses: a response is at most a period.
            assert!(explicit >= explicit_deadline_supply(window, &own, period), "{own:?} {window}");
            match anchor {
                Anchor::Eligible => {
                    assert!(supplied >= explicit, "{own:?} {window}: {supplied} < {explicit}: {runs:?}")
                }
                Anchor::Dispatch => {
                    let least = budget * (window / (period + response - budget));
                    assert!(supplied >= least, "{own:?} {window}: {supplied} < {least}: {runs:?}");
                }
            }
        }
    });
}

/// QV-33, QV-34.
#[test]
fn p10_a_task_below_a_pibs_server_keeps_its_bound() {
    check("P10", |random| {
        let denominator = random.within(3, 30);
        let numerator = random.within(1, denominator / 2);
        let share = Share { numerator: numerator as u32, denominator: denominator as u32 };
        let floor = random.within(denominator, 60);
        let clients = [Client { period_ticks: floor, priority: 0 }, Client { period_ticks: 5 * floor, priority: 1 }];
        let rule = Pibs::new(share, PibsRule::Corrected, &clients, 1, 0).expect("the grant is at least one tick");
        let grant = rule.grant_ticks();
        let cost = random.within(1, 20);
        // One tick of lag: the dates of grants are rounded up.
        let interference =
            |time: u64| time.min(grant + ((time + 1).saturating_sub(grant) * numerator).div_ceil(denominator));
        let mut bound = cost;
        while cost + interference(bound) != bound {
            bound = cost + interference(bound);
        }
        let mut simulation =
            Simulation::new([(0, Server::new(0, Budget::Pibs(rule))), (1, Server::new(5, Budget::Unlimited))]);
        let mut time = 0;
        for _ in 0..10 {
            simulation.at(time, 0, Event::Request(0, random.within(0, 1) as usize, random.within(1, 12)));
            time += random.within(0, 30);
        }
        let released = random.within(0, 80);
        simulation.work(released, 1, cost).run(released + bound);
        assert!(
            simulation.done.iter().any(|done| done.vcpu == 1),
            "{share:?}, floor {floor}, cost {cost} released at {released}: not done within {bound}"
        );
    });
}

/// SG-45, MZ-26: an interrupt gate that flutters at will changes nobody's envelope.
#[test]
fn a_gate_storm_changes_nobodys_envelope() {
    check("gate storm", |random| {
        let gated = any_server(random, Anchor::Dispatch, true);
        let other = any_server(random, Anchor::Dispatch, true);
        let mut core = Core::<4, 2>::new(
            0,
            [
                (0, Server::new(0, sporadic(gated)).gated(Gate::InterruptPending(0b11))),
                (1, Server::new(1, sporadic(other))),
                (0, Server::new(9, Budget::Unlimited)),
            ],
        )
        .expect("valid");
        core.wake(0, 0);
        core.wake(0, 1);
        let mut runs = [Vec::new(), Vec::new()];
        for now in 0..160u64 {
            for _ in 0..random.within(0, 3) {
                core.set_pending(now, 0, random.within(0, 3));
            }
            if random.next().is_multiple_of(16) {
                if random.flip() { core.block(now, 1) } else { core.wake(now, 1) }
            }
            if let Some(choice) = core.pick(now).choice
                && let Some(runs) = runs.get_mut(usize::from(choice.server))
            {
                runs.push((now, now + 1));
            }
        }
        for (server, runs) in [gated, other].iter().zip(&runs) {
            for window in [1, server.period_ticks - 1, server.period_ticks, 2 * server.period_ticks] {
                let bound = stair(window, server.budget_ticks, server.period_ticks);
                assert!(most_in(runs, window) <= bound, "{server:?} in {window}: {runs:?}");
            }
        }
    });
}

/// TCAP-02, SG-46: what several servers spend of one donor's budget is the donor's budget, in every window: a donation of the
/// whole budget leaves nothing to hoard. Loose ticks, which could be hoarded, cannot be expressed.
#[test]
fn delegation_conserves_time() {
    check("delegation", |random| {
        let donor = any_server(random, Anchor::Dispatch, true);
        let mut simulation = Simulation::new([
            (0, Server::new(1, sporadic(donor))),
            (1, Server::new(2, Budget::Unlimited).paid_by(0)),
            (2, Server::new(3, Budget::Unlimited).paid_by(0)),
            (3, Server::new(4, Budget::Unlimited)),
        ]);
        load(&mut simulation, random, 4, 150);
        simulation.run(200);
        let mut spent: Vec<(u64, u64)> =
            simulation.runs.iter().filter(|run| run.server < 3).map(|run| (run.from, run.to)).collect();
        spent.sort_unstable();
        for window in [1, donor.period_ticks - 1, donor.period_ticks, 2 * donor.period_ticks] {
            let bound = stair(window, donor.budget_ticks, donor.period_ticks);
            assert!(most_in(&spent, window) <= bound, "{donor:?} in {window}: {spent:?}");
        }
        let used: u64 = (0..3).map(|server| simulation.core.usage(server).budgeted_ticks).sum();
        assert_eq!(used, spent.iter().map(|run| run.1 - run.0).sum::<u64>(), "everything is on one account");
        let chunks = simulation.chunks(0);
        assert_eq!(
            chunks.iter().map(|chunk| chunk.1).sum::<u64>(),
            donor.budget_ticks,
            "no tick came or went: {chunks:?}"
        );
    });
}

#[test]
fn tcap_02_a_donated_budget_leaves_nothing_to_hoard() {
    // The receiver asks late in the period and the donor follows at once: 15 with loose ticks, 10 with the whole budget.
    let parameters = support::parameters(10, 100, Anchor::Dispatch);
    let mut simulation =
        Simulation::new([(0, Server::new(1, sporadic(parameters))), (1, Server::new(2, Budget::Unlimited).paid_by(0))]);
    simulation.work(95, 1, 5).work(100, 0, ALWAYS).run(300);
    let mut spent: Vec<(u64, u64)> = simulation.runs.iter().map(|run| (run.from, run.to)).collect();
    spent.sort_unstable();
    assert_eq!(most_in(&spent, 15), 10);
    assert_eq!(most_in(&spent, 100), 10);
}

/// The real-time tasks of SAFEG-01 as vCPUs 1 and 2, and the other world's ITask and BTask as vCPU 0.
fn safeg(itask_priority: u8, grid: u64, first_phase: u64) -> Simulation {
    let itask = Budget::Deferrable(Deferrable::new(2, 30, 0).expect("valid"));
    let itask = (0, Server::new(itask_priority, itask).gated(Gate::InterruptPending(1)));
    let mut list = vec![(1, Server::new(2, Budget::Unlimited)), (2, Server::new(4, Budget::Unlimited))];
    list.push(itask);
    list.push((0, Server::new(9, Budget::Unlimited)));
    list.sort_by_key(|(_, server)| server.priority);
    let mut simulation = Simulation::new(list);
    simulation.periodic(1, 10, 50, grid + first_phase, 700);
    simulation
}

/// Longest time from an interrupt to the first tick of the ITask, over every phase; the first interrupt drains the budget.
fn longest_itask_delay(priority: u8, itask: u8) -> u64 {
    let mut longest = 0;
    for phase in 0..50 {
        for drained_at in 0..30u64 {
            let mut simulation = safeg(priority, 0, phase);
            // The gate opens, and closes when the budget is gone: 2 ticks that the guest uses.
            simulation.at(drained_at, 0, Event::Pending(1)).work(drained_at, 0, ALWAYS).run(drained_at + 100);
            let runs = simulation.of(itask);
            let mut used = 0;
            let mut empty_at = None;
            for run in &runs {
                used += run.1 - run.0;
                if used >= 2 && empty_at.is_none() {
                    empty_at = Some(run.1);
                } else if let Some(empty_at) = empty_at.take() {
                    // The next interrupt comes just when the budget is gone.
                    longest = longest.max(run.0 - empty_at);
                    break;
                }
            }
        }
    }
    longest
}

#[test]
fn safeg_01_an_itask_bounds_the_delay_of_the_other_worlds_interrupts() {
    // SG-42, SG-46, SG-47: above both tasks the delay is the wait for the refill; between them the upper task's cost is added.
    assert_eq!(longest_itask_delay(0, 0), 28);
    assert_eq!(longest_itask_delay(3, 1), 38);
}

/// SG-40, SG-47.
#[test]
fn safeg_01_the_idle_approach_waits_for_the_longest_busy_period() {
    let mut longest = 0;
    for phase in 0..50 {
        let mut simulation = safeg(0, 0, phase);
        simulation.work(100, 2, 100).work(100, 0, ALWAYS).run(400);
        // Without an interrupt the guest has its background alone.
        let start = simulation.of(3).first().map(|run| run.0).expect("it runs once the tasks are done");
        longest = longest.max(start - 100);
    }
    assert_eq!(longest, 130);
}

/// SG-47.
#[test]
fn safeg_01_what_an_itask_costs_the_tasks_below_it() {
    let (mut first, mut second) = (0, 0);
    for storm_at in 60..90u64 {
        for phase in 0..50 {
            let mut simulation = safeg(0, 0, phase);
            simulation.at(storm_at, 0, Event::Pending(1)).work(storm_at, 0, ALWAYS);
            simulation.work(storm_at, 2, 100).run(storm_at + 250);
            first = first.max(simulation.worst_response(1));
            second = second.max(simulation.worst_response(2));
        }
    }
    assert_eq!((first, second), (14, 142));
}
