//! Schedules of shared cores as the monitor reads them: slots, numbered servers, windows, quanta.
//!
//! Servers are numbered by their best priority, ties in the order of the description: first the partition, then its list.
//! The simulator and the analysis number them with the same functions, so that a server has one number everywhere.
//!
//! A window is named by the slot of its vCPU, and a server behind a window gate opens with the windows of its own slot.
//! Names of their own would allow gates on windows of others, which no description can say.

use crate::interrupts::route_word;
use crate::maps::{CoreUse, VcpuUse};
use crate::model::{
    BudgetRule, Gate, OnEmpty, OnInterrupt, Reading, ScheduleKind, Server, ServerReference, System, TableWindow,
};
use crate::narrow;
use crate::ticks;
use alloc::vec::Vec;
use bulkhead_abi::schedule::{
    ClientPlan, FLOATING_POINT_EAGER, FLOATING_POINT_LAZY, GATE_ALWAYS, GATE_INTERRUPT, GATE_NEVER, GATE_WINDOW,
    NO_SERVER, ON_EMPTY_BACKGROUND, ON_EMPTY_NOTIFY, ON_EMPTY_STOP, ON_INTERRUPT_NONE, ON_INTERRUPT_RECYCLE,
    ON_INTERRUPT_RESET, ON_INTERRUPT_RESET_EXTEND, QuantumPlan, READING_LATCHED, READING_MASKED, RULE_DEFERRABLE,
    RULE_PIBS, RULE_POLLING, RULE_SPORADIC, RULE_UNLIMITED, SCHEDULE_CYCLIC, SCHEDULE_FIXED_PRIORITY,
    SCHEDULE_PLAN_MAGIC, SCHEDULE_ROUND_ROBIN, SERVER_DISPATCH_ANCHOR, SERVER_LAG_CLAMP, SERVER_PUBLISHED_PIBS,
    SERVER_VOLUNTARY_RETURN, SchedulePlan, ServerPlan, WindowPlan,
};
use zerocopy::FromZeros;

/// Returns a server of the system.
#[must_use]
pub fn server(system: &System, reference: ServerReference) -> Option<&Server> {
    system.partitions.get(reference.partition)?.servers.get(reference.server)
}

/// Returns the board core that a server's vCPU runs on.
#[must_use]
pub fn server_core(system: &System, reference: ServerReference) -> Option<usize> {
    let vcpu = server(system, reference)?.vcpu;
    system.partitions.get(reference.partition)?.cores.get(vcpu).copied()
}

/// Returns budget and period of a server that has both.
#[must_use]
pub fn budget_and_period_ns(rule: &BudgetRule) -> Option<(u64, u64)> {
    match *rule {
        BudgetRule::Sporadic { budget_ns, period_ns, .. }
        | BudgetRule::Deferrable { budget_ns, period_ns }
        | BudgetRule::Polling { budget_ns, period_ns } => Some((budget_ns, period_ns)),
        BudgetRule::Unlimited | BudgetRule::Pibs { .. } => None,
    }
}

/// Returns period (ns) and priority of each client of a PIBS server, the shortest period first.
///
/// Clients of one period are one entry, at the better of their priorities: the rule depends on nothing else.
#[must_use]
pub fn clients(system: &System, clients: &[ServerReference]) -> Vec<(u64, u8)> {
    let of = |reference: &ServerReference| {
        let client = server(system, *reference)?;
        budget_and_period_ns(&client.rule).map(|(_, period_ns)| (period_ns, client.priority))
    };
    let mut list: Vec<(u64, u8)> = clients.iter().filter_map(of).collect();
    list.sort_unstable();
    list.dedup_by_key(|(period_ns, _)| *period_ns);
    list
}

/// Returns the most important priority that a server can have.
#[must_use]
pub fn best_priority(system: &System, server: &Server) -> u8 {
    match &server.rule {
        BudgetRule::Pibs { clients: names, .. } => {
            clients(system, names).first().map_or(u8::MAX, |(_, priority)| *priority)
        }
        _ => server.priority,
    }
}

/// Returns the least important priority that a server can have with budget in hand.
#[must_use]
pub fn lowest_priority(system: &System, server: &Server) -> u8 {
    match &server.rule {
        BudgetRule::Pibs { clients: names, .. } => {
            clients(system, names).last().map_or(u8::MAX, |(_, priority)| *priority)
        }
        _ => server.priority,
    }
}

/// Returns the servers of a core; the place in this list is the server's number.
#[must_use]
pub fn numbered_servers(system: &System, core_use: &CoreUse) -> Vec<ServerReference> {
    let mut list: Vec<(u8, ServerReference)> = Vec::new();
    for partition in core_use.partitions() {
        let servers = system.partitions.get(partition).map_or(&[] as &[Server], |partition| &partition.servers);
        for (place, server) in servers.iter().enumerate() {
            if core_use.vcpus.contains(&VcpuUse { partition, vcpu: server.vcpu }) {
                list.push((best_priority(system, server), ServerReference { partition, server: place }));
            }
        }
    }
    list.sort_by_key(|(priority, _)| *priority);
    list.into_iter().map(|(_, reference)| reference).collect()
}

/// Returns the slot that a window of a time table opens.
#[must_use]
pub fn window_slot(core_use: &CoreUse, window: &TableWindow) -> Option<usize> {
    core_use.vcpus.iter().position(|vcpu| vcpu.partition == window.partition)
}

/// Copies `values` to the front of a fixed-size array and returns how many there are.
fn fill<T>(places: &mut [T], values: impl IntoIterator<Item = T>) -> u32 {
    let mut count = 0;
    for (place, value) in places.iter_mut().zip(values) {
        *place = value;
        count += 1;
    }
    count
}

/// Returns the schedule of a shared core, `None` for a core without one. Addresses are zero; the planner fills them in.
#[must_use]
pub fn schedule_plan(system: &System, core_use: &CoreUse) -> Option<SchedulePlan> {
    let schedule = system.schedules.get(core_use.schedule?)?;
    let hz = system.board.counter_hz;
    let mut plan = SchedulePlan::new_zeroed();
    plan.magic = SCHEDULE_PLAN_MAGIC;
    plan.floating_point = if schedule.eager_floating_point { FLOATING_POINT_EAGER } else { FLOATING_POINT_LAZY };
    plan.slot_count = narrow(core_use.vcpus.len());
    for (slot, vcpu) in plan.slots.iter_mut().zip(&core_use.vcpus) {
        let Some(partition) = system.partitions.get(vcpu.partition) else { continue };
        slot.partition = narrow(vcpu.partition);
        slot.preemptible = u32::from(partition.preemptible);
        slot.timer_route = route_word(partition.route.rule);
    }
    let quantum = |&(priority, quantum_ns): &(u8, u64)| QuantumPlan {
        priority: u32::from(priority),
        reserved: 0,
        quantum_ticks: ticks::round_down(quantum_ns, hz),
    };
    match &schedule.kind {
        ScheduleKind::FixedPriority { quanta } => {
            plan.kind = SCHEDULE_FIXED_PRIORITY;
            plan.quantum_count = fill(&mut plan.quanta, quanta.iter().map(quantum));
        }
        ScheduleKind::RoundRobin { quantum_ns, on_interrupt, reading, ring_moves } => {
            plan.kind = SCHEDULE_ROUND_ROBIN;
            plan.quantum_ticks = ticks::round_down(*quantum_ns, hz);
            plan.on_interrupt = on_interrupt_word(*on_interrupt);
            plan.reading = if *reading == Reading::Latched { READING_LATCHED } else { READING_MASKED };
            plan.ring_moves = u32::from(*ring_moves);
            return Some(plan);
        }
        ScheduleKind::Cyclic { major_ns, windows } => {
            plan.kind = SCHEDULE_CYCLIC;
            plan.major_ticks = ticks::round_down(*major_ns, hz);
            plan.window_count = fill(&mut plan.windows, windows.iter().map(|window| window_plan(window, core_use, hz)));
        }
    }
    let numbers = numbered_servers(system, core_use);
    let servers = numbers.iter().filter_map(|reference| server_plan(system, core_use, &numbers, *reference));
    plan.server_count = fill(&mut plan.servers, servers);
    Some(plan)
}

fn window_plan(window: &TableWindow, core_use: &CoreUse, hz: u64) -> WindowPlan {
    WindowPlan {
        offset_ticks: ticks::round_down(window.offset_ns, hz),
        length_ticks: ticks::round_down(window.length_ns, hz),
        name: narrow(window_slot(core_use, window).unwrap_or(usize::MAX)),
        reserved: 0,
    }
}

fn on_interrupt_word(policy: OnInterrupt) -> u32 {
    match policy {
        OnInterrupt::None => ON_INTERRUPT_NONE,
        OnInterrupt::Recycle => ON_INTERRUPT_RECYCLE,
        OnInterrupt::Reset => ON_INTERRUPT_RESET,
        OnInterrupt::ResetExtend => ON_INTERRUPT_RESET_EXTEND,
    }
}

fn server_plan(
    system: &System,
    core_use: &CoreUse,
    numbers: &[ServerReference],
    reference: ServerReference,
) -> Option<ServerPlan> {
    let server = server(system, reference)?;
    let own = VcpuUse { partition: reference.partition, vcpu: server.vcpu };
    let slot = core_use.vcpus.iter().position(|vcpu| *vcpu == own)?;
    let mut plan = ServerPlan {
        slot: narrow(slot),
        priority: u32::from(best_priority(system, server)),
        payer: server
            .payer
            .and_then(|payer| numbers.iter().position(|number| *number == payer))
            .map_or(NO_SERVER, narrow),
        ..ServerPlan::default()
    };
    (plan.on_empty, plan.background_priority) = match server.on_empty {
        OnEmpty::Stop => (ON_EMPTY_STOP, 0),
        OnEmpty::Background(priority) => (ON_EMPTY_BACKGROUND, u32::from(priority)),
        OnEmpty::Notify => (ON_EMPTY_NOTIFY, 0),
    };
    plan.gate = match server.gate {
        Gate::Always => GATE_ALWAYS,
        Gate::Interrupt { .. } => GATE_INTERRUPT,
        Gate::Window => GATE_WINDOW,
        Gate::Never => GATE_NEVER,
    };
    if server.gate == (Gate::Interrupt { voluntary_return: true }) {
        plan.flags |= SERVER_VOLUNTARY_RETURN;
    }
    if server.gate == Gate::Window {
        plan.windows = 1 << slot;
    }
    fill_rule(&mut plan, system, &server.rule);
    plan.least_charge_ticks = ticks::round_up(server.least_charge_ns, system.board.counter_hz).min(most_charge(&plan));
    Some(plan)
}

/// What a server has at least when it is chosen and has not run since its budget came back.
const fn most_charge(plan: &ServerPlan) -> u64 {
    match plan.rule {
        RULE_SPORADIC | RULE_PIBS => plan.minimum_ticks,
        _ => plan.budget_ticks,
    }
}

/// Writes the rule. The smallest remainder is rounded up, because zero would be no limit, but never past the budget.
fn fill_rule(plan: &mut ServerPlan, system: &System, rule: &BudgetRule) {
    let hz = system.board.counter_hz;
    if let Some((budget_ns, period_ns)) = budget_and_period_ns(rule) {
        plan.budget_ticks = ticks::round_down(budget_ns, hz);
        plan.period_ticks = ticks::round_up(period_ns, hz);
    }
    plan.rule = match rule {
        BudgetRule::Unlimited => RULE_UNLIMITED,
        BudgetRule::Deferrable { .. } => RULE_DEFERRABLE,
        BudgetRule::Polling { .. } => RULE_POLLING,
        BudgetRule::Sporadic { minimum_ns, chunks, dispatch_anchor, lag_clamp, .. } => {
            plan.minimum_ticks = ticks::round_up(*minimum_ns, hz).min(plan.budget_ticks);
            plan.chunks = *chunks;
            plan.flags |= if *dispatch_anchor { SERVER_DISPATCH_ANCHOR } else { 0 };
            plan.flags |= if *lag_clamp { SERVER_LAG_CLAMP } else { 0 };
            RULE_SPORADIC
        }
        BudgetRule::Pibs { share, minimum_ns, clients: names, published } => {
            let list = clients(system, names);
            (plan.share_numerator, plan.share_denominator) = *share;
            plan.minimum_ticks = ticks::round_up(*minimum_ns, hz).min(grant_ticks(system, *share, names));
            plan.flags |= if *published { SERVER_PUBLISHED_PIBS } else { 0 };
            let clients = list.iter().map(|(period_ns, priority)| ClientPlan {
                period_ticks: ticks::round_up(*period_ns, hz),
                priority: u32::from(*priority),
                reserved: 0,
            });
            plan.client_count = fill(&mut plan.clients, clients);
            RULE_PIBS
        }
    };
}

/// Returns the grant of a PIBS server: its share of the shortest period of a client.
#[must_use]
pub fn grant_ticks(system: &System, share: (u64, u64), names: &[ServerReference]) -> u64 {
    let shortest = clients(system, names).first().map_or(0, |(period_ns, _)| *period_ns);
    let period_ticks = ticks::round_up(shortest, system.board.counter_hz);
    let grant = (u128::from(period_ticks) * u128::from(share.0)).checked_div(u128::from(share.1)).unwrap_or(0);
    u64::try_from(grant).unwrap_or(u64::MAX)
}

/// Returns the word of a `SCHEDULE_` constant, as in a description.
#[must_use]
pub fn kind_name(kind: u32) -> &'static str {
    match kind {
        SCHEDULE_FIXED_PRIORITY => "fixed-priority",
        SCHEDULE_ROUND_ROBIN => "round-robin",
        SCHEDULE_CYCLIC => "cyclic",
        _ => "unknown",
    }
}

/// Returns the word of a `RULE_` constant, as in a description.
#[must_use]
pub fn rule_name(rule: u32) -> &'static str {
    match rule {
        RULE_UNLIMITED => "unlimited",
        RULE_SPORADIC => "sporadic",
        RULE_DEFERRABLE => "deferrable",
        RULE_POLLING => "polling",
        RULE_PIBS => "pibs",
        _ => "unknown",
    }
}

/// Returns the word of a `GATE_` constant, as in a description.
#[must_use]
pub fn gate_name(gate: u32) -> &'static str {
    match gate {
        GATE_ALWAYS => "always",
        GATE_INTERRUPT => "interrupt",
        GATE_WINDOW => "window",
        GATE_NEVER => "never",
        _ => "unknown",
    }
}
