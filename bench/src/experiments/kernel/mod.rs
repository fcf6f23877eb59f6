//! The experiments of the seeds that are about the real-time kernel: what published measurements claim of processes, components, interrupts and isolation, asserted of instances.
//!
//! Each runs on the bare board and as a partition. On one core all values are exact, so most claims are equalities: what an experiment finds is judged by what it must be, and not
//! by a record. A record in `docs/experiments.json` is of the day when it was made: the kernel's paths change with every part that it gets, and only their
//! relations are promised. So what was recorded is shown, and never compared with.
//!
//! How often an experiment does what it repeats is in [`ITERATIONS`] alone.

mod crowd;
mod delegation;
mod depth;
mod depth_cores;
mod figure;
mod flood;
mod fork;
mod interrupts;
mod isolation;
mod latency;
mod latency_cores;
mod lock;
mod messages;
mod messages_cores;
mod micro;
mod poll;
mod stage2;
mod ticket;

pub(crate) use fork::{counted_forks, fork_image, longest as longest_fork};
pub(crate) use isolation::exits;

use super::{Cell, Experiment, Findings, Length};
use crate::Failure;
use crate::lab::Lab;
use bulkhead_abi::observe::Counter;
use bulkhead_description::Options;
use bulkhead_description::kernel::{Laid, load_native_text};
use bulkhead_run::End;
use bulkhead_system_tests::kernel::{Place, run_bare, start};
use std::path::Path;

/// What experiments of the kernel are called: `kernel.NAME`.
const GROUP: &str = "kernel.";
/// Of the only partition.
const PARTITION: &str = "kernel";

/// How often an experiment does what it repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iterations {
    /// The experiment.
    pub experiment: &'static str,
    /// What is repeated.
    pub of: &'static str,
    /// In the short form, which every test run makes.
    pub short: u64,
    /// In the full form: as often as the seed did it, if it says so.
    pub full: u64,
}

/// Every experiment of the kernel, in their order.
pub const ITERATIONS: &[Iterations] = &[
    of("kernel.isolation", "periods of 10 ms of the control loop", 20, 1_000),
    of("kernel.interrupts", "requests, one each 3 ms", 60, 30_000),
    of("kernel.fork", "fork, exit and wait", 40, 40_000),
    of("kernel.stage2", "rounds over each number of pages", 10, 10_000),
    of("kernel.micro", "runs of each operation", 200, 1_000_000),
    of("kernel.figure-4", "runs of the figure in each place", 1, 1),
    of("kernel.flood", "milliseconds of the job", 1, 10),
    of("kernel.lock", "calls on the first core", 100, 10_000),
    of("kernel.poll", "tens of milliseconds that the job takes by itself, about", 30, 1_000),
    of("kernel.depth", "round trips and sleeps at each depth", 100, 100_000),
    of("kernel.latency", "windows with 50 messages for each limit and poll", 8, 20_000),
    of("kernel.messages", "messages of each size", 2, 5_000),
    of("kernel.delegation", "gifts of which the server is told", 20, 200),
];

const fn of(experiment: &'static str, of: &'static str, short: u64, full: u64) -> Iterations {
    Iterations { experiment, of, short, full }
}

/// Every experiment of the kernel.
pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "kernel.isolation",
        what: "a control loop beside a storm of interrupts, a component that faults again and again, processes without end, a subsystem that spins and a hog",
        how: "an instance with all of them, on the bare board and in `direct`; the loop says how many periods it lost, and its worst response stands beside the bound that `check` computes before",
        requirements: &["QV-21", "QV-22", "QV-39", "CH-61", "CH-63"],
        slow: false,
        run: isolation::isolation,
    },
    Experiment {
        name: "kernel.interrupts",
        what: "requests at 3 ms that a component serves (Quest seed, Table IV)",
        how: "the kernel's second timer rings on an absolute grid; a thread of a less important server sees how long it is away for each request; on the bare board, in `direct` and in `mapped`",
        requirements: &["QV-E7", "QV-35", "CH-64"],
        slow: false,
        run: interrupts::interrupts,
    },
    Experiment {
        name: "kernel.fork",
        what: "a process of 64 KiB forks, the child exits, the parent waits (Quest seed, figure 12)",
        how: "the process counts the whole loop by the counter, on the bare board, in `direct` and in `mapped`; exits by the monitor's counters of two runs of different length",
        requirements: &["QV-E6", "QV-5"],
        slow: false,
        run: fork::fork,
    },
    Experiment {
        name: "kernel.stage2",
        what: "rounds over pages of data and of text, with and without a second stage of translation (Quest seed, figures 5 and 6)",
        how: "touches 4,160 bytes apart on 1 to 512 pages, counted by the counter, on the bare board and in `direct`; then with a read of an emulated register in each round. Instructions: misses of a translation buffer are not in them",
        requirements: &["QV-E1", "QV-5"],
        slow: false,
        run: stage2::stage2,
    },
    Experiment {
        name: "kernel.micro",
        what: "micro operations: call of a component, signals, thread switch, yield of ChaosRT, a limited signal (Chaos seed, Tables II and III)",
        how: "as the rows `kernel`, as often as the seed, on the bare board and in `direct`; published figures are cycles of a machine of 2.4 GHz, and stand beside and are not compared",
        requirements: &["CH-E4", "CH-E5"],
        slow: false,
        run: micro::micro,
    },
    Experiment {
        name: "kernel.figure-4",
        what: "the schedule of two threads and a driver on servers of an instance (Quest seed, figure 4)",
        how: "`components/figure`: threads that always compute note when they did not run, on the bare board and in `direct`; each switch of the first 130 ms is compared with SS-03, within an exchange of row 9 for each switch so far",
        requirements: &["QV-E10", "QV-20", "QV-22", "QV-32"],
        slow: false,
        run: figure::figure,
    },
    Experiment {
        name: "kernel.flood",
        what: "a job of 1 ms and one to three cores that signal to its core without end, without limits and with them (Chaos seed, figures 2 and 8)",
        how: "instances on cores of their own, wires, and cores that take turns each 1,000 and each 100 instructions; instructions on the job's core beside it, by an emulator plugin, less those of a run without signals. Counts, and no time",
        requirements: &["CH-E2", "CH-E7", "CH-33", "CH-36", "CH-40"],
        slow: false,
        run: flood::flood,
    },
    Experiment {
        name: "kernel.lock",
        what: "a call on one core while up to three others make as many as they can (Chaos seed, figure 1)",
        how: "null calls of instances on cores of their own, and a model of a kernel with one ticket lock; instructions on the first core by an emulator plugin, of two runs that differ in the number of calls. Counts, and no time",
        requirements: &["CH-E1", "CH-62"],
        slow: false,
        run: lock::lock,
    },
    Experiment {
        name: "kernel.poll",
        what: "what polling at 1, 10 and 100 ms costs a job of 10 s below, from a thread of a more important server and from the job's scheduler (Chaos seed, Table V)",
        how: "the job has a known number of rounds, and is counted alone and with a poller, on the bare board; one poll takes what it took at 10 ms",
        requirements: &["CH-E9", "CH-38"],
        slow: false,
        run: poll::poll,
    },
    Experiment {
        name: "kernel.depth",
        what: "round trips between threads of two subsystems, and timers, with their schedulers at the top or below another one (Chaos seed, Table IV)",
        how: "each subsystem is a server that a scheduler of its own holds; the thread that asks counts, on the bare board and in `direct`; between two cores each question gets its answer, and nothing is timed",
        requirements: &["CH-E6", "CH-57", "CH-63"],
        slow: false,
        run: depth::depth,
    },
    Experiment {
        name: "kernel.latency",
        what: "how late a receiver that polls finds messages whose signals a limiter holds back (Chaos seed, figure 9)",
        how: "50 sends in each window from a less important server, limits of 10 to 60, three distances of polls; the mean of all messages is compared with a model, on the bare board and in `direct`; from another core, how many doorbells the monitor lets pass in each window, and that nothing is lost",
        requirements: &["CH-E8", "CH-31", "CH-38"],
        slow: false,
        run: latency::latency,
    },
    Experiment {
        name: "kernel.messages",
        what: "messages of 64 bytes to 256 KiB through a port of 4 KiB, alone and with a shell above (Quest seed, figure 14)",
        how: "two components on one core; what each size takes follows from four of them, and `bulkhead simulate` says when it is done; on the bare board and in `direct`; then parcels between two instances on two cores, whose words are compared, and no time",
        requirements: &["QV-E9", "QV-21", "QV-24", "QV-53"],
        slow: false,
        run: messages::messages,
    },
    Experiment {
        name: "kernel.delegation",
        what: "a less important client gives its time to a more important server, and keeps it back at first",
        how: "gifts in phases that have nothing in common with periods; the server notes when it works, and a job between both how late it is; on the bare board and in `direct`",
        requirements: &["CH-22", "CH-52"],
        slow: false,
        run: delegation::delegation,
    },
];

/// How often an experiment is to repeat it.
fn iterations(name: &str, length: Length) -> Result<u64, Failure> {
    let row = ITERATIONS.iter().find(|row| row.experiment == name);
    row.map(|row| length.choose(row.short, row.full))
        .ok_or_else(|| Failure::wrong(format!("nobody says how often {name} repeats what it does")))
}

impl Experiment {
    /// States whether it is about the real-time kernel.
    #[must_use]
    pub fn is_of_kernel(&self) -> bool {
        self.name.starts_with(GROUP)
    }
}

/// Lays an instance out: a description of `bench/systems`, with names in capitals replaced by numbers.
fn instance(lab: &Lab, file: &str, text: &str, numbers: &[(&str, u64)]) -> Result<Laid, Failure> {
    lab.guest("kernel/kernel.elf")?;
    let mut text = text.to_owned();
    for (name, number) in numbers {
        if !text.contains(name) {
            return Err(Failure::wrong(format!("{file} has no `{name}`")));
        }
        text = text.replace(name, &number.to_string());
    }
    let path = format!("bench/systems/{file}.kernel.toml");
    load_native_text(Path::new(&path), &text, &Options::from_environment(None))
        .map_err(|report| Failure::wrong(report.to_text(false)))
}

/// What a run of an instance left.
struct Ran {
    /// What it printed.
    lines: Vec<String>,
    /// Exits to the monitor, boot and end of the partition among them; 0 on the board.
    exits: u64,
    /// Interrupts that the monitor took for it; 0 on the board.
    interrupts: u64,
}

impl Ran {
    /// Runs it to its end.
    fn of(image: &[u8], place: Place) -> Result<Self, Failure> {
        if place == Place::Board {
            let machine = run_bare(image, false);
            return Ok(Self {
                lines: bulkhead_system_tests::kernel::plain(machine.serial_text()),
                exits: 0,
                interrupts: 0,
            });
        }
        let mut running = start(image, place);
        let end = running.end();
        let faults = running.status(PARTITION).faults;
        if end != End::AllEnded || faults != 0 {
            return Err(Failure::wrong(format!("{}: {end:?}, {faults} faults of the partition", name_of(place))));
        }
        let count = |counter| running.counter(PARTITION, counter);
        let (exits, interrupts) = (count(Counter::Exits), count(Counter::Interrupt));
        // A virtual UART has names in its text.
        let lines = bulkhead_system_tests::kernel::plain(running.texts(PARTITION).join("\n").as_bytes());
        Ok(Self { lines, exits, interrupts })
    }

    /// Numbers of the line that begins so.
    fn numbers(&self, start: &str) -> Result<Vec<u64>, Failure> {
        let line = self.lines.iter().find_map(|line| line.strip_prefix(start));
        let line = line.ok_or_else(|| Failure::wrong(format!("no line `{start}` in {:#?}", self.lines)))?;
        Ok(line.split(|one: char| !one.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect())
    }

    /// The first numbers of the line that begins so.
    fn first<const COUNT: usize>(&self, start: &str) -> Result<[u64; COUNT], Failure> {
        let all = self.numbers(start)?;
        let first = all.get(..COUNT).and_then(|first| first.try_into().ok());
        first.ok_or_else(|| Failure::wrong(format!("`{start}` has {} numbers and not {COUNT}", all.len())))
    }
}

/// What a place is called.
const fn name_of(place: Place) -> &'static str {
    match place {
        Place::Board => "bare board",
        Place::NewerBoard => "newer board",
        Place::Direct => "`direct`",
        Place::Mapped => "`mapped`",
        Place::Shared => "shared core",
        Place::Uart => "`mapped` with an emulated UART",
    }
}

/// A number that must be what another place has, or what a rule says.
fn must_be(label: impl Into<String>, unit: &'static str, expected: u64, ours: u64) -> Cell {
    within(label, unit, expected as f64, ours as f64, 0.0)
}

/// The same with a slack.
fn within(label: impl Into<String>, unit: &'static str, expected: f64, ours: f64, slack: f64) -> Cell {
    let (label, tolerance_percent) = (label.into(), Some(0.0));
    Cell { label, unit, published: None, model: Some(expected), ours: Some(ours), tolerance_percent, slack }
}

/// A number that is shown and not judged, with the seed's beside it.
fn shown(label: impl Into<String>, unit: &'static str, published: Option<f64>, ours: f64) -> Cell {
    Cell { label: label.into(), unit, published, ours: Some(ours), ..Cell::default() }
}

/// Claims that two runs in `direct` whose lengths differ had as many exits: what came between had none.
fn claim_no_exits(findings: &mut Findings, what: &str, shorter: &Ran, longer: &Ran) {
    findings.cells.push(must_be(
        format!("exits to the monitor that {what} add in `direct`"),
        "exits",
        0,
        longer.exits.abs_diff(shorter.exits),
    ));
}

#[cfg(test)]
mod tests {
    use super::{EXPERIMENTS, ITERATIONS};

    #[test]
    fn the_table_has_each_experiment_once_and_in_order() {
        let table: Vec<_> = ITERATIONS.iter().map(|row| row.experiment).collect();
        let all: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        assert_eq!(table, all);
        assert!(EXPERIMENTS.iter().all(super::Experiment::is_of_kernel));
        assert!(ITERATIONS.iter().all(|row| 0 < row.short && row.short <= row.full));
    }
}
