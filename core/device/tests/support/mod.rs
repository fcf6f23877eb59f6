//! What the tests and the fuzz target of this crate share.
#![allow(dead_code, reason = "each test program uses a part")]

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{MAX_STEPS, STEP_DELAY, STEP_UPDATE, STEP_WAIT, STEP_WRITE, Step};
use bulkhead_device::script::{Failure, Progress, Registers, Run};
use std::cell::{Cell, RefCell};

/// Registers of a device that answers what it likes.
struct Hostile<'a> {
    answers: RefCell<&'a [u8]>,
    reads: Cell<u64>,
    writes: Cell<u64>,
    now: Cell<u64>,
}

impl Hostile<'_> {
    fn byte(&self) -> u8 {
        let mut answers = self.answers.borrow_mut();
        let Some((first, rest)) = answers.split_first() else { return 0 };
        *answers = rest;
        *first
    }
}

impl Registers for Hostile<'_> {
    fn read(&self, _: PhysicalAddress, bytes: u16) -> u64 {
        assert!(matches!(bytes, 1 | 2 | 4 | 8), "a read of {bytes} bytes");
        self.reads.set(self.reads.get() + 1);
        match self.byte() & 3 {
            0 => u64::MAX,
            1 => 0,
            2 => 1 << (self.byte() & 63),
            _ => u64::from(self.byte()),
        }
    }
    fn write(&self, _: PhysicalAddress, bytes: u16, _: u64) {
        assert!(matches!(bytes, 1 | 2 | 4 | 8), "a write of {bytes} bytes");
        self.writes.set(self.writes.get() + 1);
    }
    fn now_ticks(&self) -> u64 {
        self.now.get()
    }
}

/// Any steps, any answers: the script ends within what its waits say, each turn makes at most one read and one write, and what
/// cannot be a step ends it.
pub(crate) fn scripts(bytes: &[u8]) {
    let (count, rest) = bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest));
    let count = count % (MAX_STEPS + 1);
    let (plan, answers) = rest.split_at(rest.len().min(8 * count));
    let steps: Vec<Step> = plan
        .chunks_exact(8)
        .map(|bytes| Step {
            operation: u16::from(bytes[0] % 8),
            width: [1, 2, 4, 8, 4, 4, 0, 3][usize::from(bytes[1] & 7)],
            limit: u32::from(bytes[2]),
            address: PhysicalAddress(u64::from_le_bytes(bytes.try_into().unwrap_or_default())),
            mask: [u64::MAX, 0, 1, 4][usize::from(bytes[3] & 3)],
            value: [0, 1, 4, u64::MAX][usize::from(bytes[4] & 3)],
        })
        .collect();
    let device =
        Hostile { answers: RefCell::new(answers), reads: Cell::new(0), writes: Cell::new(0), now: Cell::new(0) };
    let limit = 1 + 2 * steps.len() as u64 + steps.iter().map(|step| u64::from(step.limit)).sum::<u64>();
    let mut run = Run::default();
    for turn in 0.. {
        assert!(turn <= limit, "{turn} turns of {steps:?}");
        let before = (device.reads.get(), device.writes.get());
        let progress = run.advance(&steps, &device);
        let after = (device.reads.get(), device.writes.get());
        assert!(after.0 - before.0 <= 1 && after.1 - before.1 <= 1, "one access of each kind in a turn");
        match progress {
            Ok(Progress::More) => {}
            Ok(Progress::Later(date)) => {
                assert!(date > device.now.get(), "nothing is to be waited for");
                device.now.set(date);
            }
            Ok(Progress::Done) => {
                let writes = |step: &&Step| matches!(step.operation, STEP_WRITE | STEP_UPDATE);
                assert_eq!(device.writes.get(), steps.iter().filter(writes).count() as u64, "all is done");
                return;
            }
            Err(Failure::Missing(at)) => {
                assert!(at < steps.len());
                return;
            }
            Err(Failure::Stuck(at)) => {
                let step = steps[at];
                let is_step = (STEP_WRITE..=STEP_DELAY).contains(&step.operation)
                    && (step.operation == STEP_DELAY || matches!(step.width, 1 | 2 | 4 | 8));
                assert!(!is_step || step.operation == STEP_WAIT, "{step:?} has no end to run out of");
                return;
            }
        }
    }
}
