//! Partitions below a payload: a guest that nobody trusts, with its interrupts to itself.

use crate::Failure;
use crate::lab::Lab;
use crate::outcome::Found;
use crate::secure::watch_of_cores;
use bulkhead_system_tests::hybrid::{STOPPED, exits_beside_ticks, foreign_sgis, stopping};

/// Guests of the systems below.
fn has_guests(lab: &Lab) -> Result<(), Failure> {
    let _ = (lab.guest("stubborn.elf")?, lab.guest("multi-world.elf")?);
    Ok(())
}

/// Exits and calls of the guest in ten seconds of its ticks.
pub(crate) fn exits(lab: &Lab) -> Result<Found, Failure> {
    const TICKS: u64 = 10_000;
    has_guests(lab)?;
    let (entries, latest) = exits_beside_ticks(TICKS);
    Ok(Found::new(entries as f64, [format!("{TICKS} ticks of 1 ms, the latest {latest} counter ticks late")]))
}

/// Stops of the guest once it has masked everything, by a manager's kicks.
pub(crate) fn stop(lab: &Lab) -> Result<Found, Failure> {
    const ROUNDS: u64 = 1_000;
    has_guests(lab)?;
    let watch = watch_of_cores(lab)?;
    let (cores, lines) = watch.run_partitions(&stopping(ROUNDS), "keeper", STOPPED).map_err(Failure::wrong)?;
    let all = format!("keeper suspended {ROUNDS} of {ROUNDS},");
    let said = lines.iter().find(|line| line.starts_with(&all));
    let said = said.ok_or_else(|| Failure::wrong(format!("not every stop came: {lines:?}")))?;
    // Of the guest's core alone.
    let of_guest = cores.get(1..2).unwrap_or_default();
    let mut found = crate::secure::of(&watch.paths(of_guest).map_err(Failure::wrong)?, "kick", ROUNDS)?;
    found.details.push(said.clone());
    Ok(found)
}

/// Interrupts that arrive on a core that has none open, and beside it what arrives where some are.
pub(crate) fn sgis(lab: &Lab) -> Result<Found, Failure> {
    const ROUNDS: u64 = 100;
    let _ = lab.guest("multi-world.elf")?;
    let (closed, open) = (foreign_sgis(ROUNDS, false), foreign_sgis(ROUNDS, true));
    if open == 0 {
        return Err(Failure::wrong("nobody sent anything".to_owned()));
    }
    let sent = format!("{ROUNDS} times all 16 numbers by 3 registers, to each core and to all others");
    Ok(Found::new(closed as f64, [sent, format!("on a core with some open {open} were taken")]))
}
