//! Storms to a vCPU that shares its core: of software-generated interrupts, of CPU_ON, and of siblings that are switched on and report that
//! they are off. The keeper, which has the core meanwhile, is awake all the time and has no exit of its own, so what its core does in the
//! monitor is what it loses by a storm, to the instruction.

use crate::assemble::Program;
use crate::remote::{GUEST_LOAD, GUEST_RAM};
use crate::{LIMIT, Running, System};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::Counter;
use bulkhead_plan::{Area, AreaKind};
use bulkhead_run::{CountingOptions, ImagePlan};
use std::ops::Range;

/// The keeper counts, without an exit. vCPU 1 of the attacker shares its core; the others have cores of their own.
const SYSTEM: &str = r#"
version = 1
name = "siblings"
board = "qemu-virt"
memory = "64 MiB"

[[schedule]]
core = 0
kind = "fixed-priority"

[[partition]]
name = "keeper"
trust = "trusted"
cores = [0]
memory = "4 MiB"
image = { kind = "raw", file = "keeper.bin", load = 0x4008_0000 }
console = "none"
servers = [{ priority = 5 }]

[[partition]]
name = "attacker"
cores = [1, 0, 2]
memory = "4 MiB"
image = { kind = "raw", file = "attacker.bin", load = 0x4008_0000 }
console = "none"
servers = [{ vcpu = 1, SERVER }]
"#;
/// vCPU 1 is away from when it has used its budget, for longer than any host takes for a storm.
pub const USED_UP: &str = r#"priority = 1, rule = "sporadic", budget = "1 s", period = "3600 s""#;
/// vCPU 1 is never loaded: the keeper comes first. `check` refuses that, since nobody can promise it any time.
pub const NEVER_LOADED: &str = "priority = 9";
/// vCPU 1 comes first whenever it is on.
pub const AT_ONCE: &str = "priority = 1";

/// A byte of a stack that nobody used.
const PAINT: u8 = 0xa5;

const CPU_ON: u64 = 0xc400_0003;
const CPU_OFF: u64 = 0x8400_0002;
/// In the RAM of both partitions.
const WORDS: u64 = 0x20_0000;
/// What vCPU 0 is to do: written last by the host, and 0 when it is done.
const KIND: u32 = 0;
const COUNT: u32 = 8;
const TARGET: u32 = 16;
/// Calls that succeeded.
const DONE: u32 = 24;
/// What vCPU 1 does when it is on.
const CONTEXT: u32 = 40;
const COUNTS: u64 = 1;
/// It waits for an interrupt first.
const SLEEPS: u64 = 2;
/// Counted by the keeper, and in the other partition by vCPU 1 while it is loaded.
pub const AWAKE: u32 = 32;

/// Switches vCPU `TARGET` on, which does what `CONTEXT` says.
pub const SWITCH_ON: u64 = 1;
/// Sends a software-generated interrupt to vCPU 1.
pub const SEND: u64 = 2;
/// Switches vCPU `TARGET` on, which switches itself off at once, and again as soon as it is off.
pub const PAIR: u64 = 3;

fn count_for_ever(program: &mut Program) {
    program.constant(19, GUEST_RAM + WORDS).constant(20, 0);
    let again = program.here();
    program.add(20, 20, 1).store(20, 19, AWAKE).branch(again);
}

fn keeper() -> Program {
    let mut program = Program::new();
    count_for_ever(&mut program);
    program
}

/// vCPU 0 does what it is told, as fast as it can; others count or leave, by what they get from it.
fn attacker() -> Program {
    let build = |further: u64| {
        let mut program = Program::new();
        let switch_on = |program: &mut Program| {
            program.constant(0, CPU_ON).copy(1, 26).constant(2, further).call();
        };
        program.constant(19, GUEST_RAM + WORDS).constant(22, 3 << 24 | 1 << 1).constant(20, 1);
        let first = program.skip_not_zero(20);
        let finish = program.here();
        program.store(24, 19, DONE).barrier().store(31, 19, KIND).land(first);
        let poll = program.here();
        program.load(20, 19, KIND);
        let told = program.skip_not_zero(20);
        program.branch(poll).land(told).barrier().load(23, 19, COUNT).load(26, 19, TARGET).constant(24, 0);
        program.subtract(20, 20, 1);
        let other = program.skip_not_zero(20);
        let again = program.here();
        program.load(3, 19, CONTEXT);
        switch_on(&mut program);
        let refused = program.skip_not_zero(0);
        program.add(24, 24, 1).land(refused).subtract(23, 23, 1).branch_not_zero(23, again).branch(finish);
        program.land(other).subtract(20, 20, 1);
        let other = program.skip_not_zero(20);
        let again = program.here();
        program.word(0xd518_cba0 | 22).add(24, 24, 1); // MSR ICC_SGI1R_EL1, x22
        program.subtract(23, 23, 1).branch_not_zero(23, again).branch(finish).land(other);
        let again = program.here();
        program.constant(3, 0);
        switch_on(&mut program);
        program.branch_not_zero(0, again).add(24, 24, 1).subtract(23, 23, 1).branch_not_zero(23, again);
        program.branch(finish);
        let further = GUEST_LOAD + program.offset();
        let stays = program.skip_not_zero(0);
        program.constant(0, CPU_OFF).call().stay().land(stays).subtract(0, 0, 1);
        let sleeps = program.skip_not_zero(0);
        count_for_ever(&mut program);
        program.land(sleeps).wait();
        count_for_ever(&mut program);
        (program, further)
    };
    // A constant always takes four instructions, so the second pass has the same offsets.
    let (_, further) = build(0);
    build(further).0
}

/// What a storm did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// Entries on the keeper's core by interrupts of the monitor.
    pub entries: u64,
    /// Instructions that the keeper lost.
    pub lost: u64,
    /// What succeeded, of what vCPU 0 did.
    pub done: u64,
    /// Instructions of the monitor on the core of vCPU 0.
    pub sender: u64,
    /// Of both, those up to the milestones that were named.
    pub up_to: [u64; 2],
}

/// What is read before a storm and behind it, on the cores of the keeper and of vCPU 0.
struct Spent {
    entries: u64,
    monitor: [u64; 2],
    up_to: [u64; 2],
}

/// A running system of the keeper and the attacker.
pub struct Stage {
    /// The machine.
    pub running: Running,
    stack: Area,
}

impl Stage {
    /// Starts it, with the server of vCPU 1; `milestones` says up to where passages are counted.
    ///
    /// # Panics
    /// When the keeper does not start.
    #[must_use]
    pub fn new(server: &str, milestones: impl FnOnce(&ImagePlan) -> Vec<Range<PhysicalAddress>>) -> Self {
        Self::of(&SYSTEM.replace("SERVER", server), milestones)
    }

    fn of(text: &str, milestones: impl FnOnce(&ImagePlan) -> Vec<Range<PhysicalAddress>>) -> Self {
        let system = System::unjudged("siblings", text, &[("keeper", &keeper()), ("attacker", &attacker())]);
        let plan = system.plan();
        let counting = CountingOptions { milestones: milestones(&plan), ..CountingOptions::for_monitor(&plan) };
        let running = system.start_with(|options| options.counting = Some(counting));
        let mut stage = Self { running, stack: system.area(AreaKind::Stack(0)) };
        stage.let_the_keeper_count();
        stage.tell("attacker", CONTEXT, COUNTS);
        stage
    }

    /// vCPU 1 of the attacker counts for ever, and that of another partition with the same program, which may be switched on, comes before it: calls to
    /// one that is loaded meet calls to one that is not.
    ///
    /// # Panics
    /// When that does not happen.
    #[must_use]
    pub fn two_at_one_core() -> Self {
        let place = SYSTEM.find("[[partition]]\nname = \"attacker\"").expect("it is the last one");
        let other = &SYSTEM[place..];
        let other = other.replace("name = \"attacker\"", "name = \"other\"").replace("[1, 0, 2]", "[3, 0]");
        let text = SYSTEM.replace("SERVER", "priority = 3") + &other.replace("SERVER", AT_ONCE);
        let mut stage = Self::of(&text, |_| vec![]);
        stage.order("attacker", SWITCH_ON, 1, 1);
        stage.wait("attacker", AWAKE, |count| count > 0);
        stage.wait("attacker", KIND, |kind| kind == 0);
        stage
    }

    /// The attacker sends interrupts to its vCPU 1, which is loaded; meanwhile the other partition switches its own on and off as often as it is told.
    /// Returns how many bytes of the stack of their core the monitor used.
    ///
    /// # Panics
    /// As [`Self::storm`].
    #[must_use]
    pub fn stack_used_by(&mut self, sent: u64, pairs: u64) -> u64 {
        // Nothing enters the monitor there now: vCPU 1 counts, and no date is set.
        let pattern = vec![PAINT; self.stack.bytes as usize];
        self.running.ram().write_at(self.stack.address, &pattern).expect("the stack is in RAM");
        if pairs != 0 {
            self.order("other", PAIR, 1, pairs);
        }
        let mut is_over = sent == 0;
        while !is_over {
            self.order("attacker", SEND, 1, sent);
            self.wait("attacker", KIND, |kind| kind == 0);
            is_over = self.word("other", KIND) == 0;
        }
        self.wait("other", KIND, |kind| kind == 0);
        let counted = self.word("attacker", AWAKE);
        self.wait("attacker", AWAKE, |count| count > counted + 100_000);
        self.running.assert_no_crash();
        let stack = self.running.copy(self.stack.address, self.stack.bytes);
        let unused = stack.iter().take_while(|byte| **byte == PAINT).count() as u64;
        self.stack.bytes - unused
    }

    /// Bytes of the stack of the keeper's core.
    #[must_use]
    pub fn stack_bytes(&self) -> u64 {
        self.stack.bytes
    }

    /// Tells vCPU 0 of a partition what to do.
    fn order(&self, partition: &str, kind: u64, target: u64, count: u64) {
        for (word, value) in [(COUNT, count), (TARGET, target), (KIND, kind)] {
            self.tell(partition, word, value);
        }
    }

    /// vCPU 1 comes first, is on, and sleeps until an interrupt comes; then it counts.
    ///
    /// # Panics
    /// When that does not happen.
    #[must_use]
    pub fn asleep(milestones: impl FnOnce(&ImagePlan) -> Vec<Range<PhysicalAddress>>) -> Self {
        let mut stage = Self::new(AT_ONCE, milestones);
        stage.tell("attacker", CONTEXT, SLEEPS);
        assert_eq!(stage.storm(SWITCH_ON, 1, 1).done, 1);
        stage
    }

    /// vCPU 0 wakes vCPU 1, which has the core from then on.
    ///
    /// # Panics
    /// As [`Self::storm`].
    pub fn wake(&mut self) -> Storm {
        self.storm_until(SEND, 1, 1, |stage| stage.wait("attacker", AWAKE, |count| count > 0))
    }

    /// vCPU 1 is on, was loaded, and is away: it counts no more while the keeper does.
    ///
    /// # Panics
    /// When that does not happen.
    #[must_use]
    pub fn away(milestones: impl FnOnce(&ImagePlan) -> Vec<Range<PhysicalAddress>>) -> Self {
        let mut stage = Self::new(USED_UP, milestones);
        let started = stage.storm(SWITCH_ON, 1, 1);
        // It comes first, so it was loaded before the keeper counted further. On a busy host its budget may be used up before its first instruction.
        assert_eq!((started.entries, started.done), (1, 1));
        let mut present = 0;
        while present != stage.word("attacker", AWAKE) {
            present = stage.word("attacker", AWAKE);
            stage.let_the_keeper_count();
        }
        stage
    }

    fn place(&self, partition: &str, word: u32) -> PhysicalAddress {
        let ram = self.running.watch().plan().partitions[self.running.index(partition)].ram[0].physical;
        PhysicalAddress(ram.0 + WORDS + u64::from(word))
    }

    /// Reads a word of a partition.
    ///
    /// # Panics
    /// Never: the words are in RAM.
    #[must_use]
    pub fn word(&self, partition: &str, word: u32) -> u64 {
        self.running.ram().load_u64(self.place(partition, word)).expect("the words are in RAM")
    }

    fn tell(&self, partition: &str, word: u32, value: u64) {
        let place = self.place(partition, word);
        self.running.ram().write_at(place, &value.to_le_bytes()).expect("the words are in RAM");
    }

    /// Waits until a word of a partition is as it is to be.
    fn wait(&mut self, partition: &str, word: u32, is_right: impl Fn(u64) -> bool) {
        let place = self.place(partition, word);
        let what = format!("{partition} to change its word {word}");
        let waited = self.running.wait_for(&what, LIMIT, |view| is_right(view.ram.load_u64(place)?).then_some(()));
        waited.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Waits until the keeper has counted further: what is on its way to its core is there then.
    fn let_the_keeper_count(&mut self) {
        let counted = self.word("keeper", AWAKE) + 100_000;
        self.wait("keeper", AWAKE, |count| count > counted);
    }

    fn spent(&self) -> Spent {
        let counts = self.running.counts().unwrap_or_else(|error| panic!("{error}"));
        let monitor = |core: usize| counts.cores[core].range("monitor").expect("the range is counted").since;
        Spent {
            entries: self.running.counter("keeper", Counter::MonitorInterrupt),
            monitor: [0, 1].map(monitor),
            up_to: [0, 1].map(|core: usize| counts.cores[core].passages.milestone_sum),
        }
    }

    /// vCPU 0 does something `count` times, while the keeper is awake.
    ///
    /// # Panics
    /// When it does not come to its end, or the monitor crashed.
    pub fn storm(&mut self, kind: u64, target: u64, count: u64) -> Storm {
        self.storm_until(kind, target, count, Self::let_the_keeper_count)
    }

    fn storm_until(&mut self, kind: u64, target: u64, count: u64, end: impl FnOnce(&mut Self)) -> Storm {
        let before = self.spent();
        self.order("attacker", kind, target, count);
        self.wait("attacker", KIND, |kind| kind == 0);
        end(self);
        let after = self.spent();
        let [lost, sender] = [0, 1].map(|core: usize| after.monitor[core] - before.monitor[core]);
        let up_to = [0, 1].map(|core: usize| after.up_to[core] - before.up_to[core]);
        let storm =
            Storm { entries: after.entries - before.entries, lost, done: self.word("attacker", DONE), sender, up_to };
        self.running.assert_no_crash();
        storm
    }
}
