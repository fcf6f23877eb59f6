//! Least service in any window of a length, to somebody who always wants it (`real-time.md` 4.3).

use crate::arithmetic::{divide_down, remainder};
use crate::line::Line;
use crate::overhead::Overhead;
use crate::response::Contention;
use crate::search::Search;
use crate::steps::Steps;
use crate::table::Table;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Longest window that is searched: half of all time, far above every period that is allowed.
pub const MAX_WINDOW_TICKS: u64 = 1 << 60;

/// A supply of processor time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Supply {
    /// The whole core.
    Whole,
    /// Nothing is promised.
    Nothing,
    /// The budget in every period, done within `response_ticks` of its start. With `response_ticks` = period this is the
    /// periodic resource, whose blackout is `2 * (period - budget)`.
    Explicit {
        /// Budget.
        budget_ticks: u64,
        /// Period.
        period_ticks: u64,
        /// Worst response of the budget.
        response_ticks: u64,
    },
    /// A server dated by dispatch: a tick comes back a period after the dispatch through which it was used.
    ///
    /// That is the budget in every `period + jitter`, unless the budget is split: every pre-emption by another server splits it,
    /// and where the ring of chunks is full, the last chunk is delayed to join the new piece, again and again. Then only
    /// the budget in every two such cycles is certain, and a tick in each.
    Dispatched {
        /// Budget.
        budget_ticks: u64,
        /// Period.
        period_ticks: u64,
        /// Longest delay of its first tick by others, `response - budget`.
        jitter_ticks: u64,
        /// The budget may be split into more pieces than there are chunks.
        split: bool,
    },
    /// Windows of a time table.
    Table(Table),
    /// What more important work leaves.
    Rest(Box<Contention>),
    /// Several at once: servers of one vCPU.
    Sum(Vec<Supply>),
    /// What of a supply in charged time the guest executes.
    Net {
        /// The supply.
        charged: Box<Supply>,
        /// What the monitor takes.
        overhead: Box<Overhead>,
    },
}

impl Supply {
    /// The budget somewhere in every period.
    #[must_use]
    pub const fn periodic_resource(budget_ticks: u64, period_ticks: u64) -> Self {
        Self::Explicit { budget_ticks, period_ticks, response_ticks: period_ticks }
    }

    /// Least service in any window of `window_ticks`; nothing where the steps do not suffice.
    #[must_use]
    pub fn in_window(&self, window_ticks: u64, steps: &Steps) -> u64 {
        match self {
            Self::Rest(_) | Self::Net { .. } => Search::in_supply(self).most(window_ticks, steps),
            Self::Sum(parts) => {
                parts.iter().fold(0, |sum, part| sum.saturating_add(part.in_window(window_ticks, steps)))
            }
            formula => formula.formula(window_ticks),
        }
    }

    /// The same of a supply that is not searched.
    pub(crate) fn formula(&self, window_ticks: u64) -> u64 {
        match self {
            Self::Whole => window_ticks,
            Self::Explicit { budget_ticks, period_ticks, response_ticks } => {
                let dark_ticks = explicit_blackout(*budget_ticks, *period_ticks, *response_ticks);
                let rest = window_ticks.saturating_sub(dark_ticks);
                let whole = divide_down(rest, *period_ticks).saturating_mul(*budget_ticks);
                whole.saturating_add(remainder(rest, *period_ticks).min(*budget_ticks))
            }
            Self::Dispatched { budget_ticks, period_ticks, jitter_ticks, split } => {
                let cycle = period_ticks.saturating_add(*jitter_ticks);
                let dark_ticks = cycle.saturating_sub(*budget_ticks);
                let round = if *split { cycle.saturating_mul(2) } else { cycle };
                let whole = divide_down(window_ticks, round).saturating_mul(*budget_ticks);
                let rest = remainder(window_ticks, round).saturating_sub(dark_ticks);
                whole.saturating_add(rest.min(if *split { 1 } else { *budget_ticks }))
            }
            Self::Table(table) => table.supply(window_ticks),
            Self::Nothing | Self::Rest(_) | Self::Net { .. } | Self::Sum(_) => 0,
        }
    }

    /// Shortest window in which `amount_ticks` are certain; `None` when they never are, and where the steps do not suffice.
    #[must_use]
    pub fn least_window(&self, amount_ticks: u64, steps: &Steps) -> Option<u64> {
        Search::in_supply(self).least(amount_ticks, u64::MAX, steps)
    }

    /// The same of a supply that is not searched.
    pub(crate) fn formula_window(&self, amount_ticks: u64) -> Option<u64> {
        let window_ticks = match self {
            _ if amount_ticks == 0 => 0,
            Self::Whole => return Some(amount_ticks),
            Self::Table(table) => return table.least_window(amount_ticks),
            Self::Explicit { budget_ticks, period_ticks, response_ticks } => {
                let dark_ticks = explicit_blackout(*budget_ticks, *period_ticks, *response_ticks);
                let (whole, last) = in_budgets(amount_ticks, *budget_ticks)?;
                whole.saturating_mul(*period_ticks).saturating_add(last).saturating_add(dark_ticks)
            }
            Self::Dispatched { budget_ticks, period_ticks, jitter_ticks, split } => {
                let cycle = period_ticks.saturating_add(*jitter_ticks);
                let (whole, last) = in_budgets(amount_ticks, *budget_ticks)?;
                let dark_ticks = cycle.saturating_sub(*budget_ticks);
                match *split {
                    false => whole.saturating_mul(cycle).saturating_add(dark_ticks).saturating_add(last),
                    // A tick in the first cycle of a round, and everything else at the end of the second one.
                    true if last == 1 => {
                        whole.saturating_mul(cycle.saturating_mul(2)).saturating_add(dark_ticks).saturating_add(1)
                    }
                    true => whole.saturating_add(1).saturating_mul(cycle.saturating_mul(2)),
                }
            }
            Self::Nothing | Self::Rest(_) | Self::Net { .. } | Self::Sum(_) => return None,
        };
        (window_ticks <= MAX_WINDOW_TICKS).then_some(window_ticks)
    }

    /// A line above what is given by a formula.
    pub(crate) fn line(&self) -> Line {
        match self {
            Self::Whole => Line::WHOLE,
            Self::Explicit { budget_ticks, period_ticks, .. } => {
                Line::above(*budget_ticks, *period_ticks).plus(Line::constant(*budget_ticks))
            }
            Self::Dispatched { budget_ticks, period_ticks, jitter_ticks, split } => {
                let cycle = period_ticks.saturating_add(*jitter_ticks);
                let round = if *split { cycle.saturating_mul(2) } else { cycle };
                Line::above(*budget_ticks, round).plus(Line::constant(*budget_ticks))
            }
            // The least of all windows is at most their mean.
            Self::Table(table) => Line::above(table.open_in_frame(), table.major_ticks()),
            Self::Nothing | Self::Rest(_) | Self::Net { .. } | Self::Sum(_) => Line::NOTHING,
        }
    }

    /// Steps of one look.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Table(table) => table.size(),
            _ => 1,
        }
    }

    /// Longest window without any service; `None` when there may never be any, and where the steps do not suffice.
    #[must_use]
    pub fn blackout(&self, steps: &Steps) -> Option<u64> {
        self.least_window(1, steps).map(|window_ticks| window_ticks.saturating_sub(1))
    }
}

/// An amount as whole budgets and a part of one, or a whole one, at the end; `None` without a budget.
fn in_budgets(amount_ticks: u64, budget_ticks: u64) -> Option<(u64, u64)> {
    let before = amount_ticks.saturating_sub(1);
    let whole = before.checked_div(budget_ticks)?;
    Some((whole, remainder(before, budget_ticks).saturating_add(1)))
}

/// The budget right at the start of one period and as late as it may be in the next.
fn explicit_blackout(budget_ticks: u64, period_ticks: u64, response_ticks: u64) -> u64 {
    period_ticks.saturating_add(response_ticks).saturating_sub(budget_ticks.saturating_mul(2))
}
