//! From nanoseconds to counter ticks.
//!
//! What a partition may use is rounded down and what others are protected by is rounded up (`real-time.md` 1.1), so a
//! rounding never lets somebody have more than the description says. A time table is on a grid that nothing rounds: its
//! times must be whole ticks.

const SECOND_NS: u128 = 1_000_000_000;

fn clamp(ticks: u128) -> u64 {
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// Rounds up: periods, pauses and the windows of limits.
#[must_use]
pub fn round_up(time_ns: u64, counter_hz: u64) -> u64 {
    clamp((u128::from(time_ns) * u128::from(counter_hz)).div_ceil(SECOND_NS))
}

/// Rounds down: budgets and quanta.
#[must_use]
pub fn round_down(time_ns: u64, counter_hz: u64) -> u64 {
    clamp(u128::from(time_ns) * u128::from(counter_hz) / SECOND_NS)
}

/// Returns the ticks of a time that is a whole number of them.
#[must_use]
pub fn exact(time_ns: u64, counter_hz: u64) -> Option<u64> {
    let ticks = round_down(time_ns, counter_hz);
    (round_up(time_ns, counter_hz) == ticks).then_some(ticks)
}

/// Returns the length of a number of ticks, rounded down.
#[must_use]
pub fn to_ns(ticks: u64, counter_hz: u64) -> u64 {
    clamp((u128::from(ticks) * SECOND_NS).checked_div(u128::from(counter_hz)).unwrap_or(0))
}

/// Returns the length of a tick in nanoseconds, times 2^32, rounded down.
#[must_use]
pub fn length(counter_hz: u64) -> u64 {
    clamp((SECOND_NS << 32).checked_div(u128::from(counter_hz)).unwrap_or(0))
}
