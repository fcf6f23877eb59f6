//! From a system to the models of its shared cores.
//!
//! Amounts are read from the [`SchedulePlan`] that the image will hold, so budgets and periods are rounded as the monitor
//! rounds them. What the description adds for the analysis alone (tasks, handlers, deadlines) is rounded against itself.
//!
//! Interrupts of a vCPU that does not run cost an entry each. How many there can be follows from budgets
//! ([`bulkhead_analysis::overhead`]); their rate limits keep them from waking their owners and not from entering.

use crate::assumption::Assumptions;
use crate::clock::Clock;
use crate::rule;
use bulkhead_abi::schedule::{NO_SERVER, PUBLICATION_TICKS, SchedulePlan, ServerPlan};
use bulkhead_analysis::core_model::{CoreModel, Gate, Rule, Server, TimeTable};
use bulkhead_analysis::costs::Costs;
use bulkhead_analysis::guest::Task;
use bulkhead_analysis::overhead::{self, Habits, REQUEST_ENTRIES, Returns};
use bulkhead_analysis::round_robin::Ring;
use bulkhead_analysis::table::Window;
use bulkhead_plan::devices::{self, scripts::SILENCE_READS};
use bulkhead_plan::maps::{CoreUse, VcpuUse, core_uses};
use bulkhead_plan::model::{
    self, HealthPolicy, Limiter, OnInterrupt, Reading, RouteRule, ScheduleKind, ServerReference, System,
};
use bulkhead_plan::schedule::{numbered_servers, schedule_plan};
use bulkhead_words as words;
use std::collections::BTreeSet;

/// A shared core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedCore {
    /// Core of the board.
    pub board_core: usize,
    /// Place in [`System::schedules`].
    pub schedule: usize,
    /// Its vCPUs, by slot.
    pub core_use: CoreUse,
    /// Its servers, by the number that monitor and simulator use, too.
    pub servers: Vec<ServerReference>,
    /// What the analysis works on.
    pub model: SharedModel,
}

/// The model of a shared core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedModel {
    /// Servers by priority, perhaps under a time table. vCPUs are numbered by slot.
    Servers(CoreModel),
    /// The published round robin; guests are slots.
    Ring {
        /// The ring.
        ring: Ring,
        /// Longest passage of the monitor.
        blocking_ticks: u64,
    },
}

/// The monitor's costs in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TickCosts {
    /// What an instruction takes, in picoseconds.
    pub(crate) instruction_ps: u64,
    pub(crate) switch: u64,
    pub(crate) way_in: u64,
    pub(crate) entry: u64,
    pub(crate) passage: u64,
    /// From the moment that a turn or a window ends to the decision that ends it.
    pub(crate) noticed: u64,
    /// How much more than its budget a server may be charged.
    pub(crate) lateness: u64,
    pub(crate) doorbell: u64,
    pub(crate) publication: u64,
    pub(crate) publication_period: u64,
    pub(crate) least_stint: u64,
}

impl TickCosts {
    pub(crate) fn of(system: &System, assumptions: &Assumptions) -> Self {
        let clock = Clock::new(system.board.counter_hz);
        let ticks = |instructions: u64| clock.ticks_up(assumptions.instructions_ns(instructions));
        let costs = costs_of(system, assumptions);
        let passage = costs.longest_passage.saturating_add(silence(system));
        Self {
            instruction_ps: assumptions.instruction_ps,
            switch: ticks(costs.switch),
            way_in: ticks(costs.timer_latency.saturating_add(costs.after_loading)),
            entry: ticks(costs.interrupt_entry),
            passage: ticks(passage),
            noticed: ticks(costs.timer_latency.saturating_add(passage)),
            // A server whose budget runs out pays for loading its successor as well, from its next budget.
            lateness: ticks(
                costs
                    .timer_latency
                    .saturating_add(passage)
                    .saturating_add(costs.switch)
                    .saturating_add(costs.publication),
            ),
            doorbell: ticks(costs.doorbell),
            publication: ticks(costs.publication),
            publication_period: PUBLICATION_TICKS,
            least_stint: clock.ticks_down(assumptions.instructions_ns_down(costs.least_stint)).max(1),
        }
    }

    /// What the monitor takes from the vCPU that runs.
    pub(crate) fn overhead(&self) -> overhead::Costs {
        overhead::Costs {
            switch_ticks: self.switch,
            way_in_ticks: self.way_in,
            entry_ticks: self.entry,
            publication_ticks: self.publication,
            publication_period_ticks: self.publication_period,
            least_stint_ticks: self.least_stint,
        }
    }
}

/// What a step of a device script takes the monitor at most, in instructions; measured in `tests/system/tests/scenarios/dma/flight.rs`.
pub const SCRIPT_STEP: u64 = 100;

/// Instructions in which a shared core at most silences the functions of one partition and does nothing else: mastering off, and the reads
/// until each says so.
fn silence(system: &System) -> u64 {
    let shares = |partition: &usize| {
        let vcpus = core_uses(system).into_iter().filter(|core_use| core_use.schedule.is_some());
        vcpus.flat_map(|core_use| core_use.vcpus).any(|vcpu| vcpu.partition == *partition)
    };
    let functions = |partition: usize| system.functions.iter().filter(|one| one.partition == partition).count() as u64;
    let most = (0..system.partitions.len()).filter(shares).map(functions).max().unwrap_or(0);
    most.saturating_mul(u64::from(1 + SILENCE_READS)).saturating_mul(SCRIPT_STEP)
}

/// With trace recording, everything takes longer.
pub(crate) fn costs_of(system: &System, assumptions: &Assumptions) -> Costs {
    if system.trace_enabled { assumptions.costs.traced() } else { assumptions.costs }
}

/// The shared cores of a system, in the order of the board.
#[must_use]
pub fn shared_cores(system: &System, assumptions: &Assumptions) -> Vec<SharedCore> {
    core_uses(system).into_iter().filter_map(|core_use| shared_core(system, assumptions, core_use)).collect()
}

fn shared_core(system: &System, assumptions: &Assumptions, core_use: CoreUse) -> Option<SharedCore> {
    let schedule = core_use.schedule?;
    let plan = schedule_plan(system, &core_use)?;
    let costs = TickCosts::of(system, assumptions);
    let model = match &system.schedules.get(schedule)?.kind {
        ScheduleKind::RoundRobin { on_interrupt, reading, .. } => SharedModel::Ring {
            ring: ring(system, &core_use, &plan, &costs, *on_interrupt, *reading),
            blocking_ticks: costs.passage,
        },
        ScheduleKind::FixedPriority { .. } | ScheduleKind::Cyclic { .. } => {
            SharedModel::Servers(servers_model(system, &core_use, &plan, &costs))
        }
    };
    let servers = numbered_servers(system, &core_use);
    Some(SharedCore { board_core: core_use.board_core, schedule, core_use, servers, model })
}

fn ring(
    system: &System,
    core_use: &CoreUse,
    plan: &SchedulePlan,
    costs: &TickCosts,
    on_interrupt: OnInterrupt,
    reading: Reading,
) -> Ring {
    let partitions = || core_use.vcpus.iter().filter_map(|vcpu| system.partitions.get(vcpu.partition));
    let preempts = |partition: &&model::Partition| {
        let rules = partition.device_routes.iter().chain([&partition.route]);
        rules.into_iter().any(|route| route.rule == RouteRule::Preempt)
    };
    let overhead = costs.switch.saturating_add(costs.noticed);
    Ring {
        preemptible: partitions().map(|partition| partition.preemptible).collect(),
        interrupting: partitions().map(|partition| preempts(&partition)).collect(),
        turn_ticks: plan.quantum_ticks.saturating_add(overhead),
        quantum_ticks: plan
            .quantum_ticks
            .saturating_sub(costs.switch)
            .saturating_sub(costs.publication)
            .saturating_sub(ring_entries(system, core_use, costs, plan.quantum_ticks)),
        policy: on_interrupt,
        reading,
    }
}

fn servers_model(system: &System, core_use: &CoreUse, plan: &SchedulePlan, costs: &TickCosts) -> CoreModel {
    let plans = plan.servers();
    let servers: Vec<Server> = plans.iter().map(|server| server_model(system, core_use, server, costs)).collect();
    let windows = plan.windows();
    let table = (!windows.is_empty()).then(|| TimeTable {
        major_ticks: plan.major_ticks,
        windows: windows
            .iter()
            .map(|window| Window {
                offset_ticks: window.offset_ticks,
                length_ticks: window.length_ticks,
                owner: index(window.name),
            })
            .collect(),
        passage_ticks: costs.switch.saturating_add(costs.noticed),
    });
    let quanta = plan.quanta.get(..index(plan.quantum_count)).unwrap_or_default();
    CoreModel {
        events: Vec::new(),
        servers,
        table,
        quanta: quanta.iter().map(|quantum| (narrow(quantum.priority), quantum.quantum_ticks)).collect(),
        blocking_ticks: costs.passage,
        lateness_ticks: costs.lateness,
        costs: costs.overhead(),
        habits: core_use.vcpus.iter().map(|vcpu| habits(system, *vcpu, system.board.counter_hz)).collect(),
        requests: requests(system, core_use, costs),
    }
}

/// What managers, wherever they run, may ask of vCPUs of a core, and what restarts ask of it.
fn requests(system: &System, core_use: &CoreUse, costs: &TickCosts) -> Vec<(usize, Returns)> {
    let restarts = own_restarts(system, core_use, costs).into_iter().map(|(slot, restart)| (slot, restart.returns()));
    requests_of_managers(system, core_use).into_iter().chain(restarts).collect()
}

/// Requests go to the core of a partition's vCPU 0, which tells those of the others to stand and to go on: no more interrupts than there are for
/// a request itself. But a restart forgets what had entered already: each source of a vCPU that is away may come again.
fn requests_of_managers(system: &System, core_use: &CoreUse) -> Vec<(usize, Returns)> {
    let clock = Clock::new(system.board.counter_hz);
    let targets = core_use.vcpus.iter().enumerate();
    let pairs = targets.flat_map(|(slot, vcpu)| {
        let others = system.partitions.iter().enumerate().filter(move |(number, _)| *number != vcpu.partition);
        others.filter(|(_, other)| other.manages).map(move |(_, manager)| (slot, *vcpu, manager.manage_limit))
    });
    let returns = |vcpu, limit: Limiter| Returns {
        period_ticks: clock.ticks_down(limit.period_ns),
        pieces: u64::from(limit.events).saturating_mul(entries_again(system, vcpu).div_ceil(REQUEST_ENTRIES)),
    };
    pairs.map(|(slot, vcpu, limit)| (slot, returns(vcpu, limit))).collect()
}

/// Entries on the core of a vCPU with each restart of its partition.
fn entries_again(system: &System, vcpu: VcpuUse) -> u64 {
    if vcpu.vcpu == 0 { REQUEST_ENTRIES } else { habits(system, vcpu, system.board.counter_hz).sources }
}

/// Bytes that one instruction clears at most (DC ZVA, on the boards that there are).
const CLEARED_BYTES: u64 = 64;

/// Restarts that a partition with siblings on a core brings about itself.
#[derive(Clone, Copy)]
struct OwnRestarts {
    /// From one to the next at least.
    apart_ticks: u64,
    /// Entries of each.
    entries: u64,
}

impl OwnRestarts {
    /// There are at most w / p + 1 in a window w: (w / (p / 2) + 2) halves, and more.
    fn returns(self) -> Returns {
        let pieces = self.entries.div_ceil(REQUEST_ENTRIES).div_ceil(2);
        Returns { period_ticks: (self.apart_ticks / 2).max(1), pieces }
    }

    /// The same as work of the most important one: w / (p / 2), rounded up, and more.
    fn task(self, costs: &TickCosts) -> Task {
        let period_ticks = (self.apart_ticks / 2).max(1);
        Task { cost_ticks: costs.entry.saturating_mul(self.entries), period_ticks, deadline_ticks: period_ticks }
    }
}

/// Between two of them is what a partition waits before each, and its RAM is cleared.
fn own_restarts(system: &System, core_use: &CoreUse, costs: &TickCosts) -> Vec<(usize, OwnRestarts)> {
    let clock = Clock::new(system.board.counter_hz);
    let of = |vcpu: VcpuUse| {
        let partition = system.partitions.get(vcpu.partition).filter(|_| vcpu.vcpu != 0)?;
        let HealthPolicy::Restart { backoff_ns, .. } = partition.health else { return None };
        let clearing_ns = (partition.memory_bytes / CLEARED_BYTES).saturating_mul(costs.instruction_ps) / 1000;
        let apart_ticks = clock.ticks_down(backoff_ns.saturating_add(clearing_ns));
        Some(OwnRestarts { apart_ticks, entries: entries_again(system, vcpu) })
    };
    core_use.vcpus.iter().enumerate().filter_map(|(slot, vcpu)| Some((slot, of(*vcpu)?))).collect()
}

fn index(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

pub(crate) fn narrow(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

fn server_model(system: &System, core_use: &CoreUse, plan: &ServerPlan, costs: &TickCosts) -> Server {
    let slot = index(plan.slot);
    let promised = || promised(system, core_use, slot, costs).map_or(Rule::Unlimited, Rule::Promised);
    let rule = rule::read(plan).unwrap_or_else(promised);
    Server {
        vcpu: slot,
        priority: narrow(plan.priority),
        rule,
        gate: match plan.gate() {
            Some(words::Gate::Always) => Gate::Always,
            Some(words::Gate::Interrupt) => Gate::Interrupt,
            Some(words::Gate::Window) => Gate::Window(slot),
            Some(words::Gate::Never) | None => Gate::Never,
        },
        payer: (plan.payer != NO_SERVER).then(|| index(plan.payer)),
        background: (plan.on_empty() == Some(words::OnEmpty::Background)).then(|| narrow(plan.background_priority)),
        least_charge_ticks: plan.least_charge_ticks,
    }
}

/// What an unlimited guest takes if its author is trusted and has named its tasks. Each release costs both exchanges, its own
/// interrupt, and those of others that enter meanwhile; what restarts of others let enter again comes as often as they do. What others above pre-empt is not in it: such a guest belongs at the top.
fn promised(system: &System, core_use: &CoreUse, slot: usize, costs: &TickCosts) -> Option<Vec<Task>> {
    let partition = system.partitions.get(core_use.vcpus.get(slot)?.partition)?;
    if !partition.trusted || partition.tasks.is_empty() || partition.cores.len() != 1 {
        return None;
    }
    let others = core_use.vcpus.iter().enumerate().filter(|(number, _)| *number != slot);
    let sources: u64 = others.map(|(_, vcpu)| habits(system, *vcpu, system.board.counter_hz).sources).sum();
    let clock = Clock::new(system.board.counter_hz);
    let asked = requests_of_managers(system, core_use);
    let with_job = |task: Task| {
        let job = costs.overhead().job_ticks(sources.saturating_add(request_entries(&asked, task.period_ticks)));
        Task { cost_ticks: task.cost_ticks.saturating_add(job), ..task }
    };
    let restarts = own_restarts(system, core_use, costs).into_iter().map(|(_, restarts)| restarts.task(costs));
    Some(partition.tasks.iter().map(|task| with_job(task_model(task, clock))).chain(restarts).collect())
}

pub(crate) fn task_model(task: &model::Task, clock: Clock) -> Task {
    Task {
        cost_ticks: clock.ticks_up(task.cost_ns),
        period_ticks: clock.ticks_down(task.period_ns),
        deadline_ticks: clock.ticks_down(task.deadline_ns),
    }
}

/// Interrupts by which siblings can enter a core of a vCPU once in each of its absences: a post, its start, that it is to stand, and that it
/// is to go on.
const SIBLING_SOURCES: usize = 4;

/// Interrupt sources of a vCPU, and what its guest is trusted to do. A device's interrupt may be routed to any vCPU of its partition.
fn habits(system: &System, vcpu: VcpuUse, hz: u64) -> Habits {
    let VcpuUse { partition: number, vcpu } = vcpu;
    let Some(partition) = system.partitions.get(number) else {
        return Habits::default();
    };
    let mut habits = Habits::default();
    let mut add = |count: usize, rule: RouteRule| {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        habits.sources = habits.sources.saturating_add(count);
        if rule == RouteRule::Defer {
            habits.deferred = habits.deferred.saturating_add(count);
        }
    };
    for (device, route) in partition.devices.iter().zip(&partition.device_routes) {
        add(system.board.devices.get(*device).map_or(0, |device| device.interrupts.len()), route.rule);
    }
    let doorbells =
        system.channels.iter().filter(|channel| channel.destination.partition == number && channel.doorbell.is_some());
    let of_virtio = system.fronts_of(number).count() + system.backs_of(number).count();
    // Functions of one partition may share a line.
    let lines: BTreeSet<u32> = devices::of_partition(system, number).map(|(_, function)| function.interrupt).collect();
    // Two timers of the guest and one date of the monitor, for its watchdog or a back-off.
    let siblings = if vcpu == 0 { 0 } else { SIBLING_SOURCES };
    let own = lines.len() + doorbells.count() + of_virtio + usize::from(partition.virtual_uart) + 3;
    add(own + siblings, partition.route.rule);
    if partition.trusted && !partition.tasks.is_empty() {
        let clock = Clock::new(hz);
        habits.tasks = Some(partition.tasks.iter().map(|task| task_model(task, clock)).collect());
    }
    habits
}

/// Entries for requests of managers in any window.
fn request_entries(requests: &[(usize, Returns)], window_ticks: u64) -> u64 {
    let each = requests.iter().map(|(_, returns)| returns.in_window(window_ticks).saturating_mul(REQUEST_ENTRIES));
    each.fold(0, u64::saturating_add)
}

/// Every interrupt of a guest in a ring enters once in each turn of another one, requests of managers as often as they may.
fn ring_entries(system: &System, core_use: &CoreUse, costs: &TickCosts, quantum_ticks: u64) -> u64 {
    let hz = system.board.counter_hz;
    let sources = core_use.vcpus.iter().map(|vcpu| habits(system, *vcpu, hz).sources);
    let entries = sources.fold(request_entries(&requests(system, core_use, costs), quantum_ticks), u64::saturating_add);
    entries.saturating_mul(costs.entry)
}
