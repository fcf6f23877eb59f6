//! Stock Linux with a disk and a network card of its own: what the monitor costs it, by differences of two runs with different numbers of
//! requests, in a partition and on the bare board. Behind the disk is nothing: it answers at once, so that what is counted is the guest's way to
//! it and back. What comes over the network is this process's, so its segments come when the host lets them.
//!
//! On the bare board it is the same kernel with the same file system, command line and devices, on a machine without SMMU and ITS, so that
//! both use lines for interrupts.

use super::{Run, ticks};
use crate::Failure;
use crate::lab::{Lab, RUN_LIMIT, Variant, partition_lines, serial_lines};
use crate::outcome::Found;
use bulkhead_run::functions::Functions;
use bulkhead_run::{CountingOptions, Machine, MachineOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::rc::Rc;

/// The kernel's arguments on the bare board, as in the description.
const ARGUMENTS: &str =
    "console=ttyAMA0 quiet nokaslr norandmaps bulkhead.mode=hello bulkhead.address=eth0:10.0.2.15/24 bulkhead.run=";
/// Bytes of the disk; nothing is on it.
const DISK_BYTES: u64 = 64 << 20;
/// Runs of one kind.
const RUNS: usize = 3;
/// Bytes that are sent at once.
pub(super) const PIECE_BYTES: u64 = 64 << 10;
/// Bytes of a segment on a usual network.
pub(super) const SEGMENT_BYTES: u64 = 1_448;
/// What Linux says when it takes connections.
const LISTENING: &str = "linux: listening";

/// What Linux does with its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Direct reads of so many KiB, one after the other.
    Read(u64),
    /// Direct writes of so many KiB.
    Write(u64),
    /// Pieces of [`PIECE_BYTES`] over a connection from the host.
    Receive,
}

impl Work {
    /// How often in the shorter and in the longer run.
    fn counts(self) -> [u64; 2] {
        match self {
            Self::Read(4) => [1_000, 9_000],
            Self::Read(_) | Self::Write(_) => [100, 900],
            Self::Receive => [128, 640],
        }
    }

    /// How often more in the longer one.
    fn more(self) -> f64 {
        let [few, many] = self.counts();
        (many - few) as f64
    }

    /// Segments more in the longer run.
    fn more_segments(self) -> f64 {
        self.more() * PIECE_BYTES as f64 / SEGMENT_BYTES as f64
    }

    /// The command in the kernel's command line; commas stand for spaces.
    fn command(self, count: u64) -> String {
        let work = match self {
            Self::Read(kib) => format!("dd,if=/dev/vda,of=/dev/null,bs={kib}k,count={count},iflag=direct"),
            Self::Write(kib) => format!("dd,if=/dev/zero,of=/dev/vda,bs={kib}k,count={count},oflag=direct"),
            Self::Receive => {
                "nc,-l,-p,80,>/dev/null&until,grep,-q,:0050,/proc/net/tcp*;do,:;done;echo,linux:,listening;wait"
                    .to_owned()
            }
        };
        format!("{work};grep,arch_timer,/proc/interrupts")
    }

    fn text(self) -> String {
        match self {
            Self::Read(kib) => format!("direct reads of {kib} KiB"),
            Self::Write(kib) => format!("direct writes of {kib} KiB"),
            Self::Receive => "pieces of 64 KiB received over TCP".to_owned(),
        }
    }

    /// Does the host's part of it, and waits for the end.
    fn serve(self, machine: &mut Machine, port: u16, count: u64) -> Result<(), Failure> {
        if self == Self::Receive {
            machine.wait_for("Linux to take connections", RUN_LIMIT, |view| {
                let mut lines = view.lines.iter().flat_map(|log| log.since(0));
                let is_said = lines.any(|(_, line)| line.text == LISTENING);
                (is_said || String::from_utf8_lossy(view.serial).contains(LISTENING)).then_some(())
            })?;
            let sender = std::thread::spawn(move || send(port, count));
            machine.wait_for_end(RUN_LIMIT)?;
            let sent = sender.join().unwrap_or_else(|_| Err(std::io::Error::other("the sender ended early")));
            return sent.map_err(|cause| Failure::host(format!("cannot send to the guest: {cause}")));
        }
        machine.wait_for_end(RUN_LIMIT)?;
        Ok(())
    }
}

/// Sends pieces to the guest behind a port, and waits until it has them.
fn send(port: u16, count: u64) -> std::io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let piece = vec![0; PIECE_BYTES as usize];
    for _ in 0..count {
        stream.write_all(&piece)?;
    }
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new()).map(|_| ())
}

/// Runs with one number of requests, in a partition or on the bare board, the one with the fewest ticks first.
type Group = Vec<Run>;

/// What the larger of two numbers has more.
#[derive(Debug)]
pub(super) struct Added {
    work: Work,
    more: Run,
    groups: [Group; 2],
}

impl Added {
    fn of(work: Work, mut run: impl FnMut(u64) -> Result<Run, Failure>) -> Result<Self, Failure> {
        let [few, many] = work.counts();
        let mut group = |number| {
            let mut runs = (0..RUNS).map(|_| run(number)).collect::<Result<Group, _>>()?;
            runs.sort_by_key(|run| run.ticks);
            Ok::<_, Failure>(runs)
        };
        let groups = [group(few)?, group(many)?];
        let [few, many] = groups.each_ref().map(|group| group.first().copied().unwrap_or_default());
        Ok(Self { work, more: many.more_than(&few), groups })
    }

    /// The mean of a value in the longer runs, less that in the shorter ones.
    fn mean_of_more(&self, value: impl Fn(&Run) -> f64) -> f64 {
        let [few, many] = self.groups.each_ref().map(|group| mean(group, &value));
        many - few
    }

    /// Instructions without those of ticks.
    fn without_ticks(&self, idle: Idle) -> f64 {
        self.mean_of_more(|run| run.all as f64 - idle.tick * run.ticks as f64)
    }

    /// How often it had nothing to do.
    fn waits(&self) -> f64 {
        self.mean_of_more(|run| run.waits as f64)
    }

    fn details(&self) -> Vec<String> {
        let Run { all, monitor, entries, interrupts, ticks, waits: _ } = self.more;
        let (count, what) = (self.work.more(), self.work.text());
        vec![
            format!(
                "{count:.0} {what}: {entries} entries into the monitor for {interrupts} interrupts, of which {ticks} ticks of Linux"
            ),
            format!("{monitor} of {all} instructions at EL2; {:.0} instructions each", all as f64 / count),
        ]
    }
}

fn mean(group: &Group, value: impl Fn(&Run) -> f64) -> f64 {
    group.iter().map(value).sum::<f64>() / group.len() as f64
}

/// What an idle guest executes, by what runs that did the same differ in: whenever the host lets the emulator wait, an idle guest has ticks, and
/// with an answer that comes later the guest has gone to sleep. Both are nobody's work here and differ from run to run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Idle {
    /// Instructions of a tick.
    tick: f64,
    /// Those of going to sleep and coming back.
    wait: f64,
}

impl Idle {
    /// The least squares of what runs of one kind differ in.
    fn of(all: &[&Added]) -> Self {
        let [mut ticks, mut both, mut waits, mut of_ticks, mut of_waits] = [0.0; 5];
        for group in all.iter().flat_map(|added| &added.groups) {
            let [tick, wait, instructions] = [
                mean(group, |run| run.ticks as f64),
                mean(group, |run| run.waits as f64),
                mean(group, |run| run.all as f64),
            ];
            for run in group {
                let [tick, wait] = [run.ticks as f64 - tick, run.waits as f64 - wait];
                let instructions = run.all as f64 - instructions;
                ticks += tick * tick;
                both += tick * wait;
                waits += wait * wait;
                of_ticks += tick * instructions;
                of_waits += wait * instructions;
            }
        }
        let alone = |of: f64, all: f64| if all == 0.0 { 0.0 } else { (of / all).max(0.0) };
        let determinant = ticks * waits - both * both;
        if determinant > 1e-6 * ticks * waits {
            let tick = (of_ticks * waits - of_waits * both) / determinant;
            let wait = (of_waits * ticks - of_ticks * both) / determinant;
            if tick >= 0.0 && wait >= 0.0 {
                return Self { tick, wait };
            }
            // Neither gives instructions back. That one of them seems to says that they came together, and one explains all of it:
            // the one that explains more, by the squares that it leaves.
            let (tick, wait) = (alone(of_ticks, ticks), alone(of_waits, waits));
            if wait * of_waits > tick * of_ticks {
                return Self { tick: 0.0, wait };
            }
        }
        // Where each tick is a wait the two cannot be told apart.
        Self { tick: alone(of_ticks, ticks), wait: 0.0 }
    }
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

pub(super) fn in_partition(lab: &Lab, work: Work) -> Result<Rc<Added>, Failure> {
    lab.once(&format!("devices partition {work:?}"), || {
        Added::of(work, |count| {
            let (disk, port) = (DiskFile::create()?, free_port()?);
            let (path, port_text, command) = (disk.path(), port.to_string(), work.command(count));
            let changes = [("WORK", &*command), ("DISK", &*path), ("PORT", &*port_text)];
            let mut machine = lab.start(Variant { name: "devices", changes: &changes }, |options| {
                options.icount_shift = Some(0);
                options.counting = options.plan.as_ref().map(CountingOptions::for_monitor);
                options.functions.answer_at_once(DISK_BYTES);
            })?;
            work.serve(&mut machine, port, count)?;
            let observer = machine.observer().ok_or_else(|| Failure::wrong("the machine has no monitor".to_owned()))?;
            let counter = |counter| observer.partition_counter(0, counter);
            let dma = observer.status(0).dma;
            if dma.events != 0 {
                return Err(Failure::wrong(format!("DMA of the guest's own functions was refused: {dma:?}")));
            }
            let ticks = ticks(&partition_lines(&machine, "linux"))?;
            let counts = machine.counts()?;
            let core = counts.cores.first().ok_or_else(|| Failure::wrong("no core was counted".to_owned()))?;
            Ok(Run::of(core, counter, ticks))
        })
    })
}

fn on_board(lab: &Lab, work: Work) -> Result<Rc<Added>, Failure> {
    lab.once(&format!("devices board {work:?}"), || {
        Added::of(work, |count| {
            let (disk, port) = (DiskFile::create()?, free_port()?);
            let (path, port_text) = (disk.path(), port.to_string());
            let changes = [("WORK", ""), ("DISK", &*path), ("PORT", &*port_text)];
            let loaded = lab.load(Variant { name: "devices", changes: &changes })?;
            let mut functions = Functions::of(&loaded.system, &loaded.host)?;
            functions.answer_at_once(DISK_BYTES);
            let file_system = lab.guest_path("linux/initramfs-devices.cpio.gz").display().to_string();
            let append = format!("{ARGUMENTS}{}", work.command(count));
            let mut machine = lab.start_bare("linux/Image", |options: &mut MachineOptions| {
                options.icount_shift = Some(0);
                options.counting = Some(CountingOptions::default());
                options.functions = functions;
                options.facts.machine.push_str(",its=off,dtb-randomness=off");
                options.extra = ["-initrd", &file_system, "-append", &append].map(str::to_owned).to_vec();
            })?;
            work.serve(&mut machine, port, count)?;
            let lines = serial_lines(&machine);
            if !lines.iter().any(|line| line.ends_with("says hello"))
                || lines.iter().any(|line| line.contains("FAILED"))
            {
                return Err(Failure::wrong(format!("Linux on the bare board did not do its work: {lines:?}")));
            }
            let counts = machine.counts()?;
            let core = counts.cores.first().ok_or_else(|| Failure::wrong("no core was counted".to_owned()))?;
            Ok(Run { all: core.all, ticks: ticks(&lines)?, waits: core.waits, ..Run::default() })
        })
    })
}

impl Added {
    /// Instructions of each request, ticks left out.
    pub(super) fn each_without_ticks(&self) -> f64 {
        self.without_ticks(Idle::of(&[self])) / self.work.more()
    }
}

/// Entries into the monitor for each read, without those for ticks of Linux, which follow the host.
pub(crate) fn read_exits(lab: &Lab) -> Result<Found, Failure> {
    let added = in_partition(lab, Work::Read(4))?;
    Ok(Found::new(added.more.without_ticks() as f64 / added.work.more(), added.details()))
}

/// Entries for each segment received.
pub(crate) fn receive_exits(lab: &Lab) -> Result<Found, Failure> {
    let added = in_partition(lab, Work::Receive)?;
    Ok(Found::new(added.more.without_ticks() as f64 / added.work.more_segments(), added.details()))
}

/// Instructions at EL2 of all, in percent.
fn share(lab: &Lab, work: Work) -> Result<Found, Failure> {
    let added = in_partition(lab, work)?;
    Ok(Found::new(100.0 * added.more.monitor as f64 / added.more.all as f64, added.details()))
}

pub(crate) fn read_share(lab: &Lab) -> Result<Found, Failure> {
    share(lab, Work::Read(4))
}

pub(crate) fn receive_share(lab: &Lab) -> Result<Found, Failure> {
    share(lab, Work::Receive)
}

/// Instructions of the whole machine beyond those on the bare board, in percent of these.
fn above_bare(lab: &Lab, work: Work) -> Result<Found, Failure> {
    let (ours, bare) = (in_partition(lab, work)?, on_board(lab, work)?);
    let idle = Idle::of(&[&ours, &bare]);
    let [all, on_bare] = [&ours, &bare].map(|added| added.without_ticks(idle));
    let [waits, on_bare_waits] = [&ours, &bare].map(|added| added.waits());
    // As if both had slept as often.
    let all = all - idle.wait * (waits - on_bare_waits);
    let mut details = ours.details();
    let count = work.more();
    let Idle { tick, wait } = idle;
    details.push(format!(
        "without ticks, of {tick:.0} instructions each, and as if it had slept {on_bare_waits:.0} times as on the bare board instead of {waits:.0}, for {wait:.0} each: {:.0} instructions for each, on the bare board {:.0}",
        all / count,
        on_bare / count
    ));
    Ok(Found::new(100.0 * (all / on_bare - 1.0), details))
}

pub(crate) fn read_work(lab: &Lab) -> Result<Found, Failure> {
    above_bare(lab, Work::Read(4))
}

pub(crate) fn write_work(lab: &Lab) -> Result<Found, Failure> {
    above_bare(lab, Work::Write(64))
}

pub(crate) fn receive_work(lab: &Lab) -> Result<Found, Failure> {
    above_bare(lab, Work::Receive)
}

/// Entries beyond one for each physical interrupt.
pub(crate) fn beyond_interrupts(lab: &Lab) -> Result<Found, Failure> {
    let work = Work::Read(4);
    let added = in_partition(lab, work)?;
    let (interrupts, least) = (added.more.interrupts, work.more());
    if (interrupts as f64) < least {
        return Err(Failure::wrong(format!("only {interrupts} interrupts for {least} reads")));
    }
    Ok(Found::new(added.more.entries.saturating_sub(interrupts) as f64, added.details()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(groups: [Group; 2]) -> Added {
        Added { work: Work::Read(4), more: Run::default(), groups }
    }

    /// Requests of 100 instructions, ticks of 7, waits of 3, and a start of 1,000.
    #[test]
    fn ticks_are_taken_out() {
        let of = |requests: u64, ticks: u64, waits: u64| Run {
            all: 1_000 + 100 * requests + 7 * ticks + 3 * waits,
            ticks,
            waits,
            ..Run::default()
        };
        let added_of = added([vec![of(10, 1, 5), of(10, 5, 6)], vec![of(30, 2, 9), of(30, 40, 21)]]);
        let idle = Idle::of(&[&added_of]);
        assert!((idle.tick - 7.0).abs() < 1e-6 && (idle.wait - 3.0).abs() < 1e-6, "{idle:?}");
        assert!((added_of.without_ticks(idle) - 3.0 * added_of.waits() - 2_000.0).abs() < 1e-6);
        let quiet = added([vec![of(10, 1, 1)], vec![of(30, 1, 1)]]);
        assert_eq!(Idle::of(&[&quiet]), Idle::default());
        let together = added([vec![of(10, 1, 1), of(10, 2, 2)], vec![of(30, 1, 1), of(30, 5, 5)]]);
        let idle = Idle::of(&[&together]);
        assert!((idle.tick - 10.0).abs() < 1e-6 && idle.wait == 0.0, "{idle:?}");
    }

    /// Where ticks and waits came nearly together, noise would give one of them instructions back.
    #[test]
    fn nothing_idle_gives_instructions_back() {
        let run = |all: u64, ticks: u64, waits: u64| Run { all, ticks, waits, ..Run::default() };
        let added_of = added([
            vec![run(1_000, 100, 100), run(2_000, 200, 201), run(3_010, 300, 299)],
            vec![run(5_000, 100, 100), run(5_000, 100, 100)],
        ]);
        let idle = Idle::of(&[&added_of]);
        assert!((9.0..11.0).contains(&(idle.tick + idle.wait)), "{idle:?}");
        assert!(idle.tick >= 0.0 && idle.wait >= 0.0, "{idle:?}");
    }
}
