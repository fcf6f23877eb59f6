//! Slots, and the servers that are put into them.

use super::{Entry, KernelCore, NO_ENTRY, Stint, Usage, bit};
use crate::budget::{Budget, BudgetError, BudgetRule, SporadicParameters};
use crate::dates::{Dates, NEVER};
use crate::ready::{LEVELS, ReadySet};

/// Why a server was not put into a slot, or not changed. Nothing has happened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivateError {
    /// There is no such slot, or it has a server already; or, to change one, it has none.
    Slot,
    /// The budget has clients at levels that were not reserved for the slot.
    Level,
    /// The parameters contradict each other, or the rule cannot be changed (`None`).
    Budget(Option<BudgetError>),
}

impl<const SERVERS: usize> KernelCore<SERVERS> {
    /// A core without slots, to be configured where it lies.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            now_ticks: 0,
            quiet_until_ticks: NEVER,
            plain: 0,
            asking: 0,
            deadline_ticks: 0,
            running: Stint::IDLE,
            count: 0,
            at_once: u8::MAX,
            live: 0,
            vetoed: 0,
            exhausted: 0,
            idle_ticks: 0,
            ready: ReadySet::new(),
            spare: ReadySet::new(),
            above: [0; LEVELS + 1],
            dates: Dates::new(),
            entries: [const { NO_ENTRY }; SERVERS],
            levels_of: [0; SERVERS],
        }
    }

    /// Makes it what [`Self::empty`] is, field by field where it lies: the value of the whole is larger than a kernel's stack. Bytes that are all zero
    /// are a core that can be cleared.
    pub fn clear(&mut self) {
        let Self { now_ticks, quiet_until_ticks, plain, asking, deadline_ticks, running, count, at_once, .. } = self;
        (*now_ticks, *quiet_until_ticks, *plain, *asking, *deadline_ticks) = (0, NEVER, 0, 0, 0);
        (*running, *count, *at_once) = (Stint::IDLE, 0, u8::MAX);
        let Self { live, vetoed, exhausted, idle_ticks, ready, spare, above, dates, entries, levels_of, .. } = self;
        (*live, *vetoed, *exhausted, *idle_ticks) = (0, 0, 0, 0);
        (*ready, *spare) = (ReadySet::new(), ReadySet::new());
        *dates = Dates::new();
        *above = [0; LEVELS + 1];
        *levels_of = [0; SERVERS];
        for entry in entries {
            *entry = NO_ENTRY;
        }
    }

    /// Reserves slots; its accounts begin at `start_ticks`. Each slot is the set of levels, as bits, that its servers can have: one
    /// level, or those of the clients of a server for others. Slots are sorted by their best level, the most important first; their
    /// places in the list are their numbers. Returns false when a set is empty, the list is too long or not sorted; the core is not
    /// to be used then.
    #[must_use]
    pub fn configure(&mut self, start_ticks: u64, slots: impl IntoIterator<Item = u64>) -> bool {
        self.now_ticks = start_ticks;
        let (mut taken, mut shared, mut best) = (0, 0, 0);
        for levels in slots {
            let first = levels.trailing_zeros();
            if levels == 0 || first < best || usize::from(self.count) >= SERVERS {
                return false;
            }
            best = first;
            if let Some(place) = self.levels_of.get_mut(usize::from(self.count)) {
                *place = levels;
            }
            for above in self.above.iter_mut().skip(first.saturating_add(1) as usize) {
                *above = above.saturating_add(1);
            }
            // A level that is one of several is never a slot's own.
            shared |= taken & levels | if levels.is_power_of_two() { 0 } else { levels };
            taken |= levels;
            self.count = self.count.saturating_add(1);
        }
        for slot in 0..self.count {
            let levels = self.levels_of(slot);
            if levels & shared == 0 {
                self.ready.set_exclusive(levels.trailing_zeros() as u8, slot);
                self.spare.set_exclusive(levels.trailing_zeros() as u8, slot);
            }
        }
        true
    }

    /// From here on budgets come back by [`Self::bring_back`] alone: for who looks for interrupts between slices, since all may be due at one instant. Until then those are as if they
    /// were not due, and a choice that somebody more important may change ends at once.
    pub const fn bring_back_in_slices(&mut self) {
        self.at_once = 0;
    }

    fn levels_of(&self, slot: u8) -> u64 {
        self.levels_of.get(usize::from(slot)).copied().unwrap_or(0)
    }

    /// Puts a server into a free slot; it does not ask yet. `goes_on` lets it go on in the background when its budget is used up. Its
    /// accounts begin at 0. Constant time.
    ///
    /// # Errors
    ///
    /// [`ActivateError`].
    pub fn activate(&mut self, now: u64, slot: u8, budget: Budget, goes_on: bool) -> Result<(), ActivateError> {
        if slot >= self.count || self.is_live(slot) {
            return Err(ActivateError::Slot);
        }
        let reserved = self.levels_of(slot);
        let asked = budget.clients().map_or(0, |rule| rule.priorities().fold(0, |set, level| set | bit(level)));
        let is_too_high = budget.clients().is_some_and(|rule| usize::from(rule.lowest_priority()) >= LEVELS);
        if asked & !reserved != 0 || is_too_high || asked == 0 && !reserved.is_power_of_two() {
            return Err(ActivateError::Level);
        }
        self.advance(now);
        let level = budget.clients().map_or(reserved.trailing_zeros() as u8, |rule| rule.priority());
        self.live |= bit(slot);
        if budget.is_plain() {
            self.plain |= bit(slot);
        }
        if let Some(entry) = self.entry_mut(slot) {
            *entry = Entry { budget, level, goes_on, ..NO_ENTRY };
        }
        Ok(())
    }

    /// As [`Self::activate`], for a server of a band with parameters that the band has checked; nothing is copied.
    pub(crate) fn activate_in_place(
        &mut self,
        now: u64,
        slot: u8,
        parameters: SporadicParameters,
    ) -> Result<(), ActivateError> {
        let reserved = self.levels_of(slot);
        if slot >= self.count || self.is_live(slot) {
            return Err(ActivateError::Slot);
        }
        if !reserved.is_power_of_two() {
            return Err(ActivateError::Level);
        }
        self.advance(now);
        self.live |= bit(slot);
        self.plain |= bit(slot);
        if let Some(entry) = self.entry_mut(slot) {
            entry.budget.renew(parameters, now);
            (entry.level, entry.goes_on, entry.usage) = (reserved.trailing_zeros() as u8, false, Usage::default());
        }
        Ok(())
    }

    /// Takes a server out of its slot, wherever it stands. If it runs it is charged first, and nobody runs until the next choice.
    /// Constant time. Returns false when there is none.
    pub fn retire(&mut self, now: u64, slot: u8) -> bool {
        if !self.is_live(slot) {
            return false;
        }
        self.block(now, slot);
        for set in [&mut self.live, &mut self.plain, &mut self.vetoed, &mut self.exhausted] {
            *set &= !bit(slot);
        }
        if self.running != Stint::IDLE && self.running.server() == slot {
            self.running = Stint::IDLE;
            self.deadline_ticks = 0;
        }
        true
    }

    /// Gives a server other parameters; what it has used stays in mind (QV-30).
    ///
    /// # Errors
    ///
    /// [`ActivateError`].
    pub fn reconfigure(&mut self, now: u64, slot: u8, parameters: SporadicParameters) -> Result<(), ActivateError> {
        if !self.is_live(slot) {
            return Err(ActivateError::Slot);
        }
        self.advance(now);
        let entry = self.entry_mut(slot).ok_or(ActivateError::Slot)?;
        let changed = entry.budget.reconfigure(parameters, now).ok_or(ActivateError::Budget(None))?;
        changed.map_err(|error| ActivateError::Budget(Some(error)))?;
        if self.asking & bit(slot) != 0 {
            self.place(slot, now);
        }
        Ok(())
    }

    /// Puts a server that asks where its budget says: among those with budget, in the background, or nowhere; and on the list of dates.
    #[inline(never)]
    pub(super) fn place(&mut self, slot: u8, now: u64) {
        let is_vetoed = self.vetoed & bit(slot) != 0;
        let Some(entry) = self.entry_mut(slot) else { return };
        let (level, goes_on) = (entry.level, entry.goes_on);
        let has_budget = entry.budget.capacity_ticks(now) > 0;
        let date_ticks = if has_budget { None } else { entry.budget.next_event_ticks(now) };
        self.dates.set(slot, date_ticks.unwrap_or(NEVER));
        self.quiet_until_ticks = self.dates.earliest();
        self.deadline_ticks = 0;
        for (queue, belongs) in [(&mut self.ready, has_budget && !is_vetoed), (&mut self.spare, !has_budget && goes_on)]
        {
            let wanted = belongs.then_some(level);
            if queue.level(slot) != wanted {
                queue.remove(slot);
                if belongs {
                    queue.push(slot, level);
                }
            }
        }
    }
}
