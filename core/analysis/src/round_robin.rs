//! Latency of an interrupt under the published round robin (`real-time.md` 3.1; MZ-10 to MZ-26).
//!
//! The bounds are for guests that always want to run and for one interrupt that comes alone. Under a storm of another
//! guest's interrupts `recycle` and `reset` bound nothing (RR-03), which is why the checker says so beside them.

use crate::arithmetic::divide_up;
use alloc::vec::Vec;
pub use bulkhead_words::{OnInterrupt, Reading};

/// A ring of guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// For each guest in ring order: interrupts of others may end its turn.
    pub preemptible: Vec<bool>,
    /// For each guest: it has interrupts with the route `preempt`, which may be served first under [`Reading::Latched`].
    pub interrupting: Vec<bool>,
    /// Longest turn: the quantum, how late its end is noticed, and the switch.
    pub turn_ticks: u64,
    /// Quantum: what of a turn the guest itself gets for certain.
    pub quantum_ticks: u64,
    /// What an interrupt does to the turn of another guest (MZ-20 to MZ-22).
    pub policy: OnInterrupt,
    /// When an interrupt acts that met a guest which may not be pre-empted (MZ-15).
    pub reading: Reading,
}

/// Worst latency of one interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingBound {
    /// Until the first instruction of the handler.
    pub start_ticks: u64,
    /// Until its last one.
    pub completion_ticks: u64,
}

impl Ring {
    /// Turns of others between two turns of a guest.
    fn others(&self) -> u64 {
        u64::try_from(self.preemptible.len()).unwrap_or(u64::MAX).saturating_sub(1)
    }

    /// Most consecutive turns of guests that may not be pre-empted and are not `guest` itself.
    fn longest_closed_run(&self, guest: usize) -> u64 {
        let count = self.preemptible.len();
        let following = self.preemptible.iter().cycle().skip(guest.saturating_add(1)).take(count.saturating_sub(1));
        let mut longest = 0u64;
        let mut run = 0u64;
        for open in following {
            run = if *open { 0 } else { run.saturating_add(1) };
            longest = longest.max(run);
        }
        longest
    }

    /// Turns that pass before a route `preempt` acts for `guest`.
    fn waits(&self, guest: usize) -> u64 {
        let closed = self.longest_closed_run(guest);
        if self.policy == OnInterrupt::None {
            return self.others();
        }
        match self.reading {
            Reading::Masked => closed,
            // The turn that runs, and others that were latched before.
            Reading::Latched if closed > 0 => {
                let count = self.interrupting.iter().filter(|interrupts| **interrupts).count();
                let rivals = u64::try_from(count).unwrap_or(u64::MAX).saturating_sub(1);
                rivals.saturating_add(1).min(self.others())
            }
            Reading::Latched => 0,
        }
    }

    /// Bound for an interrupt of `guest` whose handler runs `handler_ticks`; `blocking_ticks` is the longest passage of the
    /// monitor. With the route `preempt` the policy applies, with every other route it is as if there were none.
    #[must_use]
    pub fn bound(&self, guest: usize, preempts: bool, handler_ticks: u64, blocking_ticks: u64) -> RingBound {
        let policy = if preempts { self.policy } else { OnInterrupt::None };
        let round = self.others().saturating_mul(self.turn_ticks);
        let start = if preempts { self.waits(guest).saturating_mul(self.turn_ticks) } else { round };
        // A handler longer than a quantum waits a round for each further one.
        let further = divide_up(handler_ticks, self.quantum_ticks).saturating_sub(1).saturating_mul(round);
        let completion = match policy {
            OnInterrupt::ResetExtend => start,
            // The interrupt comes in the last ticks of its own guest's turn: nothing acts, and the handler is cut off.
            OnInterrupt::None | OnInterrupt::Recycle | OnInterrupt::Reset => start.max(round),
        };
        RingBound {
            start_ticks: start.saturating_add(blocking_ticks),
            completion_ticks: completion
                .saturating_add(handler_ticks)
                .saturating_add(further)
                .saturating_add(blocking_ticks),
        }
    }

    /// A turn in each round is certain for a guest. Interrupts of another one may take a turn of a guest that may be pre-empted, whenever it
    /// begins (RR-03), and with a quantum of their own, as after a reset or a latched wait, they put the turns of all others off.
    #[must_use]
    pub fn is_certain(&self, guest: usize) -> bool {
        let rival = |(number, interrupts): (usize, &bool)| *interrupts && number != guest;
        match self.policy {
            _ if !self.interrupting.iter().enumerate().any(rival) => true,
            OnInterrupt::None => true,
            OnInterrupt::Recycle if self.reading == Reading::Masked => {
                !self.preemptible.get(guest).copied().unwrap_or(true)
            }
            OnInterrupt::Recycle | OnInterrupt::Reset | OnInterrupt::ResetExtend => false,
        }
    }

    /// Longest time that a guest wants to run and gets nothing, whether it sleeps in between or not; `None` without a bound.
    #[must_use]
    pub fn blackout(&self, guest: usize, blocking_ticks: u64) -> Option<u64> {
        let woken = self.others().saturating_mul(self.turn_ticks).saturating_add(blocking_ticks);
        self.supply(guest).formula_window(1).map(|awake| awake.saturating_sub(1).max(woken))
    }

    /// Least service to a guest: a quantum in each round, or nothing.
    #[must_use]
    pub fn supply(&self, guest: usize) -> crate::supply::Supply {
        if !self.is_certain(guest) {
            return crate::supply::Supply::Nothing;
        }
        let round = self.others().saturating_add(1).saturating_mul(self.turn_ticks);
        crate::supply::Supply::Explicit {
            budget_ticks: self.quantum_ticks,
            period_ticks: round,
            response_ticks: self.quantum_ticks,
        }
    }
}
