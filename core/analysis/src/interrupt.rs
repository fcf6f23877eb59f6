//! From a device's interrupt to the end of its handler in the guest (`real-time.md` 4.3, 3.2; SG-47).

use crate::arithmetic::divide_up;
use crate::overhead::Overhead;
use crate::response::Contention;
use crate::search::Search;
use crate::steps::Steps;
use crate::supply::{MAX_WINDOW_TICKS, Supply};

/// Worst time from the interrupt to the end of its handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The budget is in hand (and a smallest chunk more, so that no sliver is put off); `None` without a bound.
    pub conforming_ticks: Option<u64>,
    /// The budget was just used up; `None` without a bound.
    pub drained_ticks: Option<u64>,
}

/// The server through which the handler runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerServer {
    /// Budget of the one who pays.
    pub budget_ticks: u64,
    /// Chunks of a sporadic server; `None` for the others, whose budget never comes back in pieces.
    pub chunks: Option<u64>,
    /// Servers above split the budget of a server dated by dispatch, into any number of pieces.
    pub split: bool,
    /// From one use of a tick of the budget to the next: the period, and with dispatch dating its jitter.
    pub return_ticks: u64,
    /// Longest wait for a budget that was just used up: period - budget; a polling server waits a whole period.
    pub refill_ticks: u64,
    /// What is more important.
    pub contention: Contention,
}

impl HandlerServer {
    /// How often the budget comes back while a handler of `handler_ticks` runs that begins with it in hand.
    pub(crate) fn returns(&self, handler_ticks: u64) -> u64 {
        let further = divide_up(handler_ticks.max(1), self.budget_ticks).saturating_sub(1);
        let pieces = if self.in_pieces(handler_ticks) { self.chunks.unwrap_or(1) } else { 1 };
        further.saturating_mul(pieces)
    }

    /// The budget may come back in pieces. With fewer chunks than runs, the last piece is delayed to join another, and what
    /// needs it waits a cycle more.
    fn in_pieces(&self, handler_ticks: u64) -> bool {
        let enough = self
            .chunks
            .is_none_or(|chunks| chunks.saturating_sub(1).saturating_mul(handler_ticks.max(1)) >= self.budget_ticks);
        (self.split && handler_ticks > 1) || !enough
    }

    /// Bounds for a handler that pays for the monitor's work as well.
    pub(crate) fn paid_delivery(&self, handler_ticks: u64, overhead: &Overhead, steps: &Steps) -> Delivery {
        let simple = |drained: u64| self.within_one_budget(handler_ticks, drained, overhead, steps);
        // Whatever else is needed, a budget comes back for it, in pieces or not: a step at a time.
        let general = |drained: u64, of: fn(Delivery) -> Option<u64>| {
            overhead.least_window(handler_ticks, MAX_WINDOW_TICKS, steps, |amount| {
                let returns = self.returns(amount).saturating_add(drained);
                let amount = amount.saturating_add(returns.saturating_mul(overhead.of_return()));
                of(self.delivery(amount, steps))
            })
        };
        Delivery {
            conforming_ticks: simple(0).unwrap_or_else(|| general(0, |delivery| delivery.conforming_ticks)),
            drained_ticks: simple(1).unwrap_or_else(|| general(1, |delivery| delivery.drained_ticks)),
        }
    }

    /// The same when one budget is enough for everything, after `drained` returns of it; `None` when it is not.
    #[allow(
        clippy::option_option,
        reason = "the outer one says whether this is the case, the inner one whether there is a bound"
    )]
    fn within_one_budget(
        &self,
        handler_ticks: u64,
        drained: u64,
        overhead: &Overhead,
        steps: &Steps,
    ) -> Option<Option<u64>> {
        let work = handler_ticks.saturating_add(drained.saturating_mul(overhead.of_return()));
        let (refill_ticks, all_back_ticks) = match drained {
            0 => (0, 0),
            _ if self.in_pieces(work) => (self.refill_ticks, self.return_ticks.saturating_mul(2)),
            _ => (self.refill_ticks, 0),
        };
        let search = Search::paying(overhead, &self.contention, refill_ticks, all_back_ticks);
        let Some(response) = search.least(work, MAX_WINDOW_TICKS, steps) else {
            // Without steps there is no bound; without a response, there may be one with further budgets.
            return (steps.is_used_up() || self.budget_ticks == u64::MAX).then_some(None);
        };
        let window = response.saturating_add(refill_ticks).max(all_back_ticks);
        let most = work.saturating_add(overhead.in_window(window, work));
        let is_same = drained == 0 || self.in_pieces(work) == self.in_pieces(most);
        (most <= self.budget_ticks && is_same).then_some((window <= MAX_WINDOW_TICKS).then_some(window))
    }

    /// Bounds for a handler of `handler_ticks`. One that needs several budgets waits for each further one.
    #[must_use]
    pub fn delivery(&self, handler_ticks: u64, steps: &Steps) -> Delivery {
        let further = divide_up(handler_ticks.max(1), self.budget_ticks).saturating_sub(1);
        let last = handler_ticks.saturating_sub(further.saturating_mul(self.budget_ticks));
        let in_pieces = self.in_pieces(handler_ticks);
        let round = self.return_ticks.saturating_mul(if in_pieces { 2 } else { 1 });
        let later = further.saturating_mul(round);
        let response = self.contention.response(last, MAX_WINDOW_TICKS, steps);
        let conforming = response.map(|ticks| ticks.saturating_add(later));
        let drained = conforming.map(|ticks| ticks.saturating_add(self.refill_ticks));
        let all_back = if in_pieces { later.saturating_add(round) } else { 0 };
        Delivery { conforming_ticks: conforming, drained_ticks: drained.map(|ticks| ticks.max(all_back)) }
    }
}

/// Bounds for a handler that runs in whatever time its vCPU gets: route `defer` under a server, window of a table, no server
/// of its own.
#[must_use]
pub fn by_supply(supply: &Supply, handler_ticks: u64, steps: &Steps) -> Delivery {
    let ticks = supply.least_window(handler_ticks, steps);
    Delivery { conforming_ticks: ticks, drained_ticks: ticks }
}

/// Bounds for the idle approach: the handler runs when nothing else wants the core. `others` is everything else.
#[must_use]
pub fn when_idle(others: &Contention, handler_ticks: u64, steps: &Steps) -> Delivery {
    let ticks = others.response(handler_ticks, MAX_WINDOW_TICKS, steps);
    Delivery { conforming_ticks: ticks, drained_ticks: ticks }
}
