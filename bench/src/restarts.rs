//! Restarts of the world below a payload: what one costs, whether it keeps within its bound beside other work, and that no tick of the payload
//! is lost meanwhile. A lost tick or one that is too late is the end of a run, with what the payload said.

use crate::Failure;
use crate::lab::Lab;
use crate::masks;
use crate::outcome::Found;
use bulkhead_analysis::payload::{PROMISED_START, Payload, Task};
use bulkhead_analysis::steps::Steps;
use bulkhead_system_tests::failing::{self, MS};
use bulkhead_system_tests::messages::{lost_in_restarts, restarted};

/// Memory of Linux that is restarted.
const LINUX_BYTES: u64 = 256 << 20;

/// One restart of stock Linux, for each byte of its memory.
pub(crate) fn restart_linux(lab: &Lab) -> Result<Found, Failure> {
    let _ = (lab.guest("linux/Image")?, lab.guest("linux/initramfs.cpio.gz")?, lab.guest("watched-world.elf")?);
    let (found, _) = failing::linux("hang", LINUX_BYTES);
    let (least, most) = failing::instructions_by_byte(found.took, failing::BACKOFF_MS, LINUX_BYTES);
    if found.restarts != 1 {
        return Err(Failure::wrong(format!("Linux was not restarted once: {found:?}")));
    }
    let (instructions, mib) = (most * LINUX_BYTES as f64, LINUX_BYTES >> 20);
    let details = [
        format!("{instructions:.0} instructions for {mib} MiB, {least:.4} to {most:.4} for each byte"),
        format!("{} ticks of the payload meanwhile, none lost", found.ticks),
    ];
    Ok(Found::new(most, details))
}

/// Restarts of each kind.
const RESTARTS: u32 = 1_000;
/// Messages before each restart of the second kind.
const BEFORE_RESTART: u64 = 20;

/// Ticks and messages that are lost in many restarts of small worlds.
pub(crate) fn restarts(lab: &Lab) -> Result<Found, Failure> {
    let _ = (lab.guest("failing-world.elf")?, lab.guest("watched-world.elf")?);
    let _ = (lab.guest("talker.elf")?, lab.guest("talking-world.elf")?);
    let found = failing::hang(RESTARTS, 6);
    if found.restarts < RESTARTS.into() || (found.begun as u64) < found.restarts || found.worked + 1 < found.begun {
        return Err(Failure::wrong(format!("the world did not work after each restart: {found:?}")));
    }
    let reports = restarted(RESTARTS as usize, BEFORE_RESTART);
    let lost = lost_in_restarts(&reports, BEFORE_RESTART);
    if reports.len() < RESTARTS as usize {
        return Err(Failure::wrong(format!("{} restarts with messages", reports.len())));
    }
    let details = [
        format!(
            "{} restarts beside 6 ms in 10, {} ticks, none lost; {} times the world worked",
            found.restarts, found.ticks, found.worked
        ),
        format!("{} restarts with messages, {} messages before each, {lost} lost", reports.len(), BEFORE_RESTART + 2),
    ];
    Ok(Found::new(lost as f64, details))
}

/// What a task of the payload computes of each ten milliseconds while stock Linux is restarted, in one run after the other: the same run again would be
/// the same to the instruction.
const LINUX_LOADS_MS: [u64; 4] = [3, 4, 5, 6];
/// Restarts of each run.
const LINUX_RESTARTS: u32 = 5;

/// The longest that a restart of Linux may take beside such a load, by the analysis that `bulkhead check` prints: filling and copying in the time that
/// the payload's tasks leave.
fn bound_of_linux(lab: &Lab, load_ms: u64) -> Result<u64, Failure> {
    /// The kernel's own part of a job.
    const JOB: u64 = 1_000;
    /// Longer than any answer.
    const NEVER: u64 = 1 << 40;
    let pages = |bytes: u64| bytes.div_ceil(4096);
    // The device tree has less than a page.
    let mut copied = 1;
    for name in ["linux/Image", "linux/initramfs.cpio.gz"] {
        copied += pages(lab.guest(name)?.len() as u64);
    }
    let task = |priority, cost, period| Task { priority, cost: cost + JOB, period };
    let tasks = vec![task(12, 0, MS), task(10, 0, 100 * MS), task(8, load_ms * MS, 10 * MS)];
    let payload = Payload { tasks, servers: Vec::new(), switch: 230, ..Payload::default() };
    let bound = payload.start(PROMISED_START.instructions(pages(LINUX_BYTES), copied), NEVER, &Steps::default());
    bound.ok_or_else(|| Failure::wrong("a restart of Linux has no bound".to_owned()))
}

/// Ticks that are lost in restarts of stock Linux that hangs, beside a task that computes.
pub(crate) fn restarts_of_linux(lab: &Lab) -> Result<Found, Failure> {
    let _ = lab.guest("watched-world.elf")?;
    let (mut restarts, mut ticks, mut details) = (0, 0, Vec::new());
    for load_ms in LINUX_LOADS_MS {
        let bound = bound_of_linux(lab, load_ms)? + failing::BACKOFF_MS * MS;
        let arguments = format!("restarts={LINUX_RESTARTS},load={load_ms}");
        let (found, _) = failing::linux_told("hang", LINUX_BYTES, LINUX_RESTARTS, &arguments);
        let longest = found.took.1;
        if found.restarts != u64::from(LINUX_RESTARTS) || longest > bound {
            return Err(Failure::wrong(format!("not {LINUX_RESTARTS} restarts within {bound} ticks each: {found:?}")));
        }
        (restarts, ticks) = (restarts + found.restarts, ticks + found.ticks);
        let share = longest as f64 / bound as f64;
        details.push(format!(
            "beside {load_ms} ms in 10 the longest of {LINUX_RESTARTS} took {longest} instructions, of {bound} that were computed {share:.2}"
        ));
    }
    details.insert(0, format!("{restarts} restarts, {ticks} ticks of the payload meanwhile"));
    Ok(Found::new(0.0, details))
}

/// What the task that starts the other world calls of the library.
const RESTART: [&str; 5] = [
    "bulkhead_world_rest",
    "bulkhead_world_load",
    "bulkhead_world_reset",
    "bulkhead_messages_close",
    "bulkhead_messages_open",
];

/// Instructions that mask interrupts in the code of a restart.
pub(crate) fn masked(lab: &Lab) -> Result<Found, Failure> {
    let reached = masks::reached(&lab.guest("watched-world.elf")?, &RESTART)?;
    let mut details = vec![
        format!("{} instructions of {} functions, no branch by register", reached.instructions, reached.functions),
        format!("{} calls of EL3, which masks everything for the 43 instructions of one", reached.calls_of_el3),
    ];
    details.extend(reached.masks.iter().cloned());
    Ok(Found::new(reached.masks.len() as f64, details))
}
