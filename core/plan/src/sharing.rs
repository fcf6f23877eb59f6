//! What schedules and servers must be like for the layouts and the scheduler to take them.
//!
//! `bulkhead check` refuses all of this earlier with a place in the user's file; see [`crate::limits`] for why it is
//! checked twice. Whether the time suffices is not checked here: that is the analysis.

use crate::error::PlanError;
use crate::limits::at_most;
use crate::maps::{self, CoreUse};
use crate::model::{
    BudgetRule, Gate, InterruptMode, OnEmpty, Partition, RouteRule, Schedule, ScheduleKind, Server, ServerReference,
    System,
};
use crate::{interrupts, schedule, ticks};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bulkhead_abi::plan::MAX_LIMITED_INTERRUPTS;
use bulkhead_abi::schedule::{MAX_CORE_QUANTA, MAX_CORE_SERVERS, MAX_CORE_VCPUS, MAX_CORE_WINDOWS};

/// Priorities of a core (`core/sched`).
pub const PRIORITIES: u8 = 64;
/// Most servers of a vCPU (`core/sched`).
pub const MAX_VCPU_SERVERS: usize = 4;
/// Most chunks of a sporadic server (`core/sched`).
pub const MAX_CHUNKS: u32 = 16;
/// Longest period in ticks (`core/sched`).
pub const MAX_PERIOD_TICKS: u64 = 1 << 56;

fn refuse(place: impl Into<String>, reason: impl Into<String>) -> PlanError {
    PlanError::Schedule { place: place.into(), reason: reason.into() }
}

pub(crate) fn require(good: bool, place: &str, reason: &str) -> Result<(), PlanError> {
    if good { Ok(()) } else { Err(refuse(place, reason)) }
}

/// Checks all cores, schedules and servers.
pub(crate) fn check(system: &System) -> Result<(), PlanError> {
    for (index, schedule) in system.schedules.iter().enumerate() {
        let place = format!("the schedule of core {}", schedule.board_core);
        let earlier = system.schedules.iter().take(index);
        let is_twice = earlier.into_iter().any(|earlier| earlier.board_core == schedule.board_core);
        require(!is_twice, &place, "it is there twice; keep one")?;
        let is_used = system.used_cores().contains(&schedule.board_core);
        require(is_used, &place, "no partition runs there; remove it or give the core to a partition")?;
    }
    for core_use in maps::core_uses(system) {
        match core_use.schedule.and_then(|place| system.schedules.get(place)) {
            None if core_use.vcpus.len() > 1 => {
                return Err(PlanError::CoreUsedTwice { core: core_use.board_core });
            }
            None => {}
            Some(schedule) => check_core(system, &core_use, schedule)?,
        }
    }
    (0..system.partitions.len()).try_for_each(|partition| check_partition(system, partition))
}

fn check_core(system: &System, core_use: &CoreUse, schedule: &Schedule) -> Result<(), PlanError> {
    let place = format!("core {}", core_use.board_core);
    at_most("vCPUs", &place, core_use.vcpus.len(), MAX_CORE_VCPUS)?;
    let partitions = core_use.partitions();
    let mut here = partitions.iter().filter_map(|partition| system.partitions.get(*partition));
    let direct = here.find(|partition| partition.mode == InterruptMode::Direct);
    require(direct.is_none(), &place, "a partition with direct interrupts cannot share it; make it mapped")?;
    let is_alone = partitions.len() == core_use.vcpus.len();
    require(is_alone, &place, "two vCPUs of one partition wait for each other; give them cores of their own")?;
    at_most("servers", &place, schedule::numbered_servers(system, core_use).len(), MAX_CORE_SERVERS)?;
    let limited = partitions.iter().map(|partition| interrupts::limited_count(system, *partition)).sum();
    at_most("interrupts with a limit", &place, limited, MAX_LIMITED_INTERRUPTS)?;
    let has_servers = !matches!(schedule.kind, ScheduleKind::RoundRobin { .. });
    for vcpu in &core_use.vcpus {
        let Some(partition) = system.partitions.get(vcpu.partition) else { continue };
        let count = partition.servers.iter().filter(|server| server.vcpu == vcpu.vcpu).count();
        let place = format!("vCPU {} of partition \"{}\"", vcpu.vcpu, partition.name);
        at_most("servers", &place, count, MAX_VCPU_SERVERS)?;
        let reason = if has_servers { "it has no server; give it one" } else { "round robin has no servers" };
        require(has_servers == (count > 0), &place, reason)?;
    }
    match &schedule.kind {
        ScheduleKind::FixedPriority { quanta } => check_quanta(system, &place, quanta),
        ScheduleKind::RoundRobin { quantum_ns, .. } => {
            let quantum_ticks = ticks::round_down(*quantum_ns, system.board.counter_hz);
            require((1..=MAX_PERIOD_TICKS).contains(&quantum_ticks), &place, "its quantum is out of range")
        }
        ScheduleKind::Cyclic { .. } => check_table(system, core_use, schedule, &place),
    }
}

fn check_quanta(system: &System, place: &str, quanta: &[(u8, u64)]) -> Result<(), PlanError> {
    at_most("quanta", place, quanta.len(), MAX_CORE_QUANTA)?;
    for (index, (priority, quantum_ns)) in quanta.iter().enumerate() {
        let is_twice = quanta.iter().take(index).any(|(earlier, _)| earlier == priority);
        require(*priority < PRIORITIES && !is_twice, place, "a quantum names a bad priority, or one twice")?;
        let quantum_ticks = ticks::round_down(*quantum_ns, system.board.counter_hz);
        require((1..=MAX_PERIOD_TICKS).contains(&quantum_ticks), place, "a quantum is out of range")?;
    }
    Ok(())
}

fn check_table(system: &System, core_use: &CoreUse, schedule: &Schedule, place: &str) -> Result<(), PlanError> {
    let ScheduleKind::Cyclic { major_ns, windows } = &schedule.kind else { return Ok(()) };
    at_most("windows", place, windows.len(), MAX_CORE_WINDOWS)?;
    let exact = |time_ns| {
        ticks::exact(time_ns, system.board.counter_hz)
            .ok_or_else(|| refuse(place, format!("{time_ns} ns of its time table are no whole ticks; round them")))
    };
    let major = exact(*major_ns)?;
    require((1..=MAX_PERIOD_TICKS).contains(&major) && !windows.is_empty(), place, "its time table is empty")?;
    let mut free_from = 0;
    for window in windows {
        let (offset, length) = (exact(window.offset_ns)?, exact(window.length_ns)?);
        let good = offset >= free_from && length > 0 && offset.checked_add(length).is_some_and(|end| end <= major);
        require(good, place, "a window is empty, out of order, overlaps another or leaves the major frame")?;
        free_from = offset + length;
        let vcpus = core_use.vcpus.iter().filter(|vcpu| vcpu.partition == window.partition).count();
        require(vcpus == 1, place, "the partition of a window must have exactly one vCPU there")?;
    }
    Ok(())
}

fn check_partition(system: &System, index: usize) -> Result<(), PlanError> {
    let Some(partition) = system.partitions.get(index) else { return Ok(()) };
    let is_shared = |core: &usize| system.schedules.iter().any(|schedule| schedule.board_core == *core);
    let is_alone = partition.cores.len() < 2 || !partition.cores.first().is_some_and(is_shared);
    let reason = "it has several vCPUs, and the first one is on a shared core; name a core first that it has to itself";
    require(is_alone, &format!("partition \"{}\"", partition.name), reason)?;
    check_routes(system, partition)?;
    for (number, server) in partition.servers.iter().enumerate() {
        let place = format!("server {number} of partition \"{}\"", partition.name);
        let kind = partition.cores.get(server.vcpu).and_then(|core| {
            let schedule = system.schedules.iter().find(|schedule| schedule.board_core == *core)?;
            Some(&schedule.kind)
        });
        let Some(kind) = kind else { return Err(refuse(place, "its vCPU does not run on a shared core; remove it")) };
        let is_cyclic = matches!(kind, ScheduleKind::Cyclic { .. });
        require(server.gate != Gate::Window || is_cyclic, &place, "windows exist on cyclic cores only")?;
        check_server(system, ServerReference { partition: index, server: number }, server, &place)?;
    }
    Ok(())
}

fn check_routes(system: &System, partition: &Partition) -> Result<(), PlanError> {
    let place = format!("partition \"{}\"", partition.name);
    let is_round_robin = partition.cores.iter().any(|core| {
        let mut here = system.schedules.iter().filter(|schedule| schedule.board_core == *core);
        here.any(|schedule| matches!(schedule.kind, ScheduleKind::RoundRobin { .. }))
    });
    let routes = || partition.device_routes.iter().chain([&partition.route]);
    let preempts = routes().any(|route| route.rule == RouteRule::Preempt);
    require(!preempts || is_round_robin, &place, "the route \"preempt\" belongs to round robin")?;
    require(partition.preemptible || is_round_robin, &place, "only round robin knows partitions that keep their turn")?;
    let limits: Vec<_> = routes().filter_map(|route| route.limit).collect();
    require(limits.iter().all(|limit| limit.events > 0 && limit.period_ns > 0), &place, "a limit of a route is zero")
}

fn check_server(system: &System, reference: ServerReference, server: &Server, place: &str) -> Result<(), PlanError> {
    server.rule.check(system, reference, place)?;
    // Whose budget is spent says what that costs.
    let most_ns = if server.payer.is_some() { 0 } else { server.rule.least_in_hand_ns() };
    let good = server.least_charge_ns <= most_ns;
    require(good, place, "its least charge must be at most its minimum, or its budget where there is none")?;
    let lowest = schedule::lowest_priority(system, server);
    require(lowest < PRIORITIES, place, "its priority must be below 64")?;
    if let OnEmpty::Background(priority) = server.on_empty {
        let good = priority > lowest && priority < PRIORITIES;
        require(good, place, "its background priority must be a larger number than its own, and below 64")?;
    }
    let payer = match server.payer {
        None => Some(server),
        Some(payer) => schedule::server(system, payer).filter(|donor| {
            let same = schedule::server_core(system, payer) == schedule::server_core(system, reference);
            same && payer != reference && donor.payer.is_none() && donor.rule.clients().is_none()
        }),
    };
    let Some(payer) = payer else {
        return Err(refuse(place, "its payer must be a server of the same core that pays for itself and is no PIBS"));
    };
    let is_open = matches!(server.gate, Gate::Interrupt { .. }) && payer.rule == BudgetRule::Unlimited;
    require(!is_open, place, "behind an interrupt gate there must be a budget")
}
