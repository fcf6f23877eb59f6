//! Calls about threads: start and stop them, bound their time, and end calls that take too long (SG-8, SG-43).
//!
//! A component has threads of its own by name (`bind = { worker = "thread:worker" }`), and those of components that it supervises
//! (`"thread:COMPONENT.THREAD"`).
//!
//! A thread that calls somebody whom it does not trust bounds its own time first ([`limit`]). It runs on in the callee, so it cannot look at the clock itself: a
//! second thread is told when the time is over, and ends the call ([`abort`]).

use crate::Code;
use crate::call::{call, done};
use bulkhead_kernel_abi::call::{Call, ThreadOperation};

fn thread(operation: ThreadOperation, slot: u64, x2: u64, x3: u64) -> Result<[u64; 8], Code> {
    done(call::<{ Call::Thread.number() }>([operation.number(), slot, x2, x3, 0, 0, 0, 0]))
}

/// What `read` tells of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// 1 it does not run, 2 it can run, 3 it waits for its end point, 4 for a deadline, 5 for events.
    pub state: u64,
    /// Calls that it is inside.
    pub depth: u64,
    /// Ticks left of its limit.
    pub limit_ticks: u64,
}

/// Starts the thread of a slot at its entry, with this argument.
///
/// # Errors
/// `Busy` when it runs; `Gone` when its component has ended; `Denied`.
pub fn start(slot: u64, argument: u64) -> Result<(), Code> {
    thread(ThreadOperation::Start, slot, argument, 0).map(|_| ())
}

/// Keeps it from running until it is resumed.
///
/// # Errors
/// `Busy` when it is suspended or does not run; `Denied`.
pub fn suspend(slot: u64) -> Result<(), Code> {
    thread(ThreadOperation::Suspend, slot, 0, 0).map(|_| ())
}

/// Lets it run again.
///
/// # Errors
/// `Busy` when it is not suspended; `Denied`.
pub fn resume(slot: u64) -> Result<(), Code> {
    thread(ThreadOperation::Resume, slot, 0, 0).map(|_| ())
}

/// Ends it, wherever it is: components that it is inside are left.
///
/// # Errors
/// `Denied`.
pub fn stop(slot: u64) -> Result<(), Code> {
    thread(ThreadOperation::Stop, slot, 0, 0).map(|_| ())
}

/// Ends its innermost call: the caller finds `TimedOut`, and the callee's supervisor is told.
///
/// # Errors
/// `Busy` when it is in no call; `Denied` when the callee is not `abortable`.
pub fn abort(slot: u64) -> Result<(), Code> {
    thread(ThreadOperation::Abort, slot, 0, 0).map(|_| ())
}

/// Bounds the time that it runs from now on, in callees as well; when these ticks are used up the Send of the slot `told` is made, once, and nothing
/// else happens.
///
/// # Errors
/// `BadArgument` for no time; `BadCapability` when `told` is no Send; `Denied`.
pub fn limit(slot: u64, ticks: u64, told: u64) -> Result<(), Code> {
    thread(ThreadOperation::Limit, slot, ticks, told).map(|_| ())
}

/// Takes the bound away.
///
/// # Errors
/// `Denied`.
pub fn unlimit(slot: u64) -> Result<(), Code> {
    thread(ThreadOperation::Unlimit, slot, 0, 0).map(|_| ())
}

/// What it does.
///
/// # Errors
/// `Denied`.
pub fn read(slot: u64) -> Result<Task, Code> {
    let [_, state, depth, limit_ticks, ..] = thread(ThreadOperation::Read, slot, 0, 0)?;
    Ok(Task { state, depth, limit_ticks })
}
