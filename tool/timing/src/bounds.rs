//! Every bound of a system, in nanoseconds: what `check` prints, `report` draws and `bench` compares with measurements.

use crate::assumption::Assumptions;
use crate::clock::Clock;
use crate::cores::{SharedCore, SharedModel, TickCosts, shared_cores};
use crate::guest_tasks::{shortest_run, task_supply, tasks};
use bulkhead_analysis::core_bounds::{self, CoreBounds, Verdict};
use bulkhead_analysis::core_model::{CoreModel, Gate, Server};
use bulkhead_analysis::interrupt::{self, Delivery};
use bulkhead_analysis::notification::Notification;
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::supply::Supply;
use bulkhead_analysis::table::Table;
use bulkhead_plan::maps::VcpuUse;
use bulkhead_plan::model::{Limiter, Route, RouteRule, ServerReference, System};
use std::collections::BTreeMap;

/// Bounds of a whole system.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// What they rest on.
    pub assumptions: Assumptions,
    /// Shared cores, in the order of the board.
    pub cores: Vec<CoreTiming>,
    /// Channels with a doorbell, in the order of the description.
    pub channels: Vec<ChannelBound>,
    /// Steps that the analysis took, the same on every host ([`bulkhead_analysis::steps`]).
    pub steps: u64,
}

/// Bounds of a shared core.
#[derive(Clone, Debug)]
pub struct CoreTiming {
    /// The core and its model, in ticks.
    pub core: SharedCore,
    /// Bounds in ticks, `None` for a round robin.
    pub ticks: Option<CoreBounds>,
    /// Servers, by number. Empty for a round robin.
    pub servers: Vec<ServerBound>,
    /// vCPUs, by slot.
    pub vcpus: Vec<VcpuBound>,
    /// Interrupts of its vCPUs.
    pub interrupts: Vec<InterruptBound>,
}

/// Bounds of a server.
#[derive(Clone, Debug)]
pub struct ServerBound {
    /// Its number for monitor, simulator and usage page.
    pub number: usize,
    /// Where it is in the system.
    pub reference: ServerReference,
    /// Its vCPU.
    pub vcpu: usize,
    /// Its most important priority.
    pub priority: u8,
    /// Name of its rule.
    pub rule: &'static str,
    /// Budget and period as enforced; grant and shortest client period of a PIBS server.
    pub budget_and_period_ns: Option<(u64, u64)>,
    /// The verdict; amounts in ticks.
    pub verdict: Verdict,
    /// Worst response of the whole budget.
    pub response_ns: Option<u64>,
    /// Most that it runs in any window of its period.
    pub most_in_period_ns: Option<u64>,
    /// The shortest period of a less important server of another vCPU, and the most that this one runs in any window so long.
    pub most_below_ns: Option<(u64, u64)>,
    /// Longest time that its owner wants to run and gets nothing through it, whether that sleeps in between or not.
    pub blackout_ns: Option<u64>,
    /// Least that an owner which always wants it gets in a long time, in millionths of the core.
    pub supply_ppm: u64,
}

/// Bounds of a vCPU on a shared core.
#[derive(Clone, Debug)]
pub struct VcpuBound {
    /// Its slot.
    pub slot: usize,
    /// The vCPU.
    pub vcpu: VcpuUse,
    /// Longest time from a wake-up until it is chosen while one of its budgets is in hand.
    pub conforming_wait_ns: Option<u64>,
    /// Longest time from a wake-up until it is chosen, all budgets just used up.
    pub drained_wait_ns: Option<u64>,
    /// Longest time that it wants to run and is not chosen, in whatever state its budgets are: what a measured wait is compared with.
    pub blackout_ns: Option<u64>,
    /// Longest time from an interrupt of a sibling until its guest sees it, where it has siblings: so long may they wait for it.
    pub answer_ns: Option<u64>,
    /// Least that its guest executes in a long time when it always wants to run, in millionths of the core.
    pub supply_ppm: u64,
    /// The searches for waits and supply ended; otherwise what is missing may exist.
    pub is_found: bool,
    /// What its servers give together, in ticks ([`Supply::in_window`]).
    pub supply: Supply,
    /// Tasks of its guest.
    pub tasks: Vec<TaskBound>,
    hz: u64,
}

impl VcpuBound {
    /// Least that it gets in any window of `window_ns` in which it always wants to run; nothing where the steps of the analysis do
    /// not suffice.
    #[must_use]
    pub fn supplied_ns(&self, window_ns: u64) -> u64 {
        let clock = Clock::new(self.hz);
        let (supplied, _) = Steps::default().bound(|steps| self.supply.in_window(clock.ticks_down(window_ns), steps));
        clock.ns_down(supplied)
    }
}

/// Bound of a guest's task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskBound {
    /// Place in the partition's list.
    pub task: usize,
    /// Worst response; `None` when it never ends.
    pub response_ns: Option<u64>,
    /// The search for it ended; otherwise there may be a response.
    pub is_found: bool,
    /// Deadline.
    pub deadline_ns: u64,
}

impl TaskBound {
    /// States whether the deadline is kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.response_ns.is_some_and(|response| response <= self.deadline_ns)
    }
}

/// Which interrupts of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptSource {
    /// Those of a device, by its place in the partition's list.
    Device(usize),
    /// Timer, console and doorbells.
    Others,
}

/// Bounds of interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptBound {
    /// The vCPU.
    pub vcpu: VcpuUse,
    /// Which of its partition.
    pub source: InterruptSource,
    /// Its rule.
    pub rule: RouteRule,
    /// Its limit.
    pub limit: Option<Limiter>,
    /// Longest time of the handler; `None` when not declared, the bounds are then for its first instruction.
    pub handler_ns: Option<u64>,
    /// With the budget in hand (or alone, under the round robin: until the first instruction).
    pub conforming_ns: Option<u64>,
    /// With the budget just used up (or the handler's completion, under the round robin).
    pub drained_ns: Option<u64>,
    /// Deadline.
    pub deadline_ns: Option<u64>,
    /// The search for both bounds ended; otherwise what is missing may exist.
    pub is_found: bool,
}

/// Bound from a message to its handling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelBound {
    /// The channel.
    pub channel: usize,
    /// Within the limit of its doorbell.
    pub within_limit_ns: Option<u64>,
    /// Held back by the limit: until the receiver's own next look has ended. `None` when it does not say how often it looks.
    pub held_back_ns: Option<u64>,
    /// How often the receiver looks, as it promises.
    pub polls_ns: Option<u64>,
}

/// Computes every bound of a system.
#[must_use]
pub fn bounds(system: &System, assumptions: &Assumptions) -> Bounds {
    let steps = Steps::default();
    let cores: Vec<CoreTiming> = shared_cores(system, assumptions)
        .into_iter()
        .map(|core| core_timing(system, assumptions, core, &steps))
        .collect();
    let channels = channels(system, assumptions, &cores);
    Bounds { assumptions: *assumptions, cores, channels, steps: steps.taken() }
}

/// Bounds of a core in ticks; `None` for a round robin.
pub(crate) fn core_ticks(core: &SharedCore, steps: &Steps) -> Option<CoreBounds> {
    match &core.model {
        SharedModel::Servers(model) => Some(CoreBounds::of(model, steps)),
        SharedModel::Ring { .. } => None,
    }
}

fn core_timing(system: &System, assumptions: &Assumptions, core: SharedCore, steps: &Steps) -> CoreTiming {
    let clock = Clock::new(system.board.counter_hz);
    let ticks = core_ticks(&core, steps);
    let servers = match (&core.model, &ticks) {
        (SharedModel::Servers(model), Some(ticks)) => servers(&core, model, ticks, clock, steps),
        _ => Vec::new(),
    };
    let vcpus =
        (0..core.core_use.vcpus.len()).filter_map(|slot| vcpu(system, assumptions, &core, ticks.as_ref(), slot, steps));
    let vcpus: Vec<VcpuBound> = vcpus.collect();
    let interrupts = interrupts(system, &core, ticks.as_ref(), clock, steps);
    CoreTiming { ticks, servers, vcpus, interrupts, core }
}

fn servers(core: &SharedCore, model: &CoreModel, ticks: &CoreBounds, clock: Clock, steps: &Steps) -> Vec<ServerBound> {
    let all = model.servers.iter().zip(&ticks.servers).zip(&core.servers).enumerate();
    all.map(|(number, ((server, bounds), reference))| ServerBound {
        number,
        reference: *reference,
        vcpu: core.core_use.vcpus.get(server.vcpu).map_or(0, |vcpu| vcpu.vcpu),
        priority: server.best_priority(),
        rule: server.rule.text(),
        budget_and_period_ns: server.budget().map(|(budget, period)| (clock.ns_down(budget), clock.ns_up(period))),
        verdict: bounds.verdict,
        response_ns: bounds.response_ticks().map(|response| clock.ns_up(response)),
        most_in_period_ns: server.budget().map(|(_, period)| clock.ns_up(most_in(model, server, bounds, period))),
        most_below_ns: shortest_below(model, server)
            .map(|window| (clock.ns_up(window), clock.ns_up(most_in(model, server, bounds, window)))),
        blackout_ns: bounds.blackout_ticks.map(|blackout| clock.ns_up(blackout)),
        supply_ppm: steps.bound(|steps| long_run_ppm(&bounds.supply, steps)).0,
    })
    .collect()
}

/// Shortest period of a server of another vCPU that this one may keep waiting.
fn shortest_below(model: &CoreModel, server: &Server) -> Option<u64> {
    let below = model
        .servers
        .iter()
        .filter(|other| other.vcpu != server.vcpu && other.lowest_priority() >= server.best_priority());
    below.filter_map(Server::budget).map(|(_, period)| period).min()
}

/// Most that a server runs in a window; behind a window gate no more than its table windows hold.
fn most_in(model: &CoreModel, server: &Server, bounds: &core_bounds::ServerBounds, window: u64) -> u64 {
    let most = bounds.envelope.in_window(window);
    match (server.gate, &model.table) {
        (Gate::Window(owner), Some(table)) => {
            let open = Table::of_owner(table.major_ticks, &table.windows, owner, 0).most(window);
            most.min(open.saturating_add(model.lateness_ticks))
        }
        _ => most,
    }
}

/// Share of the core in the long run, in millionths.
pub(crate) fn long_run_ppm(supply: &Supply, steps: &Steps) -> u64 {
    let share = |amount: u64, of: u64| {
        let millionths = u128::from(amount) * 1_000_000;
        u64::try_from(millionths.checked_div(u128::from(of)).unwrap_or(0)).unwrap_or(0)
    };
    match supply {
        Supply::Whole => 1_000_000,
        Supply::Nothing => 0,
        Supply::Explicit { budget_ticks, period_ticks, .. } => share(*budget_ticks, *period_ticks),
        Supply::Dispatched { budget_ticks, period_ticks, jitter_ticks, split } => {
            let cycle = period_ticks.saturating_add(*jitter_ticks);
            share(*budget_ticks, cycle.saturating_mul(if *split { 2 } else { 1 }))
        }
        Supply::Table(table) => share(table.open_in_frame(), table.major_ticks()),
        Supply::Rest(_) | Supply::Net { .. } => {
            // Long enough for the start of the window not to matter.
            let window = supply.blackout(steps).map_or(0, |blackout| blackout.saturating_add(1).saturating_mul(1_000));
            if window == 0 { 0 } else { share(supply.in_window(window, steps), window) }
        }
        Supply::Sum(parts) => parts.iter().map(|part| long_run_ppm(part, steps)).sum(),
    }
}

fn vcpu(
    system: &System,
    assumptions: &Assumptions,
    core: &SharedCore,
    ticks: Option<&CoreBounds>,
    slot: usize,
    steps: &Steps,
) -> Option<VcpuBound> {
    let hz = system.board.counter_hz;
    let clock = Clock::new(hz);
    let used = *core.core_use.vcpus.get(slot)?;
    let (supply, blackout, (conforming, drained), is_found) = match (&core.model, ticks) {
        (SharedModel::Ring { ring, blocking_ticks }, _) => {
            let blackout = ring.blackout(slot, *blocking_ticks);
            let wait = blackout.map(|_| ring.bound(slot, false, 0, *blocking_ticks).start_ticks);
            (ring.supply(slot), blackout, (wait, wait), true)
        }
        (SharedModel::Servers(_), Some(ticks)) => {
            let bounds = ticks.vcpu(slot)?;
            let waits = (bounds.conforming_wait_ticks, bounds.drained_wait_ticks);
            (bounds.supply.clone(), bounds.blackout_ticks, waits, bounds.is_found)
        }
        (SharedModel::Servers(_), None) => return None,
    };
    let up = |ticks: Option<u64>| ticks.map(|ticks| clock.ns_up(ticks));
    let has_siblings = system.partitions.get(used.partition).is_some_and(|partition| partition.cores.len() > 1);
    // The core may be inside the monitor when it is called; then it is entered, and the vCPU loaded when its turn comes.
    let costs = TickCosts::of(system, assumptions);
    let on_the_way = costs.passage.saturating_add(costs.entry).saturating_add(costs.switch);
    let answer = blackout.filter(|_| has_siblings).map(|blackout| blackout.saturating_add(on_the_way));
    let (supply_ppm, is_supply_found) = steps.bound(|steps| long_run_ppm(&supply, steps));
    Some(VcpuBound {
        slot,
        vcpu: used,
        conforming_wait_ns: up(conforming),
        drained_wait_ns: up(drained),
        blackout_ns: up(blackout),
        answer_ns: up(answer),
        supply_ppm,
        is_found: is_found && is_supply_found,
        tasks: tasks_of(system, assumptions, core, ticks, slot, steps),
        supply,
        hz,
    })
}

/// Bounds of the tasks of a vCPU's guest.
pub(crate) fn tasks_of(
    system: &System,
    assumptions: &Assumptions,
    core: &SharedCore,
    ticks: Option<&CoreBounds>,
    slot: usize,
    steps: &Steps,
) -> Vec<TaskBound> {
    let Some(used) = core.core_use.vcpus.get(slot) else {
        return Vec::new();
    };
    let (supply, sleeper) = match (&core.model, ticks.and_then(|ticks| ticks.vcpu(slot))) {
        (SharedModel::Ring { ring, .. }, _) => (ring.supply(slot), ring.supply(slot)),
        (SharedModel::Servers(_), Some(bounds)) => (bounds.supply.clone(), bounds.sleeper_supply.clone()),
        (SharedModel::Servers(_), None) => return Vec::new(),
    };
    let supply = task_supply(core, slot, shortest_run(system, *used), &supply, &sleeper);
    tasks(system, assumptions, core, ticks, *used, supply, steps)
}

fn interrupts(
    system: &System,
    core: &SharedCore,
    ticks: Option<&CoreBounds>,
    clock: Clock,
    steps: &Steps,
) -> Vec<InterruptBound> {
    let mut list = Vec::new();
    for (slot, used) in core.core_use.vcpus.iter().enumerate() {
        let Some(partition) = system.partitions.get(used.partition) else { continue };
        let devices = partition.devices.iter().zip(&partition.device_routes).enumerate();
        let with_interrupts = devices.filter(|(_, (device, _))| {
            system.board.devices.get(**device).is_some_and(|device| !device.interrupts.is_empty())
        });
        let mut known = BTreeMap::new();
        let routes = with_interrupts.map(|(place, (_, route))| (InterruptSource::Device(place), route));
        for (source, route) in routes.chain([(InterruptSource::Others, &partition.route)]) {
            let handler = clock.ticks_up(route.handler_ns.unwrap_or(1)).max(1);
            // Many have the same handler, or none that is declared.
            let (delivery, is_found) = *known
                .entry((route.rule == RouteRule::Defer, route.rule == RouteRule::Preempt, handler))
                .or_insert_with(|| steps.bound(|steps| delivery(core, ticks, slot, route, handler, steps)));
            let up = |ticks: Option<u64>| ticks.map(|ticks| clock.ns_up(ticks));
            list.push(InterruptBound {
                vcpu: *used,
                source,
                rule: route.rule,
                limit: route.limit,
                handler_ns: route.handler_ns,
                conforming_ns: up(delivery.conforming_ticks),
                drained_ns: up(delivery.drained_ticks),
                deadline_ns: route.deadline_ns,
                is_found: is_found || (delivery.conforming_ticks.is_some() && delivery.drained_ticks.is_some()),
            });
        }
    }
    list
}

fn delivery(
    core: &SharedCore,
    ticks: Option<&CoreBounds>,
    slot: usize,
    route: &Route,
    handler: u64,
    steps: &Steps,
) -> Delivery {
    match (&core.model, ticks) {
        (SharedModel::Ring { ring, blocking_ticks }, _) => {
            let preempts = route.rule == RouteRule::Preempt;
            let bound = ring.bound(slot, preempts, handler, *blocking_ticks);
            Delivery { conforming_ticks: Some(bound.start_ticks), drained_ticks: Some(bound.completion_ticks) }
        }
        (SharedModel::Servers(model), Some(ticks)) if route.rule == RouteRule::Defer => {
            // Its owner may run for other reasons, but nobody promises that.
            core_bounds::deferred_delivery(model, ticks, slot, handler, steps)
        }
        (SharedModel::Servers(model), Some(ticks)) => core_bounds::delivery(model, ticks, slot, handler, steps),
        (SharedModel::Servers(_), None) => interrupt::by_supply(&Supply::Nothing, handler, steps),
    }
}

fn channels(system: &System, assumptions: &Assumptions, cores: &[CoreTiming]) -> Vec<ChannelBound> {
    let clock = Clock::new(system.board.counter_hz);
    let costs = TickCosts::of(system, assumptions);
    // With a limit on all of its own interrupts, that of its timer may be put off until its guest runs anyway.
    let is_limited = |receiver: usize| system.partitions.get(receiver).is_some_and(|one| one.route.limit.is_some());
    let mut list = Vec::new();
    for (number, channel) in system.channels.iter().enumerate() {
        if channel.doorbell.is_none() {
            continue;
        }
        let receiver = channel.destination.partition;
        let response_ns = receiver_response_ns(system, cores, receiver);
        let limit = system.limiter(channel);
        let bound = response_ns.map(|response_ns| {
            Notification {
                delivery_ticks: costs.doorbell.saturating_add(costs.passage).saturating_add(costs.entry),
                limiter_period_ticks: limit.map(|limit| clock.ticks_up(limit.period_ns)),
                // What is held back is dropped and the sender told so (CH-31): the receiver finds the data when it looks next.
                latched: false,
                polling_ticks: channel.polls_ns.filter(|_| !is_limited(receiver)).map(|polls_ns| {
                    // The timer's interrupt is noticed as late as the end of a turn, and enters like any other.
                    (clock.ticks_up(polls_ns), costs.noticed.saturating_add(costs.entry))
                }),
                receiver_response_ticks: clock.ticks_up(response_ns),
            }
            .bound()
        });
        list.push(ChannelBound {
            channel: number,
            within_limit_ns: bound.map(|bound| clock.ns_up(bound.within_limit_ticks)),
            held_back_ns: bound.and_then(|bound| bound.held_back_ticks).map(|ticks| clock.ns_up(ticks)),
            polls_ns: channel.polls_ns,
        });
    }
    list
}

/// From the doorbell's interrupt to the end of its handler in the receiver, whose vCPU 0 gets it unless the guest says otherwise;
/// the worst of its vCPUs counts. A vCPU that owns its core handles it at once.
fn receiver_response_ns(system: &System, cores: &[CoreTiming], receiver: usize) -> Option<u64> {
    let own = system.partitions.get(receiver)?.route.handler_ns.unwrap_or(0);
    let shared = cores
        .iter()
        .flat_map(|core| &core.interrupts)
        .filter(|interrupt| interrupt.vcpu.partition == receiver && interrupt.source == InterruptSource::Others);
    shared.map(|interrupt| interrupt.drained_ns).try_fold(own, |worst, one| Some(worst.max(one?)))
}
