//! Exact response-time analysis (`real-time.md` 4.2; QV-38).
//!
//! The response of `cost` ticks of work is the least R with `given(R) >= cost + blocking + sum of demands in R`, where
//! `given` is what the core offers at all: everything, or the windows of a time table. Each more important server adds its
//! lateness once: it may notice the end of its budget late, and the debt repays what was taken earlier.

use crate::arithmetic::divide_up;
use crate::demand::Demand;
use crate::search::Search;
use crate::steps::Steps;
use crate::supply::Supply;
use alloc::vec::Vec;

/// What work at one priority has to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contention {
    /// What the core offers: [`Supply::Whole`], or a time table's windows.
    pub offered: Supply,
    /// Longest passage that cannot be pre-empted, of anything less important or of the monitor.
    pub blocking_ticks: u64,
    /// More important work.
    pub demands: Vec<Demand>,
    /// How late each more important server notices that its budget is used up, summed up.
    pub lateness_ticks: u64,
    /// Servers that may pre-empt this one.
    pub servers_above: usize,
    /// Unlimited servers of the same priority that take turns with this one.
    pub turns: Option<Turns>,
}

/// Equals under a quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// How many.
    pub peers: u64,
    /// Quantum: what the server itself gets in its turn.
    pub quantum_ticks: u64,
    /// Longest turn of a peer.
    pub turn_ticks: u64,
    /// Rounds besides those that the amount itself needs.
    pub extra_rounds: u64,
}

impl Turns {
    /// What the peers take while `amount_ticks` are done.
    fn taken(&self, amount_ticks: u64) -> u64 {
        let rounds = divide_up(amount_ticks, self.quantum_ticks).saturating_add(self.extra_rounds);
        rounds.saturating_mul(self.peers).saturating_mul(self.turn_ticks)
    }
}

impl Contention {
    /// An idle core.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            offered: Supply::Whole,
            blocking_ticks: 0,
            demands: Vec::new(),
            lateness_ticks: 0,
            servers_above: 0,
            turns: None,
        }
    }

    /// What is taken once while `amount_ticks` are done: the longest passage, late ends of budgets, turns of equals.
    pub(crate) fn fixed_ticks(&self, amount_ticks: u64) -> u64 {
        let turns = self.turns.map_or(0, |turns| turns.taken(amount_ticks));
        self.blocking_ticks.saturating_add(self.lateness_ticks).saturating_add(turns)
    }

    /// Worst response of `cost_ticks`, if it is not above `limit_ticks` and the steps suffice.
    #[must_use]
    pub fn response(&self, cost_ticks: u64, limit_ticks: u64, steps: &Steps) -> Option<u64> {
        Search::below(self).least(cost_ticks, limit_ticks, steps)
    }
}
