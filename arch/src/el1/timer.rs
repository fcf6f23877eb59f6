//! The virtual timer of this core: one absolute compare value, so periods never drift.

use core::arch::asm;

/// Raises the timer's interrupt once the counter has reached `ticks`; a value in the past raises it at once.
///
/// The interrupt is level-sensitive: it stays up until the compare value is moved on or the timer is stopped.
// Three instructions in the handlers of periodic tasks, whose time is measured.
#[inline]
pub fn set_compare_ticks(ticks: u64) {
    // The value first: enabled with the former one the timer could ring at once. ISB: the condition that a handler saw is gone when it
    // ends its interrupt.
    // SAFETY: this guest's own timer.
    unsafe {
        asm!("msr CNTV_CVAL_EL0, {}", "msr CNTV_CTL_EL0, {}", "isb", in(reg) ticks, in(reg) bulkhead_arm::timer::ENABLE, options(nostack, preserves_flags));
    }
}

/// Stops the timer.
// Two instructions there as well.
#[inline]
pub fn stop() {
    // ISB: a handler that ends its interrupt next would get it again from a timer that still rings.
    // SAFETY: this guest's own timer.
    unsafe { asm!("msr CNTV_CTL_EL0, xzr", "isb", options(nostack, preserves_flags)) };
}
