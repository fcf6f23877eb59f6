//! The interpreter of device scripts (`devices.md` section 4).

mod support;

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{STEP_DELAY, STEP_EXPECT, STEP_UPDATE, STEP_WAIT, STEP_WRITE, Step};
use bulkhead_device::script::{Failure, Progress, Registers, Run, run};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

const COMMAND: u64 = 0x4;
const MASTER: u64 = 4;
const RESET: u64 = 0x14;

fn step(operation: u16, width: u16, address: u64, mask: u64, value: u64, limit: u32) -> Step {
    Step { operation, width, limit, address: PhysicalAddress(address), mask, value }
}

/// Registers that keep what is written, by address, and the accesses in their order.
#[derive(Default)]
struct Plain {
    words: RefCell<BTreeMap<u64, u64>>,
    accesses: RefCell<Vec<(char, u64, u16, u64)>>,
    now: Cell<u64>,
}

impl Registers for Plain {
    fn read(&self, address: PhysicalAddress, bytes: u16) -> u64 {
        let value = self.words.borrow().get(&address.0).copied().unwrap_or(0);
        self.accesses.borrow_mut().push(('r', address.0, bytes, value));
        value
    }
    fn write(&self, address: PhysicalAddress, bytes: u16, value: u64) {
        self.words.borrow_mut().insert(address.0, value);
        self.accesses.borrow_mut().push(('w', address.0, bytes, value));
    }
    fn now_ticks(&self) -> u64 {
        self.now.get()
    }
}

#[test]
fn each_operation_does_what_it_says() {
    let device = Plain::default();
    device.words.borrow_mut().insert(0x10, 0xffff_0007);
    let steps = [
        step(STEP_UPDATE, 2, 0x10, 0x404, 0x400, 0),
        step(STEP_WRITE, 4, 0x20, 0, 0x1234, 0),
        step(STEP_EXPECT, 8, 0x20, 0xff, 0x34, 0),
        step(STEP_WAIT, 1, 0x10, 4, 0, 3),
    ];
    assert_eq!(run(&steps, &device), Ok(()));
    let wanted = [
        ('r', 0x10, 2, 0xffff_0007),
        ('w', 0x10, 2, 0xffff_0403),
        ('w', 0x20, 4, 0x1234),
        ('r', 0x20, 8, 0x1234),
        ('r', 0x10, 1, 0xffff_0403),
    ];
    assert_eq!(*device.accesses.borrow(), wanted);
}

#[test]
fn what_is_not_there_is_missing_and_what_does_not_come_is_stuck() {
    let device = Plain::default();
    let expect = step(STEP_EXPECT, 4, 0, u64::MAX, 1, 0);
    let wait = step(STEP_WAIT, 4, 0, u64::MAX, 1, 5);
    let write = step(STEP_WRITE, 4, 8, 0, 1, 0);
    assert_eq!(run(&[write, expect, write], &device), Err(Failure::Missing(1)));
    assert_eq!(device.accesses.borrow().len(), 2, "nothing is done behind it");
    assert_eq!(run(&[wait, write], &device), Err(Failure::Stuck(0)));
    assert_eq!(device.accesses.borrow().len(), 2 + 5, "as many reads as it may have");
    assert_eq!(run(&[step(STEP_WAIT, 4, 0, u64::MAX, 1, 0)], &device), Err(Failure::Stuck(0)));
    for strange in [step(0, 4, 0, 0, 0, 0), step(6, 4, 0, 0, 0, 0), step(STEP_WRITE, 3, 0, 0, 0, 0)] {
        assert_eq!(run(&[write, strange], &device), Err(Failure::Stuck(1)));
    }
    assert_eq!(run(&[], &device), Ok(()));
}

#[test]
fn a_delay_is_a_date_and_later_steps_wait_for_it() {
    let device = Plain::default();
    device.now.set(1_000);
    let steps = [step(STEP_DELAY, 0, 0, 0, 500, 0), step(STEP_WRITE, 4, 8, 0, 1, 0)];
    let mut script = Run::default();
    for now in [1_000, 1_100, 1_499] {
        device.now.set(now);
        assert_eq!(script.advance(&steps, &device), Ok(Progress::Later(1_500)), "its date does not move");
    }
    device.now.set(1_500);
    assert_eq!(script.advance(&steps, &device), Ok(Progress::More));
    assert!(device.accesses.borrow().is_empty());
    assert_eq!(script.advance(&steps, &device), Ok(Progress::Done));
    assert_eq!(script.advance(&steps, &device), Ok(Progress::Done), "an end stays one");
    assert_eq!(device.accesses.borrow().len(), 1);
    let endless = [step(STEP_DELAY, 0, 0, 0, u64::MAX, 0)];
    assert_eq!(Run::default().advance(&endless, &device), Ok(Progress::Later(u64::MAX)));
}

/// A function with a write on its way to memory. It notices that mastering is off only when it has been read often enough; until then it
/// says that it is on, and its write may land at any time. A read's answer pushes what the function sent before it ahead.
struct Function {
    /// Reads until it answers that mastering is off.
    answers_after: u32,
    command: Cell<u64>,
    reads: Cell<u32>,
    in_flight: Cell<bool>,
    stopped: Cell<bool>,
}

impl Function {
    fn new(answers_after: u32) -> Self {
        Self {
            answers_after,
            command: Cell::new(6),
            reads: Cell::new(0),
            in_flight: Cell::new(true),
            stopped: Cell::new(false),
        }
    }

    /// Its write lands now, in memory that may be somebody else's by now.
    fn lands(&self) -> bool {
        self.in_flight.replace(false)
    }
}

impl Registers for Function {
    fn read(&self, _: PhysicalAddress, _: u16) -> u64 {
        if self.command.get() & MASTER != 0 || self.stopped.get() {
            return self.command.get();
        }
        self.reads.set(self.reads.get() + 1);
        if self.reads.get() < self.answers_after {
            return self.command.get() | MASTER;
        }
        self.stopped.set(true);
        self.in_flight.set(false); // it landed before the answer arrived
        self.command.get()
    }
    fn write(&self, address: PhysicalAddress, _: u16, value: u64) {
        if address.0 == COMMAND {
            self.command.set(value & 0x406);
        }
    }
    fn now_ticks(&self) -> u64 {
        0
    }
}

/// The first part of each script of a partition: silence the function, then wait until it is silent.
fn silence() -> [Step; 2] {
    [step(STEP_UPDATE, 2, COMMAND, 0x406, 0x402, 0), step(STEP_WAIT, 2, COMMAND, MASTER, 0, 100)]
}

#[test]
fn after_the_wait_nothing_of_a_function_is_on_its_way() {
    for answers_after in 1..=100 {
        let function = Function::new(answers_after);
        assert_eq!(run(&silence(), &function), Ok(()), "{answers_after}");
        assert!(!function.lands(), "a write lands in scrubbed memory, {answers_after} reads");
    }
    let function = Function::new(101);
    assert_eq!(run(&silence(), &function), Err(Failure::Stuck(1)));
}

/// The break that the model is for: mastering is switched off and nobody waits.
#[test]
fn without_the_wait_a_write_in_flight_lands() {
    let [update, _] = silence();
    for answers_after in 1..=100 {
        let function = Function::new(answers_after);
        assert_eq!(run(&[update, step(STEP_WRITE, 1, RESET, 0, 0, 0)], &function), Ok(()));
        assert!(function.lands(), "the model does not see it, {answers_after} reads");
    }
}

#[test]
fn a_script_in_pieces_does_what_it_does_at_once() {
    let [update, wait] = silence();
    let steps = [update, wait, step(STEP_WRITE, 1, RESET, 0, 0, 0), step(STEP_WRITE, 2, COMMAND, 0, 0x402, 0)];
    let (at_once, in_pieces) = (Function::new(9), Function::new(9));
    assert_eq!(run(&steps, &at_once), Ok(()));
    let mut script = Run::default();
    let mut turns = 1;
    while script.advance(&steps, &in_pieces) != Ok(Progress::Done) {
        turns += 1;
    }
    assert_eq!(turns, 3 + 9, "one turn for each step, and one for each read of the wait");
    assert_eq!(in_pieces.command.get(), at_once.command.get());
    assert_eq!(in_pieces.reads.get(), at_once.reads.get());
}

#[test]
fn hostile_steps_and_answers_end_without_a_panic() {
    let mut seed = 12u64;
    let mut random = || {
        // xorshift64 (Marsaglia 2003).
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..20_000 {
        let length = random() % 1_200;
        let bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
        support::scripts(&bytes);
    }
}

#[test]
fn committed_seeds_end_without_a_panic() {
    let folder = format!("{}/../../fuzz/corpus/scripts", env!("CARGO_MANIFEST_DIR"));
    let seeds: Vec<_> = std::fs::read_dir(&folder).expect("seeds of the fuzz target").collect();
    assert!(seeds.len() >= 2, "{folder} has seeds");
    for seed in seeds {
        support::scripts(&std::fs::read(seed.expect("an entry").path()).expect("a seed"));
    }
}
