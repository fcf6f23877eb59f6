//! The SafeG seed at EL3, as it was: a payload in the secure world, and the other world in its servers.
//!
//! Patterns, models and bounds are those of the same experiments at EL2 ([`super::safeg`]); what runs is stock FreeRTOS whose tasks only compute, and
//! below it a world that notes what happens to it (`guests/arrivals`).

use super::guests::TICK_NS;
use super::safeg::{
    Approach, MS, PUBLISHED_IDLE_MS, PUBLISHED_ITASK_MS, Run, cells, distribution, entries_ms, judge_bounds,
    judge_ratio, replay,
};
use super::{Findings, Length};
use crate::Failure;
use crate::lab::Lab;
use crate::model::safeg::{GuestServer, Paths, SharedCore, seed};
use crate::model::statistics::{Served, Summary};
use bulkhead_system_tests::servers::{
    ABOVE, Arrivals, BACKGROUND, BETWEEN, MS as MS_TICKS, Noting, Seen, TASKS, URGENT, itask, run,
};
use bulkhead_world::flash::ServerPlan;

/// What the world's handler takes: its work, and what its vector and its note do beside.
const HANDLER_NS: u64 = MS / 60 + 2_000;
/// What an activation above a task takes of its server's budget beside the handler: the way to the handler, and the call at its end.
const ACTIVATION: Paths = Paths { to_handler_ns: 12_000, from_handler_ns: 13_000 };
/// Paths of EL3 and of the kernel on the way of an interrupt, of which the model knows nothing: some 450 instructions while the world runs, 800 while a
/// task does; one of the kernel's ticks may come first, or the release of a task.
pub(super) const PATHS_MS: f64 = 0.05;
/// From which distance on interrupts are sparse: each finds a whole budget.
const SPARSE_US: u64 = 100_000;

/// How interrupts come.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    label: &'static str,
    spacing_us: u64,
    dither_us: u64,
    closed: bool,
    /// How many in the short and in the full form.
    samples: (u64, u64),
}

const PATTERNS: &[Pattern] = &[
    Pattern { label: "every 1 ms", spacing_us: 1_000, dither_us: 450, closed: false, samples: (4_000, 30_000) },
    Pattern { label: "every 5 ms", spacing_us: 5_000, dither_us: 2_250, closed: false, samples: (0, 6_000) },
    Pattern { label: "every 100 ms", spacing_us: 100_000, dither_us: 45_000, closed: false, samples: (80, 1_000) },
    Pattern { label: "every 1 s", spacing_us: 1_000_000, dither_us: 450_000, closed: false, samples: (0, 200) },
    Pattern {
        label: "36 ms after the answer",
        spacing_us: 36_000,
        dither_us: 16_000,
        closed: true,
        samples: (150, 2_000),
    },
];

/// The servers of an approach, as the plan of the world has them.
fn servers(approach: Approach) -> Vec<ServerPlan> {
    let beside = match approach {
        Approach::Idle => None,
        Approach::Top => Some(itask(ABOVE, false)),
        Approach::Between => Some(itask(BETWEEN, false)),
        Approach::Voluntary => Some(itask(ABOVE, true)),
    };
    beside.into_iter().chain([BACKGROUND]).collect()
}

/// The model of the payload's core: periods of tasks and budgets count from its tick 0.
pub(super) fn core(servers: Vec<GuestServer>, origin_ns: u64) -> SharedCore {
    let mut core = SharedCore { handler_ns: HANDLER_NS, paths: ACTIVATION, ..seed(servers) };
    core.tasks.iter_mut().for_each(|task| task.offset_ns = origin_ns);
    core
}

fn served(seen: &Seen) -> Vec<Served> {
    let of = |ticks: u64| ticks * TICK_NS;
    let records = seen.records.iter();
    records.map(|one| Served { request_ns: of(one.due), entered_ns: of(one.entered), done_ns: of(one.done) }).collect()
}

/// What was seen, with what the model says of the same interrupts.
pub(super) fn compared(seen: &Seen, core: &SharedCore) -> Run {
    let ours = served(seen);
    let samples = entries_ms(&ours);
    let mut responses_ms = [0.0; 2];
    for (response, (seen, _)) in responses_ms.iter_mut().zip(seen.responses()) {
        *response = seen;
    }
    Run {
        ours: Summary::of(&samples),
        model: Summary::of(&entries_ms(&replay(core, &ours).served)),
        responses_ms,
        missed: seen.tasks.iter().map(|task| task.missed).sum(),
        samples,
    }
}

fn one(approach: Approach, pattern: &Pattern, samples: u64) -> Run {
    let ticks = |us: u64| us * MS_TICKS / 1_000;
    let arrivals = Arrivals {
        samples,
        spacing: ticks(pattern.spacing_us),
        dither: ticks(pattern.dither_us),
        closed: pattern.closed,
        yields: approach == Approach::Voluntary,
        sleeps: false,
    };
    let urgent = if approach == Approach::Idle { &[][..] } else { &URGENT };
    let seen = run(&servers(approach), urgent, TASKS, &Noting::Arrivals(arrivals));
    let origin_ns = seen.origin * TICK_NS;
    compared(&seen, &core(approach.servers(origin_ns), origin_ns))
}

/// SG-E5.
pub(super) fn itask_of_worlds(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let _ = (lab.guest("arrivals.elf")?, lab.guest("busy-world.elf")?);
    let mut findings = Findings::default();
    let mut nearest = (f64::INFINITY, 0.0);
    for pattern in PATTERNS {
        let samples = length.choose(pattern.samples.0, pattern.samples.1);
        if samples == 0 {
            continue;
        }
        let mut idle_mean = 0.0;
        for approach in Approach::ALL {
            let found = one(approach, pattern, samples);
            let label = format!("{}, {}", approach.label(), pattern.label);
            let published = match approach {
                Approach::Idle => Some(PUBLISHED_IDLE_MS),
                Approach::Top | Approach::Between => Some(PUBLISHED_ITASK_MS),
                Approach::Voluntary => None,
            };
            cells(&mut findings, &label, &found, published.filter(|_| pattern.closed), PATHS_MS);
            judge_bounds(&mut findings, approach, &label, &found);
            let mean = found.ours.mean;
            match approach {
                Approach::Idle => idle_mean = mean,
                Approach::Top => {
                    let far = (idle_mean - PUBLISHED_IDLE_MS).abs();
                    if far < nearest.0 {
                        nearest = (far, idle_mean / mean);
                    }
                    let wanted = if pattern.spacing_us >= SPARSE_US { 20.0 } else { 4.0 };
                    judge_ratio(&mut findings, &label, idle_mean, mean, wanted);
                }
                Approach::Voluntary => judge_ratio(&mut findings, &label, idle_mean, mean, 20.0),
                Approach::Between => {}
            }
            findings.series.push(distribution(&label, &found.samples));
        }
    }
    let (far, ratio) = nearest;
    findings.claim(
        ratio >= 10.0,
        format!("the pattern whose idle mean is nearest the published 22.7 ms ({far:.1} ms away): {ratio:.1} times lower, at least 10"),
    );
    Ok(findings)
}
