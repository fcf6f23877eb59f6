//! The SafeG seed at EL2: idle approach, ITask, RTask and BTask.

use super::guests::{TICK_NS, printed, served};
use super::quest::{absences, stretches};
use super::{Cell, Findings, Length, Series};
use crate::Failure;
use crate::lab::{Lab, Variant};
use crate::model::safeg::{GuestServer, Opening, Outcome, Paths, SharedCore, seed};
use crate::model::statistics::{Served, Source, Summary};
use crate::paths::ONE_TICK_SHIFT;
use bulkhead_analysis::costs::RECORDED;
use bulkhead_run::Machine;
use std::time::Duration;

pub(super) const MS: u64 = 1_000_000;
const NAME: &str = "experiments/safeg-itask";
/// Linux boots beside the tasks.
const LINUX_LIMIT: Duration = Duration::from_secs(900);
/// When the guests begin.
const START_NS: u64 = 1_000 * MS;
pub(super) const TOLERANCE_PERCENT: f64 = 3.0;
/// Switches and exits on the way of an interrupt, of which the model knows nothing.
const PATHS_MS: f64 = 0.1;
/// What an opening above a task takes of its server's budget, beside the 16 us of the handler: 115.8 ms for 1,993 openings of which
/// each took the core from a task (`bulkhead stats`), 58.1 us each. Of it the handler begins after about 25 us, when the guest has
/// also done what was left of its handler before: a gate with voluntary return closes before the handler returns.
const OPENING: Paths = Paths { to_handler_ns: 25_000, from_handler_ns: 17_100 };
/// The idle mean that the seed published, and the ITask's.
pub(super) const PUBLISHED_IDLE_MS: f64 = 22.681;
pub(super) const PUBLISHED_ITASK_MS: f64 = 2.292;

/// How requests come.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    label: &'static str,
    arguments: &'static str,
    closed: bool,
    /// Virtual seconds of the short and of the full form.
    seconds: (u64, u64),
}

const PATTERNS: &[Pattern] = &[
    Pattern { label: "every 1 ms", arguments: "spacing_us=1000 dither_us=450", closed: false, seconds: (12, 100) },
    Pattern { label: "every 5 ms", arguments: "spacing_us=5000 dither_us=2250", closed: false, seconds: (12, 300) },
    Pattern { label: "every 20 ms", arguments: "spacing_us=20000 dither_us=9000", closed: false, seconds: (0, 600) },
    Pattern { label: "every 100 ms", arguments: "spacing_us=100000 dither_us=45000", closed: false, seconds: (0, 600) },
    Pattern {
        label: "every 1 s",
        arguments: "spacing_us=1000000 dither_us=450000",
        closed: false,
        seconds: (120, 1200),
    },
    Pattern {
        label: "36 ms after the answer",
        arguments: "spacing_us=36000 dither_us=16000 closed=1",
        closed: true,
        seconds: (30, 600),
    },
];

/// What the guest has beside the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Approach {
    /// Nothing.
    Idle,
    /// An ITask above both tasks.
    Top,
    /// One between them.
    Between,
    /// One above both that the guest leaves when its handler has ended.
    Voluntary,
}

impl Approach {
    pub(super) const ALL: [Self; 4] = [Self::Idle, Self::Top, Self::Between, Self::Voluntary];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Top => "ITask above",
            Self::Between => "ITask between",
            Self::Voluntary => "ITask above, voluntary return",
        }
    }

    /// Changes to the description.
    fn changes(self) -> Vec<(&'static str, &'static str)> {
        const LINE: &str = "    { name = \"interrupts\", priority = 0, rule = \"deferrable\", budget = \"2 ms\", period = \"30 ms\", gate = \"interrupt\" },\n";
        match self {
            Self::Idle => vec![(LINE, "")],
            Self::Top => Vec::new(),
            Self::Between => vec![("priority = 0", "priority = 2")],
            Self::Voluntary => vec![("gate = \"interrupt\" }", "gate = \"interrupt\", voluntary_return = true }")],
        }
    }

    /// As the model has them.
    pub(super) fn servers(self, grid_ns: u64) -> Vec<GuestServer> {
        let server = |place, opening| GuestServer { budget_ns: 2 * MS, period_ns: 30 * MS, grid_ns, place, opening };
        match self {
            Self::Idle => Vec::new(),
            Self::Top => vec![server(0, Opening::Interrupt)],
            Self::Between => vec![server(1, Opening::Interrupt)],
            Self::Voluntary => vec![server(0, Opening::InterruptVoluntary)],
        }
    }
}

/// A run with its model.
pub(super) struct Run {
    pub(super) ours: Summary,
    pub(super) model: Summary,
    pub(super) samples: Vec<f64>,
    /// Worst response of each task, in milliseconds, and missed deadlines.
    pub(super) responses_ms: [f64; 2],
    pub(super) missed: u64,
}

/// When the monitor made the scheduler, from which the periods of budgets count: all time since then is in its accounts.
fn grid_ns(machine: &Machine) -> Result<u64, Failure> {
    let usage = machine.final_usage(0, crate::lab::RUN_LIMIT)?;
    let used: u64 = usage.servers.iter().map(|server| server.budgeted_ticks + server.background_ticks).sum();
    Ok((usage.time_ticks - used - usage.idle_ticks) * TICK_NS)
}

fn model_core(servers: Vec<GuestServer>, handler_ns: u64, sleeps: bool) -> SharedCore {
    let mut core = SharedCore { handler_ns, sleeps, paths: OPENING, ..seed(servers) };
    core.tasks.iter_mut().for_each(|task| task.offset_ns = START_NS);
    core
}

/// The model on the requests that our guest had, closed rows as well: the instants of one that is answered a little earlier or
/// later would drift away from ours.
pub(super) fn replay(core: &SharedCore, ours: &[Served]) -> Outcome {
    let times: Vec<u64> = ours.iter().map(|one| one.request_ns).collect();
    core.run(&Source::Times(&times), 1)
}

pub(super) fn entries_ms(served: &[Served]) -> Vec<f64> {
    served.iter().map(Served::entry_ms).collect()
}

fn start(lab: &Lab, changes: &[(&str, &str)]) -> Result<Machine, Failure> {
    lab.run(Variant { name: NAME, changes }, |options| options.icount_shift = Some(ONE_TICK_SHIFT))
}

fn run(
    lab: &Lab,
    approach: Approach,
    pattern: &Pattern,
    seconds: u64,
    findings: &mut Findings,
) -> Result<Run, Failure> {
    let end = format!("end_us={}", seconds * 1_000_000);
    let mut changes = approach.changes();
    changes.push(("end_us=60000000", &end));
    changes.push(("spacing_us=50000 dither_us=0", pattern.arguments));
    let machine = start(lab, &changes)?;
    let system = lab.system(Variant { name: NAME, changes: &changes })?;
    super::bound::servers(findings, &format!("{}, {}: ", approach.label(), pattern.label), &machine, &system)?;
    let ours = served(&machine, "gpos")?;
    let core = model_core(approach.servers(grid_ns(&machine)?), 16_000, false);
    let model = replay(&core, &ours);
    let mut responses_ms = [0.0; 2];
    let mut missed = 0;
    for (response, task) in responses_ms.iter_mut().zip(["task1", "task2"]) {
        *response = (printed(&machine, task, "task 0", "worst")? * TICK_NS) as f64 / 1e6;
        missed += printed(&machine, task, "task 0", "missed")?;
    }
    let samples = entries_ms(&ours);
    Ok(Run {
        ours: Summary::of(&samples),
        model: Summary::of(&entries_ms(&model.served)),
        samples,
        responses_ms,
        missed,
    })
}

/// The mean and the worst delay; `slack` is what they may differ by in any case.
pub(super) fn cells(findings: &mut Findings, label: &str, run: &Run, published: Option<f64>, slack: f64) {
    for (name, published, model, ours) in
        [("mean", published, run.model.mean, run.ours.mean), ("worst", None, run.model.maximum, run.ours.maximum)]
    {
        findings.cells.push(Cell {
            label: format!("{label}: {name}"),
            unit: "ms",
            published,
            model: Some(model),
            ours: Some(ours),
            tolerance_percent: Some(TOLERANCE_PERCENT),
            slack,
        });
    }
}

/// SG-E5.
pub(super) fn itask(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let mut nearest: Option<(f64, f64)> = None;
    for pattern in PATTERNS {
        let seconds = length.choose(pattern.seconds.0, pattern.seconds.1);
        if seconds == 0 {
            continue;
        }
        let mut idle_mean = 0.0;
        for approach in Approach::ALL {
            let found = run(lab, approach, pattern, seconds, &mut findings)?;
            let label = format!("{}, {}", approach.label(), pattern.label);
            let published = pattern.closed.then_some(match approach {
                Approach::Idle => PUBLISHED_IDLE_MS,
                _ => PUBLISHED_ITASK_MS,
            });
            cells(&mut findings, &label, &found, published.filter(|_| approach != Approach::Voluntary), PATHS_MS);
            judge_bounds(&mut findings, approach, &label, &found);
            let mean = found.ours.mean;
            match approach {
                Approach::Idle => idle_mean = mean,
                Approach::Top => {
                    if nearest.is_none_or(|(idle, _)| {
                        (idle - PUBLISHED_IDLE_MS).abs() > (idle_mean - PUBLISHED_IDLE_MS).abs()
                    }) {
                        nearest = Some((idle_mean, idle_mean / mean));
                    }
                    let wanted = if pattern.label == "every 1 s" { 20.0 } else { 4.0 };
                    judge_ratio(&mut findings, &label, idle_mean, mean, wanted);
                }
                Approach::Voluntary => judge_ratio(&mut findings, &label, idle_mean, mean, 20.0),
                Approach::Between => {}
            }
            findings.series.push(distribution(&label, &found.samples));
        }
    }
    if let Some((idle, ratio)) = nearest {
        findings.claim(
            ratio >= 10.0,
            format!("the pattern whose idle mean is nearest the published 22.7 ms ({idle:.1} ms): {ratio:.1} times lower, at least 10"),
        );
    }
    Ok(findings)
}

/// SAFEG-01: bounds of the delay, and of the tasks' responses.
pub(super) fn judge_bounds(findings: &mut Findings, approach: Approach, label: &str, found: &Run) {
    // A request that finds others in front of it waits for their handlers as well.
    let bound = match approach {
        Approach::Idle => 130.0,
        Approach::Top | Approach::Voluntary => 28.0,
        Approach::Between => 38.0,
    } + 1.0;
    findings.at_most(format!("{label}: delay"), "ms", found.ours.maximum, bound);
    if approach == Approach::Idle {
        let most = found.ours.maximum;
        findings.claim(
            most >= 113.0,
            format!("{label}: longest delay {most:.1} ms, at least the 113 ms that were published"),
        );
    }
    let bounds = if approach == Approach::Idle { [10.0, 130.0] } else { [14.0, 142.0] };
    for (number, (response, bound)) in found.responses_ms.iter().zip(bounds).enumerate() {
        findings.at_most(format!("{label}: response of task {}", number + 1), "ms", *response, bound + 0.5);
    }
    findings.claim(found.missed == 0, format!("{label}: {} missed", found.missed));
}

pub(super) fn judge_ratio(findings: &mut Findings, label: &str, idle: f64, mean: f64, wanted: f64) {
    let ratio = idle / mean;
    findings.claim(ratio >= wanted, format!("{label}: mean {ratio:.1} times lower than idle, at least {wanted:.0}"));
}

/// Share of the requests that waited no longer than x.
pub(super) fn distribution(label: &str, samples: &[f64]) -> Series {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let points = (0..=100).filter_map(|percent| {
        let place = (percent * count / 100).min(count.checked_sub(1)?);
        Some((sorted[place], percent as f64))
    });
    Series { name: label.to_owned(), x: "delay, ms", y: "% of requests", points: points.collect() }
}

/// The RTask's line, in place of the ITask's.
const RTASK: &str = "name = \"reserved\", priority = 2, rule = \"deferrable\", budget = \"6 ms\", period = \"30 ms\"";
const ITASK: &str = "name = \"interrupts\", priority = 0, rule = \"deferrable\", budget = \"2 ms\", period = \"30 ms\", gate = \"interrupt\"";

fn rtask_server(grid_ns: u64) -> Vec<GuestServer> {
    vec![GuestServer { budget_ns: 6 * MS, period_ns: 30 * MS, grid_ns, place: 1, opening: Opening::Always }]
}

/// SG-E6.
pub(super) fn rtask(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let seconds = length.choose(12, 120);
    let end = format!("end_us={}", seconds * 1_000_000);
    for (period, arguments) in [("1 ms", "spacing_us=1000 dither_us=0"), ("10 ms", "spacing_us=10000 dither_us=0")] {
        for reserved in [false, true] {
            let mut changes = if reserved { vec![(ITASK, RTASK)] } else { Approach::Idle.changes() };
            changes.extend([
                ("end_us=60000000", end.as_str()),
                ("spacing_us=50000 dither_us=0", arguments),
                ("background=compute", "background=sleep"),
            ]);
            let machine = start(lab, &changes)?;
            let ours = served(&machine, "gpos")?;
            let servers = if reserved { rtask_server(grid_ns(&machine)?) } else { Vec::new() };
            let model = replay(&model_core(servers, 16_000, true), &ours);
            let samples = entries_ms(&ours);
            let label = format!("{}, thread every {period}", if reserved { "RTask" } else { "BTask alone" });
            let found = Run {
                ours: Summary::of(&samples),
                model: Summary::of(&entries_ms(&model.served)),
                responses_ms: [0.0; 2],
                missed: 0,
                samples,
            };
            cells(&mut findings, &label, &found, None, PATHS_MS);
            findings.series.push(distribution(&label, &found.samples));
        }
    }
    share(lab, &mut findings, &end)?;
    Ok(findings)
}

/// SG-E6 with Linux: lateness of a program that sleeps to instants.
pub(super) fn linux(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    const LINE: &str = "    { name = \"urgent\", priority = 0, rule = \"deferrable\", budget = \"2 ms\", period = \"30 ms\", gate = \"interrupt\" },\n";
    const RESERVED: &str =
        "    { name = \"reserved\", priority = 2, rule = \"deferrable\", budget = \"6 ms\", period = \"30 ms\" },\n";
    /// What the kernel takes from its timer's interrupt to the program, at 1 GIPS.
    const KERNEL_MS: f64 = 0.3;
    let count = format!("--count,{}", length.choose(200, 2_000));
    let mut findings = Findings::default();
    let mut idle_mean = 0.0;
    for (label, line, bound) in [("BTask alone", "", 130.0), ("RTask", RESERVED, 34.0), ("ITask above", LINE, 28.0)] {
        let changes = [(LINE, line), ("--count,2000", count.as_str())];
        let variant = Variant { name: "experiments/safeg-linux", changes: &changes };
        let mut machine = lab.start(variant, |options| options.icount_shift = Some(0))?;
        machine.wait_for_line("linux", "linux: end: poweroff", LINUX_LIMIT)?;
        let get = |key: &str| printed(&machine, "linux", "latency ", key).map(|ns| ns as f64 / 1e6);
        let (mean, worst) = (get("mean")?, get("max")?);
        machine.quit();
        for (name, ours) in [("mean", mean), ("worst", worst)] {
            findings.cells.push(Cell {
                label: format!("{label}: {name}"),
                unit: "ms",
                ours: Some(ours),
                ..Cell::default()
            });
        }
        findings.at_most(format!("{label}: lateness"), "ms", worst, bound + KERNEL_MS + PATHS_MS);
        if line.is_empty() {
            idle_mean = mean;
        } else {
            judge_ratio(&mut findings, label, idle_mean, mean, 4.0);
        }
    }
    Ok(findings)
}

/// What a period of the RTask may hold less than its budget: it pays for its loading at the period's start and when the task above it is
/// done, for interrupts of both tasks, and for the writing of accounts, which is at most three times in 30 ms; and the log is precise to a
/// block of 2,000 instructions for each absence.
const PATHS_OF_A_PERIOD_NS: u64 =
    (2 * RECORDED.switch + 2 * RECORDED.interrupt_entry + 3 * RECORDED.publication + 2 * 2_000) * TICK_NS;

/// A guest that always computes gets the RTask's budget in every period, and is never away longer than T - C and the task above.
fn share(lab: &Lab, findings: &mut Findings, end: &str) -> Result<(), Failure> {
    const WIRE: &str = "role=wire requests=100000000 spacing_us=50000 dither_us=0 handler_ns=16000 background=compute";
    for (label, line, bound) in [("BTask alone", None, 130.0), ("RTask", Some(RTASK), 34.0)] {
        let mut changes = line.map_or_else(|| Approach::Idle.changes(), |line| vec![(ITASK, line)]);
        changes.extend([(WIRE, "role=hog"), ("end_us=60000000", end)]);
        let machine = start(lab, &changes)?;
        let longest = (printed(&machine, "gpos", "hog ", "longest")? * TICK_NS) as f64 / 1e6;
        findings.at_most(format!("{label}: absence of a guest that computes"), "ms", longest, bound + 0.3);
        let shares = shares_ms(&machine)?;
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let what = format!("{label}: share in every one of {} periods of 30 ms", shares.len());
        if line.is_some() {
            let budget_ms = (6 * MS - PATHS_OF_A_PERIOD_NS) as f64 / 1e6;
            findings.at_least(what, "ms", least, budget_ms);
        } else {
            // Without it the two tasks fill whole periods, so the claim above is not one of an idle core.
            findings.claim(least == 0.0, format!("{what}: {least:.3} ms, so there are periods without any"));
        }
        let mut missed = 0;
        for task in ["task1", "task2"] {
            missed += printed(&machine, task, "task 0", "missed")?;
        }
        findings.claim(missed == 0, format!("{label}, beside a guest that computes: {missed} missed"));
    }
    Ok(())
}

/// What the general-purpose guest computed in each whole period of the RTask's grid, in milliseconds.
fn shares_ms(machine: &Machine) -> Result<Vec<f64>, Failure> {
    const PERIOD_NS: u64 = 30 * MS;
    let get = |key| printed(machine, "gpos", "hog ", key).map(|ticks| ticks * TICK_NS);
    let (first, last, grid) = (get("first")?, get("last")?, grid_ns(machine)?);
    let runs = stretches(&absences(machine, "gpos")?, first, last);
    let begin = grid + (first - grid).div_ceil(PERIOD_NS) * PERIOD_NS;
    let periods = last.saturating_sub(begin) / PERIOD_NS;
    let within = |number: u64| {
        let (from, to) = (begin + number * PERIOD_NS, begin + (number + 1) * PERIOD_NS);
        // Stretches are in order.
        let near = &runs[runs.partition_point(|run| run.1 <= from)..runs.partition_point(|run| run.0 < to)];
        near.iter().map(|run| run.1.min(to) - run.0.max(from)).sum::<u64>() as f64 / 1e6
    };
    Ok((0..periods).map(within).collect())
}
