//! The demonstration of two worlds on one core: the description as it is, the same without a task that is urgent for the other world, and
//! the attacks of a hostile world.
//!
//! All runs count instructions, so that each number is exact and two runs are the same. What a run shows is what its two
//! consoles say: secure RAM is out of the host's reach, and that is part of what is shown.

pub mod attacks;
mod claims;
mod facts;

use crate::cast::Cast;
use crate::stage::Stage;
use crate::story::{Shown, failure, must_pass};
use attacks::Attacks;
use bulkhead_plan::model::System;
use bulkhead_run::qemu::SECURE_CONSOLE;
use bulkhead_run::source::{SourceError, load_or_say, machine_of};
use bulkhead_run::{Machine, MachineOptions, exit_code};
use bulkhead_timing::Assumptions;
use bulkhead_verify::world::{SecureMonitor, verify_flash};
pub use claims::judge;
pub use facts::{Delay, WorldFacts};
pub(crate) use facts::{TICK_NS, numbers};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// One instruction takes 2^4 ns: a tick of the counter.
pub(crate) const ICOUNT_SHIFT: u8 = 4;
/// Wall time of the runs that are not shown.
const LIMIT: Duration = Duration::from_secs(600);
/// Beside the description: the same machine with a hostile world.
const ATTACKS: &str = "attacks.toml";
/// A device that writes where it is told, for the hostile world.
const DMA_DEVICE: [&str; 2] = ["-device", "edu,dma_mask=0xffffffffffff"];

/// A demonstration to be told, of one world below a payload or of partitions.
pub(crate) struct WorldStory<'a> {
    pub(crate) system: &'a System,
    /// The system of the attacks.
    pub(crate) attacks: PathBuf,
    pub(crate) guests: Option<PathBuf>,
    pub(crate) options: MachineOptions,
    pub(crate) monitor: Option<&'a Path>,
    pub(crate) limit: Duration,
    pub(crate) shown: Shown,
    pub(crate) started: Instant,
}

/// Where the system of the attacks is.
pub(crate) fn attacks_beside(description: &Path) -> PathBuf {
    if description.is_dir() { description.join(ATTACKS) } else { description.with_file_name(ATTACKS) }
}

impl WorldStory<'_> {
    /// Tells it; returns whether all of it was true.
    ///
    /// # Errors
    /// When a run cannot be started, fails, or does not end.
    pub(crate) fn tell(self) -> Result<bool, SourceError> {
        let Self { system, attacks, guests, options, monitor, limit, shown, started } = self;
        verify(&options.image, monitor)?;
        shown.say("the flash file was read again: no page and no interrupt is in both worlds, and no bit of EL3 is another than was built");
        shown.say("the system as it is described, on a clock that counts instructions");
        let console = system.secure.as_ref().and_then(|secure| secure.world()).map(|world| world.name.clone());
        let console = console.ok_or_else(|| failure("there is no other world".to_owned()))?;
        let mut facts = WorldFacts::of(&run_shown(options, limit, shown, &system.name)?, &console);
        facts.bound(system);
        shown.say("the same without a task for what is urgent in the other world");
        let idle = run(machine_of(&without_urgent(system), monitor)?)?;
        facts.without_urgent(system, &WorldFacts::of(&idle, &console));
        shown.say("the same machine with a hostile world");
        facts.attacks = attack(&attacks, guests, monitor)?;
        facts.elapsed_s = started.elapsed().as_secs_f64();
        let summary = judge(&facts);
        shown.end(&summary);
        Ok(summary.all_true())
    }
}

fn verify(flash: &[u8], monitor: Option<&Path>) -> Result<(), SourceError> {
    let expected =
        SecureMonitor::read(monitor).map_err(|message| SourceError { message, exit_code: exit_code::HOST })?;
    must_pass("flash file", &verify_flash(flash, &expected).findings)
}

/// The system, with only those servers that nothing wakes.
fn without_urgent(system: &System) -> System {
    let mut other = system.clone();
    if let Some(secure) = &mut other.secure {
        secure.servers.retain(|server| server.interrupts.is_empty());
    }
    other
}

fn run_shown(mut options: MachineOptions, limit: Duration, shown: Shown, system: &str) -> Result<Machine, SourceError> {
    options.icount_shift = Some(ICOUNT_SHIFT);
    Stage::open(options, shown, system)?.watch(&Cast::default(), limit)
}

fn run(mut options: MachineOptions) -> Result<Machine, SourceError> {
    options.icount_shift = Some(ICOUNT_SHIFT);
    let mut machine = Machine::start(options)?;
    machine.wait_for_end(LIMIT)?;
    Ok(machine)
}

fn attack(path: &Path, guests: Option<PathBuf>, monitor: Option<&Path>) -> Result<Attacks, SourceError> {
    let loaded = load_or_say(path, guests, &Assumptions::default())?;
    let mut options = machine_of(&loaded.system, monitor)?;
    options.extra.extend(DMA_DEVICE.map(str::to_owned));
    let machine = run(options)?;
    let world = loaded.system.secure.and_then(|secure| secure.below_name().map(str::to_owned)).unwrap_or_default();
    Ok(Attacks::judge(&facts::lines_of(&machine, SECURE_CONSOLE), &facts::lines_of(&machine, &world)))
}
