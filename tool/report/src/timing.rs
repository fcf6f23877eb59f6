//! What is said about the time of shared cores: the schedule as described, and the bounds as computed.
//!
//! The analysis ([`bulkhead_timing`]) computes the bounds; this crate computes none itself. A number that is absent was not
//! computed or does not exist, which the page shows as a dash and never as zero.

use bulkhead_plan::maps::{CoreUse, core_uses};
use bulkhead_plan::model::{BudgetRule, Gate, OnEmpty, OnInterrupt, ScheduleKind, ServerReference, System};
use bulkhead_plan::schedule::{best_priority, numbered_servers, server};
use bulkhead_trace::words::duration;
use bulkhead_trace::{CoreLayout, ServerLayout, SlotLayout};
use toml::de::DeTable;

/// Schedules and bounds of a system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Each core in use.
    pub cores: Vec<CoreTiming>,
    /// Channels with a doorbell.
    pub channels: Vec<ChannelTiming>,
    /// What the bounds rest on, in words; empty without bounds.
    pub assumption: String,
}

/// Bounds of a channel, from its doorbell to the end of the receiver's handler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelTiming {
    /// The channel.
    pub channel: usize,
    /// While its limiter lets the doorbell through.
    pub within_limit_ns: Option<u64>,
    /// When the doorbell is held back until the limiter's next window.
    pub held_back_ns: Option<u64>,
}

/// Schedule and bounds of one core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreTiming {
    /// Index of the core in the image.
    pub core: usize,
    /// Index of the core on the board.
    pub board_core: usize,
    /// Several vCPUs share it.
    pub is_shared: bool,
    /// The schedule in words.
    pub schedule: String,
    /// Its vCPUs, by slot.
    pub slots: Vec<SlotTiming>,
    /// Its servers, by number.
    pub servers: Vec<ServerTiming>,
    /// Bounds of the tasks of its guests.
    pub tasks: Vec<TaskTiming>,
    /// Bounds of interrupts of its vCPUs.
    pub interrupts: Vec<InterruptTiming>,
}

/// Bound of a guest's task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskTiming {
    /// Partition.
    pub partition: usize,
    /// Place in the partition's list.
    pub task: usize,
    /// Worst response; none if it may never end.
    pub response_ns: Option<u64>,
    /// Deadline.
    pub deadline_ns: u64,
}

impl TaskTiming {
    /// States whether its deadline is kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.response_ns.is_some_and(|response| response <= self.deadline_ns)
    }
}

/// Bounds of interrupts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptTiming {
    /// Partition.
    pub partition: usize,
    /// Place in the partition's list of devices; none for its timer, console and doorbells.
    pub device: Option<usize>,
    /// With the budget in hand.
    pub conforming_ns: Option<u64>,
    /// With the budget just used up.
    pub drained_ns: Option<u64>,
    /// Deadline.
    pub deadline_ns: Option<u64>,
    /// The bounds reach to the end of the handler, whose length is declared; otherwise to its first instruction.
    pub with_handler: bool,
}

/// A vCPU of a core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotTiming {
    /// Its partition.
    pub partition: usize,
    /// Its number within the partition.
    pub vcpu: usize,
    /// What was computed.
    pub bound: SlotBound,
}

/// Bounds of a vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotBound {
    /// Longest time from a wake-up to its first instruction, budgets in hand.
    pub conforming_wait_ns: Option<u64>,
    /// The same with every budget just used up.
    pub drained_wait_ns: Option<u64>,
    /// Longest time that it wants to run and does not, in whatever state its budgets are: what a measured wait is compared with.
    pub blackout_ns: Option<u64>,
    /// Windows, and the least that it gets in any of that length while it wants to run.
    pub supply: Vec<(u64, u64)>,
}

/// A server of a core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTiming {
    /// Its name.
    pub name: String,
    /// Slot of its vCPU.
    pub slot: usize,
    /// Priority, 0 is the most important.
    pub priority: u8,
    /// Rule in words.
    pub rule: String,
    /// Gate in words; empty when always open.
    pub gate: String,
    /// What happens when it is empty, in words.
    pub on_empty: String,
    /// Budget.
    pub budget_ns: Option<u64>,
    /// Period.
    pub period_ns: Option<u64>,
    /// Share of the core that it may use: numerator and denominator.
    pub share: Option<(u64, u64)>,
    /// What was computed.
    pub bound: ServerBound,
}

/// Bounds of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerBound {
    /// The verdict: whether it holds, in words.
    pub verdict: Option<(bool, String)>,
    /// Worst response of the whole budget.
    pub response_ns: Option<u64>,
    /// Most that it takes in any window of its period.
    pub most_in_period_ns: Option<u64>,
}

/// Names that the description gives to servers, by partition and place. A checked system does not keep them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerNames(Vec<Vec<Option<String>>>);

impl ServerNames {
    /// Reads them out of a description that was accepted; a text that is none has none.
    #[must_use]
    pub fn of_description(text: &str) -> Self {
        let Ok(table) = DeTable::parse(text) else { return Self::default() };
        let partitions = tables(table.get_ref(), "partition");
        Self(partitions.map(|partition| tables(partition, "servers").map(name).collect()).collect())
    }

    fn get(&self, reference: ServerReference) -> Option<&str> {
        self.0.get(reference.partition)?.get(reference.server)?.as_deref()
    }
}

/// Returns the tables of an array; what is none has none.
fn tables<'a>(table: &'a DeTable<'a>, key: &str) -> impl Iterator<Item = &'a DeTable<'a>> {
    let list = table.get(key).and_then(|value| value.get_ref().as_array());
    list.into_iter().flatten().filter_map(|value| value.get_ref().as_table())
}

fn name(server: &DeTable<'_>) -> Option<String> {
    server.get("name").and_then(|name| name.get_ref().as_str()).map(str::to_owned)
}

impl CoreTiming {
    /// Returns what the description says about the time of each core in use.
    #[must_use]
    pub fn of_system(system: &System, names: &ServerNames) -> Vec<Self> {
        core_uses(system).iter().enumerate().map(|(core, core_use)| describe(system, names, core, core_use)).collect()
    }

    /// Returns the layout of the core for traces.
    #[must_use]
    pub fn layout(&self) -> CoreLayout {
        let server = |server: &ServerTiming| ServerLayout {
            name: server.name.clone(),
            slot: server.slot,
            priority: u32::from(server.priority),
            budget_ns: server.budget_ns,
            period_ns: server.period_ns,
        };
        CoreLayout {
            is_shared: self.is_shared,
            slots: self.slots.iter().map(|slot| SlotLayout { partition: slot.partition, vcpu: slot.vcpu }).collect(),
            servers: self.servers.iter().map(server).collect(),
        }
    }
}

fn describe(system: &System, names: &ServerNames, core: usize, core_use: &CoreUse) -> CoreTiming {
    let kind = core_use.schedule.and_then(|index| system.schedules.get(index)).map(|schedule| &schedule.kind);
    let slots = core_use.vcpus.iter().map(|vcpu| SlotTiming {
        partition: vcpu.partition,
        vcpu: vcpu.vcpu,
        bound: SlotBound::default(),
    });
    CoreTiming {
        core,
        board_core: core_use.board_core,
        is_shared: core_use.is_shared(),
        schedule: kind.map_or_else(|| "dedicated: one vCPU owns it".to_owned(), schedule_text),
        slots: slots.collect(),
        servers: if core_use.is_shared() { servers(system, names, core_use) } else { Vec::new() },
        ..CoreTiming::default()
    }
}

fn servers(system: &System, names: &ServerNames, core_use: &CoreUse) -> Vec<ServerTiming> {
    let mut list = Vec::new();
    for reference in numbered_servers(system, core_use) {
        let (Some(partition), Some(found)) = (system.partitions.get(reference.partition), server(system, reference))
        else {
            continue;
        };
        let is_owner =
            |vcpu: &bulkhead_plan::maps::VcpuUse| vcpu.partition == reference.partition && vcpu.vcpu == found.vcpu;
        let times = found.rule.budget_and_period_ns();
        let share = found.rule.share().or(times);
        let siblings = partition.servers.iter().filter(|other| other.vcpu == found.vcpu).count();
        let name = match (names.get(reference), siblings, partition.cores.len()) {
            (Some(name), ..) => format!("{}.{name}", partition.name),
            (None, 1, 1) => partition.name.clone(),
            (None, 1, _) => format!("{}, vCPU {}", partition.name, found.vcpu),
            _ => format!("{}, server {}", partition.name, reference.server + 1),
        };
        list.push(ServerTiming {
            name,
            slot: core_use.vcpus.iter().position(is_owner).unwrap_or(usize::MAX),
            priority: best_priority(system, found),
            rule: rule_text(&found.rule),
            gate: gate_text(found.gate).to_owned(),
            on_empty: on_empty_text(found.on_empty, &found.rule),
            budget_ns: times.map(|(budget, _)| budget),
            period_ns: times.map(|(_, period)| period),
            share,
            bound: ServerBound::default(),
        });
    }
    list
}

fn schedule_text(kind: &ScheduleKind) -> String {
    match kind {
        ScheduleKind::FixedPriority { quanta } if quanta.is_empty() => "fixed priority".to_owned(),
        ScheduleKind::FixedPriority { quanta } => {
            let turns = quanta.iter().map(|(priority, ns)| format!("{} at priority {priority}", duration(*ns)));
            format!("fixed priority, turns of {}", turns.collect::<Vec<_>>().join(", "))
        }
        ScheduleKind::RoundRobin { quantum_ns, on_interrupt, .. } => {
            let policy = match on_interrupt {
                OnInterrupt::None => "interrupts wait for their guest's turn",
                OnInterrupt::Recycle => "an interrupt recycles what is left of the quantum",
                OnInterrupt::Reset => "an interrupt gives its guest a whole quantum",
                OnInterrupt::ResetExtend => "an interrupt gives its guest a whole quantum, again and again",
            };
            format!("round robin with quantum {}; {policy}", duration(*quantum_ns))
        }
        ScheduleKind::Cyclic { major_ns, windows } => {
            format!("time table of {} windows in {}", windows.len(), duration(*major_ns))
        }
    }
}

fn rule_text(rule: &BudgetRule) -> String {
    let published = if rule.is_published() { ", published rule" } else { "" };
    format!("{}{published}", rule.word().name())
}

fn gate_text(gate: Gate) -> &'static str {
    match gate {
        Gate::Always => "",
        Gate::Interrupt { voluntary_return: false } => "while an interrupt is pending",
        Gate::Interrupt { voluntary_return: true } => "until its interrupt is ended",
        Gate::Window => "in its windows",
        Gate::Never => "never",
    }
}

fn on_empty_text(on_empty: OnEmpty, rule: &BudgetRule) -> String {
    match on_empty {
        _ if *rule == BudgetRule::Unlimited => String::new(),
        OnEmpty::Stop => "waits".to_owned(),
        OnEmpty::Background(priority) => format!("background, priority {priority}"),
        OnEmpty::Notify => "waits, is counted".to_owned(),
    }
}
