//! A control loop beside all that could disturb it.

use super::{Ran, instance, iterations, must_be, name_of};
use crate::Failure;
use crate::experiments::guests::TICK_NS;
use crate::experiments::{Findings, Length};
use crate::lab::Lab;
use bulkhead_description::kernel::Laid;
use bulkhead_system_tests::kernel::Place;
use bulkhead_system_tests::kernel::chaos::{SPINS as TASK_SPINS, YIELDS};

const TEXT: &str = include_str!("../../../systems/isolation.kernel.toml");
/// Roles of the component `trials`.
const SPINS: u64 = 3;
const STORM: u64 = 4;
/// What a process of the program `worker` does: it forks, exits and waits.
const COUNTS: u64 = 7;
/// Forks for each period: more than the servers of both have time for within their budgets.
const FORKS: u64 = 2;
/// Between two releases of the loop, and how much longer its disturbers last.
const PERIOD_MS: u64 = 10;
const BEHIND_MS: u64 = 30;

/// An instance whose loop has this number of periods. Interrupts come at this distance in microseconds, and tasks do this, that much for each period.
fn laid(lab: &Lab, periods: u64, interrupts_us: u64, (does, much): (u64, u64)) -> Result<Laid, Failure> {
    let milliseconds = periods * PERIOD_MS + BEHIND_MS;
    let task = |number: u64| does | number << 8 | (periods * much) << 16;
    let numbers = [
        ("PERIODS", periods),
        ("STORM_US", interrupts_us),
        ("STORM", STORM | milliseconds << 8),
        ("FORKS", COUNTS | (FORKS * periods) << 8),
        ("TASK_ONE", task(0)),
        ("TASK_TWO", task(1)),
        ("SPINS", SPINS | milliseconds << 8),
    ];
    instance(lab, "isolation", TEXT, &numbers)
}

/// Row 17: exits in 10 s of calls, signals, processes and scheduling in `direct`, with what was done; interrupts come as their driver serves them.
pub(crate) fn exits(lab: &Lab) -> Result<(u64, String), Failure> {
    const SHORT: u64 = 50;
    const TEN_SECONDS: u64 = 1_000;
    let run = |periods| Ran::of(&laid(lab, periods, 10_000, (YIELDS, 10))?.bytes, Place::Direct);
    let (short, long) = (run(SHORT)?, run(SHORT + TEN_SECONDS)?);
    let [_, _, _, exits, _] = long.first("fork: ")?;
    let [_, signals] = long.first("storm: ")?;
    let said = format!(
        "of a run of {} s: {exits} forks, {signals} interrupts; exits {} of one of half a second",
        (SHORT + TEN_SECONDS) / 100,
        short.exits
    );
    Ok((long.exits.saturating_sub(short.exits), said))
}

/// QV-21, QV-22, CH-61, CH-63.
pub(super) fn isolation(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let periods = iterations("kernel.isolation", length)?;
    let laid = laid(lab, periods, 500, (TASK_SPINS, PERIOD_MS))?;
    let bound_ns = laid.servers.iter().find(|server| server.name == "control").and_then(|server| server.bound_ns);
    let bound_ns = bound_ns.ok_or_else(|| Failure::wrong("`check` has no bound of the loop".to_owned()))?;
    let mut findings = Findings::default();
    for place in [Place::Board, Place::Direct] {
        let ran = Ran::of(&laid.bytes, place)?;
        judge(&mut findings, &ran, name_of(place), periods, bound_ns)?;
    }
    findings.notes.push("instructions as time, 16 ns each; the bound is what `bulkhead check` prints of the description, which knows nothing of the run".to_owned());
    Ok(findings)
}

fn judge(findings: &mut Findings, ran: &Ran, place: &str, periods: u64, bound_ns: u64) -> Result<(), Failure> {
    let [done, lost, worst_ticks] = ran.first("loop: ")?;
    findings.cells.push(must_be(format!("{place}: periods of the loop"), "periods", periods, done));
    findings.cells.push(must_be(format!("{place}: periods that it lost"), "periods", 0, lost));
    let worst_ns = worst_ticks * TICK_NS;
    findings.claim(
        worst_ns <= bound_ns,
        format!("{place}: the loop's worst response is {worst_ns} ns, at most {bound_ns} are promised"),
    );
    // Who disturbs nobody shows nothing.
    let faults = ran.lines.iter().filter(|line| line.starts_with("child: fault ")).count() as u64;
    let [_, signals] = ran.first("storm: ")?;
    let [_, _, _, exits, forks] = ran.first("fork: ")?;
    let [rounds] = ran.first("hog: ")?;
    let ([one], [two]) = (ran.first("task 0 ran ")?, ran.first("task 1 ran ")?);
    // In each period a fraction of what the disturbers' servers let them have, at least.
    findings.claim(
        faults >= periods / 5 && signals >= periods && forks == FORKS * periods && exits == forks && rounds >= periods * 1_000,
        format!("{place}: beside it {faults} faults, {signals} interrupts of a storm, {forks} forks, {rounds} rounds of a hog"),
    );
    findings.claim(
        one.min(two) >= periods * 10_000,
        format!("{place}: and a subsystem whose tasks spun for {one} and {two} instructions"),
    );
    Ok(())
}
