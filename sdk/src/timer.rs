//! The virtual timer of this core: one absolute compare value, so periods never drift.

use crate::interrupt::{self, VIRTUAL_TIMER};
use core::arch::asm;

/// Raises [`VIRTUAL_TIMER`] once the counter has reached `ticks`; a value in the past raises it at once.
///
/// The interrupt is level-sensitive: it stays up until the compare value is moved on or the timer is stopped.
#[inline]
pub fn set_compare_ticks(ticks: u64) {
    // SAFETY: this guest's own timer.
    unsafe {
        asm!("msr CNTV_CVAL_EL0, {}", "msr CNTV_CTL_EL0, {}", "isb", in(reg) ticks, in(reg) bulkhead_arm::timer::ENABLE, options(nostack, preserves_flags));
    }
}

/// Stops the timer.
#[inline]
pub fn stop() {
    // SAFETY: this guest's own timer.
    unsafe { asm!("msr CNTV_CTL_EL0, xzr", "isb", options(nostack, preserves_flags)) };
}

/// Enables the timer's interrupt on this core.
pub fn enable_interrupt() {
    interrupt::enable(VIRTUAL_TIMER);
}
