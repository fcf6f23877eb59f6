//! The virtual timer of this core.

use crate::interrupt::{self, VIRTUAL_TIMER};
pub use bulkhead_arch::el1::timer::{set_compare_ticks, stop};

/// Enables the timer's interrupt on this core.
pub fn enable_interrupt() {
    interrupt::enable(VIRTUAL_TIMER);
}
