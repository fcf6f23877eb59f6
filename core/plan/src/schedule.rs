//! Schedules of shared cores as the monitor reads them: slots, numbered servers, windows, quanta.
//!
//! Servers are numbered by their best priority, ties in the order of the description: first the partition, then its list.
//! The simulator and the analysis number them with the same functions, so that a server has one number everywhere.
//!
//! A window is named by the slot of its vCPU, and a server behind a window gate opens with the windows of its own slot.
//! Names of their own would allow gates on windows of others, which no description can say.

use crate::maps::{CoreUse, VcpuUse};
use crate::model::{Gate, OnEmpty, ScheduleKind, Server, ServerReference, System, TableWindow};
use crate::narrow;
use crate::ticks;
use alloc::vec::Vec;
use bulkhead_abi::schedule::{NO_SERVER, QuantumPlan, SCHEDULE_PLAN_MAGIC, SchedulePlan, ServerPlan, WindowPlan};
use bulkhead_words::{self as words, FloatingPoint, Parameter, Ring, ServerFlag};
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

/// Returns period (ns) and priority of each client of a PIBS server, the shortest period first.
///
/// Clients of one period are one entry, at the better of their priorities: the rule depends on nothing else.
#[must_use]
pub fn clients(system: &System, clients: &[ServerReference]) -> Vec<(u64, u8)> {
    let of = |reference: &ServerReference| {
        let client = server(system, *reference)?;
        client.rule.budget_and_period_ns().map(|(_, period_ns)| (period_ns, client.priority))
    };
    let mut list: Vec<(u64, u8)> = clients.iter().filter_map(of).collect();
    list.sort_unstable();
    list.dedup_by_key(|(period_ns, _)| *period_ns);
    list
}

/// Returns the place + 1 of the client of a partition's PIBS server that a partition's doorbell speaks for; 0 when it is no client.
/// A partition that is a client with several servers speaks for the one with the longest period: no doorbell says which of them asks.
#[must_use]
pub fn client_place(system: &System, served: usize, sender: usize) -> u32 {
    let servers = system.partitions.get(served).into_iter().flat_map(|partition| &partition.servers);
    let Some(names) = servers.filter_map(|server| server.rule.clients()).next() else { return 0 };
    let of_sender: Vec<ServerReference> = names.iter().copied().filter(|name| name.partition == sender).collect();
    let Some((period_ns, _)) = clients(system, &of_sender).pop() else { return 0 };
    let place = clients(system, names).iter().position(|(period, _)| *period == period_ns);
    place.and_then(|place| u32::try_from(place).ok()).map_or(0, |place| place + 1)
}

/// Returns the most important priority that a server can have.
#[must_use]
pub fn best_priority(system: &System, server: &Server) -> u8 {
    match server.rule.clients() {
        Some(names) => clients(system, names).first().map_or(u8::MAX, |(_, priority)| *priority),
        None => server.priority,
    }
}

/// Returns the least important priority that a server can have with budget in hand.
#[must_use]
pub fn lowest_priority(system: &System, server: &Server) -> u8 {
    match server.rule.clients() {
        Some(names) => clients(system, names).last().map_or(u8::MAX, |(_, priority)| *priority),
        None => server.priority,
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
pub(crate) fn fill<T>(places: &mut [T], values: impl IntoIterator<Item = T>) -> u32 {
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
    plan.floating_point =
        if schedule.eager_floating_point { FloatingPoint::Eager } else { FloatingPoint::Lazy }.number();
    plan.tick_length = ticks::length(hz);
    plan.slot_count = narrow(core_use.vcpus.len());
    for (slot, vcpu) in plan.slots.iter_mut().zip(&core_use.vcpus) {
        let Some(partition) = system.partitions.get(vcpu.partition) else { continue };
        slot.partition = narrow(vcpu.partition);
        slot.preemptible = u32::from(partition.preemptible);
        slot.timer_route = partition.route.rule.number();
    }
    let quantum = |&(priority, quantum_ns): &(u8, u64)| QuantumPlan {
        priority: u32::from(priority),
        reserved: 0,
        quantum_ticks: ticks::round_down(quantum_ns, hz),
    };
    match &schedule.kind {
        ScheduleKind::FixedPriority { quanta } => {
            plan.kind = words::ScheduleKind::FixedPriority.number();
            plan.quantum_count = fill(&mut plan.quanta, quanta.iter().map(quantum));
        }
        ScheduleKind::RoundRobin { quantum_ns, on_interrupt, reading, ring_moves } => {
            plan.kind = words::ScheduleKind::RoundRobin.number();
            plan.quantum_ticks = ticks::round_down(*quantum_ns, hz);
            plan.on_interrupt = on_interrupt.number();
            plan.reading = reading.number();
            plan.ring_moves = if *ring_moves { Ring::Moves } else { Ring::Stays }.number();
            return Some(plan);
        }
        ScheduleKind::Cyclic { major_ns, windows } => {
            plan.kind = words::ScheduleKind::Cyclic.number();
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
        OnEmpty::Stop => (words::OnEmpty::Stop.number(), 0),
        OnEmpty::Background(priority) => (words::OnEmpty::Background.number(), u32::from(priority)),
        OnEmpty::Notify => (words::OnEmpty::Notify.number(), 0),
    };
    plan.gate = match server.gate {
        Gate::Always => words::Gate::Always,
        Gate::Interrupt { .. } => words::Gate::Interrupt,
        Gate::Window => words::Gate::Window,
        Gate::Never => words::Gate::Never,
    }
    .number();
    plan.flags |= ServerFlag::VoluntaryReturn.bits_if(server.gate == Gate::Interrupt { voluntary_return: true });
    if server.gate == Gate::Window {
        plan.windows = 1 << slot;
    }
    server.rule.write(&mut plan, system);
    plan.least_charge_ticks = ticks::round_up(server.least_charge_ns, system.board.counter_hz).min(most_charge(&plan));
    Some(plan)
}

/// What a server has at least when it is chosen and has not run since its budget came back.
fn most_charge(plan: &ServerPlan) -> u64 {
    let has_minimum = plan.rule().is_some_and(|rule| rule.has(Parameter::Minimum));
    if has_minimum { plan.minimum_ticks } else { plan.budget_ticks }
}

/// Returns the grant of a PIBS server: its share of the shortest period of a client.
#[must_use]
pub fn grant_ticks(system: &System, share: (u64, u64), names: &[ServerReference]) -> u64 {
    let shortest = clients(system, names).first().map_or(0, |(period_ns, _)| *period_ns);
    let period_ticks = ticks::round_up(shortest, system.board.counter_hz);
    let grant = (u128::from(period_ticks) * u128::from(share.0)).checked_div(u128::from(share.1)).unwrap_or(0);
    u64::try_from(grant).unwrap_or(u64::MAX)
}
