//! The demonstration of partitions below a payload: the system as it is described, the same with a hostile guest in the intruder's place,
//! with a manager that stops it, and the payload with the control loop alone.
//!
//! All runs count instructions. The cores of the emulator take turns then, and one waits while another one has its turn, by
//! a tenth of a second and more: what several cores do is judged by counts of work and of instructions, and never by time. How late a
//! tick comes is a time, so it is judged where the payload's core is the machine's only one.
//!
//! What is said comes from the consoles, from the counters and the state that the monitors keep in RAM, and, of EL3, from a plugin of
//! the emulator that counts its instructions.

mod claims;
mod facts;

use crate::alone::on_core_0;
use crate::cast::Cast;
use crate::stage::Stage;
use crate::story::{Shown, failure, has_ended, must_pass};
use crate::worlds::{ICOUNT_SHIFT, WorldStory};
use crate::{CONTROL, INTRUDER, LINUX};
use bulkhead_image::read_secure_monitor;
use bulkhead_plan::model::System;
use bulkhead_run::el3::Watch;
use bulkhead_run::qemu::SECURE_CONSOLE;
use bulkhead_run::source::{SourceError, load_or_say, machine_of};
use bulkhead_run::{Machine, MachineOptions, exit_code};
use bulkhead_timing::Assumptions;
use bulkhead_verify::Expected;
use bulkhead_verify::world::{SecureMonitor, verify_hybrid};
pub use claims::judge;
pub use facts::{HybridFacts, Managed, Payload, Quiet, Trials};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Wall time of each run that is not shown.
const LIMIT: Duration = Duration::from_secs(900);
/// Beside the description, as the attacks are: the same machine with a manager.
const STOPS: &str = "stops.toml";
/// The partition that manages there.
const MANAGER: &str = "manager";

/// Tells it; returns whether all of it was true.
///
/// # Errors
/// When a run cannot be started, fails, or does not end.
pub(crate) fn tell(story: WorldStory<'_>) -> Result<bool, SourceError> {
    let WorldStory { system, attacks, guests, options, monitor, limit, shown, started } = story;
    verify(&options.image, monitor)?;
    shown.say("the flash file and the image in it were read again: no page and no interrupt has two owners, and no bit of EL3 and of the monitor is another than was built");
    shown.say("the system as it is described, on a clock that counts instructions");
    let mut facts = HybridFacts::default();
    run_shown(system, options, monitor, limit, shown, &mut facts)?;
    shown.say("the same with a hostile guest, which tries all that it knows");
    let again = guests.clone();
    facts.trials = attack(&attacks, guests, monitor)?;
    shown.say("the same with a manager, which stops the intruder again and again");
    facts.managed = stop(&attacks.with_file_name(STOPS), again, monitor)?;
    shown.say("the payload and the control loop alone, where a tick's delay is exact");
    facts.alone = alone(system, monitor)?;
    facts.bound(system);
    facts.elapsed_s = started.elapsed().as_secs_f64();
    let summary = judge(&facts);
    shown.end(&summary);
    Ok(summary.all_true())
}

fn verify(flash: &[u8], monitor: Option<&Path>) -> Result<(), SourceError> {
    let host = |message| SourceError { message, exit_code: exit_code::HOST };
    let above = SecureMonitor::read_of_cores(monitor).map_err(host)?;
    // What is named is the secure monitor; the one at EL2 is the tool's or the environment's.
    let below = Expected::read(None).map_err(host)?;
    must_pass("flash file", &verify_hybrid(flash, &above, &below).findings)
}

/// The run that is shown, with EL3 watched.
fn run_shown(
    system: &System,
    mut options: MachineOptions,
    monitor: Option<&Path>,
    limit: Duration,
    shown: Shown,
    facts: &mut HybridFacts,
) -> Result<(), SourceError> {
    options.icount_shift = Some(ICOUNT_SHIFT);
    let elf = read_secure_monitor(monitor, system).map_err(|error| failure(error.to_string()))?;
    let watched = Watch::new(&elf).map_err(failure)?;
    let results = watched.of(&mut options)?;
    let mut end = Ending::default();
    let quiet = &mut facts.quiet;
    let machine = Stage::open(options, shown, &system.name)?.watch_until(&Cast::default(), limit, |machine| {
        quiet.look(machine);
        end.has_come(machine, &[CONTROL, LINUX, INTRUDER])
    })?;
    let cores = watched.read(&results).map_err(failure)?;
    facts.collect(&machine)?;
    facts.at_el3(system, &watched, &cores).map_err(failure)
}

/// Waits for the partitions to end, and then for the payload to say how many ticks it had by then.
#[derive(Default)]
struct Ending {
    /// Reports that there were when all had ended.
    reports: Option<usize>,
}

impl Ending {
    fn has_come(&mut self, machine: &Machine, partitions: &[&str]) -> bool {
        let has_ended = |name: &&str| machine.observer().is_some_and(|observer| has_ended(observer, name));
        if !partitions.iter().all(has_ended) {
            return false;
        }
        let reports = machine.lines(SECURE_CONSOLE).filter(|line| Payload::is_report(&line.text)).count();
        reports > *self.reports.get_or_insert(reports)
    }
}

/// A run that is not shown, until these partitions have ended, with a look at each poll.
fn run(
    mut options: MachineOptions,
    partitions: &[&str],
    mut look: impl FnMut(&Machine),
) -> Result<Machine, SourceError> {
    options.icount_shift = Some(ICOUNT_SHIFT);
    let mut end = Ending::default();
    Stage::hidden(options)?.watch_until(&Cast::default(), LIMIT, |machine| {
        look(machine);
        end.has_come(machine, partitions)
    })
}

fn attack(path: &Path, guests: Option<PathBuf>, monitor: Option<&Path>) -> Result<Trials, SourceError> {
    let loaded = load_or_say(path, guests, &Assumptions::default())?;
    let mut is_beside_control = None;
    let machine = run(machine_of(&loaded.system, monitor)?, &[CONTROL, INTRUDER], |machine| {
        let Some(observer) = machine.observer() else { return };
        if is_beside_control.is_none() && has_ended(observer, INTRUDER) {
            is_beside_control = Some(!has_ended(observer, CONTROL));
        }
    })?;
    Ok(Trials::of(&machine, is_beside_control.unwrap_or(false))?)
}

fn stop(path: &Path, guests: Option<PathBuf>, monitor: Option<&Path>) -> Result<Managed, SourceError> {
    let loaded = load_or_say(path, guests, &Assumptions::default())?;
    let machine = run(machine_of(&loaded.system, monitor)?, &[MANAGER], |_| {})?;
    Ok(Managed::of(&machine))
}

/// The payload above the partitions of its own core.
fn alone(system: &System, monitor: Option<&Path>) -> Result<Payload, SourceError> {
    let alone = on_core_0(system, 0, |partition| partition.name == CONTROL);
    let machine = run(machine_of(&alone, monitor)?, &[CONTROL], |_| {})?;
    Ok(Payload::of(&machine))
}
