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
use bulkhead_el3::Program;
use bulkhead_el3::branches::{self, Scenario};
use bulkhead_flash::NonSecure;
use bulkhead_run::el3::{self, Results};
pub use bulkhead_run::el3::{Core, Directions, Passage};
use bulkhead_run::{Machine, MachineOptions};
use bulkhead_world::context::{Context, EntryLevel};
use bulkhead_world::flash::{PLAN, PLAN_BYTES};
use programs::Ticks;
use std::collections::BTreeMap;

/// Instructions between two ticks of the payload: more than both worlds and the ways between them need.
const PERIOD: u64 = 2_000;

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

/// A payload that only gives the core to the other world, of this many segments, which begins with this context.
#[must_use]
pub fn gate(context: &Context, segments: usize) -> Vec<u8> {
    programs::gate(context, segments)
}

/// The program at EL3, watched in runs of small worlds.
pub struct Watch {
    elf: Vec<u8>,
    watch: el3::Watch,
}

impl Watch {
    /// Watches a program.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn new(elf: Vec<u8>) -> Result<Self, String> {
        let watch = el3::Watch::new(&elf)?;
        Ok(Self { elf, watch })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        self.watch.program()
    }

    /// The passages of all cores by the names of [`bulkhead_el3::promises::PATHS`]; the boot itself is not among them.
    ///
    /// # Errors
    /// When a way was gone that the program does not have, or it has others than the design.
    pub fn paths(&self, cores: &[Core]) -> Result<BTreeMap<&'static str, Passage>, String> {
        self.watch.paths(cores)
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
        Ok((self.watch.read(&results)?, lines))
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
        Ok(Seen { cores: self.watch.read(&results)?, calls: 0, ticks: 0, late: Vec::new(), is_good })
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
        Ok((self.watch.read(&results)?, lines))
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
        options.icount_shift = Some(4);
        let results = self.watch.of(&mut options).map_err(|error| error.to_string())?;
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
        Ok(Seen { cores: self.watch.read(results)?, calls: found(1)?, ticks, late, is_good })
    }

    /// Starts from a flash file with one bit changed, and waits until the boot core has said what is wrong and parked: the branch behind
    /// its message was taken.
    fn parked(&self, damaged: u64) -> Result<Seen, String> {
        let mut flash = self.flash(Worlds::Calls(1))?;
        *flash.get_mut(damaged as usize).ok_or("the flash file is too short")? ^= 1;
        let message = |branch: &branches::Found| branch.label == "damaged";
        let last = self.watch.branches().iter().position(message).ok_or("there is no message of a damaged file")?;
        let ((mut machine, _slot), results) = self.start(flash, 1)?;
        let cores = machine
            .wait_for("the boot core to park", LIMIT, |_| {
                let cores = self.watch.read(&results).ok()?;
                (cores.first()?.branches.get(last)?.taken == 1).then_some(cores)
            })
            .map_err(|error| error.to_string())?;
        Ok(Seen { cores, calls: 0, ticks: 0, late: Vec::new(), is_good: true })
    }
}
