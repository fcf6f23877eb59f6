//! What is executed at EL3, seen by an emulator plugin (`tests/plugin/el3.c` says how): each direction of each branch, and the length of
//! each passage, in runs of two worlds of a few instructions.
//!
//! A run returns what went wrong instead of failing, because the benchmark prints what the tests assert.

mod programs;

use crate::LIMIT;
use crate::secure::{Kicked, MEMORY, OTHER, SECURE, kicked_world, options, parts};
use crate::slot::Slot;
use crate::system::System;
use bulkhead_abi::PhysicalAddress;
use bulkhead_el3::branches::{self, Scenario};
use bulkhead_el3::ways::PARKED;
use bulkhead_el3::{Program, promises};
use bulkhead_flash::NonSecure;
use bulkhead_run::{Machine, MachineOptions, plugin};
use bulkhead_world::context::EntryLevel;
use bulkhead_world::flash::{PLAN, PLAN_BYTES};
use programs::Ticks;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

const SOURCE: &str = include_str!("../../../plugin/el3.c");
const MAGIC: u64 = u64::from_le_bytes(*b"BEL31001");
// Words of the results; see `struct head` and `struct block` in the plugin.
const HEAD_WORDS: usize = 4 + TEXT_BYTES / 8;
const TEXT_BYTES: usize = 4096;
const MAX_BRANCHES: usize = 16;
const MAX_WAYS: usize = 32;
const BRANCH_WORDS: usize = 3;
const WAY_WORDS: usize = 5;
const BLOCK_WORDS: usize = MAX_BRANCHES * BRANCH_WORDS + MAX_WAYS * WAY_WORDS + 8;
/// Instructions between two ticks of the payload: more than both worlds and the ways between them need.
const PERIOD: u64 = 2_000;

/// A conditional branch in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directions {
    /// How often it was executed.
    pub executed: u64,
    /// How often the next instruction was its target.
    pub taken: u64,
    /// How often it was the one behind it.
    pub not_taken: u64,
}

/// A way through EL3 in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Address of its first instruction.
    pub start: u64,
    /// Its branches by their number among all, in order, and whether each was taken. Of the boot with its loops the last twelve.
    pub decisions: Vec<(usize, bool)>,
    /// How often it was gone.
    pub count: u64,
    /// Instructions of the shortest time.
    pub shortest: u64,
    /// And of the longest.
    pub longest: u64,
}

/// What a core executed at EL3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Each branch, by address.
    pub branches: Vec<Directions>,
    /// Each way.
    pub passages: Vec<Passage>,
    /// What has no place among them: 0.
    pub elsewhere: u64,
}

/// What a run showed.
#[derive(Clone, Debug)]
pub struct Seen {
    /// By core.
    pub cores: Vec<Core>,
    /// Calls of the non-secure world, before the last one.
    pub calls: u64,
    /// Ticks of the payload.
    pub ticks: u64,
    /// How late each tick's vector was, in instructions after its date.
    pub late: Vec<u64>,
    /// What the last call said of all before: everything was as it should.
    pub is_good: bool,
}

/// Two worlds of a few instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worlds {
    /// The payload takes this many ticks, alone.
    SecureTicks(u64),
    /// This many, while the other world computes with everything masked.
    TicksBelow(u64),
    /// This many, while the other world sleeps, so that other cores of the machine have a turn.
    TicksOfSleeper(u64),
    /// The other world takes this many ticks of its own, and the payload none.
    OwnTicks(u64),
    /// The other world calls, has itself reset and touches group 0, this often; the payload has no timer.
    Calls(u64),
    /// The same, while the payload has this many ticks; the calls do not end before them.
    CallsAndTicks(u64),
}

/// The program at EL3 with what is watched of it.
pub struct Watch {
    elf: Vec<u8>,
    program: Program,
    branches: Vec<branches::Found>,
}

impl Watch {
    /// Watches a program.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn new(elf: Vec<u8>) -> Result<Self, String> {
        let program = Program::read(&elf)?;
        let branches = branches::found(&program)?;
        Ok(Self { elf, program, branches })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Runs two worlds to their end.
    ///
    /// # Errors
    /// With what went wrong.
    pub fn run(&self, worlds: Worlds) -> Result<Seen, String> {
        let (machine, results) = self.start(self.flash(worlds)?, 1)?;
        self.ended(machine, &results)
    }

    /// Runs a flash file to its end, and returns what was executed at EL3 with what the payload printed.
    ///
    /// # Errors
    /// With what went wrong.
    pub fn run_file(&self, flash: Vec<u8>) -> Result<(Vec<Core>, Vec<String>), String> {
        let ((mut machine, _slot), results) = self.start(flash, 1)?;
        machine.wait_for_end(LIMIT).map_err(|error| error.to_string())?;
        let lines = machine.lines(SECURE).map(|line| line.text.clone()).collect();
        Ok((self.read(&results)?, lines))
    }

    /// Runs a scenario of the table of branches.
    ///
    /// # Errors
    /// With what went wrong.
    pub fn scenario(&self, scenario: Scenario) -> Result<Seen, String> {
        const COUNT: u64 = 10;
        match scenario {
            Scenario::Calls => self.run(Worlds::Calls(COUNT)),
            Scenario::SecondCore => {
                let (machine, results) = self.start(self.flash(Worlds::TicksOfSleeper(COUNT))?, 2)?;
                self.ended(machine, &results)
            }
            Scenario::DamagedPlan => self.parked(PLAN + 8),
            Scenario::DamagedPayload => self.parked(PLAN + PLAN_BYTES),
            Scenario::Cores => self.cores(),
            Scenario::FifthCore => {
                let (machine, results) = self.start(self.flash(Worlds::TicksOfSleeper(COUNT))?, 5)?;
                self.ended(machine, &results)
            }
        }
    }

    /// Four cores, of which the others are kicked, watched, started and ended.
    fn cores(&self) -> Result<Seen, String> {
        let flash = kicked_world(&self.elf, Kicked { seed: 3, calls: 100, kicks: 100 });
        let ((mut machine, _slot), results) = self.start(flash, 4)?;
        machine.wait_for_end(LIMIT).map_err(|error| error.to_string())?;
        let is_good = machine.lines(OTHER).last().is_some_and(|line| line.text == "end");
        Ok(Seen { cores: self.read(&results)?, calls: 0, ticks: 0, late: Vec::new(), is_good })
    }

    /// Starts a system of partitions below a payload, waits until one of them prints this, and returns what was executed at EL3 with all that it
    /// printed.
    ///
    /// # Errors
    /// With what went wrong.
    pub fn run_partitions(
        &self,
        system: &System,
        partition: &str,
        last: &str,
    ) -> Result<(Vec<Core>, Vec<String>), String> {
        let flash = system.flash.clone().ok_or("the system has no payload")?;
        let options = MachineOptions::for_worlds(&system.model, flash, Some(&system.image));
        let ((mut machine, _slot), results) = self.start_options(options.map_err(|error| error.to_string())?)?;
        machine.wait_for_line(partition, last, LIMIT).map_err(|error| error.to_string())?;
        let lines = machine.lines(partition).map(|line| line.text.clone()).collect();
        Ok((self.read(&results)?, lines))
    }

    fn flash(&self, worlds: Worlds) -> Result<Vec<u8>, String> {
        let (count, program) = match worlds {
            Worlds::SecureTicks(count) => (count, None),
            Worlds::TicksBelow(count) => (count, Some(programs::computes())),
            Worlds::TicksOfSleeper(count) => (count, Some(programs::sleeps())),
            Worlds::OwnTicks(count) => (0, Some(programs::interrupts(count))),
            Worlds::Calls(count) => (0, Some(programs::calls(count))),
            Worlds::CallsAndTicks(count) => (count, Some(programs::calls(count * PERIOD))),
        };
        let payload = programs::payload(Ticks { count, period: PERIOD }, program.is_some());
        let other = program.as_ref().map(|bytes| NonSecure {
            memory: MEMORY,
            segments: vec![(programs::NON_SECURE, bytes.as_slice())],
            entry: programs::NON_SECURE + programs::NON_SECURE_ENTRY,
            argument: 0,
            level: EntryLevel::El1,
        });
        bulkhead_flash::build(&parts(&self.elf, &payload, other)).map_err(|error| error.to_string())
    }

    fn start(&self, flash: Vec<u8>, cores: usize) -> Result<((Machine, Slot), Results), String> {
        let mut options = options(flash);
        options.cores = cores;
        self.start_options(options)
    }

    fn start_options(&self, mut options: MachineOptions) -> Result<((Machine, Slot), Results), String> {
        let results = Results::create().map_err(|error| format!("a file for what is counted: {error}"))?;
        let library = plugin::library_of("el3", SOURCE).map_err(|error| error.to_string())?;
        let mut argument = library.to_string_lossy().replace(',', ",,");
        argument.push_str(&format!(",results={}", results.path.display().to_string().replace(',', ",,")));
        argument.push_str(&format!(",text={}", self.program.text().len()));
        for branch in &self.branches {
            argument.push_str(&format!(",branch={:#x}-{:#x}", branch.address, branch.target));
        }
        options.icount_shift = Some(4);
        options.plugins.push(argument);
        let slot = Slot::take();
        let machine = Machine::start(options).map_err(|error| error.to_string())?;
        Ok(((machine, slot), results))
    }

    /// Waits for the end of a run that ends.
    fn ended(&self, (mut machine, _slot): (Machine, Slot), results: &Results) -> Result<Seen, String> {
        machine.wait_for_end(LIMIT).map_err(|error| error.to_string())?;
        let word = |index: u64| machine.ram().load_u64(PhysicalAddress(programs::RESULTS + 8 * index));
        let found = |index: u64| word(index).ok_or_else(|| "the payload's results are not in RAM".to_owned());
        let ticks = found(2)?;
        let first = programs::SAMPLES / 8;
        let late = (first..first + ticks).map(found).collect::<Result<_, _>>()?;
        let is_good = found(0)? == u64::from(programs::CALL_GOOD);
        Ok(Seen { cores: self.read(results)?, calls: found(1)?, ticks, late, is_good })
    }

    /// Starts from a flash file with one bit changed, and waits until the boot core has said what is wrong and parked: the branch behind
    /// its message was taken.
    fn parked(&self, damaged: u64) -> Result<Seen, String> {
        let mut flash = self.flash(Worlds::Calls(1))?;
        *flash.get_mut(damaged as usize).ok_or("the flash file is too short")? ^= 1;
        let message = |branch: &branches::Found| branch.label == "damaged";
        let last = self.branches.iter().position(message).ok_or("there is no message of a damaged file")?;
        let ((mut machine, _slot), results) = self.start(flash, 1)?;
        let cores = machine
            .wait_for("the boot core to park", LIMIT, |_| {
                let cores = self.read(&results).ok()?;
                (cores.first()?.branches.get(last)?.taken == 1).then_some(cores)
            })
            .map_err(|error| error.to_string())?;
        Ok(Seen { cores, calls: 0, ticks: 0, late: Vec::new(), is_good: true })
    }

    fn read(&self, results: &Results) -> Result<Vec<Core>, String> {
        let words = results.words().map_err(|error| format!("what was counted: {error}"))?;
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        if word(0) != MAGIC || word(2) != BLOCK_WORDS as u64 || word(3) != 1 {
            return Err("the plugin did not find the flash, or wrote no results".to_owned());
        }
        for (address, expected) in self.program.instructions() {
            let half = word(4 + address as usize / 8) >> (8 * (address % 8)) & 0xffff_ffff;
            if half != 0 && half != u64::from(expected) {
                return Err(format!("QEMU fetched {half:#010x} at {address:#x} and not {expected:#010x}"));
            }
        }
        (0..word(1) as usize).map(|core| self.core(&words, HEAD_WORDS + core * BLOCK_WORDS)).collect()
    }

    fn core(&self, words: &[u64], first: usize) -> Result<Core, String> {
        let word = |index: usize| words.get(first + index).copied().unwrap_or(0);
        let branch = |index: usize| Directions {
            executed: word(BRANCH_WORDS * index),
            taken: word(BRANCH_WORDS * index + 1),
            not_taken: word(BRANCH_WORDS * index + 2),
        };
        let ways = MAX_BRANCHES * BRANCH_WORDS;
        let passage = |index: usize| {
            let at = |offset: usize| word(ways + WAY_WORDS * index + offset);
            let decisions = (0..12).rev().map(|place| at(1) >> (5 * place) & 0x1f).filter(|one| *one != 0);
            let decisions = decisions.map(|one| ((one as usize - 1) / 2, one % 2 == 0)).collect();
            Passage { start: at(0), decisions, count: at(2), shortest: at(3), longest: at(4) }
        };
        Ok(Core {
            branches: (0..self.branches.len()).map(branch).collect(),
            passages: (0..MAX_WAYS).map(passage).filter(|passage| passage.count != 0).collect(),
            elsewhere: word(ways + MAX_WAYS * WAY_WORDS),
        })
    }

    /// The passages of all cores by the names of [`promises::PATHS`]; the boot itself is not among them.
    ///
    /// # Errors
    /// When a way was gone that the program does not have, or it has others than the design.
    pub fn paths(&self, cores: &[Core]) -> Result<BTreeMap<&'static str, Passage>, String> {
        let known = promises::known(&self.program).map_err(|wrong| wrong.join("\n"))?;
        let number = |address: u64| self.branches.iter().position(|branch| branch.address == address);
        let mut paths: BTreeMap<&'static str, Passage> = BTreeMap::new();
        // A core that has no world meanwhile comes out elsewhere, after a time of its own.
        let parks = |passage: &&Passage| {
            let waits = |number: usize| self.branches.get(number).is_some_and(|branch| branch.label == PARKED);
            passage.decisions.iter().any(|(number, _)| waits(*number))
        };
        let passages = cores.iter().flat_map(|core| &core.passages);
        for passage in passages.filter(|passage| passage.start != 0 && !parks(passage)) {
            let matches = |one: &&promises::Known| {
                let decisions = one.way.decisions.iter().map(|(at, taken)| (number(*at), *taken));
                one.path.slot == passage.start
                    && decisions.eq(passage.decisions.iter().map(|(number, taken)| (Some(*number), *taken)))
            };
            let path = known.iter().find(matches).ok_or_else(|| format!("no path is {passage:?}"))?.path;
            let known = paths.entry(path.name).or_insert_with(|| Passage { count: 0, ..passage.clone() });
            known.count += passage.count;
            known.shortest = known.shortest.min(passage.shortest);
            known.longest = known.longest.max(passage.longest);
        }
        Ok(paths)
    }
}

/// The file that a plugin writes to; removed at the end.
pub(crate) struct Results {
    path: PathBuf,
}

impl Results {
    pub(crate) fn create() -> std::io::Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("bulkhead-el3-{}-{number}", std::process::id()));
        // One that is there was left by a process of that number that is gone.
        remove(&path);
        let file: File = OpenOptions::new().write(true).create_new(true).open(&path)?;
        drop(file);
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn words(&self) -> std::io::Result<Vec<u64>> {
        let bytes = std::fs::read(&self.path)?;
        Ok(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect())
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Nothing depends on it: a file that stays takes some kilobytes of a folder for temporary files.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}
