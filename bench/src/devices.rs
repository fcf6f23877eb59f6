//! Stock Linux with a disk and a network card of its own: what the monitor costs it, by differences of two runs with different numbers of
//! requests, in a partition and on the bare board. Behind the disk is nothing: it answers at once, so that what is counted is the guest's way to
//! it and back.
//!
//! On the bare board it is the same kernel with the same file system, command line and devices, on a machine without SMMU and ITS, so that
//! both use lines for interrupts.

use crate::Failure;
use crate::lab::{Lab, RUN_LIMIT, Variant, partition_lines, serial_lines};
use crate::outcome::Found;
use bulkhead_abi::observe::Counter;
use bulkhead_run::functions::Functions;
use bulkhead_run::{CountingOptions, MachineOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::rc::Rc;

/// The kernel's arguments on the bare board, as in the description.
const ARGUMENTS: &str =
    "console=ttyAMA0 quiet nokaslr norandmaps bulkhead.mode=hello bulkhead.address=eth0:10.0.2.15/24 bulkhead.run=";
/// Bytes of the disk; nothing is on it.
const DISK_BYTES: u64 = 64 << 20;
/// Runs of one kind.
const RUNS: usize = 3;

/// Direct reads of 4 KiB in the shorter and in the longer run.
const READS: [u64; 2] = [1_000, 9_000];

/// Reads in the longer run more than in the shorter one.
fn more_reads() -> f64 {
    let [few, many] = READS;
    (many - few) as f64
}

/// The command in the kernel's command line; commas stand for spaces.
fn command(reads: u64) -> String {
    format!("dd,if=/dev/vda,of=/dev/null,bs=4k,count={reads},iflag=direct;grep,arch_timer,/proc/interrupts")
}

/// A run from power on to power off.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    all: u64,
    monitor: u64,
    entries: u64,
    interrupts: u64,
    /// Interrupts of Linux's own timer, as Linux counts them.
    ticks: u64,
}

/// Runs with one number of requests, in a partition or on the bare board, the one with the fewest ticks first.
type Group = Vec<Run>;

/// What the larger of two numbers has more.
#[derive(Debug)]
struct Added {
    more: Run,
    groups: [Group; 2],
}

impl Added {
    fn of(mut run: impl FnMut(u64) -> Result<Run, Failure>) -> Result<Self, Failure> {
        let [few, many] = READS;
        let mut group = |number| {
            let mut runs = (0..RUNS).map(|_| run(number)).collect::<Result<Group, _>>()?;
            runs.sort_by_key(|run| run.ticks);
            Ok::<_, Failure>(runs)
        };
        let groups = [group(few)?, group(many)?];
        let [few, many] = groups.each_ref().map(|group| group.first().copied().unwrap_or_default());
        let more = |value: fn(&Run) -> u64| value(&many).saturating_sub(value(&few));
        let more = Run {
            all: more(|run| run.all),
            monitor: more(|run| run.monitor),
            entries: more(|run| run.entries),
            interrupts: more(|run| run.interrupts),
            ticks: more(|run| run.ticks),
        };
        Ok(Self { more, groups })
    }

    /// Instructions without those of ticks.
    fn without_ticks(&self, of_a_tick: f64) -> f64 {
        let [few, many] = self.groups.each_ref().map(|group| {
            let sum: f64 = group.iter().map(|run| run.all as f64 - of_a_tick * run.ticks as f64).sum();
            sum / group.len() as f64
        });
        many - few
    }

    fn details(&self) -> Vec<String> {
        let Run { all, monitor, entries, interrupts, ticks } = self.more;
        let count = more_reads();
        vec![
            format!(
                "{count:.0} direct reads of 4 KiB: {entries} entries into the monitor for {interrupts} interrupts, of which {ticks} ticks of Linux"
            ),
            format!("{monitor} of {all} instructions at EL2; {:.0} instructions each", all as f64 / count),
        ]
    }
}

/// Instructions of a tick, by what runs that did the same differ in: whenever the host lets the emulator wait, an idle guest has ticks, which are
/// nobody's work here and differ from run to run.
fn of_a_tick(all: &[&Added]) -> f64 {
    let (mut product, mut square) = (0.0, 0.0);
    for group in all.iter().flat_map(|added| &added.groups) {
        let mean = |value: fn(&Run) -> u64| group.iter().map(|run| value(run) as f64).sum::<f64>() / group.len() as f64;
        let (ticks, instructions) = (mean(|run| run.ticks), mean(|run| run.all));
        for run in group {
            let more = run.ticks as f64 - ticks;
            product += more * (run.all as f64 - instructions);
            square += more * more;
        }
    }
    if square == 0.0 { 0.0 } else { product / square }
}

/// Reads how often the timer interrupted, in a line of `/proc/interrupts`.
fn ticks(lines: &[String]) -> Result<u64, Failure> {
    let line = lines.iter().find(|line| line.ends_with("arch_timer"));
    let count = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    count.ok_or_else(|| Failure::wrong(format!("Linux did not say how often its timer interrupted: {lines:?}")))
}

/// A file that is a disk; gone with this value.
struct DiskFile(std::path::PathBuf);

impl DiskFile {
    fn create() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("bulkhead-bench-disk-{}", std::process::id()));
        let made = std::fs::File::create(&path).and_then(|file| file.set_len(DISK_BYTES));
        made.map_err(|cause| Failure::host(format!("cannot make the disk {}: {cause}", path.display())))?;
        Ok(Self(path))
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        // What stays is an empty file among the temporary ones.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn free_port() -> Result<u16, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|cause| Failure::host(format!("no port of the loopback: {cause}")))
}

fn in_partition(lab: &Lab) -> Result<Rc<Added>, Failure> {
    lab.once("devices partition", || {
        Added::of(|reads| {
            let (disk, port) = (DiskFile::create()?, free_port()?);
            let (path, port_text, command) = (disk.path(), port.to_string(), command(reads));
            let changes = [("WORK", &*command), ("DISK", &*path), ("PORT", &*port_text)];
            let mut machine = lab.start(Variant { name: "devices", changes: &changes }, |options| {
                options.icount_shift = Some(0);
                options.counting = options.plan.as_ref().map(CountingOptions::for_monitor);
                options.functions.answer_at_once(DISK_BYTES);
            })?;
            machine.wait_for_end(RUN_LIMIT)?;
            let observer = machine.observer().ok_or_else(|| Failure::wrong("the machine has no monitor".to_owned()))?;
            let counter = |counter| observer.partition_counter(0, counter);
            let dma = observer.status(0).dma;
            if dma.events != 0 {
                return Err(Failure::wrong(format!("DMA of the guest's own functions was refused: {dma:?}")));
            }
            let ticks = ticks(&partition_lines(&machine, "linux"))?;
            let counts = machine.counts()?;
            let core = counts.cores.first().ok_or_else(|| Failure::wrong("no core was counted".to_owned()))?;
            Ok(Run {
                ticks,
                all: core.all_since,
                monitor: core.range("monitor").map_or(0, |range| range.since),
                entries: counter(Counter::Exits) + counter(Counter::Hypercall) + counter(Counter::Psci),
                interrupts: counter(Counter::Interrupt),
            })
        })
    })
}

fn on_board(lab: &Lab) -> Result<Rc<Added>, Failure> {
    lab.once("devices board", || {
        Added::of(|reads| {
            let (disk, port) = (DiskFile::create()?, free_port()?);
            let (path, port_text) = (disk.path(), port.to_string());
            let changes = [("WORK", ""), ("DISK", &*path), ("PORT", &*port_text)];
            let loaded = lab.load(Variant { name: "devices", changes: &changes })?;
            let mut functions = Functions::of(&loaded.system, &loaded.host)?;
            functions.answer_at_once(DISK_BYTES);
            let file_system = lab.guest_path("linux/initramfs-devices.cpio.gz").display().to_string();
            let append = format!("{ARGUMENTS}{}", command(reads));
            let mut machine = lab.start_bare("linux/Image", |options: &mut MachineOptions| {
                options.icount_shift = Some(0);
                options.counting = Some(CountingOptions::default());
                options.functions = functions;
                options.facts.machine.push_str(",its=off,dtb-randomness=off");
                options.extra = ["-initrd", &file_system, "-append", &append].map(str::to_owned).to_vec();
            })?;
            machine.wait_for_end(RUN_LIMIT)?;
            let lines = serial_lines(&machine);
            if !lines.iter().any(|line| line.ends_with("says hello"))
                || lines.iter().any(|line| line.contains("FAILED"))
            {
                return Err(Failure::wrong(format!("Linux on the bare board did not do its work: {lines:?}")));
            }
            let counts = machine.counts()?;
            let core = counts.cores.first().ok_or_else(|| Failure::wrong("no core was counted".to_owned()))?;
            Ok(Run { all: core.all, ticks: ticks(&lines)?, ..Run::default() })
        })
    })
}

/// Entries into the monitor for each read, without those for ticks of Linux, which follow the host.
pub(crate) fn entries(lab: &Lab) -> Result<Found, Failure> {
    let added = in_partition(lab)?;
    Ok(Found::new(added.more.entries.saturating_sub(added.more.ticks) as f64 / more_reads(), added.details()))
}

/// Instructions at EL2 of all, in percent.
pub(crate) fn share(lab: &Lab) -> Result<Found, Failure> {
    let added = in_partition(lab)?;
    Ok(Found::new(100.0 * added.more.monitor as f64 / added.more.all as f64, added.details()))
}

/// Instructions of the whole machine beyond those on the bare board, in percent of these.
pub(crate) fn above_bare(lab: &Lab) -> Result<Found, Failure> {
    let (ours, bare) = (in_partition(lab)?, on_board(lab)?);
    let tick = of_a_tick(&[&ours, &bare]);
    let [all, on_bare] = [&ours, &bare].map(|added| added.without_ticks(tick));
    let mut details = ours.details();
    let count = more_reads();
    details.push(format!(
        "without ticks, of {tick:.0} instructions each: {:.0} instructions for each read, on the bare board {:.0}",
        all / count,
        on_bare / count
    ));
    Ok(Found::new(100.0 * (all / on_bare - 1.0), details))
}

/// Entries beyond one for each physical interrupt.
pub(crate) fn beyond_interrupts(lab: &Lab) -> Result<Found, Failure> {
    let added = in_partition(lab)?;
    let (interrupts, least) = (added.more.interrupts, more_reads());
    if (interrupts as f64) < least {
        return Err(Failure::wrong(format!("only {interrupts} interrupts for {least} reads")));
    }
    Ok(Found::new(added.more.entries.saturating_sub(interrupts) as f64, added.details()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(all: u64, ticks: u64) -> Run {
        Run { all, ticks, ..Run::default() }
    }

    /// Requests of 100 instructions, ticks of 7, and a start of 1,000.
    #[test]
    fn ticks_are_taken_out() {
        let of = |requests: u64, ticks: u64| run(1_000 + 100 * requests + 7 * ticks, ticks);
        let groups = [vec![of(10, 1), of(10, 5)], vec![of(30, 2), of(30, 40)]];
        let added = Added { more: Run::default(), groups };
        let tick = of_a_tick(&[&added]);
        assert!((tick - 7.0).abs() < 1e-9, "{tick}");
        assert!((added.without_ticks(tick) - 2_000.0).abs() < 1e-6);
        let quiet = Added { more: Run::default(), groups: [vec![of(10, 1)], vec![of(30, 1)]] };
        assert!(of_a_tick(&[&quiet]).abs() < 1e-9);
    }

    #[test]
    fn linux_says_how_often_its_timer_interrupted() {
        let lines = ["linux: ready", " 11:        606     GICv3  27 Level     arch_timer"].map(str::to_owned);
        assert_eq!(ticks(&lines).ok(), Some(606));
        assert!(ticks(&lines[..1]).is_err());
    }
}
