//! Calls about who runs, and on whose time: for schedulers in user space, for those that delegate, and for who makes servers.

use crate::Code;
use crate::call::{call, done};
use bulkhead_kernel_abi::call::{Call, Flag, ServerOperation, TcapOperation, ThreadOperation};

/// What `events` tells of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What its scheduler knows it by.
    pub label: u64,
    /// What happened, bits: 1 it can run, 2 it waits, 4 what it ran on is used up, 8 its time-out has passed, 16 it faulted, 32 it ended.
    pub what: u8,
    /// Ticks that it used since its last event.
    pub used_ticks: u64,
    /// The scheduler's newest token.
    pub token: u64,
}

/// Takes an event of the scheduler of a slot; without one it waits until the counter reaches the deadline, or not at all.
///
/// # Errors
/// `WouldBlock` without a deadline, `TimedOut` with one; `Denied` for another thread than the scheduler's.
pub fn events(scheduler: u64, deadline_ticks: Option<u64>) -> Result<Event, Code> {
    let flags = if deadline_ticks.is_none() { Flag::NoWait.number() } else { 0 };
    let arguments = [scheduler, flags, deadline_ticks.unwrap_or(0), 0, 0, 0, 0, 0];
    let [_, label, what, used_ticks, _, token, ..] = done(call::<{ Call::Events.number() }>(arguments))?;
    Ok(Event { label, what: what as u8, used_ticks, token })
}

/// Who runs next on the server of a scheduler, on the thread's own time, with a number for this scheduler (0: the permanent one) and a time-out (0: none).
///
/// # Errors
/// `Stale` when there are newer events than the token's; `NoTime`, `Busy`, `Denied`.
pub fn switch(scheduler: u64, thread: u64, number: u64, timeout_ticks: u64, token: u64) -> Result<(), Code> {
    let arguments = [scheduler, thread, 0, number, timeout_ticks, token, 0, 0];
    done(call::<{ Call::Switch.number() }>(arguments)).map(|_| ())
}

/// Gives ticks of one temporal capability to another one, or to that of an end point, which is told as well if `notify` says so. 0 is all that can be used,
/// and all ones everything for ever. `priority` is the number of the giver's scheduler, 0 for the permanent one.
///
/// # Errors
/// `NoTime`, `Full`, `Busy`, `Denied`.
pub fn delegate(to: u64, from: u64, ticks: u64, priority: u64, notify: bool) -> Result<(), Code> {
    let flags = if notify { Flag::Notify.number() } else { 0 };
    done(call::<{ Call::Delegate.number() }>([to, from, ticks, priority, flags, 0, 0, 0])).map(|_| ())
}

/// Ticks left of a temporal capability, when they expire, and its permanent priority.
///
/// # Errors
/// `BadCapability`, `Denied`.
pub fn claim(slot: u64) -> Result<[u64; 3], Code> {
    let operation = TcapOperation::Read.number();
    let [_, left, expires, priority, ..] = done(call::<{ Call::Tcap.number() }>([operation, slot, 0, 0, 0, 0, 0, 0]))?;
    Ok([left, expires, priority])
}

/// Makes a server in the band of a slot, with budget and period, and a capability to it in slot `to`.
///
/// # Errors
/// `NotAdmitted`, `Full`.
pub fn create_server(band: u64, budget_ticks: u64, period_ticks: u64, to: u64) -> Result<(), Code> {
    let operation = ServerOperation::Create.number();
    done(call::<{ Call::Server.number() }>([operation, band, budget_ticks, period_ticks, to, 0, 0, 0])).map(|_| ())
}

/// Ends a server of a band.
///
/// # Errors
/// `Busy` while threads are bound to it.
pub fn destroy_server(slot: u64) -> Result<(), Code> {
    let operation = ServerOperation::Destroy.number();
    done(call::<{ Call::Server.number() }>([operation, slot, 0, 0, 0, 0, 0, 0])).map(|_| ())
}

/// Binds a thread to a server or a scheduler.
///
/// # Errors
/// `Busy` for a scheduler's own thread.
pub fn bind(thread: u64, to: u64) -> Result<(), Code> {
    let operation = ThreadOperation::Bind.number();
    done(call::<{ Call::Thread.number() }>([operation, thread, to, 0, 0, 0, 0, 0])).map(|_| ())
}
