//! A call on one core while others make as many calls as they can (CH-E1): of this kernel, whose instances share nothing, and of a model with one lock.

use super::crowd::{CALLS, FLOODS_CALLS, Limit, MOST, Run};
use super::{iterations, must_be, ticket};
use crate::Failure;
use crate::experiments::{Findings, Length, Series};
use crate::lab::Lab;

/// Instructions between two calls, after each of which the other cores have their turns.
const DISTANCES: [u64; 2] = [1_000, 100];

/// Each 100 ms of its clock QEMU ends the turn of a core before that gives it away (`TCG_KICK_PERIOD` of its accelerator for cores that take turns), and
/// the next core may have none until the others had theirs. So often, and once more, a flood may have had a turn less than the job.
const TICKS_BETWEEN_CUTS: u64 = 6_250_000;

/// Instructions of the kernel on core 0 for a null call beside this many floods; none when they are no whole number. Each
/// flood makes as many calls as the first core, but for turns that the emulator cut.
fn null_call(lab: &Lab, floods: usize, distance: u64, calls: u64) -> Result<Option<u64>, Failure> {
    let kernel = |calls: u64| {
        let instructions = calls * distance;
        let run = Run { roles: [CALLS, FLOODS_CALLS], floods, distance, at_once: 1, instructions, limit: Limit::None };
        let ran = run.go(lab)?;
        let cut = ran.ticks / TICKS_BETWEEN_CUTS + 1;
        if ran.rounds != calls || ran.least.is_some_and(|least| least + cut < calls) {
            return Err(Failure::wrong(format!("beside {calls} calls one of {floods} floods made {:?}", ran.least)));
        }
        Ok(ran.kernel)
    };
    let more = kernel(2 * calls)?.saturating_sub(kernel(calls)?);
    Ok(more.is_multiple_of(calls).then_some(more / calls))
}

/// CH-E1.
pub(super) fn lock(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let calls = iterations("kernel.lock", length)?;
    let mut findings = Findings::default();
    let mut alone = None;
    let all = [0, 1, 2, MOST];
    for (distance, short) in DISTANCES.into_iter().zip([&[0, MOST][..], &[1]]) {
        for &floods in length.choose(short, &all) {
            let found = null_call(lab, floods, distance, calls)?;
            let found = found.ok_or_else(|| Failure::wrong("not all null calls took the same".to_owned()))?;
            let alone = *alone.get_or_insert(found);
            let label = format!("null call beside {floods} cores, each {distance} instructions");
            findings.cells.push(must_be(label, "instructions", alone, found));
        }
    }
    for (distance, short) in DISTANCES.into_iter().zip([&all[..], &[0, 1]]) {
        let mut points = Vec::new();
        for &others in length.choose(short, &all) {
            let instructions = ticket::instructions(others as u64, calls, distance)?;
            points.push((others as f64, instructions as f64 / calls as f64));
        }
        findings.claim(
            points.windows(2).all(|pair| pair[0].1 + distance as f64 / 2.0 < pair[1].1),
            format!("with one lock, each {distance} instructions: a call takes longer beside each core more, by half of that: {points:?}"),
        );
        findings.series.push(Series {
            name: format!("a call of a model with one lock, waiting included, each {distance} instructions"),
            x: "other cores",
            y: "instructions",
            points,
        });
    }
    findings.notes.push("the published curves are of 40 cores, and in time; here the waiting is counted in instructions of who waits, since nothing else has a meaning on several emulated cores".to_owned());
    Ok(findings)
}
