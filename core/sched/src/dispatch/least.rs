//! What a server is charged at least (`real-time.md` 1.5).
//!
//! An activation begins when a server that woke, or whose budget is back, is chosen. It notes what the server's own account is to
//! reach; so running costs nothing more here, and a pre-emption is not even noticed. What is missing when the activation ends is
//! charged then.
//!
//! All of it is away from the usual path: a server with a least charge is none of the usual kind, and without one a test of
//! a word is all that is left.

use super::{Core, bit};
use crate::Members;
use crate::budget::BudgetRule;

impl<const SERVERS: usize, const VCPUS: usize> Core<SERVERS, VCPUS> {
    /// The server is chosen, with budget.
    #[inline]
    pub(super) fn begin_activation(&mut self, slot: u8) {
        if self.entering & bit(slot) == 0 {
            return;
        }
        self.entering &= !bit(slot);
        if let Some(entry) = self.entry_mut(slot) {
            let least_ticks = entry.server.least_charge_ticks;
            entry.least_until_ticks = entry.usage.budgeted_ticks.saturating_add(least_ticks);
        }
    }

    /// These servers cease to ask, or their budgets are used up: what is missing is charged.
    #[inline(never)]
    pub(super) fn end_activations(&mut self, servers: u64, now: u64) {
        self.entering &= !servers;
        for slot in Members(servers & self.least) {
            let missing_ticks = self.missing_ticks(slot);
            if missing_ticks > 0 {
                if let Some(entry) = self.entry_mut(slot) {
                    entry.least_until_ticks = 0;
                }
                if let Some(budget) = self.budget_of(slot) {
                    budget.charge_unused(now, missing_ticks);
                }
                self.place_spenders(slot, now);
            }
        }
    }

    /// The server's budget is back. What was interrupted while its least charge was missing continues where it was.
    #[inline]
    pub(super) fn enter_again(&mut self, slot: u8) {
        if self.least & bit(slot) != 0 && self.missing_ticks(slot) == 0 {
            self.entering |= bit(slot);
        }
    }

    fn missing_ticks(&self, slot: u8) -> u64 {
        self.entry(slot).map_or(0, |entry| entry.least_until_ticks.saturating_sub(entry.usage.budgeted_ticks))
    }
}
