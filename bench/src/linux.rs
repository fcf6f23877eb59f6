//! Debian Linux with one CPU: the monitor's share of its instructions, and what a restart of it costs.
//!
//! The share is counted by the emulator's plugin on a whole run. Boot is a run that ends when init has said hello; work is
//! what a second run with the fixed work adds to it. So no window has to be opened and closed at the right moment, the little
//! console output is the same in both and leaves the difference, and the numbers repeat. The kernel's own clock says how
//! long it took, in the partition and on the bare board.

use crate::Failure;
use crate::lab::{Lab, Variant, partition_lines, serial_lines};
use crate::outcome::Found;
use crate::paths::ONE_TICK_SHIFT;
use bulkhead_run::{CountingOptions, Counts, Machine, MachineOptions};
use std::rc::Rc;
use std::time::Duration;

/// Nothing but a hello; the text in the description.
const HELLO: &str = "bulkhead.mode=hello";
/// The fixed work after the hello.
const WORK: &str = "bulkhead.mode=hello,work";
/// The kernel's arguments besides what the guest does, as in the description.
const ARGUMENTS: &str = "console=ttyAMA0 quiet nokaslr norandmaps";
const STAMP: &str = "bulkhead.run=echo,stamp>/dev/kmsg;dmesg|tail,-n1";
/// RAM of the partition; the bare board has as much.
const RAM_BYTES: u64 = 256 << 20;

/// A run of Linux from power on to power off.
#[derive(Debug)]
struct Run {
    /// Instructions since the first one of the guest.
    all: u64,
    /// Those at EL2.
    monitor: u64,
    /// The kernel's clock at the end, in microseconds.
    stamp_us: f64,
    /// Version, as the guest prints it.
    kernel: String,
}

fn parse(lines: &[String], counts: &Counts) -> Result<Run, Failure> {
    let failed = lines.iter().find(|line| line.contains("FAILED"));
    if let Some(line) = failed {
        return Err(Failure::wrong(format!("the Linux guest printed {line:?}")));
    }
    let missing = |what: &str| {
        let last = lines.last().map_or("nothing", String::as_str);
        Failure::wrong(format!("the Linux guest printed no {what}; it printed last: {last}"))
    };
    let hello = lines.iter().find_map(|line| line.strip_prefix("linux: ")?.strip_suffix(" says hello"));
    let kernel = hello.and_then(|text| text.split(' ').next()).ok_or_else(|| missing("hello"))?.to_owned();
    let stamp_us = lines.iter().find_map(|line| stamp(line)).ok_or_else(|| missing("time stamp"))?;
    let core = counts.cores.first().ok_or_else(|| Failure::wrong("no core was counted".to_owned()))?;
    let monitor = core.range("monitor").map_or(0, |range| range.since);
    // The bare board has no monitor and no "since".
    let all = if core.entered { core.all_since } else { core.all };
    Ok(Run { all, monitor, stamp_us, kernel })
}

/// Reads `[    1.234567] stamp`.
pub(crate) fn stamp(line: &str) -> Option<f64> {
    let (seconds, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
    (rest.trim() == "stamp").then_some(())?;
    Some(seconds.trim().parse::<f64>().ok()? * 1e6)
}

fn in_partition(lab: &Lab, mode: &str) -> Result<Rc<Run>, Failure> {
    lab.once(&format!("linux partition {mode}"), || {
        let machine = lab.run(Variant { name: "linux", changes: &[(HELLO, mode)] }, |options| {
            options.icount_shift = Some(0);
            options.counting = options.plan.as_ref().map(CountingOptions::for_monitor);
        })?;
        let run = parse(&partition_lines(&machine, "linux"), &machine.counts()?)?;
        if run.monitor == 0 {
            return Err(Failure::wrong("the plugin counted no instruction of the monitor".to_owned()));
        }
        Ok(run)
    })
}

fn on_board(lab: &Lab, mode: &str) -> Result<Rc<Run>, Failure> {
    lab.once(&format!("linux board {mode}"), || {
        let initramfs = lab.guest_path("linux/initramfs.cpio.gz").display().to_string();
        let append = format!("{ARGUMENTS} {mode} {STAMP}");
        let machine = lab.run_bare("linux/Image", |options| {
            options.icount_shift = Some(0);
            options.counting = Some(CountingOptions::default());
            // QEMU gives a seed for random numbers, a partition's device tree has none: without one Linux makes its random numbers
            // at a higher price in every fork. So both go without.
            options.facts.machine.push_str(",dtb-randomness=off");
            options.extra = ["-initrd", &initramfs, "-append", &append].map(str::to_owned).to_vec();
        })?;
        parse(&serial_lines(&machine), &machine.counts()?)
    })
}

fn share(monitor: u64, all: u64, elapsed: (f64, f64), kernel: &str) -> Found {
    let percent = 100.0 * monitor as f64 / all as f64;
    let (partition_us, board_us) = elapsed;
    let details = [
        format!("{monitor} of {all} instructions at EL2"),
        format!(
            "elapsed {:.3} s, on the bare board {:.3} s, ratio {:.4}; both without a seed for random numbers",
            partition_us / 1e6,
            board_us / 1e6,
            partition_us / board_us
        ),
        format!("kernel {kernel}"),
    ];
    Found::new(percent, details)
}

/// Boot to init's hello.
pub(crate) fn boot(lab: &Lab) -> Result<Found, Failure> {
    let (ours, board) = (in_partition(lab, HELLO)?, on_board(lab, HELLO)?);
    Ok(share(ours.monitor, ours.all, (ours.stamp_us, board.stamp_us), &ours.kernel))
}

/// Fixed work of user space.
pub(crate) fn work(lab: &Lab) -> Result<Found, Failure> {
    let (boot, both) = (in_partition(lab, HELLO)?, in_partition(lab, WORK)?);
    let (board_boot, board_both) = (on_board(lab, HELLO)?, on_board(lab, WORK)?);
    let elapsed = (both.stamp_us - boot.stamp_us, board_both.stamp_us - board_boot.stamp_us);
    Ok(share(both.monitor.saturating_sub(boot.monitor), both.all.saturating_sub(boot.all), elapsed, &both.kernel))
}

/// Linux resets itself, its policy restarts it: fault to kernel entry, for each byte of its RAM.
pub(crate) fn restart(lab: &Lab) -> Result<Found, Failure> {
    /// Generous; the run ends when the partition runs again.
    const LIMIT: Duration = Duration::from_secs(300);
    let changes = [
        (HELLO, "bulkhead.mode=hello bulkhead.end=reboot"),
        ("on_fault = \"stop\"", "on_fault = \"restart\", max = 1, within = \"600 s\", backoff = \"0 ms\""),
    ];
    let variant = Variant { name: "linux", changes: &changes };
    let mut machine: Machine =
        lab.start(variant, |options: &mut MachineOptions| options.icount_shift = Some(ONE_TICK_SHIFT))?;
    let status = machine.wait_for("Linux to be restarted", LIMIT, |view| {
        let status = view.observer?.status(0);
        (status.generation == 2 && status.restart_ticks != 0).then_some(status)
    })?;
    let per_byte = status.restart_ticks as f64 / RAM_BYTES as f64;
    Ok(Found::new(per_byte, [format!("{} instructions for {RAM_BYTES} bytes", status.restart_ticks)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_the_kernel_are_read() {
        assert_eq!(stamp("[    1.250000] stamp"), Some(1_250_000.0));
        assert_eq!(stamp("[    1.250000] another"), None);
        assert_eq!(stamp("linux: hello"), None);
    }

    #[test]
    fn a_share_is_in_percent_with_the_ratio_beside_it() {
        let found = share(5, 10_000, (3.0e6, 2.0e6), "6.1");
        assert!((found.value - 0.05).abs() < 1e-12);
        assert!(found.details[1].contains("ratio 1.5000;"), "{:?}", found.details);
    }
}
