//! The table: every promised number, with its ceiling and what others reach.
//!
//! Figures of others were measured on the same emulator (QEMU 7.2, `-icount shift=4`; the doorbell QEMU 10.0) with the same guest;
//! ceilings are promises of the project and change by decision, not by measurement.

mod calls;
mod devices;
mod hybrid;
mod kernel;
mod secure;
mod shared;
mod sizes;

use crate::lab::Lab;
use crate::outcome::Found;
use crate::{Failure, linux, paths, scheduler, static_size, steady};

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Instructions.
    Instructions,
    /// Entries into the monitor.
    Entries,
    /// Entries into the monitor for each request.
    EntriesEach,
    /// Percent of all instructions.
    Percent,
    /// Bytes.
    Bytes,
    /// Lines of code.
    Lines,
    /// Conditional branches.
    Branches,
    /// Directions of conditional branches.
    Directions,
    /// Instructions for each byte.
    InstructionsPerByte,
    /// What should have come and did not.
    Lost,
    /// What should not have come and did.
    Accepted,
}

impl Unit {
    /// Returns a value with its unit.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Instructions => format!("{} instructions", trimmed(value, 1)),
            Self::Entries => format!("{} exits", trimmed(value, 0)),
            Self::EntriesEach => format!("{} exits each", trimmed(value, 3)),
            Self::Percent => format!("{} %", trimmed(value, 4)),
            Self::Bytes => format!("{} bytes", trimmed(value, 0)),
            Self::Lines => format!("{} lines", trimmed(value, 0)),
            Self::Branches => format!("{} branches", trimmed(value, 0)),
            Self::Directions => format!("{} directions", trimmed(value, 0)),
            Self::Accepted => format!("{} accepted", trimmed(value, 0)),
            Self::Lost => format!("{} lost", trimmed(value, 0)),
            Self::InstructionsPerByte => format!("{} instructions per byte", trimmed(value, 4)),
        }
    }
}

/// A number with at most this many decimals, without zeros at its end.
fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// One promised number.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// `group.name`, as given on the command line.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// How it is measured.
    pub how: &'static str,
    /// What others reach on the same work; empty where nothing was measured.
    pub peers: &'static str,
    /// The value must not be larger.
    pub ceiling: Option<f64>,
    /// What the value counts.
    pub unit: Unit,
    /// Requirements that the number belongs to.
    pub requirements: &'static [&'static str],
    /// Takes more than a few seconds.
    pub slow: bool,
    /// Measures it.
    pub(crate) measure: fn(&Lab) -> Result<Found, Failure>,
}

impl Row {
    /// Returns the part of the name before the dot.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.name.split('.').next().unwrap_or(self.name)
    }
}

/// Rows of dedicated cores, of the scheduler alone and of sizes.
const ROWS: &[Row] = &[
    Row {
        name: "timer.direct",
        what: "guest timer interrupt, compare value to first handler instruction: extra over the same guest on the bare board, `direct`",
        how: "the guest reads the counter in its first handler instruction: 1000 times in a loop, largest in the partition less smallest on the board, and 1000 times in WFI, smallest less smallest; the larger",
        peers: "Bao 199, Xen null 1,083, KVM 2,115",
        ceiling: Some(0.0),
        unit: Unit::Instructions,
        requirements: &["MZ-2", "MZ-4"],
        slow: false,
        measure: paths::timer_direct,
    },
    Row {
        name: "timer.mapped",
        what: "guest timer interrupt, extra over the bare board, `mapped`",
        how: "as timer.direct",
        peers: "Bao 199, Xen null 1,083, KVM 2,115",
        ceiling: Some(60.0),
        unit: Unit::Instructions,
        requirements: &["MZ-2", "MZ-4"],
        slow: false,
        measure: paths::timer_mapped,
    },
    Row {
        name: "exits.direct",
        what: "exits and calls in 10 virtual seconds of a 100 Hz control loop, `direct`",
        how: "counters of a run of 20 s less those of a run of 10 s",
        peers: "",
        ceiling: Some(0.0),
        unit: Unit::Entries,
        requirements: &["QV-5", "QV-6", "MZ-4"],
        slow: false,
        measure: steady::direct,
    },
    Row {
        name: "exits.mapped",
        what: "exits beyond one for each physical interrupt and one for each SGI sent, in 10 virtual seconds of the control loop, `mapped`",
        how: "as exits.direct",
        peers: "",
        ceiling: Some(0.0),
        unit: Unit::Entries,
        requirements: &["QV-5", "QV-6", "MZ-2"],
        slow: false,
        measure: steady::mapped,
    },
    Row {
        name: "exits.process",
        what: "those of a kernel with two processes at EL0 in 1000 timer ticks: any, `direct`, and beyond its interrupts, `mapped`",
        how: "as exits.direct, with 1100 and 100 ticks; its calls and page-table changes are in the details",
        peers: "",
        ceiling: Some(0.0),
        unit: Unit::Entries,
        requirements: &["QV-5", "MZ-2", "MZ-3", "MZ-4"],
        slow: false,
        measure: steady::process,
    },
    Row {
        name: "exits.sgi",
        what: "exits beyond the one that sends it, for 1000 SGIs to the own core, `mapped`",
        how: "counters of a run with 2000 SGIs less those of a run with 1000",
        peers: "",
        ceiling: Some(0.0),
        unit: Unit::Entries,
        requirements: &["QV-6", "MZ-2"],
        slow: false,
        measure: steady::own_sgi,
    },
    Row {
        name: "exits.rtos",
        what: "exits beyond those, in 10 virtual seconds of stock FreeRTOS at 1 kHz, `mapped`",
        how: "counters of a run of 20 s less those of a run of 10 s, each with one line of equal length",
        peers: "",
        ceiling: Some(0.0),
        unit: Unit::Entries,
        requirements: &["QV-5", "QV-6", "MZ-1", "MZ-2"],
        slow: false,
        measure: steady::rtos,
    },
    Row {
        name: "exits.linux",
        what: "exits beyond those, in 10 virtual seconds of idle stock Debian Linux, `mapped`",
        how: "counters of a run that sleeps 20 s less those of a run that sleeps 10 s",
        peers: "",
        ceiling: Some(0.0),
        unit: Unit::Entries,
        requirements: &["QV-5", "QV-6", "MZ-1", "MZ-2"],
        slow: true,
        measure: steady::linux,
    },
    Row {
        name: "linux.boot",
        what: "stock Debian Linux with one CPU (`quiet nokaslr norandmaps`), first kernel instruction to init: instructions at EL2 of all",
        how: "counted by an emulator plugin, from the guest's first instruction to power-off right after init has said hello",
        peers: "elapsed ratio to the bare board: Bao 0.998 to 1.010, Xen 1.000 to 1.005, KVM 1.002 to 1.007",
        ceiling: Some(0.05),
        unit: Unit::Percent,
        requirements: &["QV-6", "MZ-1"],
        slow: true,
        measure: linux::boot,
    },
    Row {
        name: "linux.work",
        what: "stock Debian Linux with one CPU, instructions at EL2 of all in fixed work: sha256 of 64 MiB, 2,000 forks and execs, 2,000 messages to and fro through pipes",
        how: "what a run with the work has more than the run of linux.boot",
        peers: "elapsed ratio to the bare board: Bao 0.998 to 1.010, Xen 1.000 to 1.005, KVM 1.002 to 1.007",
        ceiling: Some(0.01),
        unit: Unit::Percent,
        requirements: &["QV-6", "MZ-1"],
        slow: true,
        measure: linux::work,
    },
    Row {
        name: "doorbell.sleeping",
        what: "doorbell to the handler of a sleeping guest on another core, uncontended, limiter included: monitor instructions on both sides",
        how: "counted by an emulator plugin per core; a run with 2000 doorbells less one with 1000, divided by 1000",
        peers: "Bao 765, Xen 2,187",
        ceiling: Some(200.0),
        unit: Unit::Instructions,
        requirements: &["QV-51", "QV-52"],
        slow: false,
        measure: paths::doorbell,
    },
    Row {
        name: "size.own_bytes",
        what: "text and read-only data of the part `own` of the monitor: every core is one vCPU's",
        how: "the segments of its ELF file, without what fills pages up",
        peers: "Bao 81,686",
        ceiling: Some(43_008.0),
        unit: Unit::Bytes,
        requirements: &["QV-3"],
        slow: false,
        measure: static_size::own_bytes,
    },
    Row {
        name: "size.shared_bytes",
        what: "the same of the part `shared`: several vCPUs may share a core",
        how: "the segments of its ELF file, without what fills pages up",
        peers: "Bao 81,686, without shared cores",
        ceiling: Some(74_752.0),
        unit: Unit::Bytes,
        requirements: &["QV-3"],
        slow: false,
        measure: static_size::shared_bytes,
    },
    Row {
        name: "size.own_lines",
        what: "code lines of ours in the part `own`",
        how: "every item that is compiled for the part, scheduler and assembly included, after rustfmt with its defaults, without blanks, comments and tests",
        peers: "",
        ceiling: Some(6_200.0),
        unit: Unit::Lines,
        requirements: &["QV-3"],
        slow: false,
        measure: static_size::own_lines,
    },
    Row {
        name: "size.shared_lines",
        what: "code lines of ours in the part `shared`",
        how: "every item that is compiled for the part, scheduler and assembly included, after rustfmt with its defaults, without blanks, comments and tests",
        peers: "",
        ceiling: Some(11_580.0),
        unit: Unit::Lines,
        requirements: &["QV-3"],
        slow: false,
        measure: static_size::shared_lines,
    },
    Row {
        name: "memory.core",
        what: "monitor memory of a core with a 1 GiB partition, tables included, without trace and console rings and pristine images",
        how: "from the plan of the image, for a Linux partition and a native one; the larger",
        peers: "",
        ceiling: Some(73_728.0),
        unit: Unit::Bytes,
        requirements: &["QV-3"],
        slow: false,
        measure: static_size::core_bytes,
    },
    Row {
        name: "restart.linux",
        what: "restart of a 256 MiB Linux partition, reset to kernel entry: scrub, reload and CRC-32C, for each byte of its RAM",
        how: "the monitor's own counter of the restart; a tick is an instruction",
        peers: "",
        ceiling: Some(0.2),
        unit: Unit::InstructionsPerByte,
        requirements: &["QV-74", "SG-62"],
        slow: true,
        measure: linux::restart,
    },
    Row {
        name: "trace.record",
        what: "cost of one trace record",
        how: "a hypercall and an emulated register write one record each, recording on less recording off; the dearer one",
        peers: "",
        ceiling: Some(15.0),
        unit: Unit::Instructions,
        requirements: &[],
        slow: false,
        measure: paths::trace_record,
    },
    Row {
        name: "trace.interrupt",
        what: "what recording adds to a `mapped` interrupt: its record, and the way through Rust code that only recording needs",
        how: "timer.mapped with recording on less recording off",
        peers: "",
        ceiling: None,
        unit: Unit::Instructions,
        requirements: &[],
        slow: false,
        measure: paths::trace_interrupt,
    },
    Row {
        name: "scheduler.pick_4",
        what: "choosing who runs on a shared core of 4 servers, deadline of the timer included",
        how: "the guest `schedcost` on the bare board; the call is included; the largest of its stories",
        peers: "",
        ceiling: Some(60.0),
        unit: Unit::Instructions,
        requirements: &["QV-22", "QV-23"],
        slow: false,
        measure: scheduler::pick_4,
    },
    Row {
        name: "scheduler.pick_16",
        what: "choosing who runs on a shared core of 16 servers, deadline of the timer included",
        how: "the guest `schedcost` on the bare board; the call is included; the largest of its stories",
        peers: "",
        ceiling: Some(60.0),
        unit: Unit::Instructions,
        requirements: &["QV-22", "QV-23"],
        slow: false,
        measure: scheduler::pick_16,
    },
    Row {
        name: "scheduler.pick_64",
        what: "choosing who runs on a shared core of 64 servers, deadline of the timer included",
        how: "the guest `schedcost` on the bare board; the call is included; the largest of its stories",
        peers: "",
        ceiling: Some(60.0),
        unit: Unit::Instructions,
        requirements: &["QV-22", "QV-23"],
        slow: false,
        measure: scheduler::pick_64,
    },
    Row {
        name: "scheduler.replenish_16",
        what: "one budget that comes back, on a core of 16 servers that wait for theirs",
        how: "the guest `schedcost` on the bare board; the call is included; the largest of its stories; what the date adds to bringing the accounts up to date",
        peers: "",
        ceiling: Some(120.0),
        unit: Unit::Instructions,
        requirements: &["QV-23", "QV-24"],
        slow: false,
        measure: scheduler::replenish_16,
    },
    Row {
        name: "scheduler.replenish_64",
        what: "one budget that comes back, on a core of 64 servers that wait for theirs",
        how: "as scheduler.replenish_16",
        peers: "",
        ceiling: Some(180.0),
        unit: Unit::Instructions,
        requirements: &["QV-23", "QV-24"],
        slow: false,
        measure: scheduler::replenish_64,
    },
    Row {
        name: "scheduler.preemption",
        what: "a more important vCPU with one server wakes: the server that runs is charged, and the core picks again",
        how: "as scheduler.pick_16; both calls",
        peers: "",
        ceiling: Some(180.0),
        unit: Unit::Instructions,
        requirements: &["QV-22", "MZ-26"],
        slow: false,
        measure: scheduler::preemption,
    },
    Row {
        name: "scheduler.exhaustion",
        what: "a budget is used up: it is charged, its server waits, and the core picks again",
        how: "as scheduler.pick_16; one call",
        peers: "",
        ceiling: Some(400.0),
        unit: Unit::Instructions,
        requirements: &["QV-24"],
        slow: false,
        measure: scheduler::exhaustion,
    },
    Row {
        name: "scheduler.any",
        what: "any report, date or choice in a random history on 16 servers; several budgets may come back at once",
        how: "20,000 reports; the largest",
        peers: "",
        ceiling: None,
        unit: Unit::Instructions,
        requirements: &[],
        slow: false,
        measure: scheduler::anything,
    },
    Row {
        name: "scheduler.bytes",
        what: "state of a shared core of 16 servers and 8 vCPUs",
        how: "size_of on the target",
        peers: "",
        // 8,192 until servers had a least charge: two words for each of 16, and two for the core.
        ceiling: Some(8_448.0),
        unit: Unit::Bytes,
        requirements: &["QV-3"],
        slow: false,
        measure: scheduler::state_bytes,
    },
    Row {
        name: "boot.first_guest",
        what: "reset to the first instruction of a guest of 4 MiB, boot loader included",
        how: "counted by an emulator plugin",
        peers: "",
        ceiling: None,
        unit: Unit::Instructions,
        requirements: &["QV-6"],
        slow: false,
        measure: static_size::first_guest,
    },
];

/// All rows: those of the promises, and those that the analysis rests on.
pub fn all() -> impl Iterator<Item = &'static Row> {
    ROWS.iter()
        .chain(calls::ROWS)
        .chain(shared::ROWS)
        .chain(sizes::ROWS)
        .chain(secure::ROWS)
        .chain(hybrid::ROWS)
        .chain(devices::ROWS)
        .chain(kernel::ROWS)
        .chain(crate::costs::ROWS)
}

/// Finds the rows that names or groups mean, in the order of the table; all rows without names.
pub(crate) fn choose(names: &[String]) -> Result<Vec<&'static Row>, Failure> {
    let is_meant = |row: &Row, name: &str| row.name == name || row.group() == name;
    for name in names {
        if !all().any(|row| is_meant(row, name)) {
            let message = format!("there is no row, group or experiment `{name}`; `./x bench --list` prints them all");
            return Err(Failure { message, exit_code: bulkhead_run::exit_code::USAGE });
        }
    }
    let wanted = |row: &&Row| names.is_empty() || names.iter().any(|name| is_meant(row, name));
    Ok(all().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_have_a_group() {
        let names: BTreeSet<_> = all().map(|row| row.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(all().all(|row| row.name.split('.').count() == 2));
    }

    #[test]
    fn a_name_is_a_row_or_a_group() {
        let count = |name: &str| choose(&[name.to_owned()]).map(|rows| rows.len());
        assert_eq!(count("timer"), Ok(2));
        assert_eq!(count("timer.direct"), Ok(1));
        assert_eq!(choose(&[]).map(|rows| rows.len()), Ok(all().count()));
        assert!(count("time").is_err());
    }

    #[test]
    fn values_are_written_with_their_unit() {
        assert_eq!(Unit::Instructions.text(20.0), "20 instructions");
        assert_eq!(Unit::Percent.text(0.0421), "0.0421 %");
        assert_eq!(Unit::Bytes.text(49_152.0), "49152 bytes");
        assert_eq!(Unit::Entries.text(100.0), "100 exits");
    }
}
