//! Who interrupts a vCPU of a shared core, and how often: from its servers and those above to an [`Overhead`].

use crate::arithmetic::divide_up;
use crate::core_bounds::ServerBounds;
use crate::core_model::{CoreModel, Gate, Rule, Server};
use crate::overhead::{Habits, Overhead, OwnReturns, REQUEST_ENTRIES, Returns, Spender};
use alloc::vec;
use alloc::vec::Vec;

/// Of a vCPU that runs through its servers: what is more important than the least of them, or equal to it, interrupts it.
pub(crate) fn of_vcpu(model: &CoreModel, bounds: &[ServerBounds], vcpu: usize) -> Overhead {
    let mine = model.servers.iter().filter(|server| server.vcpu == vcpu && server.gate != Gate::Never);
    let lowest = mine.map(Server::lowest_priority).max().unwrap_or(u8::MAX);
    at_priority(model, bounds, vcpu, lowest)
}

/// Of a vCPU that runs at a priority; at the least important one when nobody else wants to.
pub(crate) fn at_priority(model: &CoreModel, bounds: &[ServerBounds], vcpu: usize, lowest: u8) -> Overhead {
    let mut overhead = Overhead { costs: model.costs, ..Overhead::default() };
    let mut above = Vec::new();
    for (server, bounds) in model.servers.iter().zip(bounds).filter(|(server, _)| server.gate != Gate::Never) {
        if server.vcpu == vcpu {
            let budget_ticks = whole_budget(server);
            let own = returns(model, server).into_iter();
            overhead.own.extend(
                own.map(|(returns, is_budget)| OwnReturns {
                    returns,
                    budget_ticks: budget_ticks.filter(|_| is_budget),
                }),
            );
            overhead.owed_ticks = overhead.owed_ticks.saturating_add(server.least_charge_ticks);
        } else if may_take(model, server, vcpu, lowest) {
            above.push(server.vcpu);
            let habits = habits(model, server.vcpu);
            if !suffices(model, server, &habits) {
                overhead
                    .drained
                    .extend(returns(model, server).into_iter().map(|(returns, _)| (returns, habits.sources)));
            }
            match (&server.rule, &habits.tasks) {
                (Rule::Promised(tasks), _) | (_, Some(tasks)) => {
                    overhead.releases.extend(tasks.iter().map(|task| task.period_ticks));
                }
                (_, None) => overhead
                    .spenders
                    .push(Spender { envelope: bounds.envelope, least_charge_ticks: server.least_charge_ticks }),
            }
        }
    }
    above.sort_unstable();
    above.dedup();
    overhead.deferred_above = above.iter().map(|vcpu| habits(model, *vcpu).deferred).sum();
    overhead.sources_above = above.iter().map(|vcpu| habits(model, *vcpu).sources).sum();
    let below = model.habits.iter().enumerate().filter(|(number, _)| *number != vcpu && !above.contains(number));
    overhead.sources_below = below.map(|(_, habits)| habits.sources).sum();
    for (asked, requests) in &model.requests {
        if *asked == vcpu {
            // It takes the core to serve each, and gives it away.
            overhead.own.push(OwnReturns { returns: *requests, budget_ticks: None });
        } else {
            // Each enters on behalf of the core, and the vCPU that is asked may be more important.
            overhead.drained.push((*requests, REQUEST_ENTRIES));
        }
    }
    if let Some((_, quantum_ticks)) = model.quanta.iter().find(|(priority, _)| *priority == lowest) {
        let returns = Returns { period_ticks: *quantum_ticks, pieces: 1 };
        overhead.own.push(OwnReturns { returns, budget_ticks: None });
    }
    overhead
}

/// A server that may take the core from a vCPU that runs at a priority. An equal does not without a quantum: it waits behind
/// the one that runs until it sleeps or has used its budget up. Only a driver, whose priority changes, goes to the end of the line.
pub(crate) fn may_take(model: &CoreModel, server: &Server, vcpu: usize, priority: u8) -> bool {
    let best = server.best_priority();
    let turns = model.quanta.iter().any(|(level, _)| *level == priority);
    let lines_up = || model.servers.iter().any(|own| own.vcpu == vcpu && own.rule.pibs().is_some());
    best < priority || best == priority && !takes_turns(model, server, priority) && (turns || lines_up())
}

/// An unlimited equal under a quantum runs between turns, which are counted as returns.
fn takes_turns(model: &CoreModel, server: &Server, lowest: u8) -> bool {
    let unlimited = matches!(server.rule, Rule::Unlimited) && server.payer.is_none();
    unlimited && server.best_priority() == lowest && model.quanta.iter().any(|(priority, _)| *priority == lowest)
}

/// A budget that its guest's tasks never use up, which are all that it is trusted to run.
fn suffices(model: &CoreModel, server: &Server, habits: &Habits) -> bool {
    let (Some(tasks), Some((budget_ticks, period_ticks))) = (&habits.tasks, crate::core_bounds::certain(server)) else {
        return false;
    };
    let others = model.habits.iter().enumerate().filter(|(vcpu, _)| *vcpu != server.vcpu);
    let others = others.fold(0u64, |sum, (_, habits)| sum.saturating_add(habits.sources));
    // What is used comes back within two periods of its release.
    let most = tasks.iter().map(|task| {
        let job = task.cost_ticks.saturating_add(model.costs.job_ticks(others));
        divide_up(period_ticks.saturating_mul(2), task.period_ticks).saturating_mul(job)
    });
    let asked = model.requests.iter().map(|(asked, requests)| {
        let each = if *asked == server.vcpu { model.costs.job_ticks(others) } else { model.costs.request_ticks() };
        requests.in_window(period_ticks.saturating_mul(2)).saturating_mul(each)
    });
    server.gate == Gate::Always && most.chain(asked).fold(0, u64::saturating_add) <= budget_ticks
}

fn habits(model: &CoreModel, vcpu: usize) -> Habits {
    model.habits.get(vcpu).cloned().unwrap_or_default()
}

/// What is charged at least between as many returns of a budget as it has pieces: each return uses the oldest piece up, and all
/// of them together are the budget, less a remainder that waits for more.
fn whole_budget(server: &Server) -> Option<u64> {
    let certain = crate::core_bounds::certain(server).filter(|_| server.rule.chunks().is_some());
    certain.map(|(budget_ticks, _)| budget_ticks).filter(|budget_ticks| *budget_ticks > 0)
}

/// How often a server's budget runs out and comes back, which is marked, and its windows open.
fn returns(model: &CoreModel, server: &Server) -> Vec<(Returns, bool)> {
    let mut all = Vec::new();
    if let Some((budget_ticks, period_ticks)) = server.budget() {
        let pieces = match (server.rule.chunks(), server.rule.smallest_chunk_ticks()) {
            (Some(chunks), Some(smallest_ticks)) => {
                let most = budget_ticks.checked_div(smallest_ticks).unwrap_or(u64::MAX).max(1);
                most.min(u64::from(chunks))
            }
            _ => 1,
        };
        all = vec![(Returns { period_ticks, pieces }, true)];
    }
    if let (Gate::Window(owner), Some(table)) = (server.gate, &model.table) {
        let windows = table.windows.iter().filter(|window| window.owner == owner).count();
        let pieces = u64::try_from(windows).unwrap_or(u64::MAX);
        all.push((Returns { period_ticks: table.major_ticks, pieces }, false));
    }
    all
}
