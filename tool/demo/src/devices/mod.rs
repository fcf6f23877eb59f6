//! The demonstration of devices: two stock Linux guests, of which one has disk and network from the other; a guest that aims its functions' DMA
//! at everybody; a back end that is killed; and a kernel that panics with requests in flight.
//!
//! Counts come from RAM of the machine, from consoles, from a register of the SMMU, and of the disk from `e2fsck`, which knows nothing of Bulkhead. No
//! time is judged: the completions of disks and networks are the host's. What FreeRTOS waits for beside a CPU of linux is counted in instructions of
//! its own core, which is what its bound is made of.

mod claims;
mod facts;
mod landed;

use crate::cast::Cast;
use crate::facts::texts;
use crate::stage::Stage;
use crate::story::{Story, failure, has_ended, index, must_pass};
use crate::{INTRUDER, LINUX, OFFICE, RTOS};
use bulkhead_description::Options;
use bulkhead_description::host::{Disk, Forward};
use bulkhead_plan::model::System;
use bulkhead_run::source::SourceError;
use bulkhead_run::{CountingOptions, Machine, MachineOptions, RunError, exit_code};
use bulkhead_timing::Assumptions;
use bulkhead_timing::bounds::bounds;
use bulkhead_verify::{Expected, verify_bytes};
pub use claims::judge;
pub use facts::DeviceFacts;
use landed::Marks;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// SMMU_CMDQ_PROD (Arm SMMUv3, 6.3.28): the next command to be written.
const COMMANDS: u64 = 0x98;
/// What linux says when its web server and its back ends are there.
const SERVES: &str = "linux: serves office";
/// The program of rtos, among the built guests.
const FREERTOS: &str = "freertos.elf";
/// A guest that ends at once, and whose memory does not change from then on.
const ASLEEP: &str = "asleep";
/// Longest wait for a page.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tells it; returns whether all of it was true.
///
/// # Errors
/// When the run cannot be started, fails, or does not end, or the host has no `e2fsck`.
pub(crate) fn tell(story: Story<'_>, guests: Option<PathBuf>) -> Result<bool, SourceError> {
    let Story { system, mut options, monitor, limit, shown, started } = story;
    let mut facts = DeviceFacts { reaction_bound: reaction_bound(system)?, ..DeviceFacts::default() };
    count_reactions(&mut options, guests)?;
    let expected = Expected::read(monitor).map_err(|message| SourceError { message, exit_code: exit_code::HOST })?;
    must_pass("image", &verify_bytes(&options.image, &expected).findings)?;
    shown.say("the finished image was read again: each function reaches memory of its own partition alone");
    let check = e2fsck()?;
    let written: Vec<PathBuf> = options.functions.disks().iter().filter_map(|(_, disk)| writable(disk)).collect();
    let forward = options.functions.forwards().first().copied();
    let image = options.image.clone();
    let marks = marks(system, &options)?;
    let smmu = system.board.pci.as_ref().and_then(|pci| pci.smmu);
    let register =
        smmu.map(|smmu| smmu.address.0 + COMMANDS).ok_or_else(|| failure("the board has no SMMU".to_owned()))?;
    let (mut page, mut asleep) = (None, None);
    let machine = Stage::open(options, shown, &system.name)?.watch_until(&Cast::default(), limit, |machine| {
        if page.is_none() && machine.lines(LINUX).any(|line| line.text == SERVES) {
            page = Some(forward.is_some_and(answers));
        }
        if asleep.is_none() && machine.observer().is_some_and(|observer| has_ended(observer, ASLEEP)) {
            asleep = Some(index(machine, ASLEEP).and_then(|asleep| landed::memory_of(machine, asleep)));
        }
        let is_over = [LINUX, OFFICE, INTRUDER]
            .iter()
            .all(|name| machine.observer().is_some_and(|observer| has_ended(observer, name)));
        if is_over {
            facts.commands = commands(machine, register);
        }
        is_over
    })?;
    facts.collect(&machine)?;
    let memory = asleep.unwrap_or_else(|| Err(RunError::Other(format!("`{ASLEEP}` did not end by itself"))))?;
    let (intruder, asleep) = (index(&machine, INTRUDER)?, index(&machine, ASLEEP)?);
    facts.counts.landed_outside = landed::outside(&machine, &image, intruder, (asleep, &memory), &marks)?;
    facts.counts.is_aimed_at_asleep = landed::is_aimed_at(&machine, asleep, texts(&machine, INTRUDER));
    facts.linux_answered = page.unwrap_or(false);
    facts.is_whole = !written.is_empty() && written.iter().all(|disk| is_whole(&check, disk));
    facts.elapsed_s = started.elapsed().as_secs_f64();
    let summary = judge(&facts);
    shown.end(&summary);
    Ok(summary.all_true())
}

/// What FreeRTOS waits for is counted from its start.
fn count_reactions(options: &mut MachineOptions, guests: Option<PathBuf>) -> Result<(), SourceError> {
    let missing = |what: String| SourceError { message: what, exit_code: exit_code::HOST };
    let plan = options.plan.as_ref().ok_or_else(|| failure("the image has no plan".to_owned()))?;
    let partition = plan.partition_named(RTOS).ok_or_else(|| failure(format!("there is no partition `{RTOS}`")))?;
    let guests = Options::from_environment(guests).guests;
    let program =
        guests.ok_or_else(|| missing("there are no built guests; run `./x build`".to_owned()))?.join(FREERTOS);
    let bytes = std::fs::read(&program).map_err(|cause| missing(format!("{}: {cause}", program.display())))?;
    options.counting = Some(CountingOptions::for_freertos(plan, partition, &bytes)?);
    Ok(())
}

/// How many instructions of its core FreeRTOS waits for at most, by the analysis: its core, and that number.
fn reaction_bound(system: &System) -> Result<(usize, u64), SourceError> {
    let assumptions = Assumptions::default();
    let is_of_rtos = |partition: usize| system.partitions.get(partition).is_some_and(|found| found.name == RTOS);
    let bounds = bounds(system, &assumptions);
    let found = bounds.cores.iter().find_map(|core| {
        let interrupts = core.interrupts.iter().find(|one| is_of_rtos(one.vcpu.partition))?;
        Some((core.core.board_core, interrupts.conforming_ns?))
    });
    let (core, bound_ns) =
        found.ok_or_else(|| failure(format!("interrupts of `{RTOS}` have no bound on a shared core")))?;
    Ok((core, bound_ns.saturating_mul(1000).checked_div(assumptions.instruction_ps).unwrap_or(0)))
}

/// What the intruder's functions will write.
fn marks(system: &System, options: &MachineOptions) -> Result<Marks, SourceError> {
    let of_intruder = |name: &str| {
        let function = system.functions.iter().find(|function| function.name == name);
        let owner = function.and_then(|function| system.partitions.get(function.partition));
        owner.is_some_and(|owner| owner.name == INTRUDER)
    };
    let disk = options.functions.disks().iter().find(|(name, _)| of_intruder(name));
    let (_, disk) = disk.ok_or_else(|| failure(format!("`{INTRUDER}` has no disk")))?;
    Marks::of(&disk.file).map_err(|cause| SourceError {
        message: format!("cannot read {}: {cause}", disk.file.display()),
        exit_code: exit_code::HOST,
    })
}

fn writable(disk: &Disk) -> Option<PathBuf> {
    (!disk.read_only).then(|| disk.file.clone())
}

/// A guest answers a request for its first page at a port of the loopback.
fn answers(forward: Forward) -> bool {
    let fetch = || {
        let mut stream = TcpStream::connect((forward.address, forward.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(1 << 16).read_to_end(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    fetch().is_ok_and(|answer| answer.starts_with(b"HTTP/1.") && answer.windows(8).any(|word| word == b"Bulkhead"))
}

/// Commands that the SMMU was ever given, by its own register; `None` when QEMU does not say.
fn commands(machine: &mut Machine, register: u64) -> Option<u64> {
    let arguments = json!({ "command-line": format!("xp /1wx {register:#x}") });
    let answer = machine.qmp().execute_with("human-monitor-command", arguments).ok()?;
    let word = answer.as_str()?.split_whitespace().last()?.strip_prefix("0x")?;
    u64::from_str_radix(word, 16).ok()
}

/// The program that judges file systems. It may lie outside the path, as all of sbin.
fn e2fsck() -> Result<PathBuf, SourceError> {
    let of_debian = Path::new("/usr/sbin/e2fsck");
    let program = if of_debian.exists() { of_debian.to_owned() } else { PathBuf::from("e2fsck") };
    match Command::new(&program).arg("-V").output() {
        Ok(_) => Ok(program),
        Err(cause) => Err(SourceError {
            message: format!(
                "cannot run e2fsck, which judges office's disk at the end: {cause}; install the package e2fsprogs"
            ),
            exit_code: exit_code::HOST,
        }),
    }
}

/// Nothing to replay, and nothing to repair.
fn is_whole(check: &Path, disk: &Path) -> bool {
    Command::new(check).arg("-fn").arg(disk).output().is_ok_and(|output| output.status.success())
}
