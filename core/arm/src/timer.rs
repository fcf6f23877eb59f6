//! The generic timer of a core (Arm ARM D17, "Generic Timer registers": CNTV_CTL_EL0, CNTP_CTL_EL0, CNTHP_CTL_EL2).
//!
//! Numbers of its interrupts: [`Intid::VIRTUAL_TIMER`](crate::Intid::VIRTUAL_TIMER) and its neighbours.

/// ENABLE: the timer runs.
pub const ENABLE: u64 = 1;
/// IMASK: it raises no interrupt.
pub const MASKED: u64 = 1 << 1;
/// ISTATUS: the compare value was reached; read-only.
pub const REACHED: u64 = 1 << 2;

/// States whether a timer with this control will raise its interrupt, or has: enabled and not masked.
#[inline]
#[must_use]
pub const fn is_armed(control: u64) -> bool {
    control & (ENABLE | MASKED) == ENABLE
}

/// States whether a timer with this control raises its interrupt now.
#[inline]
#[must_use]
pub const fn is_asserted(control: u64) -> bool {
    control & (ENABLE | MASKED | REACHED) == ENABLE | REACHED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_enabled_unmasked_timer_rings() {
        let rings = |control: u64| (is_armed(control), is_asserted(control));
        let (off, armed, rung) = ((false, false), (true, false), (true, true));
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(rings), [off, armed, off, off, off, rung, off, off]);
    }
}
