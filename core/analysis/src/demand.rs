//! Most that one source of work takes from everything less important in a busy window (`real-time.md` 4.2).
//!
//! A busy window begins when a less important job is released and ends when it is done. Sporadic and polling servers have
//! no jitter there: what delays them is more important work, which is in the same window. A deferrable server has: it may
//! keep its budget until the window begins (the double hit, DS-02, SG-47).

use crate::arithmetic::{divide_up, scale_up};
use crate::line::Line;
use crate::table::Table;

/// What takes time from less important work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Sporadic server (both anchors), polling server, or periodic task; `jitter_ticks` is 0 for servers.
    Periodic {
        /// Budget or cost.
        budget_ticks: u64,
        /// Period.
        period_ticks: u64,
        /// Longest delay of a release.
        jitter_ticks: u64,
    },
    /// Deferrable server, and any server whose budget another one may spend.
    DoubleHit {
        /// Budget.
        budget_ticks: u64,
        /// Period.
        period_ticks: u64,
    },
    /// Server for work on behalf of others, corrected rule.
    Share {
        /// Grant.
        grant_ticks: u64,
        /// Share of the core, numerator.
        numerator: u64,
        /// Share of the core, denominator.
        denominator: u64,
    },
    /// Limited interrupts or doorbells: at most `events` in each window of a grid (CH-32).
    Events {
        /// Cost of each.
        cost_ticks: u64,
        /// Events per window.
        events: u64,
        /// Window.
        period_ticks: u64,
    },
    /// An amount that is taken once, however long it takes.
    Once {
        /// Amount.
        amount_ticks: u64,
    },
    /// A server without a limit that is open in windows of a time table only.
    Windows(Table),
    /// No limit: whatever is less important may never run.
    Unlimited,
}

impl Demand {
    /// A server or task that is released at most once per period.
    #[must_use]
    pub const fn periodic(budget_ticks: u64, period_ticks: u64) -> Self {
        Self::Periodic { budget_ticks, period_ticks, jitter_ticks: 0 }
    }

    /// Most that is taken in a busy window of `ticks`; `None` without a limit.
    #[must_use]
    pub fn in_window(&self, ticks: u64) -> Option<u64> {
        Some(match *self {
            Self::Periodic { budget_ticks, period_ticks, jitter_ticks } => {
                divide_up(ticks.saturating_add(jitter_ticks), period_ticks).saturating_mul(budget_ticks)
            }
            Self::DoubleHit { budget_ticks, period_ticks } => {
                let jitter_ticks = period_ticks.saturating_sub(budget_ticks);
                divide_up(ticks.saturating_add(jitter_ticks), period_ticks).saturating_mul(budget_ticks)
            }
            Self::Share { grant_ticks, numerator, denominator } => {
                let rest = scale_up(ticks.saturating_sub(grant_ticks), numerator, denominator);
                ticks.min(grant_ticks.saturating_add(rest))
            }
            Self::Events { cost_ticks, events, period_ticks } => {
                events_in_window(events, period_ticks, ticks).saturating_mul(cost_ticks)
            }
            Self::Once { amount_ticks } => amount_ticks,
            Self::Windows(ref table) => table.most(ticks),
            Self::Unlimited => return None,
        })
    }
}

impl Demand {
    /// A line below what is taken, at every time by which some work can be done beside it.
    pub(crate) fn line(&self) -> Line {
        match *self {
            Self::Periodic { budget_ticks, period_ticks, jitter_ticks } => {
                Line::below(budget_ticks, period_ticks).earlier(jitter_ticks)
            }
            Self::DoubleHit { budget_ticks, period_ticks } => {
                Line::below(budget_ticks, period_ticks).earlier(period_ticks.saturating_sub(budget_ticks))
            }
            // As long as it takes all of the time there is no answer, so only the part behind its first grant counts.
            Self::Share { grant_ticks, numerator, denominator } => {
                Line::below(numerator, denominator).at_most_time().through(grant_ticks)
            }
            Self::Events { cost_ticks, events, period_ticks } => {
                let amount = events.saturating_mul(cost_ticks);
                Line::below(amount, period_ticks).plus(Line::constant(amount))
            }
            Self::Once { amount_ticks } => Line::constant(amount_ticks),
            // The most of all windows is at least their mean.
            Self::Windows(ref table) => Line::below(table.open_in_frame(), table.major_ticks()),
            Self::Unlimited => Line::NOTHING,
        }
    }

    /// Steps of one look.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Windows(table) => table.size(),
            _ => 1,
        }
    }
}

/// Most events of a grid limiter in any half-open window of `ticks`: a full window before a boundary and one after it.
#[must_use]
pub fn events_in_window(events: u64, period_ticks: u64, ticks: u64) -> u64 {
    divide_up(ticks, period_ticks).saturating_add(1).saturating_mul(events)
}

/// Most events of a sliding limiter in any half-open window of `ticks`.
#[must_use]
pub fn sliding_events_in_window(events: u64, period_ticks: u64, ticks: u64) -> u64 {
    divide_up(ticks, period_ticks).saturating_mul(events)
}
