//! How the core of a real-time kernel chooses among its servers (`kernel.md` 3).
//!
//! [`KernelCore`] is the small sister of [`crate::dispatch::Core`], for servers that a kernel makes and unmakes while it runs. It has the
//! same budget rules and the same answer ([`Next`]). What differs:
//!
//! - A server is its own vCPU: it asks while the kernel has somebody to run on it ([`KernelCore::wake`], [`KernelCore::block`]). There are
//!   no gates, donors, time tables or turns; what a kernel shares out inside a server it decides itself.
//! - Slots are reserved at levels when the core is configured. A server is put into one with [`KernelCore::activate`] and taken out with
//!   [`KernelCore::retire`].
//! - Levels 0 to 63 are for servers with budget. A server may go on without one at [`BACKGROUND`] + its level: below everybody with
//!   budget, in the same order, and charged for nothing (QV-22).
//! - [`KernelCore::charge_for`] charges the work of an interrupt to the server of its driver, not to who was interrupted, as a debt if that
//!   one has nothing left (QV-35).
//! - [`KernelCore::signal`] does at once what an event does nearly always: it charges the victim up to the instant of entry, makes a
//!   server ask, and chooses.
//! - A server can be passed over without that it blocks ([`KernelCore::veto`]), as [`Agreement`] does for schedulers that have a word in
//!   the matter (CH-23).
//!
//! Rejected: these as methods of [`crate::dispatch::Core`]. Its levels are bits of one word and its servers belong to vCPUs behind gates;
//! the monitor's path would carry all of that for a kernel that it does not know.

mod agreement;
mod choose;
mod events;
mod setup;
mod sleepers;

pub use crate::dispatch::{Next, Stint, Usage};
pub use agreement::{Agreement, MAX_VETOED};
pub use setup::ActivateError;
pub use sleepers::Sleepers;

use crate::budget::{Budget, BudgetRule};
use crate::dates::Dates;
use crate::ready::{LEVELS, ReadySet};
use crate::tcap::Root;

/// What is added to the level of a server that continues without budget.
pub const BACKGROUND: u8 = 64;

#[derive(Clone, Debug)]
struct Entry {
    budget: Budget,
    usage: Usage,
    /// The level at which it competes with budget.
    level: u8,
    /// Without budget it continues in the background.
    goes_on: bool,
}

const NO_ENTRY: Entry = Entry {
    budget: Budget::BLANK,
    usage: Usage { budgeted_ticks: 0, background_ticks: 0, longest_overrun_ticks: 0 },
    level: 0,
    goes_on: false,
};

/// The servers of one core of a kernel: 1, 4, 16 or 64 slots.
#[derive(Clone, Debug)]
// In this order: what every event reads is where one instruction reaches it.
#[repr(C)]
pub struct KernelCore<const SERVERS: usize> {
    now_ticks: u64,
    /// No budget comes back before this.
    quiet_until_ticks: u64,
    /// Servers whose events have a short way: their rule changes nothing but the chunk at its head.
    plain: u64,
    /// Servers that have somebody to run.
    asking: u64,
    /// What the last choice said, if nothing has happened since that could change it; otherwise 0.
    deadline_ticks: u64,
    running: Stint,
    count: u8,
    /// Budgets that a report brings back at most.
    at_once: u8,
    /// Slots with a server.
    live: u64,
    /// Servers that are passed over.
    vetoed: u64,
    exhausted: u64,
    idle_ticks: u64,
    /// Who asks and has budget.
    ready: ReadySet<SERVERS>,
    /// Who asks, has none and continues all the same.
    spare: ReadySet<SERVERS>,
    /// How many slots can ever be more important than each level; slots are numbered in that order.
    above: [u8; LEVELS + 1],
    /// When the budget of who asks and has none comes back.
    dates: Dates<SERVERS>,
    entries: [Entry; SERVERS],
    /// The levels that were reserved for each slot.
    levels_of: [u64; SERVERS],
}

/// The set of one.
#[inline]
pub(crate) const fn bit(number: u8) -> u64 {
    1u64.wrapping_shl(number as u32)
}

impl<const SERVERS: usize> KernelCore<SERVERS> {
    #[inline]
    fn entry(&self, slot: u8) -> Option<&Entry> {
        self.entries.get(crate::within::<SERVERS>(usize::from(slot)))
    }

    #[inline]
    fn entry_mut(&mut self, slot: u8) -> Option<&mut Entry> {
        self.entries.get_mut(crate::within::<SERVERS>(usize::from(slot)))
    }

    /// The entry of a slot that has a server.
    fn live(&self, slot: u8) -> Option<&Entry> {
        if self.is_live(slot) { self.entry(slot) } else { None }
    }

    /// States whether there is a server in the slot.
    #[must_use]
    pub fn is_live(&self, slot: u8) -> bool {
        usize::from(slot) < SERVERS && self.live & bit(slot) != 0
    }

    /// The last report.
    #[must_use]
    pub const fn now_ticks(&self) -> u64 {
        self.now_ticks
    }

    /// Who was chosen last.
    #[must_use]
    pub const fn running(&self) -> Stint {
        self.running
    }

    /// The servers that ask, as a bit set.
    #[must_use]
    pub const fn asking(&self) -> u64 {
        self.asking
    }

    /// The servers that are passed over, as a bit set.
    #[must_use]
    pub const fn vetoed(&self) -> u64 {
        self.vetoed
    }

    /// The budget of a server.
    #[must_use]
    pub fn budget(&self, slot: u8) -> Option<&Budget> {
        self.live(slot).map(|entry| &entry.budget)
    }

    /// What a server has consumed up to the last report; it stays readable after its end, until the slot is used again.
    #[must_use]
    pub fn usage(&self, slot: u8) -> Usage {
        self.entry(slot).filter(|_| slot < self.count).map_or(Usage::default(), |entry| entry.usage)
    }

    /// Time in which nobody ran, up to the last report.
    #[must_use]
    pub const fn idle_ticks(&self) -> u64 {
        self.idle_ticks
    }

    /// What [`Self::take_exhausted`] would answer.
    #[must_use]
    pub const fn exhausted(&self) -> u64 {
        self.exhausted
    }

    /// The servers whose budget was found empty after they were charged, since the last call, as a bit set.
    pub const fn take_exhausted(&mut self) -> u64 {
        core::mem::replace(&mut self.exhausted, 0)
    }

    /// What a server could use at once if it ran now; the accounts are brought up to date first.
    pub fn capacity_ticks(&mut self, slot: u8, now: u64) -> u64 {
        self.advance(now);
        if !self.is_live(slot) {
            return 0;
        }
        self.entry_mut(slot).map_or(0, |entry| entry.budget.capacity_ticks(now))
    }

    /// When what a server could use may grow by itself; `u64::MAX` for never.
    pub fn grows_ticks(&mut self, slot: u8, now: u64) -> u64 {
        let is_live = self.is_live(slot);
        let entry = self.entry_mut(slot).filter(|_| is_live);
        entry.and_then(|entry| entry.budget.next_event_ticks(now)).unwrap_or(crate::dates::NEVER)
    }

    /// When everything that a server has used is back, debts included, if nothing more is used; and its period. `None` for a rule
    /// without chunks.
    pub(crate) fn all_back_ticks(&self, slot: u8) -> Option<(u64, u64)> {
        self.live(slot).and_then(|entry| entry.budget.all_back_ticks())
    }

    /// What claims on a server's time must know of it (CH-50): the level at which it would run now, what it could use, and when a part
    /// that is handed on ends. The accounts are brought up to date first.
    pub fn root(&mut self, slot: u8, now: u64) -> Option<Root> {
        let root = self.root_in_hand(slot, now)?;
        let sleeps = self.asking & bit(slot) == 0;
        let expires_ticks = self.entry_mut(slot)?.budget.claim_end_ticks(sleeps, now);
        Some(Root { expires_ticks, ..root })
    }

    /// The same for who hands nothing on, without when that would end.
    #[inline(never)] // Called for each claim that is compared.
    pub fn root_in_hand(&mut self, slot: u8, now: u64) -> Option<Root> {
        self.advance(now);
        if !self.is_live(slot) {
            return None;
        }
        let Entry { budget, level, goes_on, .. } = self.entry_mut(slot)?;
        let capacity_ticks = budget.capacity_ticks(now);
        let smallest_ticks = budget.smallest_ticks();
        let is_background = capacity_ticks == 0 && *goes_on;
        let level = if is_background { level.wrapping_add(BACKGROUND) } else { *level };
        Some(Root { server: slot, level, capacity_ticks, smallest_ticks, expires_ticks: None })
    }
}
