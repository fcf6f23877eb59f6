//! The MIPS seed: answer times by interrupt policy.

use super::guests::{Grid, TICK_NS, grid, served};
use super::{Cell, Findings, Length, Series, histograms};
use crate::Failure;
use crate::lab::{Lab, Variant};
use crate::model::mips::{Placement, Policy, Reading, Ring};
use crate::model::statistics::{Arrivals, Served, Source, Summary, histogram};
use crate::paths::ONE_TICK_SHIFT;
use std::time::Duration;

pub(super) const MS: u64 = 1_000_000;
pub(super) const QUANTUM_NS: u64 = 30 * MS;
pub(super) const HANDLER_NS: u64 = 350_000;
/// What a request spends outside the guest on the seed's board: the published native mean less the handler.
pub(super) const WIRE_MS: f64 = 1.073 - 0.35;
/// MZ-R7.
const REQUESTS: Arrivals = Arrivals::open(50 * MS, MS / 2);
/// Requests that are served before the ring has the phase that its policy gives it; where the policy keeps the boot's, the model
/// is given that. Their worst counts, their mean does not.
const SETTLING: usize = 10;
/// Requests of the model; more than ours, so that what differs is ours.
const MODEL_REQUESTS: usize = 200_000;
/// Generous: the longest run takes less than a minute.
const LIMIT: Duration = Duration::from_secs(600);
/// What every cell may differ from its model by.
const TOLERANCE_PERCENT: f64 = 3.0;

/// Mean, standard deviation, median and 95th percentile of a row of the seed's Table II, for 2, 4 and 6 guests.
type Published = [[f64; 4]; 3];
const NATIVE: [f64; 4] = [1.073, 0.107, 1.05, 1.24];
const NONE: Published = [[9.35, 10.21, 2.73, 29.5], [36.33, 30.70, 29.6, 86.4], [66.29, 49.40, 66.9, 145.0]];
const RECYCLED: Published = [[1.87, 4.09, 1.2, 1.83], [3.89, 12.05, 1.56, 5.52], [6.90, 21.04, 1.44, 50.4]];
const RECYCLED_HALF: Published = [[9.28, 10.16, 2.70, 29.1], [7.41, 12.90, 1.66, 29.1], [9.72, 19.83, 1.68, 31.5]];
const RESET: Published = [[1.29, 0.81, 1.11, 1.69], [1.55, 2.49, 1.55, 1.85], [2.50, 10.39, 1.22, 1.82]];
const RESET_HALF: Published = [[2.86, 3.17, 1.1, 9.89], [8.61, 8.19, 2.07, 21.1], [10.49, 12.32, 1.71, 30.7]];

/// A setting of the ring that is run.
#[derive(Clone, Copy, Debug)]
struct Setting {
    guests: usize,
    policy: Policy,
    /// Half of the guests may not be pre-empted.
    half: Option<(Reading, Placement)>,
    published: Option<[f64; 4]>,
}

impl Setting {
    fn label(&self) -> String {
        let policy = policy_word(self.policy);
        let half = match self.half {
            None => String::new(),
            Some((reading, placement)) => format!(" half {} {}", reading_word(reading), placement_word(placement)),
        };
        format!("{policy}{half}, {} VMs", self.guests)
    }

    fn ring(&self) -> Ring {
        Ring {
            quantum_ns: QUANTUM_NS,
            policy: self.policy,
            reading: self.half.map_or(Reading::Masked, |(reading, _)| reading),
            ring_moves: false,
            preemptible: self.half.map_or(vec![true; self.guests], |(_, placement)| placement.preemptible(self.guests)),
            handler_ns: HANDLER_NS,
            switch_ns: 0,
        }
    }

    /// States whether a request that the model places on the other side of a quantum's end changes that request alone. Where a latched
    /// one takes a quantum of its own, it moves the turns of all guests behind it, and with more than two the rows never meet again:
    /// of 40,000 requests on the same grid 13 % were answered at another time than in the model, the first of each run of them within
    /// 0.07 ms of a quantum's end, while the distributions differed by 1.1 %.
    fn keeps_turns(&self) -> bool {
        let is_latched = self.half.is_some_and(|(reading, _)| reading == Reading::Latched);
        self.guests == 2 || !is_latched
    }

    /// Longest run of guests on the ring that may not be pre-empted.
    fn longest_block(&self) -> u64 {
        let preemptible = self.ring().preemptible;
        let blocks = preemptible.split(|preemptible| *preemptible).map(|block| block.len() as u64);
        blocks.max().unwrap_or(0)
    }
}

const fn policy_word(policy: Policy) -> &'static str {
    match policy {
        Policy::None => "none",
        Policy::Recycle => "recycle",
        Policy::Reset => "reset",
        Policy::ResetExtend => "reset-extend",
    }
}

const fn reading_word(reading: Reading) -> &'static str {
    match reading {
        Reading::Masked => "masked",
        Reading::Latched => "latched",
    }
}

const fn placement_word(placement: Placement) -> &'static str {
    match placement {
        Placement::Before => "before",
        Placement::Behind => "behind",
        Placement::Alternating => "alternating",
    }
}

const fn system_name(guests: usize) -> &'static str {
    match guests {
        2 => "experiments/mips-2",
        4 => "experiments/mips-4",
        _ => "experiments/mips-6",
    }
}

/// Runs a system until its owner has served all requests.
pub(super) fn run(lab: &Lab, name: &'static str, changes: &[(&str, &str)]) -> Result<Vec<Served>, Failure> {
    let mut machine = lab.start(Variant { name, changes }, |options| options.icount_shift = Some(ONE_TICK_SHIFT))?;
    machine.wait_for_line("owner", "experiment done", LIMIT)?;
    let served = served(&machine, "owner")?;
    machine.quit();
    Ok(served)
}

/// What a setting gave, and the ring's grid where the policy does not move it.
fn measure(lab: &Lab, setting: &Setting, requests: usize) -> Result<(Vec<Served>, Option<Grid>), Failure> {
    // The peers end a little after the last request, so that they print where their logs are.
    let end = format!("end_us={}", 2_000_000 + requests as u64 * 51_000);
    let policy = format!("on_interrupt = \"{}\"", policy_word(setting.policy));
    let reading = format!("reading = \"{}\"", reading_word(setting.ring().reading));
    let count = format!("requests={requests} ");
    let mut changes = vec![
        ("on_interrupt = \"none\"".to_owned(), policy),
        ("reading = \"masked\"".to_owned(), reading),
        ("requests=10000 ".to_owned(), count),
        ("log=0 end_us=1000000000".to_owned(), end),
    ];
    for (guest, _) in setting.ring().preemptible.iter().enumerate().filter(|(_, preemptible)| !**preemptible) {
        let name = format!("name = \"peer{guest}\"\ntrust = \"trusted\"\npreemptible = ");
        changes.push((format!("{name}true"), format!("{name}false")));
    }
    let changes: Vec<(&str, &str)> = changes.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    let variant = Variant { name: system_name(setting.guests), changes: &changes };
    let machine = lab.run(variant, |options| options.icount_shift = Some(ONE_TICK_SHIFT))?;
    let mut served = served(&machine, "owner")?;
    // A reset moves the grid unless there is nobody whom it could pre-empt.
    let keeps_grid = match setting.policy {
        Policy::None | Policy::Recycle => true,
        Policy::Reset | Policy::ResetExtend => setting.half.is_some() && setting.guests == 2,
    };
    let grid = if keeps_grid { Some(grid(&machine, "peer1", QUANTUM_NS, &served)?) } else { None };
    let served = served.split_off(grid.map_or(0, |grid| grid.earlier));
    Ok((served, grid))
}

/// What a change of guests takes before the handler begins, from the requests that were served at once by one. The model has to
/// be told, because a handler needs that much more of a quantum; it is measured here and judged elsewhere.
fn path_ns(served: &[Served]) -> u64 {
    /// Below: the owner ran already. Above: it waited.
    const RANGE_NS: std::ops::Range<u64> = 2_000..80_000;
    let mut paths: Vec<u64> =
        served.iter().map(|one| one.entered_ns - one.request_ns).filter(|path| RANGE_NS.contains(path)).collect();
    paths.sort_unstable();
    paths.get(paths.len() / 2).copied().unwrap_or(0)
}

/// The model's answers: to the same requests on the same grid where that is known, and else to a longer row of its own.
fn reference(setting: &Setting, served: &[Served], grid: Option<Grid>) -> Vec<Served> {
    let handler_ns = served.iter().map(|one| one.done_ns - one.entered_ns).min().unwrap_or(HANDLER_NS);
    let ring = Ring { handler_ns, switch_ns: path_ns(served), ..setting.ring() };
    match grid {
        Some(grid) => {
            let requests: Vec<u64> = served.iter().map(|one| one.request_ns).collect();
            let ring = Ring { quantum_ns: grid.quantum_ns, ..ring };
            ring.run(&Source::Times(&requests), 1, 1, grid.turn_ns + grid.quantum_ns).served
        }
        None => ring.run(&Source::Pattern(REQUESTS, MODEL_REQUESTS), 5, 0, QUANTUM_NS).served,
    }
}

pub(super) fn round_trips_ms(served: &[Served]) -> Vec<f64> {
    served.iter().map(|one| one.answer_ms() + WIRE_MS).collect()
}

/// Two changes of guests by the general way, which turns always take: before and after the edge of a quantum.
pub(super) const EDGE_NS: u64 = 2 * 1_100 * TICK_NS;

/// Adds the four numbers of a setting.
fn add(
    findings: &mut Findings,
    label: &str,
    published: Option<[f64; 4]>,
    model: &Summary,
    ours: &Summary,
    replayed: bool,
) {
    // Of a row of its own, three standard errors are allowed on top, because few of its requests wait and those wait long. Of the
    // same requests on the same grid, those that come while the monitor passes the edge of a quantum, and three: each may wait for
    // the other turn.
    let few = if replayed {
        let at_edges = ours.count as f64 * EDGE_NS as f64 / QUANTUM_NS as f64;
        (at_edges + 3.0) * model.maximum / ours.count as f64
    } else {
        3.0 * model.deviation / (ours.count as f64).sqrt()
    };
    let tolerance = TOLERANCE_PERCENT + 100.0 * few / model.mean;
    let numbers = |summary: &Summary| [summary.mean, summary.deviation, summary.median, summary.percentile_95];
    let names = ["mean", "deviation", "median", "95th percentile"];
    for (place, name) in names.iter().enumerate() {
        findings.cells.push(Cell {
            label: format!("{label}: {name}"),
            unit: "ms",
            published: published.map(|row| row[place]),
            model: Some(numbers(model)[place]),
            ours: Some(numbers(ours)[place]),
            tolerance_percent: (place == 0).then_some(tolerance),
            ..Cell::default()
        });
    }
}

fn settings(length: Length) -> Vec<Setting> {
    let all = [2, 4, 6];
    let counts: &[usize] = length.choose(&all[..2], &all);
    let mut settings = Vec::new();
    for (row, guests) in counts.iter().copied().enumerate() {
        let plain = [(Policy::None, NONE), (Policy::Recycle, RECYCLED), (Policy::Reset, RESET)];
        for (policy, published) in plain {
            settings.push(Setting { guests, policy, half: None, published: Some(published[row]) });
        }
        settings.push(Setting { guests, policy: Policy::ResetExtend, half: None, published: None });
        if length == Length::Short {
            continue;
        }
        for (policy, published) in [(Policy::Recycle, RECYCLED_HALF), (Policy::Reset, RESET_HALF)] {
            for reading in [Reading::Masked, Reading::Latched] {
                // With two guests there is one place.
                let placements = if guests == 2 { &Placement::ALL[..1] } else { &Placement::ALL[..] };
                for placement in placements {
                    let half = Some((reading, *placement));
                    settings.push(Setting { guests, policy, half, published: Some(published[row]) });
                }
            }
        }
    }
    settings
}

/// MZ-E1 to MZ-E4.
pub(super) fn round_trips(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let requests = length.choose(2_000, 40_000);
    let mut findings = Findings::default();
    let native = run(lab, "experiments/wire-alone", &[("requests=10000 ", &format!("requests={requests} "))])?;
    let ours = Summary::of(&round_trips_ms(&native));
    let model = Summary { count: requests, mean: 1.073, median: 1.073, percentile_95: 1.073, ..Summary::default() };
    add(&mut findings, "native", Some(NATIVE), &model, &ours, true);
    histograms::native(&mut findings, &native);
    let mut means = Vec::new();
    for setting in settings(length) {
        let (served, grid) = measure(lab, &setting, requests)?;
        let modelled = reference(&setting, &served, grid);
        let model = Summary::of(&round_trips_ms(&modelled));
        let samples = round_trips_ms(&served);
        let settled = served.get(grid.map_or(SETTLING, |_| 0)..).unwrap_or(&served);
        let ours = Summary::of(&round_trips_ms(settled));
        let label = setting.label();
        let replayed = grid.is_some() && setting.keeps_turns();
        add(&mut findings, &label, setting.published, &model, &ours, replayed);
        judge_worst(&mut findings, &setting, &Summary::of(&samples));
        let row = histograms::Row {
            label: &label,
            guests: setting.guests,
            policy: setting.policy,
            all_preemptible: setting.half.is_none(),
            replayed,
        };
        histograms::judge(&mut findings, &row, settled, &modelled);
        if setting.half.is_none() {
            means.push((setting.guests, setting.policy, ours.mean));
            let width = if setting.policy == Policy::None { 1.0 } else { 0.25 };
            let points = histogram(&samples, width);
            findings.series.push(Series { name: label, x: "round trip, ms", y: "requests", points });
        }
    }
    judge_order(&mut findings, &means);
    findings.notes.push(format!("{requests} requests a cell, {MODEL_REQUESTS} in the model, or the same ones on the same grid where the policy keeps it; wire {WIRE_MS:.3} ms"));
    Ok(findings)
}

/// MZ-E1 (iv), MZ-E4 and RR-01: the worst wait.
fn judge_worst(findings: &mut Findings, setting: &Setting, ours: &Summary) {
    let quantum = QUANTUM_NS as f64 / 1e6;
    let away = (setting.guests - 1) as f64 * quantum;
    // The path of a switch, generously.
    let slack = HANDLER_NS as f64 / 1e6 + 0.1;
    let worst = ours.maximum - WIRE_MS;
    let label = setting.label();
    match (setting.policy, setting.half) {
        (Policy::ResetExtend, None) => {
            findings.at_most(format!("{label}: worst"), "ms", worst, slack);
        }
        (Policy::None, _) => {
            let reaches = worst >= away - 1.0;
            findings.claim(reaches, format!("{label}: worst {worst:.2} ms, at least {:.2} ms", away - 1.0));
            findings.at_most(format!("{label}: worst"), "ms", worst, away + 2.0 * slack);
        }
        _ => {
            let block = setting.longest_block() as f64 * quantum;
            let bound = away.max(block) + 2.0 * slack;
            findings.at_most(format!("{label}: worst, (N-1) Q + h"), "ms", worst, bound);
        }
    }
}

/// MZ-E1 (iii).
fn judge_order(findings: &mut Findings, means: &[(usize, Policy, f64)]) {
    for guests in [2, 4, 6] {
        let mean = |wanted: Policy| {
            means.iter().find(|(count, policy, _)| *count == guests && *policy == wanted).map(|(_, _, mean)| *mean)
        };
        if let (Some(none), Some(recycle), Some(reset)) =
            (mean(Policy::None), mean(Policy::Recycle), mean(Policy::Reset))
        {
            findings.claim(
                none > recycle && recycle > reset,
                format!(
                    "{guests} VMs: mean falls from none {none:.2} over recycle {recycle:.2} to reset {reset:.2} ms"
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_form_has_every_cell_of_the_table() {
        let all = settings(Length::Full);
        for guests in [2, 4, 6] {
            let of = |wanted: Policy, half: bool| {
                all.iter()
                    .filter(|one| one.guests == guests && one.policy == wanted && one.half.is_some() == half)
                    .count()
            };
            let combinations = if guests == 2 { 2 } else { 6 };
            assert_eq!((of(Policy::None, false), of(Policy::Recycle, false), of(Policy::Reset, false)), (1, 1, 1));
            assert_eq!((of(Policy::Recycle, true), of(Policy::Reset, true)), (combinations, combinations));
        }
    }

    #[test]
    fn blocks_of_guests_are_measured_on_the_ring() {
        let setting = |placement| Setting {
            guests: 6,
            policy: Policy::Reset,
            half: Some((Reading::Masked, placement)),
            published: None,
        };
        let blocks = Placement::ALL.map(|placement| setting(placement).longest_block());
        assert_eq!(blocks, [3, 3, 1]);
    }
}
