//! Where servers stand: asking or not, in a ready queue, on the list of dates.

use super::{Core, NO_LEVEL, bit};
use crate::Members;
use crate::budget::BudgetRule;
use crate::dates::NEVER;

impl<const SERVERS: usize, const VCPUS: usize> Core<SERVERS, VCPUS> {
    /// Opens or closes servers of ready vCPUs whose gate or window has changed.
    #[inline]
    pub(super) fn refresh(&mut self, servers: u64, now: u64) {
        let open = self.with_open_gate(servers);
        let closing = servers & self.asking & !open;
        if closing != 0 {
            self.close(closing, now);
        }
        let opening = open & !self.asking;
        if opening != 0 {
            self.open(opening, now);
        }
    }

    /// The servers of a vCPU that has become ready.
    #[inline(always)]
    pub(super) fn open_all(&mut self, servers: u64, now: u64) {
        let gated = servers & !self.ungated;
        let mut open = servers & self.ungated;
        if gated != 0 {
            open |= self.with_open_gate(gated);
        }
        self.open(open, now);
    }

    /// Those of these servers whose gate is open.
    #[inline]
    fn with_open_gate(&self, servers: u64) -> u64 {
        Members(servers).those(|slot| self.entry(slot).is_some_and(|entry| self.is_gate_open(entry)))
    }

    /// These servers begin to ask, in the order of their numbers.
    ///
    /// The usual case is a loop without calls. From the first server on that needs one, all are left for
    /// [`Self::open_in_full`].
    #[inline(always)]
    pub(super) fn open(&mut self, open: u64, now: u64) {
        let mut left = if open & !self.simple == 0 { open } else { 0 };
        let mut rest = open ^ left;
        let mut opened = 0;
        while left != 0 {
            let slot = left.trailing_zeros() as u8;
            let Some(entry) = self.entries.get_mut(crate::within::<SERVERS>(usize::from(slot))) else {
                return;
            };
            let level = entry.level;
            if !entry.server.budget.wake_plain(now) {
                rest = left;
                break;
            }
            opened |= bit(slot);
            left &= left.wrapping_sub(1);
            self.ready.push(slot, level);
        }
        self.asking |= opened;
        if rest != 0 {
            self.open_in_full(rest, now);
        }
    }

    /// A donor's budget is told of the wake-up as well, which can only forfeit credit.
    #[inline(never)]
    fn open_in_full(&mut self, servers: u64, now: u64) {
        self.entering |= servers & self.least;
        for slot in Members(servers) {
            self.asking |= bit(slot);
            if let Some(budget) = self.budget_of(slot) {
                budget.wake(now);
            }
            self.place_spenders(slot, now);
        }
    }

    /// These servers cease to ask. A donor is told of that only when it does not ask itself.
    #[inline(never)]
    pub(super) fn close(&mut self, servers: u64, now: u64) {
        self.asking &= !servers;
        if servers & self.least != 0 {
            self.end_activations(servers, now);
        }
        for slot in Members(servers) {
            self.ready.remove(slot);
            self.dates.set(slot, NEVER);
            self.note_dates();
            let Some(entry) = self.entries.get_mut(crate::within::<SERVERS>(usize::from(slot))) else {
                continue;
            };
            if !entry.shares {
                entry.server.budget.block(now);
            } else if self.asking & bit(entry.payer) == 0 {
                if let Some(budget) = self.budget_of(slot) {
                    budget.block(now);
                }
                self.place_spenders(slot, now);
            }
        }
    }

    /// Dates or the window have changed.
    #[inline]
    pub(super) fn note_dates(&mut self) {
        self.quiet_until_ticks = self.dates.earliest().min(self.window.until_ticks);
    }

    /// Puts everybody who spends the same budget as this server where they belong.
    pub(super) fn place_spenders(&mut self, slot: u8, now: u64) {
        let payer = self.entry(slot).map_or(slot, |entry| entry.payer);
        let spenders = self.entry(payer).map_or(0, |entry| entry.spenders);
        for spender in Members(spenders & self.asking) {
            self.place(spender, now);
        }
    }

    /// Puts a server that asks where its budget says: into a ready queue, on the list of dates, or on both.
    #[inline]
    pub(super) fn place(&mut self, slot: u8, now: u64) {
        let Some(entry) = self.entry(slot) else {
            return;
        };
        let (mut level, background) = (entry.level, entry.background);
        let mut date_ticks = NEVER;
        if let Some(budget) = self.budget_of(slot)
            && budget.capacity_ticks(now) == 0
        {
            date_ticks = budget.next_event_ticks(now).unwrap_or(NEVER);
            level = background;
        } else if self.dates.has(slot) {
            self.enter_again(slot);
        }
        self.dates.set(slot, date_ticks);
        self.note_dates();
        let wanted = (level != NO_LEVEL).then_some(level);
        if self.ready.level(slot) != wanted {
            self.ready.remove(slot);
            if level != NO_LEVEL {
                self.ready.push(slot, level);
            }
        }
    }

    /// The date of a server of the usual kind is due: its budget is usable.
    #[inline(always)]
    pub(super) fn replenish(&mut self, slot: u8) {
        self.dates.set(slot, NEVER);
        if let Some(entry) = self.entries.get(crate::within::<SERVERS>(usize::from(slot))) {
            let (level, background) = (entry.level, entry.background);
            if background != NO_LEVEL {
                self.ready.remove(slot);
            }
            self.ready.push(slot, level);
        }
    }
}
