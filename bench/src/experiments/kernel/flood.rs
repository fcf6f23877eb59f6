//! Floods of signals from other cores against a job of 1 ms (CH-E2, CH-E7).

use super::crowd::{FLOODS, Limit, MOST, Ran, Run, WINDOW_TICKS, WORKS};
use super::{iterations, shown};
use crate::Failure;
use crate::experiments::{Findings, Length, Series};
use crate::lab::Lab;
use std::rc::Rc;

/// Instructions between two looks at other cores, and a tenth of that.
const DISTANCES: [u64; 2] = [1_000, 100];
/// More signals at once than a wire has room for.
const RING_AND_MORE: u64 = 20;
/// Most entries of a wire that a doorbell has taken.
const RING: u64 = 16;
/// Instructions of 1 ms.
const PER_MILLISECOND: u64 = 62_500;

/// What a flood added to the job's core, beside a run of the same instances in which it sends nothing.
#[derive(Clone, Debug)]
struct Added {
    ran: Ran,
    interrupts: u64,
    /// Instructions beside the job.
    outside: u64,
}

/// How much of it is run.
struct Lot<'l> {
    lab: &'l Lab,
    /// The job's own.
    instructions: u64,
    length: Length,
}

impl Lot<'_> {
    fn run(&self, floods: usize, distance: u64, at_once: u64, limit: Limit) -> Result<Ran, Failure> {
        let instructions = self.instructions;
        Run { roles: [WORKS, FLOODS], floods, distance, at_once, instructions, limit }.go(self.lab)
    }

    /// Who sends nothing wakes up, gives its turns away and is told of the end as well.
    fn quiet(&self, floods: usize, distance: u64) -> Result<Rc<Ran>, Failure> {
        let key = format!("kernel.flood {floods} {distance} {}", self.instructions);
        self.lab.once(&key, || self.run(floods, distance, 0, Limit::None))
    }

    fn added(&self, floods: usize, distance: u64, at_once: u64, limit: Limit) -> Result<Added, Failure> {
        let quiet = self.quiet(floods, distance)?;
        let ran = self.run(floods, distance, at_once, limit)?;
        let interrupts = ran.interrupts.saturating_sub(quiet.interrupts);
        let outside = ran.outside().saturating_sub(quiet.outside());
        Ok(Added { ran, interrupts, outside })
    }
}

/// No signal is lost: what had room is told, or is still in the ring of a wire whose doorbell was held back.
fn claim_nothing_lost(findings: &mut Findings, what: &str, floods: usize, added: &Added) {
    let Ran { done, taken, rounds, .. } = added.ran;
    let left = if added.ran.limited == 0 { 0 } else { RING * floods as u64 };
    findings.claim(
        taken <= done && done - taken <= left && rounds != 0,
        format!("{what}: {done} signals had room and {taken} were told; {left} at most wait for a doorbell that was held back"),
    );
}

/// Without limits: what a flood costs grows with it; what one interrupt takes in does not.
fn unlimited(lot: &Lot<'_>, findings: &mut Findings) -> Result<f64, Failure> {
    let mut path = 0.0_f64;
    let mut of_one = Vec::new();
    for (distance, short) in DISTANCES.into_iter().zip([&[1, MOST][..], &[1]]) {
        let mut points = Vec::new();
        for &floods in lot.length.choose(short, &[1, 2, MOST]) {
            let added = lot.added(floods, distance, 1, Limit::None)?;
            let what = format!("{floods} cores, each {distance} instructions, no limit");
            claim_nothing_lost(findings, &what, floods, &added);
            let slowdown = 100.0 * added.outside as f64 / lot.instructions as f64;
            findings.cells.push(shown(format!("{what}: slowdown"), "%", None, slowdown));
            path = path.max(added.outside as f64 / added.interrupts.max(1) as f64);
            points.push((floods as f64, added.outside as f64));
        }
        let is_growing = points.windows(2).all(|pair| pair[0].1 * 1.2 < pair[1].1);
        findings.claim(is_growing, format!("each {distance} instructions: with each core more, by more than a fifth: {points:?} instructions beside the job"));
        of_one.push(points.first().map_or(0.0, |first| first.1));
        findings.series.push(Series {
            name: format!("each {distance} instructions, no limit"),
            x: "cores",
            y: "instructions beside the job",
            points,
        });
    }
    findings.claim(
        of_one[0] * 2.0 < of_one[1],
        format!("one that comes ten times as often costs more than twice as much: {} and {}", of_one[0], of_one[1]),
    );
    let floods = lot.length.choose(1, MOST);
    let full = lot.added(floods, DISTANCES[0], RING_AND_MORE, Limit::None)?;
    claim_nothing_lost(findings, "rings that are full", floods, &full);
    findings.claim(
        full.ran.busy != 0 && full.ran.taken <= RING * full.interrupts && full.ran.taken > (RING - 1) * full.interrupts,
        format!(
            "of {RING_AND_MORE} signals at once no interrupt takes in more than {RING}: {} of {} interrupts, {} had no room",
            full.ran.taken, full.interrupts, full.ran.busy
        ),
    );
    Ok(path.max(full.outside as f64 / full.interrupts.max(1) as f64))
}

/// With limits: how many interrupts there are in the job, and so what they cost, has a bound.
fn limited(lot: &Lot<'_>, findings: &mut Findings, path: f64) -> Result<(), Failure> {
    for (distance, (floods, short)) in DISTANCES.into_iter().zip([(MOST, &[2, 16][..]), (1, &[2])]) {
        let floods = lot.length.choose(floods, MOST);
        for (senders, name) in [(1, "all together"), (floods as u64, "each sender")] {
            let mut points = Vec::new();
            for &limit in lot.length.choose(short, &[1, 2, 4, 8, 16, 32, 64]) {
                let kind = if senders == 1 { Limit::Together(limit) } else { Limit::Each(limit) };
                let added = lot.added(floods, distance, 1, kind)?;
                let windows = added.ran.ticks.div_ceil(WINDOW_TICKS) + 1;
                let most = senders * limit * windows;
                let what = format!("{floods} cores, each {distance} instructions, {limit} per 1 ms of {name}");
                findings.claim(
                    added.interrupts <= most,
                    format!(
                        "{what}: {} interrupts in {windows} windows, at most {most}; {} held back",
                        added.interrupts, added.ran.limited
                    ),
                );
                let bound = most as f64 * path;
                findings.claim(
                    added.outside as f64 <= bound,
                    format!("{what}: {} instructions beside the job, at most {bound:.0}", added.outside),
                );
                claim_nothing_lost(findings, &what, floods, &added);
                points.push((limit as f64, added.interrupts as f64));
            }
            findings.claim(
                points.windows(2).all(|pair| pair[0].1 <= pair[1].1),
                format!("each {distance} instructions, {name}: more with a larger limit: {points:?}"),
            );
            findings.series.push(Series {
                name: format!("each {distance} instructions, limit of {name}"),
                x: "limit per 1 ms",
                y: "interrupts in the job",
                points,
            });
        }
    }
    Ok(())
}

/// CH-E2, CH-E7.
pub(super) fn flood(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let lot = Lot { lab, instructions: iterations("kernel.flood", length)? * PER_MILLISECOND, length };
    let mut findings = Findings::default();
    let path = unlimited(&lot, &mut findings)?;
    findings.cells.push(shown("the longest way of an interrupt", "instructions", None, path));
    limited(&lot, &mut findings, path)?;
    findings.notes.push("the cores take turns at the distances that are said; each job of these runs came to its end. How much the published machine was slowed down is a curve, in time".to_owned());
    Ok(findings)
}
