//! Windows of the world plan, for a kernel in C (SG-50 to SG-52).

use crate::cell::Cell;
use crate::messages::Signal;
use crate::servers::note;
use crate::time;
use bulkhead_world::flash::{MOST_SERVERS, WorldPlan};
use bulkhead_world::windows::{Disturbance, Windows};

/// No boundary.
const NEVER: u64 = u64::MAX;

static WINDOWS: Cell<Option<Windows>> = Cell::new(None);
static SIGNAL: Cell<Signal> = Cell::new(Signal::none());
/// The next boundary.
static NEXT: Cell<u64> = Cell::new(NEVER);

/// Takes the table from the plan; its first round begins at `origin`, and the payload's timer is to ring for it. Returns how many windows there are;
/// `u64::MAX`, and there is none, when the table makes no sense: its servers would never run.
///
/// # Safety
/// Interrupts are masked, and `plan` is what the payload was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_windows_start(plan: *const WorldPlan, origin: u64) -> u64 {
    // SAFETY: EL3 put the plan there and checked it, and nobody can write to it.
    let plan = unsafe { &*plan };
    // SAFETY: the caller's: nobody else is in a function of this file.
    let (windows, signal, next) = unsafe { (WINDOWS.get(), SIGNAL.get(), NEXT.get()) };
    *windows = Windows::of_plan(origin, &plan.windows);
    // It is not loaded yet.
    if let Some(windows) = windows {
        windows.set_world(false);
    }
    *signal = Signal { distributor: plan.distributor, intid: plan.windows.interrupt };
    *next = windows.as_ref().map_or(NEVER, Windows::next_event_ticks);
    if windows.is_some() {
        // SAFETY: the caller's.
        unsafe { time::serve_windows() };
    }
    if windows.is_none() && plan.windows.count != 0 { u64::MAX } else { plan.windows.count.into() }
}

/// When the timer is to ring for a boundary; `u64::MAX` if never.
///
/// # Safety
/// Interrupts are masked.
pub(crate) unsafe fn next() -> u64 {
    // SAFETY: the caller's.
    unsafe { *NEXT.get() }
}

/// From now on this task runs. Returns when the timer is to ring for a boundary.
///
/// # Safety
/// Interrupts are masked.
// Not inline: the registers that it needs would be saved by each switch.
#[inline(never)]
pub(crate) unsafe fn switched(task: usize, now: u64) -> u64 {
    // SAFETY: the caller's.
    if let Some(windows) = unsafe { WINDOWS.get() } {
        windows.switch(Some(task).filter(|task| *task < MOST_SERVERS), now);
    }
    // SAFETY: the caller's.
    unsafe { next() }
}

/// The other world may run from now on, or may not.
///
/// # Safety
/// Interrupts are masked.
pub(crate) unsafe fn set_world(may_run: bool) {
    // SAFETY: the caller's.
    if let Some(windows) = unsafe { WINDOWS.get() } {
        windows.set_world(may_run);
    }
}

/// The timer has rung. Where a window begins or ends its server may run, or not any more, and the other world is told of a start. Returns which
/// servers may run now that could not before, a bit for each.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_windows_event(now: u64) -> u64 {
    // SAFETY: the caller's.
    let (windows, next) = unsafe { (WINDOWS.get(), NEXT.get()) };
    let Some((windows, change)) =
        windows.as_mut().and_then(|windows| windows.elapse(now).map(|change| (windows, change)))
    else {
        return 0;
    };
    *next = windows.next_event_ticks();
    if change.starts {
        // SAFETY: the caller's.
        unsafe { *SIGNAL.get() }.give();
    }
    // SAFETY: the caller's.
    unsafe { note(|servers| servers.open_window(change.raise)) }
}

/// What the window at this place of the table has suffered so far; zeros if there is none.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_windows_record(place: u64) -> Disturbance {
    // SAFETY: the caller's.
    let windows = unsafe { WINDOWS.get() };
    let record = |windows: &Windows| windows.disturbance(usize::try_from(place).ok()?).copied();
    windows.as_ref().and_then(record).unwrap_or_default()
}
