//! ChaosRT as a component: a scheduler in user space for the tasks of a subsystem (CH-3, CH-30 to CH-37, CH-63). All that it decides is in
//! `components/rt`; here are its memory, its entries and the kernel's calls.
//!
//! Tasks enter by Call, on their own threads and time; each function returns when its task is the best one again. Which tasks a caller may speak for
//! is in its capability: bit n of the token is task n. The scheduler's own thread takes events; its argument has a byte for each of the first eight
//! tasks: its priority and 1, or 0 for one that is made later.
//!
//! The instance says in which slots the scheduler is (`scheduler`), the first of the threads (`threads`: the scheduler's own, then those of tasks 0, 1, ...) and the first of the
//! ways to be notified (`ways`): signals of end points, or nothing. A function there would find this program's registers, and could change them.
#![no_std]
#![no_main]

use bulkhead_component::alone::Alone;
use bulkhead_component::{Code, call, interface, schedule};
use bulkhead_rt::{Blocks, Event, Guarded, Kernel, Limit, Lock, Record, Rt, Scheduler, Sent, Task, Tasks, Who};
use core::sync::atomic::AtomicU64;

bulkhead_component::entry!(main);

/// Where its capabilities are: nothing here is called as a function.
mod slots {
    bulkhead_component::import! {
        /// The scheduler.
        pub fn scheduler();
        /// Its thread, then those of tasks.
        pub fn threads();
        /// What limited notifications are sent by.
        pub fn ways();
    }
}

bulkhead_component::limits! {
    /// What passes of the first way; without a word about it [`LIMIT`].
    way_0;
    /// And of the second one.
    way_1;
}

/// A turn, at 62.5 MHz 1 ms.
const QUANTUM_TICKS: u64 = 62_500;
/// Notifications that pass of one way in each window of 10 ms, where the description says no limit.
const MOST: u16 = 10;
const WINDOW_TICKS: u64 = 625_000;
/// Blocks that a task may have.
const MOST_BLOCKS: u16 = 16;
/// What a limited notification answers.
const LIMITED: u64 = 1 << 32;

struct Memory(Alone<Tasks>);

impl Guarded for Memory {
    fn with<R>(&self, what: impl FnOnce(&mut Tasks) -> R) -> R {
        self.0.with(what)
    }

    fn take_back(&self) {
        // SAFETY: `components/rt` asks for it when the kernel has ended the thread that had the lock, or when that thread comes again, which it does not from inside. Blocks are
        // guarded by the same lock, so the same thread was in there, or none.
        unsafe {
            self.0.take_back();
            BLOCKS.take_back();
        }
        self.0.with(Tasks::put_right);
        BLOCKS.with(Blocks::put_right);
    }
}

static RT: Rt<AtomicU64, Memory> = Rt::new(Lock::new(), Memory(Alone::new(Tasks::new(QUANTUM_TICKS))));
static BLOCKS: Alone<Blocks<1>> = Alone::new(Blocks::new(MOST_BLOCKS));
const LIMIT: Limit = Limit { window_ticks: WINDOW_TICKS, maximum: MOST };
/// By number of the way: what passes of each.
static RECORDS: [Record; 2] = [Record::new(LIMIT, 0), Record::new(LIMIT, 1)];

/// The kernel's calls.
struct Calls;

impl Kernel for Calls {
    fn now_ticks(&mut self) -> u64 {
        call::counter_ticks()
    }

    fn switch(&mut self, to: Who, number: u64, timeout_ticks: u64, token: u64) -> Result<(), Code> {
        let thread = match to {
            Who::Scheduler => 0,
            Who::Task(task) => u64::from(task.number()) + 1,
        };
        // The library says "none" as the kernel's deadlines do.
        let timeout_ticks = if timeout_ticks == u64::MAX { 0 } else { timeout_ticks };
        schedule::switch(slots::scheduler::slot(), slots::threads::slot() + thread, number, timeout_ticks, token)
    }

    fn events(&mut self, deadline_ticks: Option<u64>) -> Result<Event, Code> {
        let event = schedule::events(slots::scheduler::slot(), deadline_ticks)?;
        let schedule::Event { label, what, used_ticks, token } = event;
        Ok(Event { label, what, used_ticks, token })
    }

    fn send(&mut self, way: u64) -> Result<(), Code> {
        // SAFETY: the author of the description binds ways to signals of end points or to nothing (head of this file), and gives this table to nobody.
        unsafe { interface::signal(slots::ways::slot() + way) }
    }

    fn rest(&mut self) {
        let _ = call::receive(0, call::counter_ticks() + 1);
    }
}

/// The scheduler's thread.
fn main(priorities: u64) {
    for (number, priority) in (0..).zip(priorities.to_le_bytes()) {
        if let (Some(task), Some(priority)) = (Task::new(number), priority.checked_sub(1)) {
            // A priority that there is not is one of a description that nobody checked: the task is not made.
            let _ = RT.introduce(&mut Calls, task, priority);
        }
    }
    let mut scheduler = Scheduler::new();
    // With the last task nobody is left who could make another one: then this thread ends as well.
    while scheduler.round(&mut Calls, &RT) || !RT.is_over(&mut Calls) {}
}

/// The task that a caller says it is, if its capability lets it.
fn task(token: u64, number: u64) -> Result<Task, Code> {
    let task = Task::new(number).ok_or(Code::BadArgument)?;
    if number < 48 && token >> number & 1 == 1 { Ok(task) } else { Err(Code::Denied) }
}

/// A task of this scheduler, no matter who speaks for it.
fn any(number: u64) -> Result<Task, Code> {
    Task::new(number).ok_or(Code::BadArgument)
}

/// What an entry answers: the number of a code.
fn answer(done: Result<(), Code>) -> u64 {
    done.err().unwrap_or(Code::Ok).number()
}

bulkhead_component::export! {
    /// `me` makes a task with a priority, 0 the most important of 64; its thread is started by who asked.
    fn create(token, me, other, priority) {
        let made = |me: Task| {
            let priority = u8::try_from(priority).map_err(|_| Code::BadArgument)?;
            RT.create(&mut Calls, me, any(other)?, priority)
        };
        answer(task(token, me).and_then(made))
    }

    /// `me` ends a task, itself perhaps: then it comes back, and its thread ends by returning at home.
    fn end(token, me, other) {
        let ended = |me: Task| {
            let other = any(other)?;
            RT.guard(&mut Calls, me, || BLOCKS.with(|blocks| blocks.free_all(other)));
            RT.end(&mut Calls, me, other)
        };
        answer(task(token, me).and_then(ended))
    }

    /// Lets equals run.
    fn give_way(token, me) {
        answer(task(token, me).map(|me| RT.yield_(&mut Calls, me)))
    }

    /// Waits to be woken, or until a date; all ones for none.
    fn block(token, me, until_ticks) {
        answer(task(token, me).and_then(|me| RT.block(&mut Calls, me, until_ticks)))
    }

    /// Waits until a date.
    fn sleep(token, me, until_ticks) {
        answer(task(token, me).map(|me| RT.sleep(&mut Calls, me, until_ticks)))
    }

    /// Wakes a task.
    fn wake(token, me, other) {
        answer(task(token, me).and_then(|me| RT.wake(&mut Calls, me, any(other)?)))
    }

    /// Notifies by the way that the caller's capability names, within its limit: 0, or 2^32 when it was held back, or a code.
    fn notify(token) {
        let Some(record) = usize::try_from(token).ok().and_then(|way| RECORDS.get(way)) else {
            return Code::BadCapability.number();
        };
        let said = if token == 0 { way_0::limit() } else { way_1::limit() };
        let limit = said.map_or(LIMIT, |(maximum, window_ticks)| Limit::in_ticks(maximum, window_ticks));
        match record.notify_within(&mut Calls, limit) {
            Ok(Sent::Now) => Code::Ok.number(),
            Ok(Sent::Limited { .. }) => LIMITED,
            Err(code) => code.number(),
        }
    }

    /// Gives a task a block of memory: its number, or 2^32 and a code.
    fn allocate(token, me) {
        let given = |me: Task| RT.guard(&mut Calls, me, || BLOCKS.with(|blocks| blocks.allocate(me)));
        task(token, me).and_then(given).map_or_else(|code| LIMITED | code.number(), u64::from)
    }

    /// Takes a block back.
    fn release(token, me, block) {
        let taken = |me: Task| {
            let block = u16::try_from(block).map_err(|_| Code::BadArgument)?;
            RT.guard(&mut Calls, me, || BLOCKS.with(|blocks| blocks.free(me, block)))
        };
        answer(task(token, me).and_then(taken))
    }
}
