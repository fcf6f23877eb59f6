//! How late the payload's tick is, by what the core does when it is due (SG-48, SG-E4): 2 instructions in the payload, path 2 more in the other world, and what is
//! left of another path where it falls into one.
//!
//! The payload reads the counter in its vector, which counts instructions, and keeps the least and the most of each class, or every value.

use crate::Failure;
use crate::lab::Lab;
use crate::outcome::Found;
use crate::secure::flash_of_linux;
use bulkhead_demo::worlds::attacks::Attacks;
use bulkhead_system_tests::attacked::Attack;
use bulkhead_system_tests::secure::{Worlds, alone, report};
use bulkhead_system_tests::servers::{ABOVE, Arrivals, BACKGROUND, MS, Noting, Seen, URGENT, itask, run};
use bulkhead_world::context::EntryLevel;

/// Samples of a class.
const SAMPLES: u64 = 29_000;
/// Samples of an attack.
const SAMPLES_OF_ATTACK: u64 = 1_000;

/// Stock FreeRTOS without another world.
pub(crate) fn tick_alone(lab: &Lab) -> Result<Found, Failure> {
    let _ = lab.guest("dual-world.elf")?;
    let mut worlds = Worlds::start(alone("dual-world.elf", &format!("rounds={}", SAMPLES / 100)));
    let lines = worlds.end();
    let [own, least, most, other, ..] = report(&lines)[..] else {
        return Err(Failure::wrong(format!("the payload made no report: {lines:?}")));
    };
    if own < SAMPLES || other != 0 || least != most || lines.last().is_none_or(|line| line != "rtos: end") {
        return Err(Failure::wrong(format!("{own} ticks are {least} to {most} late: {lines:?}")));
    }
    Ok(Found::new(most as f64, [format!("{least} to {most} in {own} samples, none lost")]))
}

/// Stock FreeRTOS above stock Linux that works all the time.
pub(crate) fn linux_tick_at_work(lab: &Lab) -> Result<Found, Failure> {
    let mut worlds = Worlds::start(flash_of_linux(lab, "dual-world.elf", "bulkhead.mode=hello,work")?);
    let lines = worlds.end();
    let [own, 2, own_most, other, least, most, calls] = report(&lines)[..] else {
        return Err(Failure::wrong(format!("the payload made no report: {lines:?}")));
    };
    if other < SAMPLES || lines.iter().any(|line| line.contains("FAILED")) {
        return Err(Failure::wrong(format!("{other} ticks in Linux: {lines:?}")));
    }
    let details = [
        format!("{least} to {most} in {other} samples in Linux, 2 to {own_most} in {own} in the payload, none lost"),
        format!("{calls} calls of Linux"),
    ];
    Ok(Found::new(most as f64, details))
}

/// Attacks in which a tick was lost or later than its class, or anything else changed.
pub(crate) fn attack_ticks(lab: &Lab) -> Result<Found, Failure> {
    let _ = (lab.guest("attacked-world.elf")?, lab.guest("hostile-world.elf")?);
    let (mut succeeded, mut details) = (Vec::new(), Vec::new());
    for (level, name) in [(EntryLevel::El1, "EL1"), (EntryLevel::El2, "EL2")] {
        let (payload, world) = Attack { level, seed: 1, samples: SAMPLES_OF_ATTACK, has_cores: false }.run();
        let attacks = Attacks::judge(&payload, &world);
        let samples: Vec<u64> = payload.iter().filter_map(|line| samples_of(line)).collect();
        let full = samples.iter().filter(|samples| **samples >= SAMPLES_OF_ATTACK).count();
        details.push(format!(
            "at NS-{name} {} attacks, {} of which make no sense there; {full} with {SAMPLES_OF_ATTACK} ticks or more, {} ticks in all, the latest {} late",
            attacks.tried,
            attacks.skipped,
            samples.iter().sum::<u64>(),
            attacks.latest
        ));
        // Others end the world at once: it runs no more.
        if full * 3 < attacks.tried * 2 {
            return Err(Failure::wrong(format!("{} of {} attacks had their samples", full, attacks.tried)));
        }
        succeeded.extend(attacks.succeeded);
    }
    details.extend(succeeded.iter().cloned());
    Ok(Found::new(succeeded.len() as f64, details))
}

/// Ticks of an attack, in both worlds, of a line of the payload.
fn samples_of(line: &str) -> Option<u64> {
    line.strip_prefix("attack ")?;
    let pairs = line.split([' ', ';']).filter_map(|word| word.split_once('*'));
    Some(pairs.filter_map(|(_, count)| count.parse::<u64>().ok()).sum())
}

/// From an interrupt of the other world that arrives while a task of the payload computes, to that world's vector.
pub(crate) fn urgent_interrupt(lab: &Lab) -> Result<Found, Failure> {
    const ARRIVALS: u64 = 2_100;
    /// One task that computes nearly always: what an interrupt waits when the end of a job comes between is another number.
    const COMPUTING: &str = "tasks=10000/9000/8";
    let _ = (lab.guest("arrivals.elf")?, lab.guest("busy-world.elf")?);
    let arrivals =
        Arrivals { samples: ARRIVALS, spacing: 11 * MS, dither: 5 * MS, yields: true, ..Arrivals::default() };
    let seen = run(&[itask(ABOVE, true), BACKGROUND], &URGENT, COMPUTING, &Noting::Arrivals(arrivals));
    let mut waits = waits_in_tasks(&seen);
    waits.sort_unstable();
    let (Some(least), Some(most)) = (waits.first(), waits.last()) else {
        return Err(Failure::wrong("no interrupt arrived while a task computed".to_owned()));
    };
    if waits.len() < 1_000 {
        return Err(Failure::wrong(format!("{} interrupts arrived while a task computed", waits.len())));
    }
    let middle = waits[waits.len() / 2];
    let all = seen.records.iter().map(|record| record.wait()).max().unwrap_or(0);
    let details = [
        format!("{least} to {most}, {middle} in the middle, in {} of {ARRIVALS} samples", waits.len()),
        format!(
            "{all} at most in all samples, where a tick of the payload's kernel or the end of a job may come between"
        ),
    ];
    Ok(Found::new(*most as f64, details))
}

/// What interrupts waited that arrived while the payload computed, without those that its kernel's tick comes between. One that the world took while it ran
/// waited less than a change of worlds takes.
fn waits_in_tasks(seen: &Seen) -> Vec<u64> {
    /// Paths 4 and 2.
    const CHANGE: u64 = 225;
    /// What a tick of the kernel takes of the core, with the release of a task.
    const TICK: u64 = 2_500;
    /// The way of an interrupt.
    const WAY: u64 = 1_000;
    let is_apart = |due: u64| {
        let phase = (due - seen.origin) % MS;
        phase > TICK && phase < MS - WAY
    };
    let records = seen.records.iter().filter(|record| is_apart(record.due));
    records.map(|record| record.wait()).filter(|wait| *wait > CHANGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_system_tests::servers::Record;

    #[test]
    fn samples_are_read_of_both_worlds() {
        let line = "attack 7: ticks 121; late in the payload: 2*3 4*1; in the other world: 116*100; calls 0; victim 123; off 0";
        assert_eq!(samples_of(line), Some(104));
        assert_eq!(samples_of("attacks 72; ticks 9"), None);
    }

    #[test]
    fn an_interrupt_beside_a_tick_or_of_a_world_that_runs_is_left_out() {
        let record = |due, wait| Record { due, entered: due + wait, done: due + wait };
        let origin = 1_000;
        let records = vec![
            record(origin + 30_000, 716),
            record(origin + 30_000, 90),
            record(origin + 100, 2_000),
            record(origin + MS - 10, 1_900),
        ];
        assert_eq!(waits_in_tasks(&Seen { records, tasks: Vec::new(), windows: Vec::new(), origin }), [716]);
    }
}
