//! Threads: registers, where they are inside which calls, what they wait for (`kernel.md` 1 and 5).
//!
//! A thread is inside a list of *levels*: its home component, and one level per call. The innermost level is in the thread itself, and each
//! frame holds one below it: the component, its life when it was entered, the stack that the thread has there, and where to continue.
//! A level whose component has another life now is dead: nothing continues in it.
//!
//! Rejected: a frame with the caller's place and the callee's stack, as the prototype had it. It is the same number of words, and a
//! level's facts are then in two frames, so that unwinding reads both.

use crate::Counters;
use bulkhead_kernel_abi::boot::ThreadRow;
use bulkhead_kernel_abi::{MAX_FRAMES, NONE};

/// Registers of a thread at EL0, as vectors store them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// x0 to x30.
    pub x: [u64; 31],
    /// SP_EL0.
    pub sp: u64,
    /// ELR_EL1: after an SVC the instruction behind it.
    pub pc: u64,
    /// SPSR_EL1; 0 is EL0 with clear flags.
    pub pstate: u64,
    /// TPIDR_EL0.
    pub tpidr: u64,
}

/// Where a level below the innermost one continues. With its [`Level`] 32 bytes, in two arrays: so a frame's address is one instruction, which shifts
/// by 4 bits at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// Next instruction.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
}

/// Which level it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Level {
    /// TPIDR_EL0.
    pub tpidr: u64,
    /// Component.
    pub component: u16,
    /// The thread's stack in it; [`NONE`] in the home component, where it has one of its own.
    pub stack: u16,
    /// The component's life when it was entered.
    pub life: u32,
}

const _: () = assert!(size_of::<Frame>() == 16 && size_of::<Level>() == 16);

/// What a thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ThreadState {
    /// There is none.
    #[default]
    Free,
    /// It does not run: not started yet, or ended.
    Stopped,
    /// It can run, unless it is suspended.
    Ready,
    /// It waits for its end point.
    Receiving,
    /// It waits for its deadline.
    Sleeping,
    /// It is a scheduler's and waits for events.
    WaitingForEvents,
}

/// What happened to a thread, as its scheduler is told: bits.
pub mod event {
    /// It can run.
    pub const ACTIVATED: u8 = 1;
    /// It waits, or is suspended.
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

/// What a scheduler has not been told yet of a thread (CH-57). One per thread, so events need no memory of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// Scheduler in whose list it is, or [`NONE`].
    pub list: u16,
    /// Bits of [`event`].
    pub what: u8,
}

/// A call that was interrupted between two slices and is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Sliced {
    /// Which: its number, and its operation in bits 15:8; [`NONE`] for none.
    pub call: u16,
    /// Component that it makes or ends.
    pub component: u16,
    /// That one's life.
    pub life: u32,
    /// Pages that are done.
    pub done: u32,
}

impl Sliced {
    /// No call.
    pub const NONE: Self = Self { call: NONE, component: NONE, life: 0, done: 0 };
}

/// A thread. SP_EL1 points at it while it runs, which must be a multiple of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Thread {
    /// Registers.
    pub registers: Registers,
    /// The component that it is in.
    pub component: u16,
    /// Its stack there.
    pub stack: u16,
    /// That component's life when it entered.
    pub life: u32,
    /// Calls that it is inside.
    pub depth: u8,
    /// What it does.
    pub state: ThreadState,
    /// It does not run until it is resumed.
    pub is_suspended: bool,
    /// Home component.
    pub home: u16,
    /// An `exec` of its is not done: it continues in the kernel.
    pub is_in_exec: bool,
    /// `receive` takes all bits.
    pub takes_all: bool,
    /// Zeros: what the fast path loads into registers that arrive as zero.
    pub nothing: [u64; 2],
    /// Where the levels below the innermost one continue. What is above them is old.
    pub frames: [Frame; MAX_FRAMES],
    /// Which these levels are.
    pub below: [Level; MAX_FRAMES],
    /// Life and grant.
    pub counters: Counters,
    /// Scheduler whose it is, or [`NONE`].
    pub scheduler: u16,
    /// Temporal capability that it is bound to.
    pub tcap: u16,
    /// The one that it runs on, or is to run on.
    pub runs_on: u16,
    /// Root server of that one while the thread is awake, or [`NONE`].
    pub server: u16,
    /// End point that it takes from, or [`NONE`].
    pub end_point: u16,
    /// End point that is told when its limit is used up, or [`NONE`].
    pub limit_end_point: u16,
    /// Grant of that one when the limit was set: after a revocation nobody is told.
    pub limit_grant: u32,
    /// What that one is sent.
    pub limit_bits: u64,
    /// Ticks left of its limit.
    pub limit_ticks: u64,
    /// What its scheduler knows it by.
    pub label: u64,
    /// Deadline of what it waits for; all ones for none.
    pub deadline_ticks: u64,
    /// Server in whose list of sleepers it is, or [`NONE`].
    pub dated_on: u16,
    /// Quota that pays for it, if it was made by `thread create`; else [`NONE`].
    pub quota: u16,
    /// Its interrupted call.
    pub sliced: Sliced,
    /// Ticks that it used since its scheduler took an event about it.
    pub used_ticks: u64,
    /// What its scheduler has not been told.
    pub event: Event,
    /// Server on which what it waits for wakes it, if nothing else is to be done then: no deadline, all bits, no scheduler, its own time, which nothing can move
    /// to another server. [`NONE`] where that is not so, or not known.
    pub waits_on: u16,
    /// It is a scheduler's own.
    pub is_schedulers: bool,
    /// First instruction, stack pointer and argument, for a reset.
    pub start: [u64; 3],
    /// How often components had been ended when its levels were looked at last, and none was dead.
    pub seen_ends: u64,
}

// The other 528 bytes of 1,280 are floating point's (`arch/el1`).
const _: () = assert!(size_of::<Thread>() <= 1280 - 528);

/// No deadline.
pub const NEVER: u64 = u64::MAX;

impl Default for Thread {
    fn default() -> Self {
        Self {
            registers: Registers::default(),
            component: NONE,
            stack: NONE,
            life: 0,
            depth: 0,
            state: ThreadState::Free,
            is_suspended: false,
            home: NONE,
            nothing: [0; 2],
            frames: [Frame::default(); MAX_FRAMES],
            below: [Level::default(); MAX_FRAMES],
            counters: Counters { life: 1, grant: 1 },
            scheduler: NONE,
            tcap: NONE,
            runs_on: NONE,
            server: NONE,
            end_point: NONE,
            limit_end_point: NONE,
            limit_grant: 0,
            limit_bits: 0,
            limit_ticks: 0,
            label: 0,
            deadline_ticks: NEVER,
            dated_on: NONE,
            sliced: Sliced::NONE,
            is_in_exec: false,
            quota: NONE,
            takes_all: false,
            waits_on: NONE,
            is_schedulers: false,
            used_ticks: 0,
            event: Event { list: NONE, what: 0 },
            start: [0; 3],
            seen_ends: 0,
        }
    }
}

impl Thread {
    /// A thread as the host described it, not started.
    #[must_use]
    pub fn new(row: &ThreadRow) -> Self {
        Self {
            state: ThreadState::Stopped,
            home: row.component,
            scheduler: row.scheduler,
            tcap: row.tcap,
            runs_on: row.tcap,
            end_point: row.end_point,
            label: row.label,
            start: [row.entry, row.stack, row.argument],
            ..Self::default()
        }
    }

    /// It could run at once.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.state == ThreadState::Ready && !self.is_suspended
    }

    /// What is left of its limit; all ones without one.
    #[inline(always)] // On the way of each entry.
    pub(crate) const fn own_ticks(&self) -> u64 {
        if self.limit_end_point == NONE { NEVER } else { self.limit_ticks }
    }

    /// It waits for this end point, and is not suspended.
    #[inline(always)] // On the way of each signal, which is counted.
    pub(crate) fn waits_for(&self, end_point: u16) -> bool {
        self.state == ThreadState::Receiving && self.end_point == end_point && !self.is_suspended
    }

    /// What it waits for has no deadline, it takes all, and no scheduler is to be told.
    pub(crate) fn waits_plainly(&self) -> bool {
        self.scheduler == NONE && self.deadline_ticks == NEVER && self.takes_all
    }

    /// Levels from the home component to the innermost one: component, life, stack.
    pub fn levels(&self) -> impl DoubleEndedIterator<Item = (u16, u32, u16)> {
        let below = self.below.iter().take(usize::from(self.depth));
        let below = below.map(|level| (level.component, level.life, level.stack));
        below.chain(core::iter::once((self.component, self.life, self.stack)))
    }

    /// Puts it to the beginning of its home component, with this argument.
    pub(crate) fn begin(&mut self, life: u32, argument: u64) {
        let [pc, sp, _] = self.start;
        self.registers = Registers { pc, sp, ..Registers::default() };
        self.registers.x[0] = argument;
        (self.component, self.stack, self.life, self.depth) = (self.home, NONE, life, 0);
        (self.state, self.sliced, self.is_in_exec) = (ThreadState::Ready, Sliced::NONE, false);
    }

    /// Writes the answer of a call that is not `invoke`.
    pub(crate) fn answer(&mut self, code: u64, values: &[u64]) {
        self.registers.x[0] = code;
        for (register, value) in self.registers.x.iter_mut().skip(1).zip(values) {
            *register = *value;
        }
    }
}
