//! Descriptions of shared cores, put together by the tests that need many of them, and what their guests leave in memory.

use crate::assemble::Program;
use crate::{LIMIT, Running, System};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::schedule::UsagePage;
use bulkhead_run::Machine;
use std::fmt::Write;

/// Ticks of the board's counter (62.5 MHz) in a microsecond, as a fraction; under `-icount shift=4` a tick is an instruction.
pub const TICKS_PER_MILLISECOND: u64 = 62_500;

/// The line of a schedule by priorities.
pub const BY_PRIORITY: &str = "kind = \"fixed-priority\"";

/// The longest path of the monitor between two guests by a decision, in systems of few servers, with an updating of the usage
/// page, in ticks. Under `-icount shift=4` that is instructions: `./x bench costs.switch costs.publication`. The longest one seen is 3,209: the first
/// start of a vCPU looks whether any of its interrupts came before.
pub const EXCHANGE: u64 = 3300;

/// What a guest pays for being pre-empted: the way in to the decision, and from the dating of its own loading to its next
/// instruction, in ticks. The rest of both exchanges is paid by who pre-empts (`real-time.md` 1.2).
pub const WAY_IN: u64 = 300;

/// Ticks in this many microseconds.
#[must_use]
pub const fn ticks_of_us(us: u64) -> u64 {
    us * TICKS_PER_MILLISECOND / 1000
}

/// A description under construction.
#[derive(Clone, Debug)]
pub struct Description {
    name: String,
    text: String,
    judged: bool,
}

impl Description {
    /// A system on the board with nothing in it.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let text = format!("version = 1\nname = \"{name}\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n");
        Self { name: name.to_owned(), text, judged: true }
    }

    /// The same for a test in which guests meet whose time nobody can promise, which the checker refuses: without a limit above one with
    /// a budget, or with more time than there is.
    #[must_use]
    pub fn unjudged(name: &str) -> Self {
        Self { judged: false, ..Self::new(name) }
    }

    /// Adds the schedule of a core; `rest` is the table's other lines.
    #[must_use]
    pub fn schedule(self, core: u32, rest: &str) -> Self {
        self.table(&format!("[[schedule]]\ncore = {core}\n{rest}"))
    }

    /// Adds a native guest of 4 MiB; `rest` is the partition's other lines.
    #[must_use]
    pub fn guest(self, name: &str, core: u32, image: &str, arguments: &str, rest: &str) -> Self {
        let image = format!("image = {{ kind = \"elf\", file = \"guest:{image}.elf\" }}\narguments = \"{arguments}\"");
        self.partition(name, core, &image, rest)
    }

    /// Adds a guest that a test assembled, given by the name of its program.
    #[must_use]
    pub fn program(self, name: &str, core: u32, program: &str, rest: &str) -> Self {
        let image =
            format!("image = {{ kind = \"raw\", file = \"{program}.bin\", load = 0x4008_0000 }}\nconsole = \"none\"");
        self.partition(name, core, &image, rest)
    }

    fn partition(self, name: &str, core: u32, image: &str, rest: &str) -> Self {
        self.table(&format!("[[partition]]\nname = \"{name}\"\ncores = [{core}]\nmemory = \"4 MiB\"\n{image}\n{rest}"))
    }

    /// Adds any other table.
    #[must_use]
    pub fn table(mut self, text: &str) -> Self {
        writeln!(self.text, "{text}").expect("a text takes more text");
        self
    }

    /// Builds it.
    ///
    /// # Panics
    /// When the description is refused.
    #[must_use]
    pub fn build(&self) -> System {
        self.build_with(&[])
    }

    /// Builds it with programs of the test.
    ///
    /// # Panics
    /// When the description is refused.
    #[must_use]
    pub fn build_with(&self, programs: &[(&str, &Program)]) -> System {
        match self.judged {
            true => System::from_text_with_programs(&self.name, &self.text, programs),
            false => System::unjudged(&self.name, &self.text, programs),
        }
    }
}

/// Runs a system to its end, exactly.
///
/// # Panics
/// When it does not end by itself, or the monitor crashed.
#[must_use]
pub fn finish(system: &System) -> Running {
    let mut running = system.start_exact(4);
    assert_eq!(running.end(), bulkhead_run::End::AllEnded);
    running.assert_no_crash();
    running
}

/// Finds `key=number` in a line.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn field(line: &str, key: &str) -> u64 {
    let value = line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let value = value.unwrap_or_else(|| panic!("there is no {key}= in {line:?}"));
    let number = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    number.unwrap_or_else(|error| panic!("{key}={value}: {error}"))
}

impl Running {
    /// The line of a partition that begins so.
    ///
    /// # Panics
    /// When it printed none so far.
    #[must_use]
    pub fn printed(&self, partition: &str, start: &str) -> String {
        let lines = self.texts(partition);
        let found = lines.iter().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{partition} printed no line {start:?} but {lines:?}")).clone()
    }

    /// Reads a word of a partition's RAM.
    ///
    /// # Panics
    /// When the address is not in its RAM.
    #[must_use]
    pub fn guest_word(&self, partition: &str, address: u64) -> u64 {
        let region = self.watch().plan().partitions[self.index(partition)].ram[0];
        let offset = address.wrapping_sub(region.guest.0);
        assert!(offset < region.bytes, "{address:#x} is in the RAM of {partition}");
        self.ram().load_u64(PhysicalAddress(region.physical.0 + offset)).expect("RAM of a partition is RAM")
    }

    /// The log that the guest `experiment` kept in memory.
    ///
    /// # Panics
    /// When it announced none, or lost records.
    #[must_use]
    pub fn records(&self, partition: &str) -> Vec<Vec<u64>> {
        let line = self.printed(partition, "log ");
        assert_eq!(field(&line, "lost"), 0, "the log of {partition} was too small");
        let (address, words) = (field(&line, "address"), field(&line, "words"));
        let word = |record: u64, place: u64| self.guest_word(partition, address + (record * words + place) * 8);
        (0..field(&line, "records")).map(|record| (0..words).map(|place| word(record, place)).collect()).collect()
    }

    /// What a shared core gave to whom, when all its guests have ended: the monitor says so after their last lines, when it
    /// finds the core idle.
    ///
    /// # Panics
    /// When the core is not shared, or that does not happen within [`LIMIT`].
    #[must_use]
    pub fn final_usage(&self, core: usize) -> UsagePage {
        Machine::final_usage(self, core, LIMIT).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Number of a shared core's server, by the plan: the `place`-th one of a partition.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn server(&self, core: usize, partition: &str, place: usize) -> usize {
        let schedule = self.watch().plan().cores[core].schedule.as_ref().expect("the core is shared");
        let slot = self.slot(core, partition) as u32;
        let servers = schedule.servers().iter().enumerate();
        let mut own = servers.filter(|(_, server)| server.slot == slot).map(|(number, _)| number);
        own.nth(place).unwrap_or_else(|| panic!("{partition} has no server {place} on core {core}"))
    }

    /// Number of a partition's slot on a shared core.
    ///
    /// # Panics
    /// When it has none there.
    #[must_use]
    pub fn slot(&self, core: usize, partition: &str) -> usize {
        let schedule = self.watch().plan().cores[core].schedule.as_ref().expect("the core is shared");
        let index = self.index(partition) as u32;
        let slots = schedule.slots().iter();
        let found = slots.into_iter().position(|slot| slot.partition == index);
        found.unwrap_or_else(|| panic!("{partition} is not on core {core}"))
    }
}

/// Time that a guest `experiment role=hog` had, as it saw it: the intervals in which it ran, in order.
#[derive(Clone, Debug)]
pub struct Supply {
    /// Start and end of each, in counter ticks.
    pub runs: Vec<(u64, u64)>,
}

impl Supply {
    /// How well the log says when the guest stopped and continued: half a block at each end.
    pub const BLUR: u64 = 2100;

    /// Reads it from the guest's log.
    ///
    /// # Panics
    /// When the guest was pre-empted so rarely that nothing can be said.
    #[must_use]
    pub fn of(running: &Running, partition: &str) -> Self {
        let summary = running.printed(partition, "hog ");
        let (mut from, end) = (field(&summary, "first"), field(&summary, "last"));
        let mut runs = Vec::new();
        for gap in running.records(partition) {
            // The first record is what was lost before the start.
            if gap[1] > from {
                runs.push((from, gap[0].max(from)));
                from = gap[1];
            }
        }
        runs.push((from, end));
        assert!(runs.len() > 10, "{partition} was pre-empted {} times", runs.len());
        Self { runs }
    }

    /// Start of the first run.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.0)
    }

    /// End of the last run.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.1)
    }

    /// Time in an interval.
    #[must_use]
    pub fn within(&self, from: u64, to: u64) -> u64 {
        self.runs.iter().map(|run| run.1.min(to).saturating_sub(run.0.max(from))).sum()
    }

    /// Most in any window of a length: one that begins with a run or ends with one.
    ///
    /// # Panics
    /// Never: there are runs.
    #[must_use]
    pub fn most_in(&self, window: u64) -> u64 {
        let starts = self.runs.iter().map(|run| run.0);
        let ends = self.runs.iter().map(|run| run.1.saturating_sub(window));
        starts.chain(ends).map(|from| self.within(from, from + window)).max().expect("there are runs")
    }

    /// Least in any window of a length, once the first 100 ms are over: then nothing is left of the guest's preparation.
    ///
    /// # Panics
    /// When the log is shorter than the window.
    #[must_use]
    pub fn least_in(&self, window: u64) -> u64 {
        let starts = self.runs.iter().map(|run| run.1);
        let ends = self.runs.iter().map(|run| run.0.saturating_sub(window));
        let first = self.first() + 100 * TICKS_PER_MILLISECOND;
        let windows = starts.chain(ends).filter(|from| *from >= first && from + window <= self.last());
        windows.map(|from| self.within(from, from + window)).min().expect("there are windows")
    }

    /// Longest time between two runs, the first two left out.
    ///
    /// # Panics
    /// When there are no such runs.
    #[must_use]
    pub fn longest_gap(&self) -> u64 {
        let runs = self.runs.get(2..).unwrap_or_default();
        runs.windows(2).map(|pair| pair[1].0 - pair[0].1).max().expect("there are gaps")
    }
}
