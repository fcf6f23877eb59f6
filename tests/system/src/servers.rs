//! Experiments with servers: tasks of the payload that only compute (`guests/freertos/busy-world`), beside them a world that notes what happens
//! to it (`guests/arrivals`). Times are ticks of the counter, of which each is an instruction.

use crate::el3::gate;
use crate::secure::{MEMORY, Payload, Worlds, flash, flash_with_windows, options};
use crate::system::guest;
use bulkhead_abi::PhysicalAddress;
use bulkhead_flash::{Flat, NonSecure};
use bulkhead_run::MachineOptions;
use bulkhead_run::worlds::WorldsTrace;
use bulkhead_trace::Timeline;
use bulkhead_world::context::{Context, EntryLevel};
use bulkhead_world::flash::{PriorityPlan, ServerKind, ServerPlan, UrgentPlan, WindowPlan, WindowsPlan, WishPlan};
use bulkhead_world::health::HealthPlan;
use bulkhead_world::windows::Disturbance;

/// Ticks of the counter in a millisecond.
pub const MS: u64 = 62_500;
/// The tasks of SG-E5 and SG-E6: T1 50/10 ms above T2 300/100 ms.
pub const TASKS: &str = "tasks=50/10/8,300/100/4";
/// Priorities above both of them, and between.
pub const ABOVE: u32 = 9;
/// See [`ABOVE`].
pub const BETWEEN: u32 = 6;
/// A server that has what nobody else wants.
pub const BACKGROUND: ServerPlan =
    ServerPlan { kind: ServerKind::Background as u32, priority: 1, budget_ticks: 0, period: 0, voluntary: 0 };
/// The timer of the noting world, which starts the first server.
pub const URGENT: [UrgentPlan; 1] = [UrgentPlan { intid: 27, server: 0 }];

/// A server of a kind, with its budget and period in milliseconds.
#[must_use]
pub const fn server(kind: ServerKind, priority: u32, budget_ms: u64, period_ms: u32) -> ServerPlan {
    ServerPlan { kind: kind as u32, priority, budget_ticks: budget_ms * MS, period: period_ms, voluntary: 0 }
}

/// The published ITask: 2 ms in 30 ms.
#[must_use]
pub const fn itask(priority: u32, voluntary: bool) -> ServerPlan {
    ServerPlan { voluntary: voluntary as u32, ..server(ServerKind::Interrupt, priority, 2, 30) }
}

/// Where the world reads what to do, and behind it what it notes.
const PARAMETERS: u64 = 0x4100_0000;
const RECORDS: u64 = PARAMETERS + 0x1000;
const RECORD_BYTES: usize = 24;
/// The page of a wish, behind the world's memory.
const WISH: u64 = MEMORY.0 + WORLD_BYTES;
const WORLD_BYTES: u64 = 32 << 20;

/// How interrupts come to the world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrivals {
    /// How many.
    pub samples: u64,
    /// Their distance, in ticks.
    pub spacing: u64,
    /// How much more or less it may be.
    pub dither: u64,
    /// The distance counts from the end of the handler.
    pub closed: bool,
    /// The world says at the end of a handler that it has nothing urgent left.
    pub yields: bool,
    /// It sleeps between interrupts rather than compute.
    pub sleeps: bool,
}

/// What the world does.
#[derive(Clone, Debug)]
pub enum Noting {
    /// Takes interrupts.
    Arrivals(Arrivals),
    /// Computes, and notes so many absences.
    Absences(u64),
    /// Has a thread that is woken at these dates, and then has these priorities.
    Threads(Vec<(u64, u32)>),
    /// Computes, and has this number of jobs that are released by the interrupts of its windows.
    Windows(u64),
    /// As [`Noting::Absences`], and writes words into the page of its wish all the time.
    Wishes(u64),
}

impl Noting {
    fn words(&self) -> [u64; 10] {
        let handler = MS / 60;
        match self {
            Self::Arrivals(Arrivals { samples, spacing, dither, closed, yields, sleeps }) => {
                let [closed, yields, sleeps] = [closed, yields, sleeps].map(|word| u64::from(*word));
                [0, *samples, *spacing, *dither, closed, handler, yields, sleeps, 11, 0]
            }
            Self::Absences(samples) => [1, *samples, 0, 0, 0, 0, 0, 0, 0, 0],
            Self::Threads(dates) => [2, dates.len() as u64, 0, 0, 0, handler, 0, 0, 0, 0],
            Self::Wishes(samples) => [4, *samples, WISH, 0, 0, 0, 0, 0, 0, 0],
            Self::Windows(jobs) => [3, *jobs, 0, 0, 0, handler, 0, 0, 0, 0],
        }
    }
}

/// One of what the world noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the interrupt or the thread was due; when the world ran last.
    pub due: u64,
    /// When its vector was entered, or the thread began; when the world ran again.
    pub entered: u64,
    /// When the handler or the thread had done its work.
    pub done: u64,
}

impl Record {
    /// How long it waited.
    #[must_use]
    pub fn wait(&self) -> u64 {
        self.entered.saturating_sub(self.due)
    }

    /// How long it waited, in milliseconds.
    #[must_use]
    pub fn wait_ms(&self) -> f64 {
        self.wait() as f64 / MS as f64
    }
}

/// A task of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Jobs that it has done.
    pub jobs: u64,
    /// Its least response.
    pub least: u64,
    /// Its worst response.
    pub most: u64,
    /// Jobs that missed their deadline.
    pub missed: u64,
}

/// What a run showed.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What the world noted.
    pub records: Vec<Record>,
    /// The payload's tasks.
    pub tasks: Vec<Task>,
    /// What its windows have suffered.
    pub windows: Vec<Disturbance>,
    /// The counter at the payload's tick 0, from which all periods count.
    pub origin: u64,
}

impl Seen {
    /// What was waited, in milliseconds.
    #[must_use]
    pub fn waits_ms(&self) -> Vec<f64> {
        self.records.iter().map(Record::wait_ms).collect()
    }

    /// The longest wait, in milliseconds.
    #[must_use]
    pub fn most_ms(&self) -> f64 {
        self.waits_ms().into_iter().fold(0.0, f64::max)
    }

    /// The mean wait, in milliseconds.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        self.waits_ms().iter().sum::<f64>() / self.records.len() as f64
    }

    /// Worst response of each task in milliseconds, and jobs that missed their deadline.
    #[must_use]
    pub fn responses(&self) -> Vec<(f64, u64)> {
        self.tasks.iter().map(|task| (task.most as f64 / MS as f64, task.missed)).collect()
    }
}

/// Runs the world in these servers beside the payload with these arguments, until all is noted.
///
/// # Panics
/// When a program was not built, or the payload does not come to its end.
#[must_use]
pub fn run(servers: &[ServerPlan], urgent: &[UrgentPlan], arguments: &str, noting: &Noting) -> Seen {
    recorded(servers, urgent, arguments, noting, 0).0
}

/// The same of a payload that keeps so many records of who runs, with the time line made of them.
///
/// # Panics
/// As [`run`].
#[must_use]
pub fn recorded(
    servers: &[ServerPlan],
    urgent: &[UrgentPlan],
    arguments: &str,
    noting: &Noting,
    trace_records: u64,
) -> (Seen, Option<Timeline>) {
    run_all((servers, urgent, &WindowsPlan::NONE, &[]), arguments, noting, trace_records)
}

/// Runs the world in latency tasks, of which it says by the page of its wish which one it wants, by these ranges of priorities.
///
/// # Panics
/// As [`run`].
#[must_use]
pub fn run_wishing(servers: &[ServerPlan], priorities: &[PriorityPlan], arguments: &str, noting: &Noting) -> Seen {
    run_all((servers, &[], &WindowsPlan::NONE, priorities), arguments, noting, 0).0
}

/// Runs the world in servers of which some have windows.
///
/// # Panics
/// As [`run`].
#[must_use]
pub fn run_in_windows(servers: &[ServerPlan], windows: &WindowsPlan, arguments: &str, noting: &Noting) -> Seen {
    run_all((servers, &[], windows, &[]), arguments, noting, 0).0
}

/// A table that begins again after this number of milliseconds, of windows with their starts, lengths and servers; the world is told by this interrupt.
#[must_use]
pub fn windows(major_ms: u64, interrupt: u32, list: &[(u64, u64, u32)]) -> WindowsPlan {
    let mut plan = WindowsPlan { major_ticks: major_ms * MS, count: list.len() as u32, interrupt, ..WindowsPlan::NONE };
    for (place, (start_ms, length_ms, server)) in plan.windows.iter_mut().zip(list) {
        let (offset_ticks, length_ticks) = (start_ms * MS, length_ms * MS);
        *place = WindowPlan { offset_ticks, length_ticks, server: *server, reserved: 0 };
    }
    plan
}

fn run_all(
    (servers, urgent, windows, priorities): (&[ServerPlan], &[UrgentPlan], &WindowsPlan, &[PriorityPlan]),
    arguments: &str,
    noting: &Noting,
    trace_records: u64,
) -> (Seen, Option<Timeline>) {
    let payload = Payload { file: "busy-world.elf", servers, urgent, health: HealthPlan::nobody(), arguments };
    let parts = World::of(noting);
    let flash = flash_with_windows(payload, trace_records, (*windows, wish(priorities)), parts.non_secure());
    let options = MachineOptions { icount_shift: Some(4), ..options(flash) };
    let trace = WorldsTrace::of(&options);
    let mut worlds = Worlds::of(options);
    let lines = worlds.end();
    let is_good =
        lines.last().is_some_and(|line| line == "rtos: end") && !lines.iter().any(|line| line.contains("FAILED"));
    assert!(is_good, "{lines:#?}");
    let records = noted(&worlds, noting);
    let timeline = trace.zip(worlds.take_records()).map(|(trace, seen)| trace.timeline("servers", Some(4), &seen));
    (Seen { records, tasks: tasks(&lines), windows: disturbances(&lines), origin: origin(&lines) }, timeline)
}

/// What the world notes below a payload that gives it the core, answers its calls, and has nothing else to do.
///
/// # Panics
/// When a program was not built, or the world does not come to its end.
#[must_use]
pub fn alone(noting: &Noting) -> Vec<Record> {
    let parts = World::of(noting);
    let world = parts.non_secure();
    let context = Context::non_secure(world.entry, world.argument, world.level);
    let payload = gate(&context, world.segments.len());
    let mut worlds = Worlds::start(flash(&payload, Some(world)));
    let _ = worlds.end();
    noted(&worlds, noting)
}

fn noted(worlds: &Worlds, noting: &Noting) -> Vec<Record> {
    let mut records = vec![0; noting.words()[1] as usize * RECORD_BYTES];
    assert!(worlds.ram().copy_at(PhysicalAddress(RECORDS), &mut records), "the records are in RAM");
    records.chunks(RECORD_BYTES).map(record).collect()
}

/// The noting world's program, with what it is told.
struct World {
    program: Flat,
    parameters: Vec<u8>,
    dates: Vec<u8>,
}

impl World {
    fn of(noting: &Noting) -> Self {
        let flat = bulkhead_flash::flat(&guest("arrivals.elf"), "arrivals");
        let dates = match noting {
            Noting::Threads(dates) => {
                dates.iter().flat_map(|(date, priority)| record_bytes(*date, *priority)).collect()
            }
            Noting::Arrivals(_) | Noting::Absences(_) | Noting::Windows(_) | Noting::Wishes(_) => vec![0],
        };
        Self {
            program: flat.unwrap_or_else(|error| panic!("{error}")),
            parameters: noting.words().iter().flat_map(|word| word.to_le_bytes()).collect(),
            dates,
        }
    }

    fn non_secure(&self) -> NonSecure<'_> {
        let segments = vec![
            (self.program.base, self.program.bytes.as_slice()),
            (PARAMETERS, self.parameters.as_slice()),
            (RECORDS, self.dates.as_slice()),
        ];
        let (entry, argument) = (self.program.entry, PARAMETERS);
        NonSecure { memory: (MEMORY.0, WORLD_BYTES), segments, entry, argument, level: EntryLevel::El1 }
    }
}

fn wish(priorities: &[PriorityPlan]) -> WishPlan {
    let mut plan = WishPlan::NONE;
    if !priorities.is_empty() {
        plan.address = WISH;
        plan.priorities.iter_mut().zip(priorities).for_each(|(to, from)| *to = *from);
    }
    plan
}

fn record_bytes(date: u64, priority: u32) -> Vec<u8> {
    [date, u64::from(priority), 0].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn record(bytes: &[u8]) -> Record {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    Record { due: word(0), entered: word(8), done: word(16) }
}

fn numbers(line: &str) -> Vec<u64> {
    line.split(' ').filter_map(|word| word.parse().ok()).collect()
}

fn tasks(lines: &[String]) -> Vec<Task> {
    let of = |line: &String| match numbers(line)[..] {
        [_, jobs, least, most, missed] => Task { jobs, least, most, missed },
        _ => panic!("{line}"),
    };
    lines.iter().filter(|line| line.starts_with("rtos: task ")).map(of).collect()
}

fn disturbances(lines: &[String]) -> Vec<Disturbance> {
    let of = |line: &String| match numbers(line)[..] {
        [_, rounds, latest_start_ticks, most_lost_ticks] => Disturbance { rounds, latest_start_ticks, most_lost_ticks },
        _ => panic!("{line}"),
    };
    lines.iter().filter(|line| line.starts_with("rtos: window ")).map(of).collect()
}

pub(crate) fn origin(lines: &[String]) -> u64 {
    let line = lines.iter().find_map(|line| line.strip_prefix("rtos: origin "));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{lines:#?}"))
}
