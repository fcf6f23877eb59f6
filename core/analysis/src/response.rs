//! Exact response-time analysis (`real-time.md` 4.2; QV-38).
//!
//! The response of `cost` ticks of work is the least R with `given(R) >= cost + blocking + sum of demands in R`, where
//! `given` is what the core offers at all: everything, or the windows of a time table. Each more important server adds its
//! lateness once: it may notice the end of its budget late, and the debt repays what was taken earlier.
//!
//! The search goes up from the cost, ends at a limit, and never takes more than [`MAX_STEPS`] steps.

use crate::arithmetic::divide_up;
use crate::demand::Demand;
use crate::supply::Supply;
use alloc::vec::Vec;

/// Most steps of a search. Each step adds at least one arrival of more important work, so that a search which needs more
/// belongs to a core that is full within a hundred-thousandth.
pub const MAX_STEPS: usize = 100_000;

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

    /// Most that is taken in a window of `ticks` besides the work itself; `None` without a limit.
    #[must_use]
    pub fn taken(&self, ticks: u64) -> Option<u64> {
        let fixed = self.blocking_ticks.saturating_add(self.lateness_ticks);
        self.demands.iter().try_fold(fixed, |sum, demand| Some(sum.saturating_add(demand.in_window(ticks)?)))
    }

    /// Worst response of `cost_ticks`, if it is not above `limit_ticks`.
    #[must_use]
    pub fn response(&self, cost_ticks: u64, limit_ticks: u64) -> Option<u64> {
        let turns = self.turns.map_or(0, |turns| turns.taken(cost_ticks));
        let work = cost_ticks.saturating_add(turns);
        let mut response = 0;
        for _ in 0..MAX_STEPS {
            let needed = work.saturating_add(self.taken(response)?);
            let next = self.offered.least_window(needed)?;
            if next <= response {
                return Some(response);
            }
            if next > limit_ticks {
                return None;
            }
            response = next;
        }
        None
    }
}
