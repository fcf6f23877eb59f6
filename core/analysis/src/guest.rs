//! Periodic tasks inside a guest that gets a supply (`real-time.md` 4.3, SUP-03).
//!
//! Two analyses, and the better answer of both counts. [`responses`] knows nothing about when the budget comes back but the
//! supply. [`responses_in_hand`] is for a guest whose tasks together never ask for more than the budget in a period: its budget is
//! then always in hand, and a task waits for what is more important and for nothing else. A guest with one task per server,
//! as in SafeG and Quest-V, is judged exactly by the second and hardly at all by the first.
//!
//! The guest's own scheduler is taken to be pre-emptive with the shorter deadline first; a guest with other priorities gets
//! other responses.

use crate::arithmetic::{divide_down, divide_up, remainder};
use crate::demand::Demand;
use crate::response::Contention;
use crate::search::Search;
use crate::steps::Steps;
use crate::supply::{MAX_WINDOW_TICKS, Supply};
use alloc::vec::Vec;

/// A task of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Longest execution time.
    pub cost_ticks: u64,
    /// Period, or shortest distance of two releases.
    pub period_ticks: u64,
    /// Deadline, relative to the release.
    pub deadline_ticks: u64,
}

/// Worst response of each task, in the order given; `None` when it never ends, and where the steps do not suffice.
#[must_use]
pub fn responses(supply: &Supply, tasks: &[Task], steps: &Steps) -> Vec<Option<u64>> {
    below(&Contention { offered: supply.clone(), ..Contention::none() }, tasks, steps)
}

/// Budget in chunks of a server with one guest, as [`responses_in_hand`] needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkedBudget {
    /// What of the budget is certain.
    pub budget_ticks: u64,
    /// Period.
    pub period_ticks: u64,
    /// Chunks kept.
    pub chunks: u64,
    /// Dated by dispatch rather than by eligibility.
    pub dispatch_anchor: bool,
}

/// Worst response of each task while the budget is always in hand; `None` when the tasks may use it up.
///
/// A tick that is used at x comes back by x + period, and with eligible dating by the period after the instant at which it would
/// have run on an idle core. So the budget is never used up if the tasks run for at most the budget in any window of a period: on
/// an idle core for eligible dating, on this core for dispatch dating. There must be a chunk for every job of a period and one
/// more, so that no piece waits for another.
#[must_use]
pub fn responses_in_hand(
    contention: &Contention,
    server: &ChunkedBudget,
    tasks: &[Task],
    steps: &Steps,
) -> Option<Vec<Option<u64>>> {
    let jobs = tasks.iter().map(|task| divide_up(server.period_ticks, task.period_ticks));
    if jobs.fold(1, u64::saturating_add) > server.chunks.saturating_sub(1) {
        return None;
    }
    let here = below(contention, tasks, steps);
    let until_run = if server.dispatch_anchor { here.clone() } else { below(&Contention::none(), tasks, steps) };
    let mut most = 0u64;
    for (task, response) in tasks.iter().zip(until_run) {
        let late = server.period_ticks.saturating_add(response?.saturating_sub(task.cost_ticks));
        let whole = divide_down(late, task.period_ticks).saturating_mul(task.cost_ticks);
        let part = remainder(late, task.period_ticks).min(task.cost_ticks);
        most = most.saturating_add(whole).saturating_add(part);
    }
    (most <= server.budget_ticks).then_some(here)
}

/// Responses below a contention and each other.
fn below(contention: &Contention, tasks: &[Task], steps: &Steps) -> Vec<Option<u64>> {
    // The most important one first: each later one waits for all before it, and so is done after them.
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|number| tasks.get(*number).map_or(0, |task| task.deadline_ticks));
    let demands: Vec<Demand> = order
        .iter()
        .filter_map(|number| tasks.get(*number))
        .map(|task| Demand::periodic(task.cost_ticks, task.period_ticks))
        .collect();
    let mut responses = alloc::vec![None; tasks.len()];
    let mut done_before = 0;
    let mut search = Search::below_added(contention, &demands);
    for (place, number) in order.iter().enumerate() {
        let Some(task) = tasks.get(*number).filter(|_| !steps.is_used_up()) else { break };
        search.add(place);
        // One without work waits for nobody, and with equals that take turns less work may be done sooner.
        let in_order = contention.turns.is_none() && task.cost_ticks > 0;
        let from = if in_order { done_before } else { 0 };
        let response = search.least_from(task.cost_ticks, from, MAX_WINDOW_TICKS, steps);
        if let Some(place) = responses.get_mut(*number) {
            *place = response;
        }
        match response {
            Some(response) => done_before = done_before.max(if in_order { response } else { 0 }),
            None if in_order => done_before = u64::MAX,
            None => {}
        }
    }
    responses
}
