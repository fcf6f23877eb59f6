//! How late programs of stock Linux wake, and where that time went: Linux's own timer alone, and beside a payload (SG-34, SG-E4).
//!
//! A program of Linux says of each instant how late it was and what the counter said then. The payload keeps records of who runs, by the same
//! counter. So of each instant it is known how long the payload had the core between its date and the program.

use crate::el3::gate;
use crate::secure::{OTHER, WithLinux, Worlds, first_of_linux, options, secure_monitor};
use crate::servers::{self, Arrivals, BACKGROUND, Noting, Record, origin};
use crate::system::guest;
use bulkhead_run::MachineOptions;
use bulkhead_run::worlds::WorldsTrace;
use bulkhead_trace::{Run, Timeline};
use bulkhead_world::context::EntryLevel;
use bulkhead_world::health::HealthPlan;

/// Nanoseconds in a tick of the counter, which is an instruction.
pub const TICK_NS: u64 = 16;
/// Most that an absence of the other world, or a tick of the payload's kernel alone, takes beside the time of tasks: both ways through EL3, the tick's
/// handler and a switch of tasks.
pub const WAYS_NS: u64 = 800 * TICK_NS;
/// Between two ticks of the payload's kernel.
const KERNEL_TICK_NS: u64 = 1_000_000;
/// Records that the payload keeps until it writes them out.
const RECORDS: u64 = 2048;
/// The payload in a timeline.
const PAYLOAD: usize = 0;
const LEVEL: EntryLevel = EntryLevel::El2;

/// An instant to which a program of Linux slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// How late the program woke.
    pub late_ns: u64,
    /// Of that the time in which tasks of the payload ran.
    pub payload_ns: u64,
    /// How often tasks of the payload had the core, or had just given it back.
    pub absences: u64,
    /// Ticks of its kernel that interrupted Linux and woke no task, or were just under way.
    pub ticks: u64,
}

impl Instant {
    /// What is left: Linux's own time, the ways between the worlds, and ticks of the payload's kernel.
    #[must_use]
    pub const fn rest_ns(&self) -> u64 {
        self.late_ns.saturating_sub(self.payload_ns)
    }
}

/// This many instants of Linux below a payload that gives it the core, and answers its calls, and nothing else.
///
/// # Panics
/// When a program was not built, or Linux does not come to its end.
#[must_use]
pub fn alone(count: u64) -> Vec<Instant> {
    let (context, segments) = first_of_linux(LEVEL);
    let (_, said, _) = run(&gate(&context, segments), ("", 0), count);
    let alone = |(late_ns, _)| Instant { late_ns, payload_ns: 0, absences: 0, ticks: 0 };
    said.into_iter().map(alone).collect()
}

/// This many instants of Linux below stock FreeRTOS with these tasks.
///
/// # Panics
/// As [`alone`], or when records of the payload are missing.
#[must_use]
pub fn beside(tasks: &str, count: u64) -> Vec<Instant> {
    let (payload, said, timeline) = run(&guest("busy-world.elf"), (tasks, RECORDS), count);
    let (runs, origin_ns) = (payload_runs(timeline), origin(&payload) * TICK_NS);
    said.into_iter().map(|(late_ns, counter)| instant(&runs, origin_ns, late_ns, counter * TICK_NS)).collect()
}

/// Interrupts of a small world's own timer, from the date to the vector, below a payload that has nothing else to do.
///
/// # Panics
/// As [`alone`].
#[must_use]
pub fn interrupts_alone(arrivals: Arrivals) -> Vec<Instant> {
    let records = servers::alone(&Noting::Arrivals(arrivals));
    let alone = |record: &Record| Instant { late_ns: record.wait() * TICK_NS, payload_ns: 0, absences: 0, ticks: 0 };
    records.iter().map(alone).collect()
}

/// The same below stock FreeRTOS with these tasks.
///
/// # Panics
/// As [`beside`].
#[must_use]
pub fn interrupts_beside(tasks: &str, arrivals: Arrivals) -> Vec<Instant> {
    let (seen, timeline) = servers::recorded(&[BACKGROUND], &[], tasks, &Noting::Arrivals(arrivals), RECORDS);
    let runs = payload_runs(timeline);
    let of = |record: &Record| instant(&runs, seen.origin * TICK_NS, record.wait() * TICK_NS, record.entered * TICK_NS);
    seen.records.iter().map(of).collect()
}

/// When tasks of the payload ran.
fn payload_runs(timeline: Option<Timeline>) -> Vec<Run> {
    let timeline = timeline.expect("a payload that keeps records");
    assert!(timeline.is_complete(), "{:?} {:?}", timeline.lost, timeline.warnings);
    timeline.runs(0).into_iter().filter(|run| run.slot == PAYLOAD).collect()
}

/// What the payload's runs have of an instant.
fn instant(runs: &[Run], origin_ns: u64, late_ns: u64, woken_ns: u64) -> Instant {
    let due_ns = woken_ns.saturating_sub(late_ns);
    // The end of a way that began before counts, too.
    let since_ns = due_ns.saturating_sub(WAYS_NS);
    let within = |run: &&Run| run.from_ns < woken_ns && run.to_ns > since_ns;
    let (mut payload_ns, mut absences, mut end_ns) = (0, 0, None);
    for run in runs.iter().filter(within) {
        payload_ns += run.to_ns.min(woken_ns).saturating_sub(run.from_ns.max(due_ns));
        // Tasks one after the other are one absence of Linux.
        absences += u64::from(end_ns != Some(run.from_ns));
        end_ns = Some(run.to_ns);
    }
    let first = since_ns.saturating_sub(origin_ns).div_ceil(KERNEL_TICK_NS);
    let dates = (first..).map(|tick| origin_ns + tick * KERNEL_TICK_NS).take_while(|date| *date < woken_ns);
    let in_linux = |date: &u64| !runs.iter().any(|run| (run.from_ns..run.to_ns).contains(date));
    Instant { late_ns, payload_ns, absences, ticks: dates.filter(in_linux).count() as u64 }
}

/// What the payload printed; how late each instant was, with the counter; and who ran.
fn run(payload: &[u8], (tasks, records): (&str, u64), count: u64) -> (Vec<String>, Vec<(u64, u64)>, Option<Timeline>) {
    let system = WithLinux {
        monitor: &secure_monitor(),
        payload,
        image: &guest("linux/Image"),
        file_system: &guest("linux/initramfs.cpio.gz"),
        level: LEVEL,
        arguments: &format!(
            "bulkhead.mode=hello bulkhead.run=bulkheadctl,latency,--every,137137us,--count,{count},--each"
        ),
        health: HealthPlan::nobody(),
    };
    let flash = system.flash_recorded(tasks, records).unwrap_or_else(|error| panic!("{error}"));
    let options = MachineOptions { icount_shift: Some(4), ..options(flash) };
    let trace = WorldsTrace::of(&options);
    let mut worlds = Worlds::of(options);
    let printed = worlds.end();
    let said: Vec<(u64, u64)> = worlds.texts(OTHER).iter().filter_map(|line| said(line)).collect();
    assert_eq!(said.len() as u64, count, "{:#?}", worlds.texts(OTHER));
    let timeline = trace.zip(worlds.take_records()).map(|(trace, seen)| trace.timeline("timers", Some(4), &seen));
    (printed, said, timeline)
}

/// How late an instant was, and the counter.
fn said(line: &str) -> Option<(u64, u64)> {
    let (late_ns, counter) = line.strip_prefix("instant late=")?.split_once(" ns counter=")?;
    Some((late_ns.parse().ok()?, counter.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_has_the_payloads_time_between_its_date_and_the_program() {
        let run = |from_ns, to_ns| Run { from_ns, to_ns, slot: PAYLOAD, server: None, background: false };
        let runs = [run(900, 1_100), run(1_100, 1_500), run(2_100_000, 2_200_000), run(5_000_000, 6_000_000)];
        // Ticks at 400, which may be under way at the date, 1,000,400 and 2,000,400.
        let found = instant(&runs, 400, 2_149_000, 2_150_000);
        assert_eq!(found, Instant { late_ns: 2_149_000, payload_ns: 500 + 50_000, absences: 2, ticks: 3 });
        let behind = instant(&runs, 400, 2_000_000, 2_020_000);
        assert_eq!(behind, Instant { late_ns: 2_000_000, payload_ns: 0, absences: 0, ticks: 2 });
        assert_eq!(said("instant late=5 ns counter=7"), Some((5, 7)));
        assert_eq!(said("latency min=5 mean=5 max=5 ns n=1"), None);
    }
}
