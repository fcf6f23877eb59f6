//! Moving a server to another core (`real-time.md` 3.7).

use crate::arithmetic::{divide_down, divide_up, remainder};
use crate::supply::Supply;

/// Time in which a migration server does the work of moving, three ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationTime {
    /// Equation (2) of the seed. It overstates whole multiples of the budget and understates a server that was used.
    pub equation_ticks: u64,
    /// Exact for a fresh server that nobody disturbs.
    pub fresh_ticks: u64,
    /// Safe: the shortest window in which the server's supply is certain.
    pub safe_ticks: Option<u64>,
}

/// Time for `work_ticks` on a server with this budget and period, of which no response is known.
#[must_use]
pub fn migration_time(work_ticks: u64, budget_ticks: u64, period_ticks: u64) -> MigrationTime {
    let whole = divide_down(work_ticks, budget_ticks).saturating_mul(period_ticks);
    let before = divide_up(work_ticks, budget_ticks).saturating_sub(1);
    let last = work_ticks.saturating_sub(before.saturating_mul(budget_ticks));
    MigrationTime {
        equation_ticks: whole.saturating_add(remainder(work_ticks, budget_ticks)),
        fresh_ticks: before.saturating_mul(period_ticks).saturating_add(last),
        safe_ticks: Supply::periodic_resource(budget_ticks, period_ticks).formula_window(work_ticks),
    }
}

/// Two readings of clocks, taken to move dates from one core's clock to another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReadings {
    /// Clock of the core that is left.
    pub source_ticks: u64,
    /// Clock of the core that is entered, when the message arrived there.
    pub destination_ticks: u64,
    /// Cost of reading a clock.
    pub reading_ticks: u64,
}

/// What is added to dates, equation (3): the difference of the clocks, less two readings and the message.
///
/// With the least cost of a message no date becomes early, and late by at most the spread of the costs. With the average, as
/// published, dates can be early, which breaks isolation. `None` when the destination's clock is behind.
#[must_use]
pub fn clock_adjustment(readings: &ClockReadings, message_ticks: u64) -> Option<u64> {
    let overhead = readings.reading_ticks.checked_mul(2)?.checked_add(message_ticks)?;
    readings.destination_ticks.checked_sub(readings.source_ticks)?.checked_sub(overhead)
}
