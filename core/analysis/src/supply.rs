//! Least service in any window of a length, to somebody who always wants it (`real-time.md` 4.3).

use crate::arithmetic::{divide_down, least, remainder};
use crate::overhead::Overhead;
use crate::response::Contention;
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

    /// Least service in any window of `window_ticks`.
    #[must_use]
    pub fn in_window(&self, window_ticks: u64) -> u64 {
        match self {
            Self::Whole => window_ticks,
            Self::Nothing => 0,
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
            Self::Rest(contention) => rest(contention, window_ticks),
            Self::Net { charged, overhead } => {
                let too_much = |amount: u64| net(charged, overhead, amount, window_ticks).is_none();
                let most = charged.in_window(window_ticks);
                least(most.saturating_add(1), too_much).map_or(most, |amount| amount.saturating_sub(1))
            }
            Self::Sum(parts) => parts.iter().fold(0, |sum, part| sum.saturating_add(part.in_window(window_ticks))),
        }
    }

    /// Shortest window in which `amount_ticks` are certain; `None` when they never are.
    #[must_use]
    pub fn least_window(&self, amount_ticks: u64) -> Option<u64> {
        match self {
            _ if amount_ticks == 0 => Some(0),
            Self::Whole => Some(amount_ticks),
            Self::Nothing => None,
            Self::Rest(contention) => contention.response(amount_ticks, MAX_WINDOW_TICKS),
            Self::Table(table) => table.least_window(amount_ticks),
            Self::Net { charged, overhead } => net(charged, overhead, amount_ticks, MAX_WINDOW_TICKS),
            _ => least(MAX_WINDOW_TICKS, |window_ticks| self.in_window(window_ticks) >= amount_ticks),
        }
    }

    /// Longest window without any service; `None` when there may never be any.
    #[must_use]
    pub fn blackout(&self) -> Option<u64> {
        self.least_window(1).map(|window_ticks| window_ticks.saturating_sub(1))
    }
}

/// The least window in which a guest executes so much.
fn net(charged: &Supply, overhead: &Overhead, amount_ticks: u64, limit_ticks: u64) -> Option<u64> {
    overhead.least_window(amount_ticks, limit_ticks, |amount| charged.least_window(amount))
}

/// The budget right at the start of one period and as late as it may be in the next.
fn explicit_blackout(budget_ticks: u64, period_ticks: u64, response_ticks: u64) -> u64 {
    period_ticks.saturating_add(response_ticks).saturating_sub(budget_ticks.saturating_mul(2))
}

/// The largest amount whose response fits into the window.
fn rest(contention: &Contention, window_ticks: u64) -> u64 {
    let too_much = |amount: u64| contention.response(amount, window_ticks).is_none();
    least(window_ticks.saturating_add(1), too_much).map_or(window_ticks, |amount| amount.saturating_sub(1))
}
