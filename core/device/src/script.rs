//! Scripts of register accesses: the one interpreter for boot and for each start of a partition (`devices.md` section 4).

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{STEP_DELAY, STEP_EXPECT, STEP_UPDATE, STEP_WAIT, STEP_WRITE, Step};

/// Registers that a script reaches, and the counter by which it waits.
///
/// Duties of an implementer: an access reaches exactly the given address, once, with the given width of 1, 2, 4 or 8 bytes, in
/// program order.
pub trait Registers {
    /// Reads a register.
    fn read(&self, address: PhysicalAddress, bytes: u16) -> u64;
    /// Writes a register.
    fn write(&self, address: PhysicalAddress, bytes: u16, value: u64);
    /// Reads the counter.
    fn now_ticks(&self) -> u64;
}

/// What is left of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More, at once.
    More,
    /// More, and nothing before this date in counter ticks.
    Later(u64),
    /// Nothing.
    Done,
}

/// Why a script ended before its end, and at which step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// What was expected is not there.
    Missing(usize),
    /// A wait ran out. So does a step that is none.
    Stuck(usize),
}

/// A script under way. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The step that is next.
    next: usize,
    /// Reads that its wait has used up.
    reads: u32,
    /// When its delay is over, once it has begun.
    until_ticks: Option<u64>,
}

impl Run {
    /// States whether this many steps at the front are done.
    #[must_use]
    pub const fn is_past(&self, steps: usize) -> bool {
        self.next >= steps
    }

    /// Does the next access, or looks whether the delay that is next is over: at most one read and one write, so that a core that must not
    /// be held up can do something else in between.
    ///
    /// # Errors
    /// When the script ends here. It must not be continued.
    pub fn advance(&mut self, steps: &[Step], registers: &impl Registers) -> Result<Progress, Failure> {
        let Some(step) = steps.get(self.next) else { return Ok(Progress::Done) };
        let Step { operation, width, limit, address, mask, value } = *step;
        if operation != STEP_DELAY && !matches!(width, 1 | 2 | 4 | 8) {
            return Err(Failure::Stuck(self.next));
        }
        match operation {
            STEP_WRITE => registers.write(address, width, value),
            STEP_UPDATE => {
                let kept = registers.read(address, width) & !mask;
                registers.write(address, width, kept | value & mask);
            }
            STEP_WAIT if registers.read(address, width) & mask != value => {
                self.reads = self.reads.saturating_add(1);
                return if self.reads < limit { Ok(Progress::More) } else { Err(Failure::Stuck(self.next)) };
            }
            STEP_EXPECT if registers.read(address, width) & mask != value => {
                return Err(Failure::Missing(self.next));
            }
            STEP_WAIT | STEP_EXPECT => {}
            STEP_DELAY => {
                let now = registers.now_ticks();
                let until = *self.until_ticks.get_or_insert(now.saturating_add(value));
                if now < until {
                    return Ok(Progress::Later(until));
                }
            }
            _ => return Err(Failure::Stuck(self.next)),
        }
        *self = Self { next: self.next.saturating_add(1), ..Self::default() };
        Ok(if self.next < steps.len() { Progress::More } else { Progress::Done })
    }
}

/// Runs a script from its beginning to its end. Bounded by what its waits and delays say.
///
/// # Errors
/// When it ends before.
pub fn run(steps: &[Step], registers: &impl Registers) -> Result<(), Failure> {
    let mut run = Run::default();
    while run.advance(steps, registers)? != Progress::Done {}
    Ok(())
}
