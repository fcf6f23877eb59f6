//! What ChaosRT needs of the kernel.

use crate::Task;
use bulkhead_kernel_abi::Code;

/// Who gets the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The scheduler's own thread.
    Scheduler,
    /// A task's.
    Task(Task),
}

/// What `events` answers of a task, with the meaning of its words in `kernel.md` 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Label of the thread: the number of the task.
    pub label: u64,
    /// What happened, bits.
    pub what: u8,
    /// Ticks that it used since its last event.
    pub used_ticks: u64,
    /// The scheduler's newest token.
    pub token: u64,
}

impl Event {
    /// It can run.
    pub const ACTIVATED: u8 = 1;
    /// It waits in the kernel, or is suspended.
    pub const BLOCKED: u8 = 2;
    /// What it ran on is used up.
    pub const EXHAUSTED: u8 = 4;
    /// The time-out of a `switch` to it has passed.
    pub const TIMEOUT: u8 = 8;
    /// It faulted.
    pub const FAULTED: u8 = 16;
    /// It ended.
    pub const ENDED: u8 = 32;
}

/// The kernel's calls that ChaosRT makes, for the thread that runs.
pub trait Kernel {
    /// The counter.
    fn now_ticks(&mut self) -> u64;

    /// N1: who runs next on this server, on its own temporal capability, with this number for this scheduler (0: the permanent one) and a time-out. A token
    /// is not looked at when the scheduler's own thread is given the core.
    ///
    /// # Errors
    /// `Stale`, `NoTime`, `Busy`, `Denied`; nothing has changed.
    fn switch(&mut self, to: Who, number: u64, timeout_ticks: u64, token: u64) -> Result<(), Code>;

    /// Takes an event; waits for one until the deadline, if there is one. Only the scheduler's thread may.
    ///
    /// # Errors
    /// `WouldBlock` without a deadline, `TimedOut` with one.
    fn events(&mut self, deadline_ticks: Option<u64>) -> Result<Event, Code>;

    /// Sends by a slot of ChaosRT's own table.
    ///
    /// # Errors
    /// What `invoke` answers.
    fn send(&mut self, slot: u64) -> Result<(), Code>;

    /// Sleeps in the kernel until the next tick, so that others do what they have to do.
    fn rest(&mut self);
}
