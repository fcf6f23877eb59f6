//! Paths through the monitor: what the guest `bench` measures of itself, and what a doorbell costs on both sides.

use crate::Failure;
use crate::lab::{Lab, Variant, partition_lines, serial_lines};
use crate::outcome::Found;
use bulkhead_abi::observe::Counter;
use bulkhead_run::CountingOptions;
use std::collections::BTreeMap;
use std::rc::Rc;

/// `-icount shift=4`: an instruction takes 16 ns, one tick of the counter.
pub(crate) const ONE_TICK_SHIFT: u8 = 4;

/// Smallest and largest of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) minimum: u64,
    pub(crate) maximum: u64,
}

/// What the guest printed: a range for each of its rows.
#[derive(Debug)]
pub(crate) struct Printed(BTreeMap<String, Range>);

impl Printed {
    /// Reads lines `bench NAME min=A max=B n=N` between the first and the last one of the guest.
    pub(crate) fn parse(lines: &[String]) -> Result<Self, Failure> {
        if !lines.iter().any(|line| line == "bench done") {
            let last = lines.last().map_or("nothing", String::as_str);
            return Err(Failure::wrong(format!("the guest `bench` did not come to its end; it printed last: {last}")));
        }
        Ok(Self(lines.iter().filter_map(|line| range(line)).collect()))
    }

    pub(crate) fn row(&self, name: &str) -> Result<Range, Failure> {
        let missing =
            || Failure::wrong(format!("the guest `bench` printed no row `{name}`; rebuild it with `./x guests`"));
        self.0.get(name).copied().ok_or_else(missing)
    }
}

fn range(line: &str) -> Option<(String, Range)> {
    let mut words = line.strip_prefix("bench ")?.split(' ');
    let name = words.next()?.to_owned();
    let mut number = |key: &str| words.next()?.strip_prefix(key)?.parse().ok();
    let (minimum, maximum) = (number("min=")?, number("max=")?);
    Some((name, Range { minimum, maximum }))
}

/// Where the guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Board,
    Direct,
    Mapped,
    MappedTracing,
    Shared,
}

/// The core gets a schedule, and the guest a server that is never empty.
pub(crate) const SHARE_CORE: &[(&str, &str)] = &[
    ("enabled = false", "enabled = false\n[[schedule]]\ncore = 0\nkind = \"fixed-priority\""),
    ("interrupts = \"mapped\"", "servers = [{ priority = 1 }]"),
];

fn printed(lab: &Lab, place: Place) -> Result<Rc<Printed>, Failure> {
    lab.once(&format!("paths {place:?}"), || {
        let exact = |options: &mut bulkhead_run::MachineOptions| options.icount_shift = Some(ONE_TICK_SHIFT);
        let changes: &[(&str, &str)] = match place {
            Place::Board => {
                let machine = lab.run_bare("bench.elf", exact)?;
                return Printed::parse(&serial_lines(&machine));
            }
            Place::Direct => &[("interrupts = \"mapped\"", "interrupts = \"direct\"")],
            Place::Mapped => &[],
            Place::MappedTracing => &[("enabled = false", "enabled = true")],
            Place::Shared => SHARE_CORE,
        };
        let machine = lab.run(Variant { name: "paths", changes }, exact)?;
        Printed::parse(&partition_lines(&machine, "bench"))
    })
}

fn show(what: &str, range: Range) -> String {
    if range.minimum == range.maximum {
        format!("{what} {}", range.minimum)
    } else {
        format!("{what} {}..{}", range.minimum, range.maximum)
    }
}

/// What a partition adds to the latency of a waiting core: its largest less the board's smallest. For a sleeping core the
/// smallest ones are compared: on either machine the emulator now and then ends a WFI one tick late, as the host's timers fall.
fn timer_extra(lab: &Lab, place: Place) -> Result<Found, Failure> {
    let (board, partition) = (printed(lab, Place::Board)?, printed(lab, place)?);
    let extra = |row: &str, largest: bool| -> Result<(u64, String), Failure> {
        let (bare, ours) = (board.row(row)?, partition.row(row)?);
        let counts = if largest { ours.maximum } else { ours.minimum };
        let extra = counts.saturating_sub(bare.minimum);
        Ok((extra, format!("{}, {}, so {extra} more", show("bare board", bare), show("partition", ours))))
    };
    let (busy, busy_text) = extra("timer", true)?;
    let (idle, idle_text) = extra("timer_idle", false)?;
    let details = [format!("busy core: {busy_text}"), format!("core in WFI: {idle_text}")];
    Ok(Found::new(busy.max(idle) as f64, details))
}

pub(crate) fn timer_direct(lab: &Lab) -> Result<Found, Failure> {
    timer_extra(lab, Place::Direct)
}

pub(crate) fn timer_mapped(lab: &Lab) -> Result<Found, Failure> {
    timer_extra(lab, Place::Mapped)
}

/// On a shared core an idle guest gives the core away, so the busy one is compared alone.
pub(crate) fn timer_shared(lab: &Lab) -> Result<Found, Failure> {
    let (bare, ours) = (printed(lab, Place::Board)?.row("timer")?, printed(lab, Place::Shared)?.row("timer")?);
    let extra = ours.maximum.saturating_sub(bare.minimum);
    let idle = show("from WFI, the core given away and taken back", printed(lab, Place::Shared)?.row("timer_idle")?);
    Ok(Found::new(extra as f64, [show("bare board", bare), show("shared core", ours), idle]))
}

/// The largest sample of one row.
fn largest(lab: &Lab, place: Place, row: &str) -> Result<Found, Failure> {
    let range = printed(lab, place)?.row(row)?;
    Ok(Found::new(range.maximum as f64, [show("over all samples", range)]))
}

/// [`largest`] on a core of the guest's own, and the same on a shared one beside it.
fn largest_of_both(lab: &Lab, row: &str) -> Result<Found, Failure> {
    let mut found = largest(lab, Place::Mapped, row)?;
    found.details.push(show("on a shared core", printed(lab, Place::Shared)?.row(row)?));
    Ok(found)
}

pub(crate) fn hypercall(lab: &Lab) -> Result<Found, Failure> {
    let mut found = largest_of_both(lab, "hypercall")?;
    found.details.push(show("the same by SMC", printed(lab, Place::Mapped)?.row("hypercall_smc")?));
    Ok(found)
}

pub(crate) fn psci_version(lab: &Lab) -> Result<Found, Failure> {
    largest_of_both(lab, "psci_version")
}

pub(crate) fn gicd_read(lab: &Lab) -> Result<Found, Failure> {
    let mut found = largest_of_both(lab, "gicd_isenabler_read")?;
    found.details.push(show("GICD_ISENABLER write", printed(lab, Place::Mapped)?.row("gicd_isenabler_write")?));
    Ok(found)
}

pub(crate) fn gicd_typer(lab: &Lab) -> Result<Found, Failure> {
    largest_of_both(lab, "gicd_typer_read")
}

pub(crate) fn gicr_read(lab: &Lab) -> Result<Found, Failure> {
    largest(lab, Place::Mapped, "gicr_isenabler_read")
}

pub(crate) fn gicr_read_shared(lab: &Lab) -> Result<Found, Failure> {
    largest(lab, Place::Shared, "gicr_isenabler_read")
}

pub(crate) fn own_sgi(lab: &Lab) -> Result<Found, Failure> {
    largest_of_both(lab, "own_sgi")
}

/// A byte through the virtual PL011 as a driver sends it: is there room, then the byte.
pub(crate) fn console_byte(lab: &Lab) -> Result<Found, Failure> {
    let printed = printed(lab, Place::Mapped)?;
    let (flags, data) = (printed.row("console_flag_read")?, printed.row("console_byte")?);
    let details = [show("flag register read", flags), show("data register write", data)];
    Ok(Found::new((flags.maximum + data.maximum) as f64, details))
}

/// What recording adds to one path: the largest with it less the smallest without it.
fn trace_cost(lab: &Lab, rows: &[&str]) -> Result<Found, Failure> {
    let (off, on) = (printed(lab, Place::Mapped)?, printed(lab, Place::MappedTracing)?);
    let mut worst = 0.0_f64;
    let mut details = Vec::new();
    for row in rows {
        let (off, on) = (off.row(row)?, on.row(row)?);
        worst = worst.max(on.maximum.saturating_sub(off.minimum) as f64);
        details.push(format!("{row}: {}, {}", show("off", off), show("on", on)));
    }
    Ok(Found::new(worst, details))
}

/// Paths that are the same with a record and without; the dearest counts.
pub(crate) fn trace_record(lab: &Lab) -> Result<Found, Failure> {
    trace_cost(lab, &["hypercall", "gicd_isenabler_read"])
}

/// The path of an interrupt, which leaves the vectors for Rust code when it is recorded.
pub(crate) fn trace_interrupt(lab: &Lab) -> Result<Found, Failure> {
    trace_cost(lab, &["timer"])
}

/// Monitor instructions on both cores of a run with a given number of doorbells.
struct Doorbells {
    sender: u64,
    receiver: u64,
    /// Interrupts that the receiver's core took: of doorbells, and what does not depend on their number.
    interrupts: u64,
}

fn doorbells(lab: &Lab, name: &'static str, samples: &str) -> Result<Doorbells, Failure> {
    let variant = Variant { name, changes: &[("samples=1000", samples)] };
    let machine = lab.run(variant, |options| {
        options.icount_shift = Some(ONE_TICK_SHIFT);
        options.counting = options.plan.as_ref().map(CountingOptions::for_monitor);
    })?;
    let said = partition_lines(&machine, "sender");
    if said != ["bench sent refused=0"] && said != ["bench notified"] {
        return Err(Failure::wrong(format!("the sender of doorbells printed {said:?}")));
    }
    let counts = machine.counts()?;
    let monitor = |core: usize| {
        let range = counts.cores.get(core).and_then(|core| core.range("monitor"));
        range.map(|range| range.since).ok_or_else(|| Failure::wrong(format!("core {core} has no instruction count")))
    };
    let interrupts = machine.observer().map_or(0, |observer| observer.counter(1, Counter::Interrupt));
    Ok(Doorbells { sender: monitor(0)?, receiver: monitor(1)?, interrupts })
}

/// Two runs that differ in the number of doorbells alone.
fn each_doorbell(lab: &Lab, name: &'static str) -> Result<Found, Failure> {
    const MORE: u64 = 1000;
    let (fewer, more) = (doorbells(lab, name, "samples=1000")?, doorbells(lab, name, "samples=2000")?);
    let arrived = more.interrupts.saturating_sub(fewer.interrupts);
    if arrived != MORE {
        return Err(Failure::wrong(format!("of {MORE} doorbells more {arrived} arrived one by one")));
    }
    let each = |more: u64, fewer: u64| more.saturating_sub(fewer) as f64 / MORE as f64;
    let (sender, receiver) = (each(more.sender, fewer.sender), each(more.receiver, fewer.receiver));
    Ok(Found::new(sender + receiver, [format!("sender {sender:.1}, receiver {receiver:.1}, mean of {MORE}")]))
}

/// The receiver has its core to itself.
pub(crate) fn doorbell(lab: &Lab) -> Result<Found, Failure> {
    each_doorbell(lab, "doorbell")
}

/// The sender writes QueueNotify of a virtio device whose back end is the receiver.
pub(crate) fn notification(lab: &Lab) -> Result<Found, Failure> {
    each_doorbell(lab, "notify")
}

/// Another guest computes on the receiver's core: each doorbell costs a switch there and one back.
pub(crate) fn doorbell_shared(lab: &Lab) -> Result<Found, Failure> {
    each_doorbell(lab, "shared-doorbell")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn rows_of_the_guest_are_read() {
        let printed = Printed::parse(&lines(&["bench start", "....", "bench timer min=1 max=20 n=9", "bench done"]));
        let printed = printed.expect("it is complete");
        assert_eq!(printed.row("timer"), Ok(Range { minimum: 1, maximum: 20 }));
        assert!(printed.row("absent").is_err());
    }

    #[test]
    fn a_guest_that_stopped_half_way_is_no_measurement() {
        assert!(Printed::parse(&lines(&["bench timer min=1 max=20 n=9"])).is_err());
        assert_eq!(range("bench timer min=x max=20 n=9"), None);
    }
}
