//! Tasks inside guests: what their guest's servers give them, and whether its budget is always in hand.

use crate::assumption::Assumptions;
use crate::bounds::TaskBound;
use crate::clock::Clock;
use crate::cores::{SharedCore, SharedModel, costs_of, task_model};
use bulkhead_analysis::core_bounds::{self, CoreBounds, Verdict};
use bulkhead_analysis::core_model::{Gate, Server};
use bulkhead_analysis::guest;
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::supply::Supply;
use bulkhead_plan::maps::VcpuUse;
use bulkhead_plan::model::System;

/// Supply for tasks, which sleep. With a chunk for every run of the shortest task and one more (`real-time.md` 2.1.2), no piece
/// of a budget waits for another, and the supply of a busy guest counts.
pub(crate) fn task_supply<'a>(
    core: &SharedCore,
    slot: usize,
    shortest_run: u64,
    busy: &'a Supply,
    sleeper: &'a Supply,
) -> &'a Supply {
    let SharedModel::Servers(model) = &core.model else {
        return sleeper;
    };
    let enough = |server: &Server| match (server.rule.chunks(), server.budget()) {
        (Some(chunks), Some((budget, _))) => u64::from(chunks) > budget.div_ceil(shortest_run.max(1)),
        _ => !server.rule.forgets_what_is_not_wanted(),
    };
    let mine = model.servers.iter().filter(|server| server.vcpu == slot);
    if mine.into_iter().all(enough) { busy } else { sleeper }
}

/// Shortest run of a guest between two sleeps: its cheapest task.
pub(crate) fn shortest_run(system: &System, used: VcpuUse) -> u64 {
    let clock = Clock::new(system.board.counter_hz);
    let tasks = system.partitions.get(used.partition).map_or(&[] as &[_], |partition| &partition.tasks);
    tasks.iter().map(|task| clock.ticks_down(task.cost_ns)).min().unwrap_or(0)
}

/// Responses with the budget always in hand, for a guest on one sporadic server: every job pays its switches.
fn tasks_in_hand(
    core: &SharedCore,
    ticks: Option<&CoreBounds>,
    used: VcpuUse,
    tasks: &[guest::Task],
    steps: &Steps,
) -> Option<Vec<Option<u64>>> {
    let SharedModel::Servers(model) = &core.model else {
        return None;
    };
    let slot = core.core_use.vcpus.iter().position(|vcpu| *vcpu == used)?;
    let mut mine = model.servers.iter().zip(&ticks?.servers).filter(|(server, _)| server.vcpu == slot);
    let (server, bounds) = mine.next().filter(|(server, _)| server.gate == Gate::Always && server.payer.is_none())?;
    let chunks = u64::from(server.rule.chunks()?);
    let dispatch_anchor = server.rule.is_dated_by_its_use();
    if mine.next().is_some() || !matches!(bounds.verdict, Verdict::Fits { .. }) {
        return None;
    }
    let (budget_ticks, period_ticks) = core_bounds::certain(server)?;
    let budget = guest::ChunkedBudget { budget_ticks, period_ticks, chunks, dispatch_anchor };
    // A job that is done within its period pays what the monitor takes in so long a time, its own switches included.
    let overhead = ticks?.vcpu(slot)?.overhead.in_hand();
    let paid = |task: &guest::Task| {
        let taken = overhead.in_window(task.period_ticks, u64::MAX);
        guest::Task { cost_ticks: task.cost_ticks.saturating_add(taken), ..*task }
    };
    let tasks: Vec<_> = tasks.iter().map(paid).collect();
    let responses = guest::responses_in_hand(bounds.contention.as_ref()?, &budget, &tasks, steps)?;
    let within = |(response, task): (Option<u64>, &guest::Task)| response.filter(|ticks| *ticks <= task.period_ticks);
    Some(responses.into_iter().zip(&tasks).map(within).collect())
}

/// Bounds of a guest's tasks: the better of both analyses.
pub(crate) fn tasks(
    system: &System,
    assumptions: &Assumptions,
    core: &SharedCore,
    ticks: Option<&CoreBounds>,
    used: VcpuUse,
    supply: &Supply,
    steps: &Steps,
) -> Vec<TaskBound> {
    let Some(partition) = system.partitions.get(used.partition).filter(|partition| partition.cores.len() == 1) else {
        return Vec::new();
    };
    let clock = Clock::new(system.board.counter_hz);
    let costs = costs_of(system, assumptions);
    let entry = clock.ticks_up(assumptions.instructions_ns(costs.interrupt_entry.saturating_add(costs.switch)));
    // Each release is an interrupt of the guest's timer, which passes through EL2, and may find the guest asleep.
    let models: Vec<_> = partition
        .tasks
        .iter()
        .map(|task| task_model(task, clock))
        .map(|task| guest::Task { cost_ticks: task.cost_ticks.saturating_add(entry), ..task })
        .collect();
    let ((by_supply, in_hand), is_found) = steps.bounds(models.len(), |steps| {
        let in_hand = tasks_in_hand(core, ticks, used, &models, steps).unwrap_or_default();
        (guest::responses(supply, &models, steps), in_hand)
    });
    let in_hand = in_hand.into_iter().chain(std::iter::repeat(None));
    let better = |(one, other): (Option<u64>, Option<u64>)| match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    let responses = by_supply.into_iter().zip(in_hand).map(better);
    let both = partition.tasks.iter().zip(responses).enumerate();
    both.map(|(number, (task, response))| TaskBound {
        task: number,
        response_ns: response.map(|ticks| clock.ns_up(ticks)),
        is_found: is_found || response.is_some(),
        deadline_ns: task.deadline_ns,
    })
    .collect()
}
