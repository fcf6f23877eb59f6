//! Stock Linux whose disk and network card are another partition's: what it and its back end pay for each request, packet and segment.
//!
//! Nothing of the host is behind these devices: the disk is a file in the back partition's memory, and the other end of a connection is a
//! program there. So the runs repeat. Under instruction counting the emulator lets one core run at a time, and the next one when that has
//! nothing to do or a timer is due; on hardware both would run at once, and there would be less to take at one interrupt.

use super::own::{self, PIECE_BYTES, SEGMENT_BYTES};
use super::{Run, ticks};
use crate::Failure;
use crate::lab::{Lab, Variant, partition_lines};
use crate::outcome::Found;
use bulkhead_abi::observe::Counter;
use bulkhead_run::{CountingOptions, Machine};
use std::rc::Rc;

/// Places of the partitions, and of their cores.
const BACK: usize = 0;
const FRONT: usize = 1;
/// The disk in the description. A front that needs none has none, so that nobody waits for its server.
const DISK: &str =
    "[[virtio]]\nname = \"disk\"\nkind = \"block\"\nfront = \"front\"\nback = \"back\"\nsize = \"64 MiB\"\n";

/// What both do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Direct reads of so many KiB from the disk, one after the other.
    Read(u64),
    /// Pings by the front, the next one when the last is answered.
    Ping,
    /// Pieces of [`PIECE_BYTES`] over TCP, to the front.
    Receive,
    /// The same from the front.
    Send,
}

impl Work {
    /// How often in the shorter and in the longer run.
    fn counts(self) -> [u64; 2] {
        match self {
            Self::Read(4) | Self::Ping => [1_000, 9_000],
            Self::Read(_) => [100, 900],
            Self::Receive | Self::Send => [128, 640],
        }
    }

    fn text(self) -> String {
        match self {
            Self::Read(kib) => format!("direct reads of {kib} KiB"),
            Self::Ping => "pings".to_owned(),
            Self::Receive => "pieces of 64 KiB to the front over TCP".to_owned(),
            Self::Send => "pieces of 64 KiB from the front over TCP".to_owned(),
        }
    }

    /// What the front does; commas stand for spaces.
    fn of_front(self, count: u64) -> String {
        let work = match self {
            Self::Read(kib) => format!("dd,if=/dev/vda,of=/dev/null,bs={kib}k,count={count},iflag=direct"),
            Self::Ping => format!("until,ping,-c,1,-W,1,10.1.0.1;do,:;done;ping,-A,-q,-c,{count},10.1.0.1"),
            Self::Receive => "nc,-l,-p,80,>/dev/null".to_owned(),
            Self::Send => format!("until,dd,if=/dev/zero,bs=64k,count={count}|nc,10.1.0.1,80;do,sleep,0.1;done"),
        };
        format!("{work};grep,arch_timer,/proc/interrupts")
    }

    /// What the back end does. It ends when it was asked for nothing for a while.
    fn of_back(self, count: u64) -> String {
        const DISK: &str = "truncate,-s,64M,/tmp/disk;bulkheadctl,serve,disk,/tmp/disk,--timeout,10s";
        const CARD: &str = "bulkheadctl,serve,card,--tap,t0,--timeout,10s&until,test,-e,/sys/class/net/t0;do,sleep,0.1;done;\
                            ip,address,add,10.1.0.1/24,dev,t0;ip,link,set,t0,up";
        let work = match self {
            Self::Read(_) => DISK.to_owned(),
            Self::Ping => format!("{CARD};wait"),
            Self::Receive => {
                format!("{CARD};until,dd,if=/dev/zero,bs=64k,count={count}|nc,10.1.0.2,80;do,sleep,0.1;done;wait")
            }
            Self::Send => format!("{CARD};nc,-l,-p,80,>/dev/null;wait"),
        };
        format!("{work};grep,arch_timer,/proc/interrupts")
    }
}

/// What one of the two did.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    run: Run,
    /// Trapped accesses to registers: of the front's frame, or of the back end's function.
    registers: u64,
    /// Accesses to configuration space.
    configuration: u64,
    /// Doorbells: notifications by the front, interrupts by the back end.
    rung: u64,
    /// Those beyond the limit, which nobody hears.
    limited: u64,
}

impl End {
    fn of(machine: &Machine, place: usize, name: &str) -> Result<Self, Failure> {
        let observer = machine.observer().ok_or_else(|| Failure::wrong("the machine has no monitor".to_owned()))?;
        let counter = |counter| observer.partition_counter(place, counter);
        let counts = machine.counts()?;
        let core = counts.cores.get(place).ok_or_else(|| Failure::wrong(format!("core {place} was not counted")))?;
        Ok(Self {
            run: Run::of(core, counter, ticks(&partition_lines(machine, name))?),
            registers: counter(Counter::PciRegisters),
            configuration: counter(Counter::PciConfig),
            rung: counter(Counter::DoorbellSent),
            limited: counter(Counter::DoorbellLimited),
        })
    }

    /// What it has more than in a shorter run.
    fn more_than(&self, fewer: &Self) -> Self {
        Self {
            run: self.run.more_than(&fewer.run),
            registers: self.registers.saturating_sub(fewer.registers),
            configuration: self.configuration.saturating_sub(fewer.configuration),
            rung: self.rung.saturating_sub(fewer.rung),
            limited: self.limited.saturating_sub(fewer.limited),
        }
    }

    fn details(&self, name: &str) -> String {
        let Self {
            run: Run { all, monitor, entries, interrupts, ticks, waits: _ },
            registers,
            configuration,
            rung,
            limited,
        } = self;
        format!(
            "{name}: {entries} entries into the monitor for {interrupts} interrupts, of which {ticks} ticks of Linux, {registers} registers and {configuration} words of configuration space; {rung} doorbells and {limited} beyond the limit; {monitor} of {all} instructions at EL2"
        )
    }
}

/// What both did more in the longer run.
#[derive(Debug)]
struct Pair {
    work: Work,
    front: End,
    back: End,
    /// Registers of the front until its devices were ready: all that were no notifications in the shorter run.
    front_set_up: u64,
}

impl Pair {
    /// How often more.
    fn more(&self) -> f64 {
        let [few, many] = self.work.counts();
        (many - few) as f64
    }

    /// Requests or packets that the front announced. Linux may make one or two of its own in the longer run.
    fn announced(&self) -> Result<f64, Failure> {
        let rung = self.front.rung as f64;
        if rung < self.more() {
            return Err(Failure::wrong(format!("only {rung} notifications of {} {}", self.more(), self.work.text())));
        }
        Ok(rung)
    }

    fn more_segments(&self) -> f64 {
        self.more() * PIECE_BYTES as f64 / SEGMENT_BYTES as f64
    }

    fn details(&self) -> Vec<String> {
        let what = format!("{} {}", self.more(), self.work.text());
        vec![what, self.front.details("front"), self.back.details("back end")]
    }

    fn found(&self, value: f64) -> Found {
        Found::new(value, self.details())
    }
}

fn run(lab: &Lab, work: Work, count: u64) -> Result<[End; 2], Failure> {
    let (of_front, of_back) = (work.of_front(count), work.of_back(count));
    let disk = if matches!(work, Work::Read(_)) { DISK } else { "" };
    let changes = [(DISK, disk), ("WORK", &*of_front), ("SERVE", &*of_back)];
    let machine = lab.run(Variant { name: "fronts", changes: &changes }, |options| {
        options.icount_shift = Some(0);
        options.counting = options.plan.as_ref().map(CountingOptions::for_monitor);
    })?;
    for name in ["front", "back"] {
        let lines = partition_lines(&machine, name);
        let wrong = ["FAILED", "bulkheadctl:", " stopped "];
        if let Some(line) = lines.iter().find(|line| wrong.iter().any(|wrong| line.contains(wrong))) {
            return Err(Failure::wrong(format!("{name} printed {line:?}")));
        }
    }
    Ok([End::of(&machine, FRONT, "front")?, End::of(&machine, BACK, "back")?])
}

fn pair(lab: &Lab, work: Work) -> Result<Rc<Pair>, Failure> {
    lab.once(&format!("fronts {work:?}"), || {
        let [few, many] = work.counts();
        let [front_of_few, back_of_few] = run(lab, work, few)?;
        let [front, back] = run(lab, work, many)?;
        let End { registers, rung, limited, .. } = front_of_few;
        Ok(Pair {
            work,
            front: front.more_than(&front_of_few),
            back: back.more_than(&back_of_few),
            front_set_up: registers.saturating_sub(rung + limited),
        })
    })
}

/// Entries of the front beyond its interrupts and notifications.
pub(crate) fn beyond(lab: &Lab) -> Result<Found, Failure> {
    let pair = pair(lab, Work::Read(4))?;
    let (run, announced) = (&pair.front.run, pair.announced()?);
    Ok(pair.found(run.entries.saturating_sub(run.interrupts) as f64 - announced))
}

/// Entries of a front until its device is ready, for the kind that has more.
pub(crate) fn set_up(lab: &Lab) -> Result<Found, Failure> {
    // A front that reads has a network card as well, and one that pings has no disk.
    let [both, card] = [pair(lab, Work::Read(4))?, pair(lab, Work::Ping)?].map(|pair| pair.front_set_up);
    let disk = both.checked_sub(card).filter(|disk| *disk > 0 && card > 0);
    let disk = disk.ok_or_else(|| Failure::wrong(format!("{both} registers with a disk, and {card} without")))?;
    let details = vec![format!("{disk} of a disk and {card} of a network card, each with its queues")];
    Ok(Found::new(disk.max(card) as f64, details))
}

/// Entries of the front for each request.
pub(crate) fn read_exits(lab: &Lab) -> Result<Found, Failure> {
    let pair = pair(lab, Work::Read(4))?;
    Ok(pair.found(pair.front.run.without_ticks() as f64 / pair.announced()?))
}

/// Entries of both for a packet to the back end and its answer.
pub(crate) fn packet(lab: &Lab) -> Result<Found, Failure> {
    let pair = pair(lab, Work::Ping)?;
    let both = pair.front.run.without_ticks() + pair.back.run.without_ticks();
    Ok(pair.found(both as f64 / pair.announced()?))
}

fn of_segment(lab: &Lab, work: Work, end: fn(&Pair) -> &End) -> Result<Found, Failure> {
    let pair = pair(lab, work)?;
    Ok(pair.found(end(&pair).run.without_ticks() as f64 / pair.more_segments()))
}

pub(crate) fn receive_exits(lab: &Lab) -> Result<Found, Failure> {
    of_segment(lab, Work::Receive, |pair| &pair.front)
}

pub(crate) fn receive_back(lab: &Lab) -> Result<Found, Failure> {
    of_segment(lab, Work::Receive, |pair| &pair.back)
}

pub(crate) fn send_exits(lab: &Lab) -> Result<Found, Failure> {
    of_segment(lab, Work::Send, |pair| &pair.front)
}

pub(crate) fn send_back(lab: &Lab) -> Result<Found, Failure> {
    of_segment(lab, Work::Send, |pair| &pair.back)
}

/// Instructions in the front's partition beyond those in one with such a device of its own, in percent of these.
fn beyond_own(lab: &Lab, work: Work, own: own::Work) -> Result<Found, Failure> {
    let (pair, own) = (pair(lab, work)?, own::in_partition(lab, own)?);
    let (front, of_own) = (pair.front.run.all as f64 / pair.more(), own.each_without_ticks());
    let mut found = pair.found(100.0 * (front / of_own - 1.0));
    found
        .details
        .push(format!("{front:.0} instructions each in the front's partition, {of_own:.0} with a device of its own"));
    Ok(found)
}

pub(crate) fn read_work(lab: &Lab) -> Result<Found, Failure> {
    beyond_own(lab, Work::Read(4), own::Work::Read(4))
}

pub(crate) fn read_64_work(lab: &Lab) -> Result<Found, Failure> {
    beyond_own(lab, Work::Read(64), own::Work::Read(64))
}

pub(crate) fn receive_work(lab: &Lab) -> Result<Found, Failure> {
    beyond_own(lab, Work::Receive, own::Work::Receive)
}
