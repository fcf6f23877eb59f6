//! Golden examples of the sporadic server, and the ten ways to be wrong that they kill.
//!
//! Each scenario is a function of the [`Mutant`], so the table at the end runs the same code on broken servers.

mod support;

use bulkhead_sched::budget::{
    Anchor, Budget, BudgetError, BudgetRule, MAX_CHUNKS, Mutant, Sporadic, SporadicParameters,
};
use bulkhead_sched::server::Server;
use support::{ALWAYS, Pairs, Simulation, deferrable, mutant, pairs, parameters};

/// Two unlimited neighbours around the server under test, which is number 1 and vCPU 1.
fn between(rule: Budget) -> Simulation {
    Simulation::new([
        (0, Server::new(0, Budget::Unlimited)),
        (1, Server::new(1, rule)),
        (2, Server::new(2, Budget::Unlimited)),
    ])
}

fn ss_01(broken: Mutant) -> (Pairs, Pairs) {
    let mut simulation = between(mutant(parameters(5, 10, Anchor::Eligible), broken));
    simulation.periodic(0, 1, 5, 0, 12).periodic(2, 4, 15, 0, 12).work(4, 1, 2).work(8, 1, 2).run(12);
    (simulation.of(1), simulation.chunks(1))
}

/// QV-24, QV-25, QV-26: each part that was used is back a period after its own date, and the parts add up to the budget.
#[test]
fn ss_01_two_requests_between_two_tasks() {
    let expected = (vec![(4, 5), (6, 7), (8, 10)], vec![(10, 1), (14, 2), (18, 2)]);
    assert_eq!(ss_01(Mutant::None), expected);
}

#[test]
fn ss_02_a_request_larger_than_what_is_left_waits() {
    let mut simulation = between(mutant(parameters(2, 8, Anchor::Eligible), Mutant::None));
    simulation.work(2, 1, 2).work(5, 1, 2).run(14);
    assert_eq!(simulation.of(1), [(2, 4), (10, 12)]);
    assert_eq!(simulation.chunks(1), [(18, 2)]);
}

fn ss_04(anchor: Anchor, broken: Mutant) -> Vec<(u64, u64)> {
    let mut simulation = between(mutant(parameters(6, 20, anchor), broken));
    simulation.work(0, 0, 6).work(10, 0, 6).work(0, 1, ALWAYS).run(40);
    simulation.of(1)
}

/// QV-31: dated by execution nothing is back within a period; dated by eligibility twice the budget fits into one.
#[test]
fn ss_04_the_anchor_decides_between_12_and_6_in_20() {
    let eligible = ss_04(Anchor::Eligible, Mutant::None);
    assert_eq!(eligible[..3], [(6, 10), (16, 18), (20, 26)]);
    assert_eq!(support::most_in(&eligible, 20), 12);
    let dispatch = ss_04(Anchor::Dispatch, Mutant::None);
    assert_eq!(dispatch, [(6, 10), (16, 18), (26, 30), (36, 38)]);
    assert_eq!(support::most_in(&dispatch, 20), 6);
}

fn ss_05(anchor: Anchor, broken: Mutant) -> (Vec<(u64, u64)>, u64) {
    let mut simulation = between(mutant(parameters(10, 40, anchor), broken));
    simulation.work(0, 1, 8).work(10, 1, 20).work(10, 0, 35).work(0, 2, 20).run(200);
    (simulation.of(1), simulation.worst_response(2))
}

/// QV-29: what was used late comes back late.
#[test]
fn ss_05_no_premature_replenishment() {
    // POSIX rules would give 83: QV-29 (b).
    assert_eq!(ss_05(Anchor::Eligible, Mutant::None), (vec![(0, 8), (45, 57), (80, 88)], 75));
    assert_eq!(ss_05(Anchor::Dispatch, Mutant::None).1, 73);
}

/// Starts and lengths of the runs when every exhaustion is noticed 2 late.
fn ss_06(broken: Mutant) -> Vec<(u64, u64)> {
    let mut simulation = between(mutant(parameters(10, 100, Anchor::Eligible), broken));
    simulation.late = 2;
    simulation.work(0, 1, ALWAYS).run(400);
    simulation.of(1).iter().map(|run| (run.0, run.1 - run.0)).collect()
}

/// QV-25, QV-29: an overrun is taken from the next budget, so what is used does not grow.
#[test]
fn ss_06_an_overrun_is_a_debt() {
    // On the rule itself, because only exhaustion is late here; the simulator also notices replenishments late.
    let mut rule = Sporadic::new(parameters(10, 100, Anchor::Eligible), 0).expect("valid");
    let mut runs = Vec::new();
    let mut now = 0;
    for _ in 0..4 {
        let used = rule.capacity_ticks(now) + 2;
        runs.push((now, used));
        rule.charge(now + used, used);
        now = rule.next_event_ticks(now + used).expect("a date");
    }
    assert_eq!(runs, [(0, 12), (102, 10), (202, 10), (302, 10)]);
}

fn ss_07(clamp: bool, broken: Mutant) -> Vec<(u64, u64)> {
    let settings = SporadicParameters { lag_clamp: clamp, ..parameters(2, 10, Anchor::Eligible) };
    let mut simulation = between(mutant(settings, broken));
    simulation.work(1, 0, 100).work(0, 1, ALWAYS).run(140);
    simulation.of(1)
}

#[test]
fn ss_07_the_lag_clamp_defuses_a_starved_server() {
    assert_eq!(ss_07(false, Mutant::None)[1], (101, 126), "25 ticks without a break");
    let clamped = ss_07(true, Mutant::None);
    assert_eq!(clamped[1], (101, 105));
    assert_eq!(support::most_in(&clamped, 10), 4);
    assert!(clamped[2..].iter().all(|run| run.1 - run.0 <= 2), "then 2 per 10: {clamped:?}");
}

/// Jobs served, worst wait, and the sum of the chunks.
fn ss_08(chunks: u8, broken: Mutant) -> (usize, u64, u64) {
    let settings = SporadicParameters { chunks, ..parameters(10, 100, Anchor::Eligible) };
    let mut simulation = between(mutant(settings, broken));
    simulation.periodic(1, 1, 10, 0, 2_000).run(2_000);
    let sum = simulation.chunks(1).iter().map(|chunk| chunk.1).sum();
    (simulation.done.len(), simulation.worst_response(1), sum)
}

/// QV-26, QV-28, QV-29, QV-30: with any length of the list the pieces add up to the budget.
#[test]
fn ss_08_a_full_ring_delays_and_never_drops() {
    let expected = [(2, 199, 82), (3, 200, 73), (4, 200, 64), (8, 200, 28), (10, 200, 1)];
    for (chunks, served, wait) in expected {
        assert_eq!(ss_08(chunks, Mutant::None), (served, wait, 10), "{chunks} chunks");
    }
    for chunks in [0, 1, 17] {
        let settings = SporadicParameters { chunks, ..parameters(10, 100, Anchor::Eligible) };
        assert_eq!(Sporadic::new(settings, 0).err(), Some(BudgetError::ChunkCount));
    }
}

fn ss_09_wake(broken: Mutant) -> Vec<(u64, u64)> {
    let Budget::Sporadic(mut rule) = mutant(parameters(10, 100, Anchor::Eligible), broken) else { unreachable!() };
    rule.charge(4, 4);
    rule.wake(30);
    rule.dispatch(30);
    rule.charge(36, 6);
    pairs(rule.chunks())
}

fn ss_09_preempted(anchor: Anchor, broken: Mutant) -> Vec<(u64, u64)> {
    let Budget::Sporadic(mut rule) = mutant(parameters(10, 100, anchor), broken) else { unreachable!() };
    rule.dispatch(0);
    rule.charge(4, 4);
    rule.dispatch(50);
    rule.charge(56, 6);
    pairs(rule.chunks())
}

/// QV-27, QV-28, QV-30: a wake-up sets a new date, a pre-emption does not; a piece that is too small joins the next
/// one.
#[test]
fn ss_09_slivers_idle_time_and_dates() {
    let settings = SporadicParameters { smallest_chunk_ticks: 3, ..parameters(10, 100, Anchor::Eligible) };
    let mut rule = Sporadic::new(settings, 0).expect("valid");
    rule.charge(8, 8);
    assert_eq!(pairs(rule.chunks()), [(98, 10)], "a sliver joins its successor");
    let mut rule = Sporadic::new(parameters(10, 100, Anchor::Eligible), 0).expect("valid");
    rule.wake(250);
    rule.charge(260, 10);
    assert_eq!(pairs(rule.chunks()), [(350, 10)], "no credit for idle time");
    assert_eq!(ss_09_wake(Mutant::None), [(100, 4), (130, 6)]);
    assert_eq!(ss_09_preempted(Anchor::Eligible, Mutant::None), [(100, 10)]);
    assert_eq!(ss_09_preempted(Anchor::Dispatch, Mutant::None), [(100, 4), (150, 6)]);
}

#[test]
fn ss_10_what_dating_by_execution_costs() {
    let supply = |anchor| {
        let mut simulation = between(mutant(parameters(2, 10, anchor), Mutant::None));
        simulation.periodic(0, 6, 16, 0, 1_600).work(0, 1, ALWAYS).run(1_600);
        simulation.core.usage(1).budgeted_ticks
    };
    assert_eq!(supply(Anchor::Eligible), 320);
    assert_eq!(supply(Anchor::Dispatch), 200, "C / (T + J) with R = 8: one eighth");
}

#[test]
fn a_long_overrun_is_taken_in_rounds_and_loses_nothing() {
    let mut whole = Sporadic::new(parameters(10, 40, Anchor::Eligible), 0).expect("valid");
    let mut parts = whole.clone();
    whole.charge(4, 4);
    parts.charge(4, 4);
    whole.charge(1_000, 777);
    for part in 1..=777 {
        parts.charge(223 + part, 1);
    }
    assert_eq!(pairs(whole.chunks()), pairs(parts.chunks()));
    assert!(pairs(whole.chunks()).len() <= MAX_CHUNKS);
}

/// QV-30: also periods whose dates would not fit into the clock.
#[test]
fn contradictory_parameters_are_refused() {
    let refused = |change: fn(&mut SporadicParameters)| {
        let mut settings = parameters(10, 100, Anchor::Eligible);
        change(&mut settings);
        Sporadic::new(settings, 0).err()
    };
    assert_eq!(refused(|p| p.budget_ticks = 0), Some(BudgetError::BudgetOutsidePeriod));
    assert_eq!(refused(|p| p.budget_ticks = 101), Some(BudgetError::BudgetOutsidePeriod));
    assert_eq!(refused(|p| p.period_ticks = u64::MAX), Some(BudgetError::PeriodTooLong));
    assert_eq!(refused(|p| p.smallest_chunk_ticks = 11), Some(BudgetError::SmallestChunk));
    assert_eq!(refused(|p| p.smallest_chunk_ticks = 0), Some(BudgetError::SmallestChunk));
}

/// SG-42: a budget is kept while it is unused, so the end of one period and the beginning of the next meet.
#[test]
fn ds_01_the_double_hit() {
    let mut simulation = between(deferrable(2, 10));
    simulation.work(8, 1, 6).run(30);
    assert_eq!(simulation.of(1), [(8, 12), (20, 22)]);
    assert_eq!([4, 10, 20].map(|length| simulation.most_in(1, length)), [4, 4, 6]);
}

/// SG-47.
#[test]
fn ds_02_below_a_deferrable_server_the_response_is_9_and_not_7() {
    let mut simulation = between(deferrable(2, 10));
    simulation.work(8, 1, ALWAYS).work(8, 2, 5).run(40);
    assert_eq!(simulation.worst_response(2), 9);
}

// The ten mutants of `real-time.md` section 7, each with the golden that kills it. Clamped overruns are killed by SS-06
// alone and a missing lag clamp by SS-07 alone.

#[test]
fn mutant_no_reanchor_on_wake_is_killed_by_ss_09() {
    assert_ne!(ss_09_wake(Mutant::NoReanchorOnWake), ss_09_wake(Mutant::None));
}

#[test]
fn mutant_date_at_end_of_run_is_killed_by_ss_01() {
    assert_ne!(ss_01(Mutant::DateAtEndOfRun), ss_01(Mutant::None));
}

#[test]
fn mutant_drop_when_full_is_killed_by_ss_08() {
    assert_ne!(ss_08(2, Mutant::DropWhenFull), ss_08(2, Mutant::None));
}

#[test]
fn mutant_merge_early_when_full_is_killed_by_ss_08() {
    assert_ne!(ss_08(2, Mutant::MergeEarlyWhenFull), ss_08(2, Mutant::None));
}

#[test]
fn mutant_clamp_overrun_is_killed_by_ss_06() {
    assert_ne!(ss_06(Mutant::ClampOverrun), ss_06(Mutant::None));
}

#[test]
fn mutant_merge_future_chunks_is_killed_by_ss_05() {
    assert_ne!(ss_05(Anchor::Eligible, Mutant::MergeFutureChunks), ss_05(Anchor::Eligible, Mutant::None));
}

#[test]
fn mutant_period_one_short_is_killed_by_ss_04() {
    assert_ne!(ss_04(Anchor::Dispatch, Mutant::PeriodOneShort), ss_04(Anchor::Dispatch, Mutant::None));
}

#[test]
fn mutant_no_lag_clamp_is_killed_by_ss_07() {
    assert_ne!(ss_07(true, Mutant::NoLagClamp), ss_07(true, Mutant::None));
}

#[test]
fn mutant_wrong_anchor_is_killed_by_ss_04() {
    assert_ne!(ss_04(Anchor::Eligible, Mutant::WrongAnchor), ss_04(Anchor::Eligible, Mutant::None));
    assert_ne!(ss_04(Anchor::Dispatch, Mutant::WrongAnchor), ss_04(Anchor::Dispatch, Mutant::None));
}

#[test]
fn mutant_whole_budget_at_once_is_killed_by_ss_01() {
    assert_ne!(ss_01(Mutant::WholeBudgetAtOnce), ss_01(Mutant::None));
}
