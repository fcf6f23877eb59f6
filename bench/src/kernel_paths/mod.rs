//! `./x bench kernel-paths`: what the kernel executes in a row of its numbers, by function and instruction by instruction.
//!
//! The row's machine runs once more with QEMU's own log of what it executes, which needs no plugin and adds no instruction. The component counts as
//! always. A path is shown only if the log has stretches whose fewest, most and sum are exactly what the component printed ([`log::counted`]), and it is
//! the first one of the most. So the sum over its functions is the number. Rejected: samples of the counter in the kernel, which change what they count.

mod code;
mod log;
mod needed;
mod page;

use crate::experiments::kernel as experiments;
use crate::lab::Lab;
use crate::record::replace;
use crate::rows::Row;
use crate::{Failure, report, rows};
use bulkhead_description::Options;
use bulkhead_run::{MachineOptions, exit_code};
use bulkhead_system_tests::Running;
use bulkhead_system_tests::kernel::chaos::yields_image;
use bulkhead_system_tests::kernel::{Counted, plain, rows as printed_rows};
use bulkhead_system_tests::ways::{Way, image};
use clap::Args;
use code::Owner;
use log::Program;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often the way is gone; the log of one time has up to 50,000 lines.
const RUNS: u64 = 32;

/// Options of `./x bench kernel-paths`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PathsArguments {
    /// Rows (`kernel.signal_peer`) [default: each way between threads, each call about time, the yield and the fork]
    #[arg(value_name = "ROW")]
    names: Vec<String>,

    /// Print every instruction with its address, function and line.
    #[arg(long, conflicts_with = "record")]
    instructions: bool,

    /// Write the paths of all rows to docs/kernel-paths.md of the repository.
    #[arg(long, conflicts_with = "names")]
    record: bool,
}

const AFTER_HELP: &str = "\
Counts are instructions, not cycles. The sum over the functions of a path is what the component counted, or the command fails.

Examples:
  ./x bench kernel-paths                              prints the path of each row by function
  ./x bench kernel-paths kernel.switch                of one row
  ./x bench kernel-paths kernel.switch --instructions
                                                      instruction by instruction
  ./x bench kernel-paths --record                     writes docs/kernel-paths.md

Exit codes:
  0  each sum is what was counted
  1  a sum is not
  2  wrong usage, or a row without a path
  3  the host lacks a tool
  4  QEMU failed";

/// Whose looks at the counter a path lies between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// Those of the component `ways`.
    Way(Way),
    /// Those of two tasks of ChaosRT, which is on the way.
    Yield,
    /// Those of a process and its child, both the program `worker`.
    Fork,
}

impl Path {
    /// The program that looks.
    const fn program(self) -> &'static str {
        match self {
            Self::Way(_) => "kernel/ways.elf",
            Self::Yield => "kernel/tasks.elf",
            Self::Fork => "kernel/worker.elf",
        }
    }

    /// The component that is called on the way.
    const fn called(self) -> Option<&'static str> {
        match self {
            Self::Yield => Some("kernel/chaosrt.elf"),
            Self::Way(_) | Self::Fork => None,
        }
    }

    fn image(self, lab: &Lab) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Way(way) => Ok(image(way, RUNS)),
            Self::Yield => Ok(yields_image(RUNS)),
            Self::Fork => experiments::fork_image(lab, RUNS),
        }
    }

    /// What it counted, of what it printed.
    fn printed(self, lines: &[String]) -> Option<Counted> {
        match self {
            Self::Way(_) => printed_rows(lines).pop(),
            // Each task counted the other one's.
            Self::Yield => printed_rows(lines).into_iter().max_by_key(|row| row.most),
            Self::Fork => experiments::counted_forks(lines),
        }
    }
}

/// What is executed between two looks at the counter.
#[derive(Clone, Copy, Debug)]
struct Measured {
    row: &'static str,
    path: Path,
    /// Instructions of its own that the component leaves out: the look at the counter, the note of it and the SVC, as far as there are.
    own: u64,
}

const fn measured(row: &'static str, way: Way, own: u64) -> Measured {
    Measured { row, path: Path::Way(way), own }
}

/// In the order of the rows.
const ALL: [Measured; 19] = [
    measured("kernel.signal_peer", Way::SignalPeer, 2),
    measured("kernel.signal_less", Way::SignalLess, 2),
    measured("kernel.signal_held", Way::SignalHeld, 3),
    measured("kernel.signal_more", Way::SignalMore, 3),
    measured("kernel.switch", Way::Switch, 3),
    measured("kernel.interrupt", Way::Interrupt, 2),
    measured("kernel.interrupt_pibs", Way::InterruptPibs, 2),
    measured("kernel.budget_back", Way::ComesBack, 2),
    measured("kernel.budget_end", Way::UsedUp, 2),
    measured("kernel.delegate", Way::Delegate, 2),
    measured("kernel.delegate_all", Way::DelegateAll, 2),
    measured("kernel.create", Way::Create, 2),
    measured("kernel.create_tested", Way::CreateTested, 2),
    measured("kernel.signal_divided", Way::SignalDivided, 3),
    measured("kernel.switch_divided", Way::SwitchDivided, 3),
    measured("kernel.null_call_computing", Way::NullComputing, 2),
    measured("kernel.signal_more_computing", Way::SignalMoreComputing, 3),
    Measured { row: "kernel.yield", path: Path::Yield, own: 0 },
    Measured { row: "kernel.fork_64k", path: Path::Fork, own: 0 },
];

/// What a row executes.
#[derive(Clone, Debug)]
struct Taken {
    measured: Measured,
    row: &'static Row,
    printed: Counted,
    /// The kernel's instructions, and those of a component that is called, in order.
    executed: Vec<u64>,
    /// What of the count is of the component that looks: its way into the kernel and back, or what it executed before an interrupt cut it off.
    of_component: u64,
    owners: HashMap<u64, Owner>,
}

impl Taken {
    fn owner(&self, address: u64) -> Owner {
        let unknown = || Owner {
            function: "?".to_owned(),
            file: code::ASSEMBLY.to_owned(),
            line: String::new(),
            is_called: log::is_other(address),
        };
        self.owners.get(&address).cloned().unwrap_or_else(unknown)
    }

    /// Functions in the order in which they are first entered, with what each executes.
    fn functions(&self) -> Vec<(Owner, u64)> {
        let mut found: Vec<(Owner, u64)> = Vec::new();
        for address in &self.executed {
            let owner = Owner { line: String::new(), ..self.owner(*address) };
            match found.iter_mut().find(|(known, _)| *known == owner) {
                Some((_, count)) => *count += 1,
                None => found.push((owner, 1)),
            }
        }
        found
    }
}

/// Runs `./x bench kernel-paths`.
pub(crate) fn run(arguments: &PathsArguments) -> Result<u8, Failure> {
    let all = take(&arguments.names)?;
    if arguments.record {
        let path = bulkhead_ledger::repository().join("docs/kernel-paths.md");
        replace(&path, &page::page(&all))?;
        bulkhead_files::say!("written to {}", path.display());
        return Ok(exit_code::SUCCESS);
    }
    bulkhead_files::say!("{}\n", report::INSTRUCTIONS);
    for taken in &all {
        let text = if arguments.instructions { page::instructions(taken, &texts(taken)?) } else { page::text(taken) };
        bulkhead_files::output::print(&text);
    }
    Ok(exit_code::SUCCESS)
}

/// The sum over the functions of a row's path, and of what is the component's; the value that the component counted is beside it.
///
/// # Errors
/// When the row has no path, the host lacks a tool, or nothing in the log is what was counted.
pub fn sum(row: &str) -> Result<(u64, u64), Failure> {
    let all = take(&[row.to_owned()])?;
    let one = all.first().ok_or_else(|| Failure::wrong(format!("`{row}` has no path")))?;
    let sum: u64 = one.functions().iter().map(|(_, count)| count).sum();
    Ok((sum + one.of_component, one.printed.most))
}

fn take(names: &[String]) -> Result<Vec<Taken>, Failure> {
    if let Some(unknown) = names.iter().find(|name| ALL.iter().all(|one| one.row != name.as_str())) {
        let known: Vec<&str> = ALL.iter().map(|one| one.row).collect();
        let message = format!("no path is taken of `{unknown}`; there are {}", known.join(", "));
        return Err(Failure { message, exit_code: exit_code::USAGE });
    }
    let lab = Lab::open()?;
    let chosen = ALL.into_iter().filter(|one| names.is_empty() || names.iter().any(|name| name == one.row));
    chosen.map(|one| take_one(&lab, one)).collect()
}

fn program(file: &str) -> Result<PathBuf, Failure> {
    let guests = Options::from_environment(None).guests;
    let guests = guests.ok_or_else(|| Failure::host("there are no guests; `./x guests` builds them".to_owned()))?;
    Ok(guests.join(file))
}

const KERNEL: &str = "kernel/kernel.elf";

/// The text of each instruction of the kernel and of the component that is called.
fn texts(taken: &Taken) -> Result<HashMap<u64, String>, Failure> {
    let mut all = code::texts(&program(KERNEL)?)?;
    if let Some(called) = taken.measured.path.called() {
        all.extend(code::texts(&program(called)?)?.into_iter().map(|(address, text)| (address | log::OTHER, text)));
    }
    Ok(all)
}

/// Whose each of these instructions is.
fn owners(path: Path, executed: &[u64]) -> Result<HashMap<u64, Owner>, Failure> {
    let different: BTreeSet<u64> = executed.iter().copied().collect();
    let (called, of_kernel): (Vec<u64>, Vec<u64>) = different.iter().partition(|address| log::is_other(**address));
    let called: Vec<u64> = called.iter().map(|address| address & !log::OTHER).collect();
    let mut all = code::owners(&program(KERNEL)?, &of_kernel)?;
    if let Some(file) = path.called() {
        let found = code::owners(&program(file)?, &called)?;
        all.extend(
            found.into_iter().map(|(address, owner)| (address | log::OTHER, Owner { is_called: true, ..owner })),
        );
    }
    Ok(all)
}

fn take_one(lab: &Lab, measured: Measured) -> Result<Taken, Failure> {
    lab.guest(KERNEL)?;
    let looking = Program::read(&lab.guest(measured.path.program())?);
    let called = measured.path.called().map(|file| lab.guest(file)).transpose()?;
    let called = called.map(|file| Program::read(&file));
    let file = Scratch::new();
    let mut options = MachineOptions::bare(measured.path.image(lab)?);
    options.icount_shift = Some(4);
    let log = ["-singlestep", "-d", "exec,nochain", "-D"].map(str::to_owned);
    options.extra = log.into_iter().chain([file.0.display().to_string()]).collect();
    let mut machine = Running::start(options);
    machine.end();
    let lines = plain(machine.serial_text());
    let printed = measured.path.printed(&lines);
    let printed = printed.ok_or_else(|| Failure::wrong(format!("{} printed {lines:?}", measured.row)))?;
    drop(machine);
    let all = log::stretches(BufReader::new(file.open()?), &looking, called.as_ref())?;
    let longest = log::counted(&all, &printed, measured.own)?;
    let executed: Vec<u64> = longest.beside_the_component().collect();
    let of_component = (longest.executed.len() - executed.len()) as u64 - measured.own;
    let owners = owners(measured.path, &executed)?;
    let row = rows::all().find(|row| row.name == measured.row);
    let row = row.ok_or_else(|| Failure::wrong(format!("there is no row `{}`", measured.row)))?;
    Ok(Taken { measured, row, printed, executed, of_component, owners })
}

/// A file that goes again.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        // Tests run beside one another.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("bulkhead-kernel-path-{}-{number}.log", std::process::id())))
    }

    fn open(&self) -> Result<File, Failure> {
        File::open(&self.0).map_err(|cause| Failure::host(format!("QEMU wrote no {}: {cause}", self.0.display())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
