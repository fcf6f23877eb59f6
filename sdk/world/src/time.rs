//! The allowances of the payload's tasks: overrun handlers and the budgets of servers, for a kernel in C (SG-42, SG-43).
//!
//! One compare register serves the kernel's tick and the end of a budget. The kernel's switch hook says who runs, and is told until when
//! nothing happens.

use crate::cell::Cell;
use crate::windows;
use bulkhead_world::overrun::{Event, Overruns};

/// Tasks that can have an allowance: the servers first, then those of the application.
const TASKS: usize = 16;
/// No task, or no event.
const NONE: u64 = u64::MAX;

static OVERRUNS: Cell<Overruns<TASKS>> = Cell::new(Overruns::new());

/// From now on this task runs; `u64::MAX` when it is none that has an allowance. Returns when the timer is to ring for an allowance or a window if
/// nothing else happens; `u64::MAX` if never. With interrupts masked, as all functions here.
///
/// # Safety
/// Interrupts are masked, and the caller runs on the payload's core.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_time_switch(task: u64, now: u64) -> u64 {
    // SAFETY: the caller's: nobody else is in a function of this file.
    let overruns = unsafe { OVERRUNS.get() };
    // SAFETY: the caller's.
    overruns.switch(usize::try_from(task).ok(), now, |task| unsafe { windows::switched(task, now) })
}

/// Windows want to know of each switch, and to have the timer.
///
/// # Safety
/// As for [`bulkhead_time_switch`].
pub(crate) unsafe fn serve_windows() {
    // SAFETY: the caller's.
    unsafe { OVERRUNS.get() }.serve_beside();
}

/// When the timer is to ring for an allowance or a window; `u64::MAX` if never.
///
/// # Safety
/// As for [`bulkhead_time_switch`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_time_next(now: u64) -> u64 {
    // SAFETY: the caller's.
    let next = unsafe { OVERRUNS.get() }.next_event_ticks(now).unwrap_or(NONE);
    // SAFETY: the caller's.
    next.min(unsafe { windows::next() })
}

/// Gives a task this much once. Returns whether it has it: the amount is not 0, and there is such a task.
///
/// # Safety
/// As for [`bulkhead_time_switch`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_time_start(task: u64, ticks: u64, now: u64) -> bool {
    let task = usize::try_from(task).unwrap_or(TASKS);
    // SAFETY: the caller's.
    unsafe { OVERRUNS.get() }.start(task, ticks, now).is_ok()
}

/// Gives a task this much in every period, from `start` on. Returns whether it has it.
///
/// # Safety
/// As for [`bulkhead_time_switch`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_time_open(task: u64, budget: u64, period: u64, start: u64, now: u64) -> bool {
    let task = usize::try_from(task).unwrap_or(TASKS);
    // SAFETY: the caller's.
    unsafe { OVERRUNS.get() }.open(task, budget, period, start, now).is_ok()
}

/// Takes a task's allowance. Returns what was left of it; `u64::MAX` if it had none.
///
/// # Safety
/// As for [`bulkhead_time_switch`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_time_stop(task: u64, now: u64) -> u64 {
    let task = usize::try_from(task).unwrap_or(TASKS);
    // SAFETY: the caller's.
    unsafe { OVERRUNS.get() }.stop(task, now).unwrap_or(NONE)
}

/// What is left of a task's allowance; `u64::MAX` if it has none.
///
/// # Safety
/// As for [`bulkhead_time_switch`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_time_remaining(task: u64, now: u64) -> u64 {
    let task = usize::try_from(task).unwrap_or(TASKS);
    // SAFETY: the caller's.
    unsafe { OVERRUNS.get() }.remaining_ticks(task, now).unwrap_or(NONE)
}

/// The next thing that happened to an allowance: the task; with bit 32 when its account has something again, without when it is used
/// up. `u64::MAX` when there is nothing more. To be called until then.
///
/// # Safety
/// As for [`bulkhead_time_switch`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_time_event(now: u64) -> u64 {
    // SAFETY: the caller's.
    match unsafe { OVERRUNS.get() }.take_event(now) {
        Some(Event::UsedUp(task)) => task as u64,
        Some(Event::Filled(task)) => task as u64 | 1 << 32,
        None => NONE,
    }
}
