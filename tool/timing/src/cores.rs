//! From a system to the models of its shared cores.
//!
//! Amounts are read from the [`SchedulePlan`] that the image will hold, so budgets and periods are rounded as the monitor
//! rounds them. What the description adds for the analysis alone (tasks, handlers, deadlines) is rounded against itself.
//!
//! Interrupts of a vCPU that does not run cost an entry each. With a limit, the limit counts; without one, the source stays
//! masked from its first interrupt until its owner runs, and one entry per shortest period of the core's servers is counted.

use crate::assumption::Assumptions;
use crate::clock::Clock;
use bulkhead_abi::schedule::{
    GATE_ALWAYS, GATE_INTERRUPT, GATE_WINDOW, NO_SERVER, ON_EMPTY_BACKGROUND, RULE_DEFERRABLE, RULE_PIBS, RULE_POLLING,
    RULE_SPORADIC, SERVER_DISPATCH_ANCHOR, SERVER_LAG_CLAMP, SERVER_PUBLISHED_PIBS, SchedulePlan, ServerPlan,
};
use bulkhead_analysis::core_model::{Client, CoreModel, Gate, Pibs, Rule, Server, TimeTable};
use bulkhead_analysis::demand::Demand;
use bulkhead_analysis::guest::Task;
use bulkhead_analysis::round_robin::{Policy, Reading, Ring};
use bulkhead_analysis::table::Window;
use bulkhead_plan::maps::{CoreUse, core_uses};
use bulkhead_plan::model::{self, Limiter, OnInterrupt, RouteRule, ScheduleKind, ServerReference, System};
use bulkhead_plan::schedule::{numbered_servers, schedule_plan};

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
    pub(crate) switch: u64,
    pub(crate) entry: u64,
    pub(crate) passage: u64,
    pub(crate) lateness: u64,
    pub(crate) doorbell: u64,
}

impl TickCosts {
    pub(crate) fn of(system: &System, assumptions: &Assumptions) -> Self {
        let clock = Clock::new(system.board.counter_hz);
        let ticks = |instructions: u64| clock.ticks_up(assumptions.instructions_ns(instructions));
        let costs = &assumptions.costs;
        let passage = costs.longest_passage;
        Self {
            switch: ticks(costs.switch),
            entry: ticks(costs.interrupt_entry),
            passage: ticks(passage),
            lateness: ticks(costs.timer_latency.saturating_add(passage)),
            doorbell: ticks(costs.doorbell),
        }
    }
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
    reading: model::Reading,
) -> Ring {
    let partitions = || core_use.vcpus.iter().filter_map(|vcpu| system.partitions.get(vcpu.partition));
    let preempts = |partition: &&model::Partition| {
        let rules = partition.device_routes.iter().chain([&partition.route]);
        rules.into_iter().any(|route| route.rule == RouteRule::Preempt)
    };
    let overhead = costs.switch.saturating_add(costs.lateness);
    Ring {
        preemptible: partitions().map(|partition| partition.preemptible).collect(),
        interrupting: partitions().filter(preempts).count(),
        turn_ticks: plan.quantum_ticks.saturating_add(overhead),
        quantum_ticks: plan.quantum_ticks.saturating_sub(costs.switch),
        policy: match on_interrupt {
            OnInterrupt::None => Policy::None,
            OnInterrupt::Recycle => Policy::Recycle,
            OnInterrupt::Reset => Policy::Reset,
            OnInterrupt::ResetExtend => Policy::ResetExtend,
        },
        reading: match reading {
            model::Reading::Masked => Reading::Masked,
            model::Reading::Latched => Reading::Latched,
        },
    }
}

fn servers_model(system: &System, core_use: &CoreUse, plan: &SchedulePlan, costs: &TickCosts) -> CoreModel {
    let plans = plan.servers.get(..index(plan.server_count)).unwrap_or_default();
    let servers: Vec<Server> = plans.iter().map(|server| server_model(system, core_use, server, costs)).collect();
    let windows = plan.windows.get(..index(plan.window_count)).unwrap_or_default();
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
        passage_ticks: costs.switch.saturating_add(costs.lateness),
    });
    let quanta = plan.quanta.get(..index(plan.quantum_count)).unwrap_or_default();
    CoreModel {
        events: events(system, core_use, costs, shortest_cycle(&servers, table.as_ref())),
        servers,
        table,
        quanta: quanta.iter().map(|quantum| (narrow(quantum.priority), quantum.quantum_ticks)).collect(),
        blocking_ticks: costs.passage,
        lateness_ticks: costs.lateness,
    }
}

/// Shortest time in which vCPUs of the core come and go by design.
fn shortest_cycle(servers: &[Server], table: Option<&TimeTable>) -> Option<u64> {
    let budgets = servers.iter().filter_map(Server::budget).map(|(_, period)| period);
    let tasks = servers.iter().flat_map(|server| match &server.rule {
        Rule::Promised(tasks) => tasks.as_slice(),
        _ => &[],
    });
    let frame = table.and_then(|table| {
        let count = u64::try_from(table.windows.len()).ok()?;
        table.major_ticks.checked_div(count)
    });
    budgets.chain(tasks.map(|task| task.period_ticks)).chain(frame).min()
}

fn index(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn narrow(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

fn server_model(system: &System, core_use: &CoreUse, plan: &ServerPlan, costs: &TickCosts) -> Server {
    let slot = index(plan.slot);
    let rule = match plan.rule {
        RULE_SPORADIC => Rule::Sporadic {
            budget_ticks: plan.budget_ticks,
            period_ticks: plan.period_ticks,
            dispatch_anchor: plan.flags & SERVER_DISPATCH_ANCHOR != 0,
            lag_clamp: plan.flags & SERVER_LAG_CLAMP != 0,
            chunks: plan.chunks,
            minimum_ticks: plan.minimum_ticks,
        },
        RULE_DEFERRABLE => Rule::Deferrable { budget_ticks: plan.budget_ticks, period_ticks: plan.period_ticks },
        RULE_POLLING => Rule::Polling { budget_ticks: plan.budget_ticks, period_ticks: plan.period_ticks },
        RULE_PIBS => Rule::Pibs(Pibs {
            numerator: plan.share_numerator,
            denominator: plan.share_denominator,
            clients: plan
                .clients
                .iter()
                .take(index(plan.client_count))
                .map(|client| Client { period_ticks: client.period_ticks, priority: narrow(client.priority) })
                .collect(),
            published: plan.flags & SERVER_PUBLISHED_PIBS != 0,
        }),
        _ => promised(system, core_use, slot, costs).map_or(Rule::Unlimited, Rule::Promised),
    };
    Server {
        vcpu: slot,
        priority: narrow(plan.priority),
        rule,
        gate: match plan.gate {
            GATE_ALWAYS => Gate::Always,
            GATE_INTERRUPT => Gate::Interrupt,
            GATE_WINDOW => Gate::Window(slot),
            _ => Gate::Never,
        },
        payer: (plan.payer != NO_SERVER).then(|| index(plan.payer)),
        background: (plan.on_empty == ON_EMPTY_BACKGROUND).then(|| narrow(plan.background_priority)),
        overhead_ticks: costs.switch.saturating_mul(2),
    }
}

/// What an unlimited guest takes if its author is trusted and has named its tasks: each release costs the switches, too.
fn promised(system: &System, core_use: &CoreUse, slot: usize, costs: &TickCosts) -> Option<Vec<Task>> {
    let partition = system.partitions.get(core_use.vcpus.get(slot)?.partition)?;
    if !partition.trusted || partition.tasks.is_empty() || partition.cores.len() != 1 {
        return None;
    }
    let switches = costs.switch.saturating_mul(2);
    let clock = Clock::new(system.board.counter_hz);
    let with_switches = |task: Task| Task { cost_ticks: task.cost_ticks.saturating_add(switches), ..task };
    Some(partition.tasks.iter().map(|task| with_switches(task_model(task, clock))).collect())
}

pub(crate) fn task_model(task: &model::Task, clock: Clock) -> Task {
    Task {
        cost_ticks: clock.ticks_up(task.cost_ns),
        period_ticks: clock.ticks_down(task.period_ns),
        deadline_ticks: clock.ticks_down(task.deadline_ns),
    }
}

/// Entries of interrupts, above everything.
fn events(system: &System, core_use: &CoreUse, costs: &TickCosts, shortest: Option<u64>) -> Vec<Demand> {
    let clock = Clock::new(system.board.counter_hz);
    let entry = |limit: Option<Limiter>| {
        let (events, period_ticks) = match limit {
            Some(limit) => (u64::from(limit.events), clock.ticks_down(limit.period_ns)),
            None => (1, shortest?),
        };
        Some(Demand::Events { cost_ticks: costs.entry, events, period_ticks })
    };
    core_use.partitions().into_iter().flat_map(|partition| limits(system, partition)).filter_map(entry).collect()
}

/// The limit of each interrupt source of a partition: its devices, its timer, its console, its doorbells.
fn limits(system: &System, number: usize) -> Vec<Option<Limiter>> {
    let Some(partition) = system.partitions.get(number) else {
        return Vec::new();
    };
    let mut limits = Vec::new();
    for (device, route) in partition.devices.iter().zip(&partition.device_routes) {
        let interrupts = system.board.devices.get(*device).map_or(0, |device| device.interrupts.len());
        limits.extend(std::iter::repeat_n(route.limit, interrupts));
    }
    let doorbells = system.channels.iter().filter(|channel| channel.destination.partition == number);
    let of_channel = |doorbell: model::Doorbell| tighter(doorbell.limiter, partition.route.limit);
    limits.extend(doorbells.filter_map(|channel| channel.doorbell).map(of_channel));
    limits.extend(partition.virtual_uart.then_some(partition.route.limit));
    // The timer.
    limits.push(partition.route.limit);
    limits
}

/// The limit that lets less through.
fn tighter(left: Option<Limiter>, right: Option<Limiter>) -> Option<Limiter> {
    match (left, right) {
        (Some(one), Some(other)) => {
            let rate = |limit: Limiter, of: Limiter| u128::from(limit.events) * u128::from(of.period_ns);
            Some(if rate(one, other) <= rate(other, one) { one } else { other })
        }
        (one, other) => one.or(other),
    }
}
