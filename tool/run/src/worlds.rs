//! Records of a payload of the secure world as a timeline: its tasks, and the servers that are the other world, on the core of both.
//!
//! The payload is one partition and the world below it another one. Who runs is a server in either: of the other world those of the plan, of the
//! payload its tasks by the names that it gave them. What a task wants while it does not run is not in the records, so nobody is shown as waiting.

use crate::command::clock_text;
use crate::image_file::ImagePlan;
use crate::joined::{core_of_payload, join};
use crate::qemu::{MachineOptions, SECURE_CONSOLE};
use crate::tally::Tally;
use bulkhead_plan::ticks;
use bulkhead_trace::{CoreLayout, EventKind, Layout, ServerLayout, SlotLayout, Timeline};
use bulkhead_world::flash::{MOST_SERVERS, PLAN, ServerKind, ServerPlan, WorldPlan};
use bulkhead_world::records::{Kind, Record};
use std::mem::offset_of;

/// Name of the payload in a trace.
pub const PAYLOAD: &str = "payload";
/// Its partition and slot, and those of the other world.
pub(crate) const ABOVE: usize = 0;
pub(crate) const BELOW: usize = 1;
/// Name of the kernel's task that runs when nobody else does.
pub(crate) const NOBODY: &str = "IDLE";

/// What came over the secure console besides text.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Records, in the order in which they were written.
    pub list: Vec<Record>,
    /// Pieces that are none.
    pub damaged: u64,
}

/// What a flash file says of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TracePlan {
    pub(crate) counter_hz: u64,
    pub(crate) servers: Vec<ServerPlan>,
}

impl TracePlan {
    /// Reads it; `None` when the payload keeps no records.
    pub(crate) fn of_flash(flash: &[u8]) -> Option<Self> {
        let plan = flash.get(usize::try_from(PLAN).ok()?..)?;
        let word = |at: usize| plan.get(at..)?.first_chunk().copied().map(u64::from_le_bytes);
        let half = |at: usize| plan.get(at..)?.first_chunk().copied().map(u32::from_le_bytes);
        let head = offset_of!(WorldPlan, head) + offset_of!(bulkhead_world::flash::Head, counter_hz);
        let server = |place: usize| {
            let at = offset_of!(WorldPlan, servers) + place * size_of::<ServerPlan>();
            Some(ServerPlan {
                kind: half(at + offset_of!(ServerPlan, kind))?,
                priority: half(at + offset_of!(ServerPlan, priority))?,
                budget_ticks: word(at + offset_of!(ServerPlan, budget_ticks))?,
                period: half(at + offset_of!(ServerPlan, period))?,
                voluntary: half(at + offset_of!(ServerPlan, voluntary))?,
            })
        };
        let servers = (0..MOST_SERVERS).filter_map(server).take_while(|server| server.kind != 0).collect();
        let plan = Self { counter_hz: word(head)?, servers };
        (word(offset_of!(WorldPlan, trace_records))? != 0).then_some(plan)
    }
}

/// What is known of the records of a payload of the secure world before its machine starts.
#[derive(Clone, Debug)]
pub struct WorldsTrace {
    plan: TracePlan,
    world: String,
}

impl WorldsTrace {
    /// Reads it; `None` when the payload keeps no records.
    #[must_use]
    pub fn of(options: &MachineOptions) -> Option<Self> {
        let plan = options.trace_plan()?;
        let lines = options.serial_lines();
        let world = lines.into_iter().flatten().find(|name| *name != SECURE_CONSOLE);
        Some(Self { plan, world: world.unwrap_or("world").to_owned() })
    }

    /// Makes the timeline of all records of a run.
    #[must_use]
    pub fn timeline(&self, system: &str, icount: Option<u8>, records: &Records) -> Timeline {
        timeline(&self.plan, (system, &self.world), &clock_text(icount), records)
    }

    /// The sum of a run's records.
    pub(crate) fn tally(&self) -> Tally {
        Tally::new(self.plan.clone(), self.world.clone())
    }

    /// Makes the timeline of both worlds where partitions are below the payload: `below` is that of their monitor's rings. The payload and
    /// its world are the last two partitions in it.
    #[must_use]
    pub fn join(&self, below: Timeline, plan: &ImagePlan, icount: Option<u8>, records: &Records) -> Timeline {
        let above = self.timeline(&below.layout.system, icount, records);
        join(below, above, core_of_payload(plan))
    }
}

/// Tasks of a payload's kernel that are kept apart: a payload may name any number, and the sum of all goes into what a visitor is greeted with.
pub(crate) const MOST_TASKS: usize = 64;

/// A task of the payload's kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub(crate) number: u64,
    name: [u8; 15],
    /// More by one than its place among the servers; 0 = it is a task of the payload itself.
    pub(crate) place: usize,
}

impl Task {
    /// Takes what a record says of names, if it does; false when it names one more than [`MOST_TASKS`].
    pub(crate) fn note(tasks: &mut Vec<Self>, record: &Record) -> bool {
        let at = tasks.iter().position(|task| task.number == record.counter);
        match (record.kind(), at) {
            (Some(Kind::Named), None) if tasks.len() >= MOST_TASKS => return false,
            (Some(Kind::Named), None) => {
                let mut task = Self { number: record.counter, ..Self::default() };
                task.name[..8].copy_from_slice(&record.argument.to_le_bytes());
                tasks.push(task);
            }
            (Some(Kind::NamedOn), Some(at)) => {
                let [name @ .., place] = record.argument.to_le_bytes();
                tasks[at].name[8..].copy_from_slice(&name);
                tasks[at].place = usize::from(place);
            }
            _ => {}
        }
        true
    }

    pub(crate) fn name(&self) -> String {
        let text = self.name.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// Tasks by their names' records, in the order in which they were first named, and how many such records are left out.
fn tasks(records: &[Record]) -> (Vec<Task>, usize) {
    let mut tasks: Vec<Task> = Vec::new();
    let left_out = records.iter().filter(|record| !Task::note(&mut tasks, record)).count();
    (tasks, left_out)
}

/// Makes the timeline of a system and of its world's name.
fn timeline(plan: &TracePlan, names: (&str, &str), clock: &str, records: &Records) -> Timeline {
    let (tasks, left_out) = tasks(&records.list);
    let to_ns = |counter| ticks::to_ns(counter, plan.counter_hz);
    let mut timeline = Timeline::new(layout(plan, names, clock, &tasks));
    let (mut slot, mut latest_ns) = (None, 0);
    for record in &records.list {
        let Some(kind) = record.kind().and_then(|kind| event(plan, &tasks, kind, record.argument)) else { continue };
        let time_ns = to_ns(record.counter);
        match kind {
            Event::Lost(count) => {
                timeline.lost.iter_mut().for_each(|lost| *lost = lost.saturating_add(count));
                // Until when the last one ran was not seen.
                if let Some(slot) = slot.take() {
                    timeline.push(latest_ns, 0, EventKind::Block { slot });
                }
                timeline.push(latest_ns, 0, EventKind::Idle);
            }
            Event::Kind(kind) => {
                let next = match kind {
                    EventKind::Run { slot, .. } => Some(slot),
                    EventKind::Idle => None,
                    _ => slot,
                };
                // What who does not run would like to do is not in the records.
                if let Some(slot) = slot.filter(|slot| next != Some(*slot)) {
                    timeline.push(time_ns, 0, EventKind::Block { slot });
                }
                slot = next;
                timeline.push(time_ns, 0, kind);
            }
        }
        latest_ns = time_ns;
    }
    if left_out > 0 {
        timeline.warnings.push(format!(
            "the payload names {left_out} tasks more than the {MOST_TASKS} that are shown by their names"
        ));
    }
    if records.damaged > 0 {
        timeline.warnings.push(format!("{} pieces of records on the secure console are damaged", records.damaged));
    }
    timeline.finish(0);
    timeline
}

/// Tasks that are not the other world, nor nobody, with names of which no two are alike.
pub(crate) fn own_tasks(tasks: &[Task]) -> impl Iterator<Item = (&Task, String)> {
    let own = || tasks.iter().filter(|task| task.place == 0 && task.name() != NOBODY);
    own().enumerate().map(move |(at, task)| match own().take(at).filter(|other| other.name == task.name).count() {
        0 => (task, task.name()),
        before => (task, format!("{} {}", task.name(), before + 1)),
    })
}

/// What a record means.
enum Event {
    Lost(u64),
    Kind(EventKind),
}

fn event(plan: &TracePlan, tasks: &[Task], kind: Kind, argument: u64) -> Option<Event> {
    let server = || usize::try_from(argument).ok().filter(|place| *place < plan.servers.len());
    Some(Event::Kind(match kind {
        Kind::Named | Kind::NamedOn => return None,
        Kind::Lost => return Some(Event::Lost(argument)),
        Kind::Runs => runs(plan, tasks, argument),
        Kind::State => EventKind::State { partition: BELOW, state: argument as u32, reason: (argument >> 32) as u32 },
        Kind::UsedUp => EventKind::Exhausted { server: server()? },
        Kind::Filled => {
            let budget_ns = plan.servers.get(server()?).map(|one| ticks::to_ns(one.budget_ticks, plan.counter_hz));
            EventKind::Replenished { server: server()?, budget_ns }
        }
    }))
}

/// Who runs from now on. A task whose name was lost, or left out, is one of the payload.
fn runs(plan: &TracePlan, tasks: &[Task], number: u64) -> EventKind {
    let run = |slot, server, background| EventKind::Run { slot, server, background, budget_ns: None, until_ns: None };
    match tasks.iter().find(|task| task.number == number) {
        Some(task) if task.place > 0 => {
            let place = task.place - 1;
            let is_background = plan.servers.get(place).is_some_and(|one| one.kind == ServerKind::Background as u32);
            run(BELOW, Some(place).filter(|place| *place < plan.servers.len()), is_background)
        }
        Some(task) if task.name() == NOBODY => EventKind::Idle,
        _ => {
            let at = own_tasks(tasks).position(|(task, _)| task.number == number);
            run(ABOVE, at.map(|at| plan.servers.len() + at), false)
        }
    }
}

/// Names of the servers, by their kinds: a flash file has no others.
pub(crate) fn server_names(plan: &TracePlan, world: &str) -> Vec<String> {
    let kind = |kind: u32| match kind {
        _ if kind == ServerKind::Interrupt as u32 => "itask",
        _ if kind == ServerKind::Reserved as u32 => "rtask",
        _ if kind == ServerKind::Background as u32 => "btask",
        _ => "ltask",
    };
    let name = |(place, server): (usize, &ServerPlan)| {
        let is_alone = plan.servers.iter().filter(|other| other.kind == server.kind).count() == 1;
        let number = if is_alone { String::new() } else { format!(" {place}") };
        format!("{world}.{}{number}", kind(server.kind))
    };
    plan.servers.iter().enumerate().map(name).collect()
}

fn layout(plan: &TracePlan, (system, world): (&str, &str), clock: &str, tasks: &[Task]) -> Layout {
    let servers = plan.servers.iter().zip(server_names(plan, world)).map(|(server, name)| {
        let limit = |value: u64| Some(value).filter(|_| server.budget_ticks != 0);
        ServerLayout {
            name,
            slot: BELOW,
            priority: PRIORITIES.saturating_sub(server.priority),
            budget_ns: limit(ticks::to_ns(server.budget_ticks, plan.counter_hz)),
            period_ns: limit(u64::from(server.period) * bulkhead_plan::model::KERNEL_TICK_NS),
        }
    });
    let own = own_tasks(tasks).map(|(_, name)| ServerLayout {
        name: format!("{PAYLOAD}.{name}"),
        slot: ABOVE,
        ..ServerLayout::default()
    });
    let slots = [ABOVE, BELOW].map(|partition| SlotLayout { partition, vcpu: 0 });
    Layout {
        system: system.to_owned(),
        clock: clock.to_owned(),
        partitions: vec![PAYLOAD.to_owned(), world.to_owned()],
        cores: vec![CoreLayout { is_shared: true, slots: slots.to_vec(), servers: servers.chain(own).collect() }],
        channels: Vec::new(),
    }
}

/// A kernel counts upwards, a timeline from 0 as the most important.
const PRIORITIES: u32 = 15;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn record(kind: Kind, counter: u64, argument: u64) -> Record {
        Record { kind: kind as u8, counter, argument }
    }

    pub(crate) fn named(number: u64, name: &str, place: u8) -> [Record; 2] {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes[15] = place;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        [record(Kind::Named, number, word(0)), record(Kind::NamedOn, number, word(8))]
    }

    pub(crate) fn plan() -> TracePlan {
        let server = |kind, budget_ticks, period| ServerPlan { kind, priority: 6, budget_ticks, period, voluntary: 0 };
        let servers =
            vec![server(ServerKind::Interrupt as u32, 125_000, 30), server(ServerKind::Background as u32, 0, 0)];
        TracePlan { counter_hz: 62_500_000, servers }
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn tasks_and_servers_are_on_one_time_line() {
        let mut list: Vec<Record> = named(7, "trajectory", 0).into_iter().chain(named(8, "itask", 1)).collect();
        list.extend(named(9, "btask", 2).into_iter().chain(named(1, "IDLE", 0)));
        list.extend([
            record(Kind::Runs, 62_500, 7),
            record(Kind::Filled, 125_000, 0),
            record(Kind::Runs, 125_000, 8),
            record(Kind::UsedUp, 250_000, 0),
            record(Kind::Runs, 250_000, 9),
            record(Kind::State, 260_000, 3 | 5 << 32),
            record(Kind::Runs, 312_500, 7),
            record(Kind::Lost, 900_000, 4),
            record(Kind::Runs, 937_500, 9),
            record(Kind::Runs, 1_000_000, 1),
        ]);
        let timeline = timeline(&plan(), ("two", "linux"), "exact", &Records { list, damaged: 1 });
        let runs: Vec<_> = (timeline.runs(0).iter())
            .map(|run| {
                let server = run.server.and_then(|server| timeline.layout.server_name(0, server)).unwrap_or("?");
                (run.slot, server.to_owned(), run.background, run.from_ns, run.to_ns)
            })
            .collect();
        let run = |slot, name: &str, background, from_ms, to_ms| {
            (slot, name.to_owned(), background, from_ms * MS, to_ms * MS)
        };
        let expected = [
            run(0, "payload.trajectory", false, 1, 2),
            run(1, "linux.itask", false, 2, 4),
            run(1, "linux.btask", true, 4, 5),
            run(1, "linux.btask", true, 15, 16),
        ];
        assert_eq!(runs, expected);
        assert_eq!((timeline.lost.as_slice(), timeline.warnings.len()), ([4].as_slice(), 1));
        let servers: Vec<_> = timeline.layout.cores[0].servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(servers, ["linux.itask", "linux.btask", "payload.trajectory"]);
        let measured = bulkhead_trace::Measurements::of(&timeline);
        assert!(measured.cores[0].slots.iter().all(|slot| slot.ready.without(&slot.running).total_ns() == 0));
        let has = |kind: &EventKind| timeline.events.iter().any(|event| event.kind == *kind);
        assert!(
            has(&EventKind::State { partition: 1, state: 3, reason: 5 }) && has(&EventKind::Exhausted { server: 0 })
        );
        assert!(has(&EventKind::Replenished { server: 0, budget_ns: Some(2_000_000) }));
        let read = bulkhead_trace::perfetto::read(&bulkhead_trace::perfetto::write(&timeline)).expect("a trace");
        assert_eq!((read.events, read.layout), (timeline.events, timeline.layout));
    }

    /// Records are lost while a server runs whose time is a partition's: that one does not wait from then on, either.
    #[test]
    fn nobody_waits_where_records_were_lost() {
        let mut list: Vec<Record> = named(9, "btask", 2).into_iter().chain(named(7, "trajectory", 0)).collect();
        list.extend([
            record(Kind::Runs, 62_500, 9),
            record(Kind::Filled, 125_000, 0),
            record(Kind::Lost, 900_000, 4),
            record(Kind::Runs, 937_500, 7),
        ]);
        let above = timeline(&plan(), ("two", "linux"), "exact", &Records { list, damaged: 0 });
        let mut below = Timeline::new(Layout {
            partitions: vec!["control".to_owned()],
            cores: vec![CoreLayout {
                slots: vec![SlotLayout { partition: 0, vcpu: 0 }],
                servers: Vec::new(),
                is_shared: false,
            }],
            ..Layout::default()
        });
        below.push(0, 0, EventKind::GuestStart { partition: 0, entry: 0 });
        below.finish(20 * MS);
        let joined = join(below, above, Some(0));
        let measured = bulkhead_trace::Measurements::of(&joined);
        let waits = |slot: &bulkhead_trace::measure::SlotMeasure| slot.ready.without(&slot.running).total_ns();
        assert_eq!(measured.cores[0].slots.iter().map(waits).collect::<Vec<_>>(), [0, 0, 0]);
    }

    /// A payload may name any number of tasks: the first ones have names, and the others are the payload's without one.
    #[test]
    fn of_many_tasks_the_first_are_shown_by_their_names() {
        let mut list: Vec<Record> = (0..5_000).flat_map(|number| named(number, "many", 0)).collect();
        list.extend((0..5_000).map(|number| record(Kind::Runs, 62_500 * (number + 1), number)));
        let timeline = timeline(&plan(), ("two", "linux"), "exact", &Records { list, damaged: 0 });
        assert_eq!(timeline.layout.cores[0].servers.len(), plan().servers.len() + MOST_TASKS);
        assert_eq!(timeline.warnings, ["the payload names 4936 tasks more than the 64 that are shown by their names"]);
        let runs = timeline.runs(0);
        assert!(runs.iter().all(|run| run.slot == ABOVE), "{:?}", runs.first());
        assert_eq!(runs.last().map(|run| (run.server, run.from_ns)), Some((None, MS * 4_999)));
    }

    /// A payload can write anything: a server that does not exist, names without an end, tasks without a name.
    #[test]
    fn whatever_a_payload_writes_is_shown_or_left_out() {
        let kinds = [Kind::Runs, Kind::Named, Kind::NamedOn, Kind::Lost, Kind::State, Kind::UsedUp, Kind::Filled];
        let words = [0, 1, 2, 5, 255, u64::from(u32::MAX), u64::MAX];
        let list: Vec<Record> = kinds
            .into_iter()
            .flat_map(|kind| words.into_iter().flat_map(move |one| words.map(|other| record(kind, one, other))))
            .filter(|record| record.kind() != Some(Kind::Lost) || record.argument < 256)
            .collect();
        let twice = list.iter().chain(&list).copied().collect();
        let timeline = timeline(&plan(), ("two", "linux"), "exact", &Records { list: twice, damaged: 0 });
        assert!(!timeline.events.is_empty() && timeline.is_complete() != timeline.lost.iter().any(|lost| *lost > 0));
        let _ = bulkhead_trace::Measurements::of(&timeline);
        assert!(bulkhead_trace::perfetto::read(&bulkhead_trace::perfetto::write(&timeline)).is_ok());
    }
}
