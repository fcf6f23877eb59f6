//! Deferrable and polling servers (`real-time.md` 2.2; SG-42, SG-47).
//!
//! The budget is filled up at every multiple of the period counted from the start, never "a period after the last
//! refill", so lateness does not add up. A deferrable server keeps its budget until then; a polling server loses it when
//! it has nothing to do.
//!
//! Bounds: at most the budget in a grid window (plus what an overrun owes), at most `stair(d + period - budget)` in any
//! window d, which is twice the budget in twice the budget (the double hit). A polling server has no double hit.
//!
//! Rejected: forgiving an overrun at the refill, as a clamp at zero does. That is 2 ticks per 100 for ever in SS-06.
//! Rejected too: a polling server as a rule of its own around a deferrable one, which handed each question on.

use super::{BudgetError, BudgetRule, check_budget};

/// State of a server that is filled up on a grid, and that keeps its budget or loses it when it has nothing to do.
#[derive(Clone, Debug)]
pub struct Filled<const KEEPS: bool> {
    budget_ticks: u64,
    period_ticks: u64,
    /// The next multiple of the period, later than the last instant seen.
    refill_at_ticks: u64,
    /// What is left of this window; negative while in debt. Periods are at most 2^56 ticks, so the type is wide enough.
    left_ticks: i64,
}

/// A server that keeps its budget until the period ends.
pub type Deferrable = Filled<true>;

/// A server that gives its budget up whenever it has nothing to do: CH-38's polled receiver.
pub type Polling = Filled<false>;

/// As signed ticks; longer than the type is the longest.
fn signed(ticks: u64) -> i64 {
    i64::try_from(ticks).unwrap_or(i64::MAX)
}

impl<const KEEPS: bool> Filled<KEEPS> {
    /// A server with a full budget whose grid starts at `start_ticks`.
    ///
    /// # Errors
    ///
    /// When budget and period contradict each other ([`BudgetError`]).
    pub fn new(budget_ticks: u64, period_ticks: u64, start_ticks: u64) -> Result<Self, BudgetError> {
        check_budget(budget_ticks, period_ticks)?;
        Ok(Self {
            budget_ticks,
            period_ticks,
            refill_at_ticks: start_ticks.saturating_add(period_ticks),
            left_ticks: signed(budget_ticks),
        })
    }

    /// What is left of this window; negative while an overrun is owed.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub const fn left_ticks(&self) -> i64 {
        self.left_ticks
    }

    /// Enters the window of `now`. The division is paid once per period at most.
    #[inline]
    fn roll(&mut self, now: u64) {
        if now < self.refill_at_ticks {
            return;
        }
        let late_ticks = now.saturating_sub(self.refill_at_ticks);
        let windows = late_ticks.checked_div(self.period_ticks).unwrap_or(0).saturating_add(1);
        let income = signed(windows.saturating_mul(self.budget_ticks));
        self.left_ticks = self.left_ticks.min(0).saturating_add(income).min(signed(self.budget_ticks));
        self.refill_at_ticks = self.refill_at_ticks.saturating_add(windows.saturating_mul(self.period_ticks));
    }

    /// Loses what is left, if that is the rule.
    fn forfeit(&mut self) {
        if !KEEPS {
            self.left_ticks = self.left_ticks.min(0);
        }
    }
}

impl<const KEEPS: bool> BudgetRule for Filled<KEEPS> {
    #[inline]
    fn capacity_ticks(&mut self, now: u64) -> u64 {
        self.roll(now);
        u64::try_from(self.left_ticks).unwrap_or(0)
    }

    #[inline]
    fn next_event_ticks(&mut self, now: u64) -> Option<u64> {
        self.roll(now);
        Some(self.refill_at_ticks)
    }

    #[inline]
    fn wake(&mut self, now: u64) {
        self.roll(now);
        let window_start_ticks = self.refill_at_ticks.saturating_sub(self.period_ticks);
        if now != window_start_ticks {
            self.forfeit();
        }
    }

    #[inline]
    fn dispatch(&mut self, now: u64) {
        self.roll(now);
    }

    /// Splits the run at the grid. Whole windows inside a long overrun are taken in one step: each consumes a period and
    /// brings a budget, and the balance cannot reach the ceiling there because the budget is at most the period.
    fn charge(&mut self, now: u64, used_ticks: u64) {
        let begin = now.saturating_sub(used_ticks);
        self.roll(begin);
        if now <= self.refill_at_ticks {
            self.left_ticks = self.left_ticks.saturating_sub(signed(used_ticks));
            self.roll(now);
            return;
        }
        let first_ticks = self.refill_at_ticks.saturating_sub(begin);
        self.left_ticks = self.left_ticks.saturating_sub(signed(first_ticks));
        let rest_ticks = now.saturating_sub(self.refill_at_ticks);
        self.roll(self.refill_at_ticks);
        let windows = rest_ticks.checked_div(self.period_ticks).unwrap_or(0);
        let last_ticks = rest_ticks.saturating_sub(windows.saturating_mul(self.period_ticks));
        let owed = windows.saturating_mul(self.period_ticks.saturating_sub(self.budget_ticks));
        self.left_ticks = self.left_ticks.saturating_sub(signed(owed)).saturating_sub(signed(last_ticks));
        let windows_end = windows.saturating_mul(self.period_ticks);
        self.refill_at_ticks = self.refill_at_ticks.saturating_add(windows_end);
    }

    #[inline]
    fn block(&mut self, now: u64) {
        self.roll(now);
        self.forfeit();
    }

    /// All of it in the window of `now`, though a run so long would have begun in an earlier one.
    fn charge_unused(&mut self, now: u64, ticks: u64) {
        self.roll(now);
        self.left_ticks = self.left_ticks.saturating_sub(signed(ticks));
    }
}
