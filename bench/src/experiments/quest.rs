//! The Quest seed: the schedule of its figure 4, and a victim whose supply attackers do not touch.

use super::guests::{TICK_NS, printed, records, served};
use super::{Cell, Findings, Length, Series};
use crate::Failure;
use crate::lab::{Lab, Variant};
use crate::model::quest::{FIGURE_4, Runner, intervals, schedule};
use crate::paths::ONE_TICK_SHIFT;
use bulkhead_run::Machine;
use bulkhead_timing::Assumptions;

const MS: f64 = 1e6;

/// Times away, as (from, to) in nanoseconds of the machine's counter.
pub(super) fn absences(machine: &Machine, partition: &str) -> Result<Vec<(u64, u64)>, Failure> {
    let gap = |record: &Vec<u64>| Some((record.first()? * TICK_NS, record.get(1)? * TICK_NS));
    Ok(records(machine, partition)?.iter().filter_map(gap).collect())
}

/// The stretches from `start` to `end` in which a guest that always computes ran.
pub(super) fn stretches(absences: &[(u64, u64)], start: u64, end: u64) -> Vec<(u64, u64)> {
    let mut runs = Vec::new();
    let mut from = start;
    for (left, back) in absences.iter().filter(|(left, _)| *left < end) {
        if *left > from {
            runs.push((from, *left));
        }
        from = from.max(*back);
    }
    if from < end {
        runs.push((from, end));
    }
    runs
}

/// QV-E10.
pub(super) fn figure_4(lab: &Lab, _length: Length) -> Result<Findings, Failure> {
    /// Ticks that the golden schedule covers.
    const TICKS: u64 = 121;
    const START_NS: u64 = 12_000_000_000;
    /// What every boundary may be off by: switches, half a block of the guest that notes it, and what the I/O guest prints at its end.
    const SLACK_MS: f64 = 0.3;
    let variant = Variant { name: "experiments/quest-fig4", changes: &[] };
    let machine = lab.run(variant, |options| options.icount_shift = Some(ONE_TICK_SHIFT))?;
    let (mains, io) = FIGURE_4;
    let model = schedule(&mains, io, TICKS);
    let end = START_NS + TICKS * 1_000_000;
    let v1 = in_ms(&stretches(&absences(&machine, "v1")?, START_NS, end), START_NS);
    let v0 = in_ms(&stretches(&absences(&machine, "v0")?, START_NS + 1_000_000, end), START_NS);
    let mut findings = Findings::default();
    let of = |main: usize| {
        intervals(&model, |runner| matches!(runner, Runner::Main(one) | Runner::Background(one) if one == main))
    };
    compare(&mut findings, "V1", &of(1), &v1, SLACK_MS);
    compare(&mut findings, "V0", &of(0), &v0, SLACK_MS);
    let request = served(&machine, "io")?;
    let io_model = intervals(&model, |runner| runner == Runner::Io);
    let began = request.first().map_or(0.0, |one| one.entered_ns.saturating_sub(START_NS) as f64 / MS);
    let ended = request.first().map_or(0.0, |one| one.done_ns.saturating_sub(START_NS) as f64 / MS);
    let wanted = (io_model.first().map_or(0, |run| run.0), io_model.last().map_or(0, |run| run.1));
    for (label, model, ours) in [("I/O begins", wanted.0, began), ("I/O ends", wanted.1, ended)] {
        findings.cells.push(cell(label.to_owned(), model as f64, ours, SLACK_MS));
    }
    for (name, runs) in [("V1", &v1), ("V0", &v0)] {
        let points = runs.iter().flat_map(|(from, to)| [(*from, 0.0), (*from, 1.0), (*to, 1.0), (*to, 0.0)]).collect();
        findings.series.push(Series { name: name.to_owned(), x: "time, ms", y: "runs", points });
    }
    super::bound::servers(&mut findings, "", &machine, &lab.system(variant)?)?;
    findings.notes.push(
        "the figure's caption gives budgets and periods only; the model is the published rules, tick by tick"
            .to_owned(),
    );
    Ok(findings)
}

/// Stretches in milliseconds after a start. An exit after which the same guest continues divides no stretch, and a run
/// that is no longer than an exit is none.
fn in_ms(runs: &[(u64, u64)], start: u64) -> Vec<(f64, f64)> {
    const EXIT_MS: f64 = 0.06;
    let ms = |ns: u64| ns.saturating_sub(start) as f64 / MS;
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for (from, to) in runs.iter().map(|(from, to)| (ms(*from), ms(*to))) {
        match joined.last_mut() {
            Some((_, end)) if from - *end < EXIT_MS => *end = to,
            _ => joined.push((from, to)),
        }
    }
    joined.retain(|(from, to)| to - from > EXIT_MS);
    joined
}

fn cell(label: String, model: f64, ours: f64, slack: f64) -> Cell {
    Cell {
        label,
        unit: "ms",
        published: None,
        model: Some(model),
        ours: Some(ours),
        tolerance_percent: Some(0.0),
        slack,
    }
}

/// Each stretch of the model beside ours.
fn compare(findings: &mut Findings, name: &str, model: &[(u64, u64)], ours: &[(f64, f64)], slack: f64) {
    findings.claim(
        model.len() == ours.len(),
        format!("{name} runs in {} stretches, {} in the model", ours.len(), model.len()),
    );
    for (number, (model, ours)) in model.iter().zip(ours).enumerate() {
        findings.cells.push(cell(format!("{name} stretch {} begins", number + 1), model.0 as f64, ours.0, slack));
        findings.cells.push(cell(format!("{name} stretch {} ends", number + 1), model.1 as f64, ours.1, slack));
    }
}

/// Least time that a guest ran in any window of this many nanoseconds. The least is attained where a window begins with
/// an absence or ends with one.
fn least_supply(absences: &[(u64, u64)], start: u64, end: u64, window: u64) -> u64 {
    // Time away before each absence, to sum up over a window in constant time.
    let mut before = Vec::with_capacity(absences.len());
    let mut sum = 0;
    for (left, back) in absences {
        before.push(sum);
        sum += back - left;
    }
    let away_until = |at: u64| -> u64 {
        let place = absences.partition_point(|(left, _)| *left < at);
        match place.checked_sub(1) {
            Some(last) => before[last] + (at.min(absences[last].1) - absences[last].0),
            None => 0,
        }
    };
    let begins = absences.iter().map(|(left, _)| *left);
    let ends = absences.iter().filter_map(|(_, back)| back.checked_sub(window));
    let starts = begins.chain(ends).filter(|from| *from >= start && from + window <= end);
    let most_away = starts.map(|from| away_until(from + window) - away_until(from)).max().unwrap_or(0);
    window.saturating_sub(most_away)
}

/// Windows in which supply is compared with its bound, in milliseconds.
const WINDOWS_MS: &[u64] = &[50, 100, 150, 200, 300, 500, 1000];

/// The hog, and in its place a guest that wakes again when it has just slept: as often as its budget allows.
const ATTACKERS: [(&str, &str); 2] = [
    ("a hog", "role=hog log=0"),
    (
        "a guest that wakes and sleeps",
        "role=wire requests=100000000 spacing_us=20 handler_ns=0 closed=1 background=sleep",
    ),
];

/// QV-22, QV-39, MZ-26, SG-48: supply of the victim, and what each attacker got.
pub(super) fn isolation(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    const START_NS: u64 = 2_000_000_000;
    let end_us = length.choose(8_000_000_u64, 122_000_000);
    let end = format!("end_us={end_us}");
    let mut findings = Findings::default();
    for (what, role) in ATTACKERS {
        let changes = [("end_us=5000000", end.as_str()), ("role=hog log=0", role)];
        let variant = Variant { name: "experiments/isolation-of-time", changes: &changes };
        let system = lab.system(variant)?;
        let bounds = bulkhead_timing::bounds(&system, &Assumptions::default());
        let number = system.partitions.iter().position(|partition| partition.name == "victim").unwrap_or(0);
        let bound = bounds.cores.iter().flat_map(|core| &core.vcpus).find(|vcpu| vcpu.vcpu.partition == number);
        let bound = bound.ok_or_else(|| Failure::wrong("the analysis knows no victim".to_owned()))?;
        findings.claim(
            bound.supply_ppm > 0,
            format!("{what}: the analysis promises the victim {:.2} % of the core", bound.supply_ppm as f64 / 1e4),
        );
        let machine = lab.run(variant, |options| options.icount_shift = Some(ONE_TICK_SHIFT))?;
        let absences = absences(&machine, "victim")?;
        supplies(&mut findings, what, bound, &absences, (START_NS, end_us * 1000));
        super::bound::servers(&mut findings, &format!("{what}: "), &machine, &system)?;
        let count = |key| printed(&machine, "ringer", "storm rings", key);
        findings.notes.push(format!(
            "{what}: {} doorbells rung, {} of them let through",
            count("rings")?,
            count("sent")?
        ));
    }
    Ok(findings)
}

/// The least that a victim got in windows of each length, beside its bound.
fn supplies(
    findings: &mut Findings,
    what: &str,
    bound: &bulkhead_timing::bounds::VcpuBound,
    absences: &[(u64, u64)],
    (from, to): (u64, u64),
) {
    let mut points = (Vec::new(), Vec::new());
    for window_ms in WINDOWS_MS {
        let ours = least_supply(absences, from, to, window_ms * 1_000_000) as f64 / MS;
        let least = bound.supplied_ns(window_ms * 1_000_000) as f64 / MS;
        if least > 0.0 {
            findings.at_least(format!("{what}: the victim's supply in any {window_ms} ms"), "ms", ours, least);
        }
        points.0.push((*window_ms as f64, ours));
        points.1.push((*window_ms as f64, least));
    }
    for (name, points) in [("measured", points.0), ("bound", points.1)] {
        let name = format!("{what}: {name}");
        findings.series.push(Series { name, x: "window, ms", y: "least supply, ms", points });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_what_absences_leave() {
        assert_eq!(stretches(&[(10, 20), (30, 45)], 0, 40), [(0, 10), (20, 30)]);
        assert_eq!(stretches(&[(0, 5)], 0, 10), [(5, 10)]);
        assert_eq!(stretches(&[], 3, 10), [(3, 10)]);
    }

    #[test]
    fn exits_divide_no_stretch() {
        assert_eq!(in_ms(&[(0, 5_000_000), (5_010_000, 9_000_000), (11_000_000, 11_020_000)], 0), [(0.0, 9.0)]);
    }

    #[test]
    fn least_supply_is_found_at_the_edges_of_absences() {
        let absences = [(10, 20), (22, 30), (60, 65)];
        // Brute force over every start.
        for window in [1, 5, 12, 20, 40] {
            let slow = (0..=100 - window)
                .map(|from| {
                    (from..from + window)
                        .filter(|at| absences.iter().all(|(left, back)| at < left || at >= back))
                        .count()
                })
                .min();
            assert_eq!(Some(least_supply(&absences, 0, 100, window) as usize), slow, "window {window}");
        }
    }
}
