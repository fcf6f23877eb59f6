//! Releases of the periodic job: absolute times, each served once and in order.
//!
//! Release k is due at start + k * period, from k = 1. The timer interrupt counts a release and sets the compare value to
//! the next one; a compare value in the past raises the interrupt again at once, so a late core catches up release by
//! release and none is skipped. The rejected alternative, "now + period", drifts by each handler's latency and forgets
//! what was missed.

use bulkhead_sdk::{cpu, timer};
use core::sync::atomic::{AtomicU64, Ordering};

static START_TICKS: AtomicU64 = AtomicU64::new(0);
static PERIOD_TICKS: AtomicU64 = AtomicU64::new(0);
static COUNTED: AtomicU64 = AtomicU64::new(0);

/// Starts releases with a period; the first one is due one period from now.
pub(crate) fn start(period_ticks: u64) {
    START_TICKS.store(cpu::counter_ticks(), Ordering::Relaxed);
    PERIOD_TICKS.store(period_ticks, Ordering::Relaxed);
    COUNTED.store(0, Ordering::Relaxed);
    timer::set_compare_ticks(time_ticks(1));
}

/// Serves the timer's interrupt: counts one release and arms the next.
pub(crate) fn count() {
    let counted = COUNTED.load(Ordering::Relaxed) + 1;
    COUNTED.store(counted, Ordering::Relaxed);
    timer::set_compare_ticks(time_ticks(counted + 1));
}

/// Returns the time at which release `k` is due.
pub(crate) fn time_ticks(release: u64) -> u64 {
    START_TICKS.load(Ordering::Relaxed) + release * PERIOD_TICKS.load(Ordering::Relaxed)
}

/// Waits until release `k` was counted.
pub(crate) fn wait_for(release: u64) {
    cpu::wait_until(|| COUNTED.load(Ordering::Relaxed) >= release);
}

/// Returns the releases that are due by now, from the counter alone, at most `limit`.
pub(crate) fn due(limit: u64) -> u64 {
    let elapsed_ticks = cpu::counter_ticks() - START_TICKS.load(Ordering::Relaxed);
    (elapsed_ticks / PERIOD_TICKS.load(Ordering::Relaxed)).min(limit)
}
