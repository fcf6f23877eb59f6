//! Shares and latency tasks at EL3: SG-E6 and SG-E7 below stock FreeRTOS.

use super::guests::TICK_NS;
use super::safeg::{MS, cells, distribution};
use super::worlds::{PATHS_MS, compared, core};
use super::{Findings, Length};
use crate::Failure;
use crate::lab::Lab;
use crate::model::safeg::{GuestServer, Opening};
use bulkhead_system_tests::servers::{
    ABOVE, Arrivals, BACKGROUND, BETWEEN, MS as MS_TICKS, Noting, Record, TASKS, URGENT, run, server,
};
use bulkhead_world::flash::{ServerKind, ServerPlan};

/// Budget and period of the RTask, in milliseconds.
const BUDGET_MS: u64 = 6;
const PERIOD_MS: u64 = 30;

/// What the world has beside the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Nothing,
    Above,
    Between,
}

impl Share {
    const ALL: [Self; 3] = [Self::Nothing, Self::Above, Self::Between];

    const fn label(self) -> &'static str {
        match self {
            Self::Nothing => "BTask alone",
            Self::Above => "RTask above",
            Self::Between => "RTask between",
        }
    }

    /// The longest wait: the busy stretch of the tasks, or what is left of a period behind the budget and the task above it. A request that finds another one
    /// waits for that one's handler as well.
    const fn bound_ms(self) -> f64 {
        match self {
            Self::Nothing => 130.0,
            Self::Above => (PERIOD_MS - BUDGET_MS) as f64,
            Self::Between => (PERIOD_MS - BUDGET_MS) as f64 + 10.0,
        }
    }

    /// Bounds of the tasks' responses: a deferrable server takes its budget twice in a row.
    const fn responses_ms(self) -> [f64; 2] {
        match self {
            Self::Nothing => [10.0, 130.0],
            Self::Above => [16.0, 182.0],
            Self::Between => [10.0, 182.0],
        }
    }

    fn plan(self) -> Vec<ServerPlan> {
        let reserved = |priority| server(ServerKind::Reserved, priority, BUDGET_MS, PERIOD_MS as u32);
        let beside = match self {
            Self::Nothing => None,
            Self::Above => Some(reserved(ABOVE)),
            Self::Between => Some(reserved(BETWEEN)),
        };
        beside.into_iter().chain([BACKGROUND]).collect()
    }

    fn model(self, grid_ns: u64) -> Vec<GuestServer> {
        let place = match self {
            Self::Nothing => return Vec::new(),
            Self::Above => 0,
            Self::Between => 1,
        };
        let (budget_ns, period_ns) = (BUDGET_MS * MS, PERIOD_MS * MS);
        vec![GuestServer { budget_ns, period_ns, grid_ns, place, opening: Opening::Always }]
    }
}

/// SG-E6.
pub(super) fn rtask_of_worlds(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let _ = (lab.guest("arrivals.elf")?, lab.guest("busy-world.elf")?);
    let mut findings = Findings::default();
    for (period, spacing_ms, samples) in
        [("1 ms", 1, length.choose(3_000, 30_000)), ("10 ms", 10, length.choose(300, 3_000))]
    {
        for share in Share::ALL {
            let arrivals = Arrivals { samples, spacing: spacing_ms * MS_TICKS, ..Arrivals::default() };
            let seen = run(&share.plan(), &[], TASKS, &Noting::Arrivals(arrivals));
            let origin_ns = seen.origin * TICK_NS;
            let found = compared(&seen, &core(share.model(origin_ns), origin_ns));
            let label = format!("{}, thread every {period}", share.label());
            cells(&mut findings, &label, &found, None, PATHS_MS);
            findings.at_most(format!("{label}: delay"), "ms", found.ours.maximum, share.bound_ms() + 1.0);
            for (number, (response, bound)) in found.responses_ms.iter().zip(share.responses_ms()).enumerate() {
                findings.at_most(format!("{label}: response of task {}", number + 1), "ms", *response, bound + 0.5);
            }
            findings.claim(found.missed == 0, format!("{label}: {} missed", found.missed));
            findings.series.push(distribution(&label, &found.samples));
        }
    }
    shares(&mut findings, length);
    Ok(findings)
}

/// A world that always computes has the RTask's budget in every period.
fn shares(findings: &mut Findings, length: Length) {
    /// What a budget pays beside the world's instructions: entering and leaving it, at most as often as both tasks begin and end in a period.
    const PATHS_OF_A_PERIOD_MS: f64 = 0.15;
    let absences = length.choose(120, 1_200);
    for share in Share::ALL {
        let seen = run(&share.plan(), &[], TASKS, &Noting::Absences(absences));
        let amounts = amounts_ms(&seen.records, seen.origin);
        let least = amounts.iter().copied().fold(f64::INFINITY, f64::min);
        let what = format!("{}: share in each of {} periods of {PERIOD_MS} ms", share.label(), amounts.len());
        if share == Share::Nothing {
            // Without it the two tasks fill whole periods, so what is bounded below is not what an idle core gives.
            findings.claim(least == 0.0, format!("{what}: {least:.3} ms, so there are periods without any"));
        } else {
            findings.at_least(what, "ms", least, BUDGET_MS as f64 - PATHS_OF_A_PERIOD_MS);
        }
        let longest = seen.records.iter().map(Record::wait_ms).fold(0.0, f64::max);
        let bound = share.bound_ms() + PATHS_MS;
        findings.at_most(format!("{}: absence of a world that computes", share.label()), "ms", longest, bound);
        let missed: u64 = seen.tasks.iter().map(|task| task.missed).sum();
        findings.claim(missed == 0, format!("{}, beside a world that computes: {missed} missed", share.label()));
    }
}

/// What the world computed in each whole period of the RTask's grid between its first absence and its last, in milliseconds.
fn amounts_ms(absences: &[Record], origin: u64) -> Vec<f64> {
    const PERIOD: u64 = PERIOD_MS * MS_TICKS;
    let (Some(first), Some(last)) = (absences.first(), absences.last()) else { return Vec::new() };
    let begin = origin + first.due.saturating_sub(origin).div_ceil(PERIOD) * PERIOD;
    let periods = last.entered.saturating_sub(begin) / PERIOD;
    let away = |from: u64, to: u64| -> u64 {
        absences.iter().map(|one| one.entered.min(to).saturating_sub(one.due.max(from))).sum()
    };
    let amount = |number: u64| {
        let from = begin + number * PERIOD;
        (PERIOD - away(from, from + PERIOD)) as f64 / MS_TICKS as f64
    };
    (0..periods).map(amount).collect()
}

/// Priorities of the thread that wakes, with the longest wait of each: T1; T1 and T2; all three tasks, and the next job of T1.
const CLASSES: [(u32, f64); 3] = [(99, 10.0), (90, 40.0), (30, 130.0)];
/// T1 100/10, T2 200/30, T3 200/80 ms.
const PUBLISHED_TASKS: &str = "tasks=100/10/12,200/30/8,200/80/6";
/// Milliseconds after which all three are released again.
const ROUND_MS: u64 = 200;

/// SG-E7.
pub(super) fn latency_tasks_of_worlds(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let _ = (lab.guest("arrivals.elf")?, lab.guest("busy-world.elf")?);
    let mut findings = Findings::default();
    let latency = |priority, budget_ms, period_ms| server(ServerKind::Latency, priority, budget_ms, period_ms);
    let servers = [latency(9, 15, 150), latency(7, 25, 300), BACKGROUND];
    // All periods begin where those of a run without a thread begin.
    let once = Noting::Arrivals(Arrivals { samples: 1, spacing: MS_TICKS, ..Arrivals::default() });
    let origin = run(&[BACKGROUND], &[], PUBLISHED_TASKS, &once).origin;
    let step_ms = length.choose(20, 2);
    // The worst instant is right behind the release of all.
    let phases = (0..ROUND_MS).step_by(step_ms).map(|ms| ms * MS_TICKS + MS_TICKS / 20);
    let wakes = phases.flat_map(|phase| CLASSES.map(|(priority, _)| (phase, priority)));
    let dates: Vec<(u64, u32)> = (5..)
        .zip(wakes)
        .map(|(round, (phase, priority))| (origin + round * ROUND_MS * MS_TICKS + phase, priority))
        .collect();
    let seen = run(&servers, &URGENT, PUBLISHED_TASKS, &Noting::Threads(dates.clone()));
    if seen.origin != origin {
        return Err(Failure::wrong("the payload did not begin as before".to_owned()));
    }
    for (priority, bound) in CLASSES {
        let of = dates.iter().zip(&seen.records).filter(|((_, of), _)| *of == priority);
        let waits: Vec<f64> = of.map(|(_, one)| one.wait_ms()).collect();
        let most = waits.iter().copied().fold(0.0, f64::max);
        let label = format!("thread of priority {priority}");
        findings.at_most(format!("{label}: wait in {} phases", waits.len()), "ms", most, bound + 0.1);
        findings.claim(most >= 0.97 * bound, format!("{label}: {most:.3} ms reaches {bound} ms within 3 %"));
        findings.series.push(distribution(&label, &waits));
    }
    let missed: u64 = seen.tasks.iter().map(|task| task.missed).sum();
    findings.claim(missed == 0, format!("{missed} missed"));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_what_absences_leave_of_a_period() {
        let absence = |from_ms: u64, to_ms: u64| {
            let [due, entered] = [from_ms, to_ms].map(|ms| ms * MS_TICKS);
            Record { due, entered, done: entered }
        };
        // Periods begin at 30, 60, ... ms; the first whole one behind the first absence is that at 60.
        let absences = [absence(40, 45), absence(60, 70), absence(80, 95), absence(119, 121)];
        assert_eq!(amounts_ms(&absences, 0), [10.0, 24.0]);
        assert_eq!(amounts_ms(&[], 0), Vec::<f64>::new());
    }
}
