//! Numbers of the secure monitor: from its bytes, and from runs of two worlds of a few instructions.

use crate::Failure;
use crate::lab::Lab;
use crate::outcome::Found;
use bulkhead_el3::branches::{Scenario, listed};
use bulkhead_el3::configuration::Configuration;
use bulkhead_el3::promises::context_bytes;
use bulkhead_ledger::code_lines;
use bulkhead_system_tests::el3::{Passage, Seen, Watch, Worlds};
use bulkhead_system_tests::messages::{Partner, Talk, Talked, run};
use bulkhead_system_tests::secure::{WithLinux, report};
use bulkhead_system_tests::share::{self, Share};
use bulkhead_world::context::{CORE_BYTES, Context, EntryLevel, REGISTERS};
use bulkhead_world::health::HealthPlan;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Samples of a path.
const SAMPLES: u64 = 29_000;

fn watch(lab: &Lab) -> Result<Rc<Watch>, Failure> {
    lab.once("secure monitor", || Watch::new(lab.guest("../secure-monitor/dual.elf")?).map_err(Failure::host))
}

/// The configuration `multi`.
pub(crate) fn watch_of_cores(lab: &Lab) -> Result<Rc<Watch>, Failure> {
    lab.once("secure monitor of cores", || Watch::new(lab.guest("../secure-monitor/multi.elf")?).map_err(Failure::host))
}

fn seen(lab: &Lab, worlds: Worlds) -> Result<Rc<Seen>, Failure> {
    let watch = watch(lab)?;
    lab.once(&format!("secure {worlds:?}"), || {
        let seen = watch.run(worlds).map_err(Failure::wrong)?;
        if !seen.is_good || seen.cores.iter().any(|core| core.elsewhere != 0) {
            return Err(Failure::wrong(format!("two worlds did not do their work: {worlds:?}")));
        }
        Ok(seen)
    })
}

pub(crate) fn bytes(lab: &Lab) -> Result<Found, Failure> {
    bytes_of(&*watch(lab)?)
}

pub(crate) fn bytes_of_cores(lab: &Lab) -> Result<Found, Failure> {
    bytes_of(&*watch_of_cores(lab)?)
}

fn bytes_of(watch: &Watch) -> Result<Found, Failure> {
    let (program, size) = (watch.program(), watch.program().size());
    let sections = [".text", ".rodata", ".data", ".bss"].map(|name| format!("{name} {}", program.section_bytes(name)));
    let details = [
        sections.join(", "),
        format!("{} instructions, {} bytes of texts", size.instructions, size.constant_bytes),
        format!("{} bytes of padding between the vectors", size.padding_bytes()),
    ];
    Ok(Found::new(size.bytes as f64, details))
}

pub(crate) fn unpadded_bytes(lab: &Lab) -> Result<Found, Failure> {
    let size = watch(lab)?.program().size();
    let sum = format!("{} + {} of contexts", size.unpadded_bytes(), context_bytes());
    Ok(Found::new((size.unpadded_bytes() + context_bytes()) as f64, [sum]))
}

pub(crate) fn context_bytes_of_core(_: &Lab) -> Result<Found, Failure> {
    let words = size_of::<Context>() / 8;
    let names: Vec<&str> = REGISTERS.iter().map(|register| register.name).collect();
    let details = [
        format!("{words} words each, {} bytes in both", context_bytes()),
        format!("x0 to x30 and a pad; {}", names.join(", ")),
    ];
    Ok(Found::new(CORE_BYTES as f64, details))
}

pub(crate) fn lines(_: &Lab) -> Result<Found, Failure> {
    let lines = code_lines::of_secure_monitor().map_err(Failure::host)?;
    if lines.assembly == 0 {
        return Err(Failure::host("the sources are not where this program was built".to_owned()));
    }
    Ok(Found::new(lines.total() as f64, [format!("assembly {}, Rust {}", lines.assembly, lines.rust)]))
}

pub(crate) fn branches(lab: &Lab) -> Result<Found, Failure> {
    branches_of(&*watch(lab)?)
}

pub(crate) fn branches_of_cores(lab: &Lab) -> Result<Found, Failure> {
    branches_of(&*watch_of_cores(lab)?)
}

fn branches_of(watch: &Watch) -> Result<Found, Failure> {
    let listed = listed(watch.program()).map_err(|wrong| Failure::wrong(wrong.join("; ")))?;
    let rows = listed.iter().map(|(found, branch)| {
        let when = if branch.is_boot { "boot" } else { "run time" };
        format!("{when}: {:#05x} {} {}: {}", found.address, branch.form, branch.target, branch.decides)
    });
    let count = listed.iter().filter(|(_, branch)| !branch.is_boot).count();
    Ok(Found::new(count as f64, rows.collect::<Vec<_>>()))
}

pub(crate) fn directions(lab: &Lab) -> Result<Found, Failure> {
    directions_of(&*watch(lab)?)
}

pub(crate) fn directions_of_cores(lab: &Lab) -> Result<Found, Failure> {
    directions_of(&*watch_of_cores(lab)?)
}

fn directions_of(watch: &Watch) -> Result<Found, Failure> {
    let listed = listed(watch.program()).map_err(|wrong| Failure::wrong(wrong.join("; ")))?;
    let scenarios = Configuration::of(watch.program()).scenarios;
    let runs = scenarios.iter().map(|scenario| watch.scenario(*scenario).map(|seen| (*scenario, seen)));
    let runs = runs.collect::<Result<Vec<_>, _>>().map_err(Failure::wrong)?;
    let times = |number: usize, scenario: Scenario, taken: bool| -> u64 {
        let cores = runs.iter().filter(|(known, _)| *known == scenario).flat_map(|(_, seen)| &seen.cores);
        let branches = cores.filter_map(|core| core.branches.get(number));
        branches.map(|branch| if taken { branch.taken } else { branch.not_taken }).sum()
    };
    let mut missing = 0;
    let mut details = Vec::new();
    for (number, (found, branch)) in listed.iter().enumerate() {
        let taken = times(number, branch.taken.scenario, true);
        let not_taken = times(number, branch.not_taken.scenario, false);
        missing += u32::from(taken == 0) + u32::from(not_taken == 0);
        details.push(format!(
            "{:#05x}: taken {taken} times ({}), not taken {not_taken} ({})",
            found.address,
            branch.taken.scenario.name(),
            branch.not_taken.scenario.name()
        ));
    }
    details.push(format!("{} directions in all", 2 * listed.len()));
    Ok(Found::new(missing.into(), details))
}

/// The one length of a path in a run, with how often it was gone.
fn path(lab: &Lab, worlds: Worlds, name: &str) -> Result<Found, Failure> {
    let (watch, seen) = (watch(lab)?, seen(lab, worlds)?);
    let paths = watch.paths(&seen.cores).map_err(Failure::wrong)?;
    of(&paths, name, SAMPLES)
}

/// The one length of one of these paths, in at least this number of samples.
pub(crate) fn of(paths: &BTreeMap<&'static str, Passage>, name: &str, least: u64) -> Result<Found, Failure> {
    let passage = paths.get(name).ok_or_else(|| Failure::wrong(format!("path {name} was not gone")))?;
    let Passage { shortest, longest, count, .. } = passage;
    if shortest != longest || *count < least {
        return Err(Failure::wrong(format!("path {name} has {shortest} to {longest} instructions in {count} samples")));
    }
    Ok(Found::new(*longest as f64, [format!("{shortest} to {longest} in {count} samples")]))
}

/// Instructions at EL3 beyond those of the paths that a run needs to begin and to end, for each of its interrupts.
fn beside(lab: &Lab, worlds: Worlds, expected: &[(&str, u64)]) -> Result<Found, Failure> {
    let (watch, seen) = (watch(lab)?, seen(lab, worlds)?);
    let paths = watch.paths(&seen.cores).map_err(Failure::wrong)?;
    let extra: u64 = paths
        .iter()
        .map(|(name, passage)| {
            let known = expected.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
            passage.count.saturating_sub(known) * passage.longest
        })
        .sum();
    let gone: Vec<String> =
        paths.iter().map(|(name, passage)| format!("path {name} {} times", passage.count)).collect();
    let gone = if gone.is_empty() { "no path".to_owned() } else { gone.join(", ") };
    Ok(Found::new(extra as f64 / SAMPLES as f64, [format!("{SAMPLES} interrupts; from the first to the last: {gone}")]))
}

pub(crate) fn path_1(lab: &Lab) -> Result<Found, Failure> {
    beside(lab, Worlds::SecureTicks(SAMPLES), &[])
}

pub(crate) fn path_2(lab: &Lab) -> Result<Found, Failure> {
    path(lab, Worlds::TicksBelow(SAMPLES), "2")
}

/// The other world is entered once, and its last call ends the run.
pub(crate) fn path_3(lab: &Lab) -> Result<Found, Failure> {
    beside(lab, Worlds::OwnTicks(SAMPLES), &[("reset", 1), ("4", 1), ("5", 1)])
}

pub(crate) fn path_4(lab: &Lab) -> Result<Found, Failure> {
    path(lab, Worlds::Calls(SAMPLES), "4")
}

pub(crate) fn path_5(lab: &Lab) -> Result<Found, Failure> {
    path(lab, Worlds::Calls(SAMPLES), "5")
}

pub(crate) fn trap(lab: &Lab) -> Result<Found, Failure> {
    path(lab, Worlds::Calls(SAMPLES), "skip")
}

/// The one length of a path of `multi` in a run.
fn path_of_cores(lab: &Lab, worlds: Worlds, name: &str) -> Result<Found, Failure> {
    let watch = watch_of_cores(lab)?;
    let seen = lab.once(&format!("secure cores {worlds:?}"), || watch.run(worlds).map_err(Failure::wrong))?;
    of(&watch.paths(&seen.cores).map_err(Failure::wrong)?, name, SAMPLES)
}

pub(crate) fn path_2_of_cores(lab: &Lab) -> Result<Found, Failure> {
    path_of_cores(lab, Worlds::TicksBelow(SAMPLES), "2")
}

pub(crate) fn path_5_of_cores(lab: &Lab) -> Result<Found, Failure> {
    path_of_cores(lab, Worlds::Calls(SAMPLES), "5")
}

/// Cores that mask everything are kicked, 100 times each, and by watches and calls besides.
pub(crate) fn kick(lab: &Lab) -> Result<Found, Failure> {
    let watch = watch_of_cores(lab)?;
    let seen = watch.scenario(Scenario::Cores).map_err(Failure::wrong)?;
    if !seen.is_good {
        return Err(Failure::wrong("the world of several cores did not end as it should".to_owned()));
    }
    of(&watch.paths(&seen.cores).map_err(Failure::wrong)?, "kick", 300)
}

/// A run of stock Linux below stock FreeRTOS with a tick of 1 kHz: Linux boots, works for some seconds, sleeps and switches itself off.
struct LinuxRun {
    /// Each path that was gone.
    paths: BTreeMap<&'static str, Passage>,
    /// The payload's last report.
    report: Vec<u64>,
}

/// The flash file of stock Linux at NS-EL2, told this, below a payload.
pub(crate) fn flash_of_linux(lab: &Lab, payload: &str, arguments: &str) -> Result<Vec<u8>, Failure> {
    let system = WithLinux {
        monitor: &lab.guest("../secure-monitor/dual.elf")?,
        payload: &lab.guest(payload)?,
        image: &lab.guest("linux/Image")?,
        file_system: &lab.guest("linux/initramfs.cpio.gz")?,
        level: EntryLevel::El2,
        arguments,
        health: HealthPlan::nobody(),
    };
    system.flash().map_err(|error| Failure::wrong(error.to_string()))
}

fn linux(lab: &Lab) -> Result<Rc<LinuxRun>, Failure> {
    let watch = watch(lab)?;
    lab.once("secure linux", || {
        let flash = flash_of_linux(lab, "dual-world.elf", "bulkhead.mode=hello bulkhead.run=sleep,30")?;
        let (cores, lines) = watch.run_file(flash).map_err(Failure::wrong)?;
        let paths = watch.paths(&cores).map_err(Failure::wrong)?;
        Ok(LinuxRun { paths, report: report(&lines) })
    })
}

/// The one length of a path in a run of Linux.
fn of_linux(lab: &Lab, name: &str, least: u64) -> Result<Found, Failure> {
    of(&linux(lab)?.paths, name, least)
}

pub(crate) fn linux_path_2(lab: &Lab) -> Result<Found, Failure> {
    of_linux(lab, "2", SAMPLES)
}

pub(crate) fn linux_path_4(lab: &Lab) -> Result<Found, Failure> {
    let mut found = of_linux(lab, "4", SAMPLES)?;
    let all = linux(lab)?.paths.iter().map(|(name, passage)| format!("{name} {}", passage.count)).collect::<Vec<_>>();
    found.details.push(format!("all that was executed at EL3, by path: {}", all.join(", ")));
    Ok(found)
}

/// Linux calls when it boots and when it switches itself off.
pub(crate) fn linux_path_5(lab: &Lab) -> Result<Found, Failure> {
    of_linux(lab, "5", 1)
}

/// A run of stock Linux below a payload that has nothing but its tick.
fn linux_below_a_tick(lab: &Lab, mode: &str) -> Result<Rc<Share>, Failure> {
    lab.once(&format!("secure linux work {mode}"), || {
        let flash = flash_of_linux(lab, "busy-world.elf", &format!("bulkhead.mode={mode}"))?;
        let share = share::run(flash).map_err(Failure::wrong)?;
        let failed = share.other.iter().chain(&share.payload).any(|line| line.contains("FAILED"));
        let ends = share.payload.last().is_some_and(|line| line == "rtos: end");
        let done = share.other.iter().filter(|line| line.starts_with("linux: work:")).count();
        if failed || !ends || done != if mode.ends_with("work") { WORKS } else { 0 } {
            return Err(Failure::wrong(format!("Linux did not do its work: {:?} {:?}", share.other, share.payload)));
        }
        Ok(share)
    })
}

/// What the secure world takes of Linux's time, which is all that it takes: a core has one of both worlds.
pub(crate) fn linux_work(lab: &Lab) -> Result<Found, Failure> {
    let (boot, both) = (linux_below_a_tick(lab, "hello")?, linux_below_a_tick(lab, "hello,work")?);
    let (all, secure) = (both.all - boot.all, both.secure - boot.secure);
    let ticks = all / INSTRUCTIONS_PER_TICK;
    if secure < ticks * LEAST_PER_TICK {
        return Err(Failure::wrong(format!("{secure} instructions of the secure world in {ticks} ticks are too few")));
    }
    let details = [
        format!(
            "{secure} of {all} instructions in the secure world, {:.0} for each of its {ticks} ticks",
            secure as f64 / ticks as f64
        ),
        format!("the boot before: {} of {} instructions, with the loading of Linux", boot.secure, boot.all),
    ];
    Ok(Found::new(100.0 * secure as f64 / all as f64, details))
}

/// A tick in a millisecond, an instruction in a nanosecond.
const INSTRUCTIONS_PER_TICK: u64 = 1_000_000;
/// Each tick takes the core from Linux and gives it back, paths 2 and 4 of 112 and 113, and the kernel is between: without one of them
/// something was not counted.
const LEAST_PER_TICK: u64 = 300;
/// What the fixed work says that it has done.
const WORKS: usize = 3;

/// Messages that are measured each way.
const MESSAGES: u64 = 1_000;

fn talked(lab: &Lab) -> Result<Rc<Talked>, Failure> {
    lab.once("messages between the worlds", || {
        // Both are there before the run, which says no more than that it failed.
        let _ = (lab.guest("talker.elf")?, lab.guest("talking-world.elf")?);
        let talked = run(Talk::Measure, MESSAGES, 0, Partner::rung("measure"));
        if talked.good != MESSAGES {
            return Err(Failure::wrong(format!("{} of {MESSAGES} messages came back", talked.good)));
        }
        Ok(talked)
    })
}

/// Of one direction: the least, which nothing else lengthens.
fn message(talked: &Talked, [least, most]: [u64; 2]) -> Found {
    let round = talked.ticks / MESSAGES;
    let details = [
        format!(
            "{least} to {most} in {MESSAGES} messages; what is more are ticks of the payload's kernel and its other tasks"
        ),
        format!("{round} for one to the payload and one back, on average"),
    ];
    Found::new(least as f64, details)
}

pub(crate) fn message_to_payload(lab: &Lab) -> Result<Found, Failure> {
    talked(lab).map(|talked| message(&talked, talked.to_payload))
}

pub(crate) fn message_to_world(lab: &Lab) -> Result<Found, Failure> {
    talked(lab).map(|talked| message(&talked, talked.to_world))
}

/// How late the payload's tick is in Linux, at most, with what else the payload's report says.
pub(crate) fn linux_tick(lab: &Lab) -> Result<Found, Failure> {
    let run = linux(lab)?;
    let [own, own_least, own_most, other, least, most, _] = run.report[..] else {
        return Err(Failure::wrong("the payload made no report".to_owned()));
    };
    if least != most || own_least != own_most || other < SAMPLES {
        let message = format!(
            "{own} ticks in the payload are {own_least} to {own_most} late, {other} in Linux {least} to {most}"
        );
        return Err(Failure::wrong(message));
    }
    let details = [
        format!("{least} to {most} in {other} samples in Linux"),
        format!("{own_most} in {own} samples in the payload"),
    ];
    Ok(Found::new(most as f64, details))
}
