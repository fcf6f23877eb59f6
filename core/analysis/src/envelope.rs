//! Most that a server runs in any window of a length (`real-time.md` 2.1.1, 2.2, 2.3, and P14 for the lateness).

use crate::arithmetic::{divide_down, divide_up, remainder, scale_up};
use crate::line::Line;

/// `floor(window / period) * budget + min(budget, window mod period)`.
#[must_use]
pub fn stair(window_ticks: u64, budget_ticks: u64, period_ticks: u64) -> u64 {
    let whole = divide_down(window_ticks, period_ticks).saturating_mul(budget_ticks);
    whole.saturating_add(remainder(window_ticks, period_ticks).min(budget_ticks))
}

/// Shape of a server's consumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// `stair(window + jitter)`: sporadic servers (jitter R - C eligible-dated, 0 dispatch-dated), polling servers (R - C),
    /// deferrable servers (T - C).
    Stair {
        /// Budget.
        budget_ticks: u64,
        /// Period.
        period_ticks: u64,
        /// Jitter.
        jitter_ticks: u64,
        /// How late the end of the budget is noticed.
        lateness_ticks: u64,
    },
    /// Corrected PIBS: `U * (window + jitter) + grant * (1 - U)`.
    Share {
        /// Grant.
        grant_ticks: u64,
        /// Share, numerator.
        numerator: u64,
        /// Share, denominator.
        denominator: u64,
        /// How late a grant can be used.
        jitter_ticks: u64,
        /// How late the end of the grant is noticed.
        lateness_ticks: u64,
    },
    /// No bound but the window itself.
    Unlimited,
}

impl Envelope {
    /// A line below the envelope.
    pub(crate) fn line(&self) -> Line {
        match *self {
            Self::Stair { budget_ticks, period_ticks, .. } => Line::below(budget_ticks, period_ticks).at_most_time(),
            Self::Share { numerator, denominator, .. } => Line::below(numerator, denominator).at_most_time(),
            Self::Unlimited => Line::WHOLE,
        }
    }

    /// Most that is charged in any window of `window_ticks` when each activation is charged at least `least_ticks`, what did not run
    /// included (`real-time.md` 1.5); `None` without a bound.
    ///
    /// A charge takes no time, so budgets count whole as soon as they may be touched.
    #[must_use]
    pub fn charged_in_window(&self, window_ticks: u64, least_ticks: u64) -> Option<u64> {
        let late_ticks = |jitter: u64| window_ticks.saturating_add(least_ticks).saturating_add(jitter);
        let (most, lateness_ticks) = match *self {
            Self::Stair { budget_ticks, period_ticks, jitter_ticks, lateness_ticks } => {
                let touched = divide_up(late_ticks(jitter_ticks.saturating_add(budget_ticks)), period_ticks);
                (touched.saturating_mul(budget_ticks), lateness_ticks)
            }
            Self::Share { grant_ticks, numerator, denominator, jitter_ticks, lateness_ticks } => {
                let running = scale_up(late_ticks(jitter_ticks), numerator, denominator);
                (running.saturating_add(grant_ticks.saturating_mul(2)), lateness_ticks)
            }
            Self::Unlimited => return None,
        };
        Some(most.saturating_add(lateness_ticks).saturating_add(least_ticks))
    }

    /// Most that runs in any window of `window_ticks`.
    #[must_use]
    pub fn in_window(&self, window_ticks: u64) -> u64 {
        let most = match *self {
            Self::Stair { budget_ticks, period_ticks, jitter_ticks, lateness_ticks } => {
                let window_ticks = window_ticks.saturating_add(jitter_ticks);
                stair(window_ticks, budget_ticks, period_ticks).saturating_add(lateness_ticks)
            }
            Self::Share { grant_ticks, numerator, denominator, jitter_ticks, lateness_ticks } => {
                // U * (window + jitter) + grant - U * grant, with one rounding.
                let late_ticks = window_ticks.saturating_add(jitter_ticks);
                let running = scale_up(late_ticks.saturating_sub(grant_ticks), numerator, denominator);
                grant_ticks.saturating_add(running).saturating_add(lateness_ticks)
            }
            Self::Unlimited => window_ticks,
        };
        most.min(window_ticks)
    }
}
