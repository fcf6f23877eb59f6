//! The choice: which server runs from now on, and until when.

use super::{BACKGROUND, KernelCore, Next, Stint, bit};
use crate::budget::BudgetRule;
use crate::dates::NEVER;

impl<const SERVERS: usize> KernelCore<SERVERS> {
    /// Chooses who runs from `now` on.
    #[inline]
    pub fn next(&mut self, now: u64) -> Next {
        if !self.advance_within_budget(now) {
            self.advance_in_full(now, self.at_once);
        }
        self.choose(now)
    }

    /// Who would be chosen, without that anything is dated or anybody loses the core.
    #[inline]
    #[must_use]
    pub fn best(&self) -> Stint {
        if let Some((level, slot)) = self.ready.first() {
            return Stint::new(slot, slot, level, false);
        }
        let first = self.spare.first();
        first.map_or(Stint::IDLE, |(level, slot)| Stint::new(slot, slot, level.wrapping_add(BACKGROUND), true))
    }

    /// The last choice, if nothing was reported since that could change it.
    #[inline]
    #[must_use]
    pub fn standing(&self) -> Option<Next> {
        let stands = self.deadline_ticks != 0 && self.running != Stint::IDLE;
        stands.then_some(Next { stint: self.running, deadline_ticks: self.deadline_ticks })
    }

    /// Forgets what the last choice said, so that the next one looks at everybody: for who compares the two.
    pub const fn forget_choice(&mut self) {
        self.deadline_ticks = 0;
    }

    /// Who runs, if it could go on with budget, at the level that it has now: that of a server for others changes with their requests.
    #[must_use]
    pub(super) fn goes_on(&self) -> Option<Stint> {
        let slot = self.running.server();
        let level = self.ready.level(slot).filter(|_| !self.running.is_background())?;
        Some(Stint::new(slot, slot, level, false))
    }

    /// The choice when the accounts are up to date.
    #[inline]
    pub(super) fn choose(&mut self, now: u64) -> Next {
        if self.deadline_ticks != 0 {
            // A budget that is being used ends when it was said to end.
            return Next { stint: self.running, deadline_ticks: self.deadline_ticks };
        }
        let next = self.choose_in_full(now);
        self.deadline_ticks = next.deadline_ticks;
        next
    }

    #[inline(never)]
    fn choose_in_full(&mut self, now: u64) -> Next {
        // The first server has budget. Should a rule ever contradict itself, each is met once and no deadline in the past comes out.
        for _ in 0..=self.count {
            let stint = self.best();
            if stint.is_background() {
                self.running = stint;
                // Who gets budget is more important. Nobody has a date when all sleep.
                return Next { stint, deadline_ticks: self.quiet_until_ticks };
            }
            let slot = stint.server();
            let starts = self.running != stint;
            if let Some(end_ticks) = self.dispatch(slot, starts, now) {
                self.running = stint;
                let rival_ticks =
                    if self.quiet_until_ticks < end_ticks { self.rival_date_ticks(stint.level()) } else { NEVER };
                return Next { stint, deadline_ticks: end_ticks.min(rival_ticks) };
            }
            self.place(slot, now);
        }
        self.running = Stint::IDLE;
        Next { stint: Stint::IDLE, deadline_ticks: self.quiet_until_ticks }
    }

    /// Lets a server go on, or begin; returns until when its budget lasts, and nothing when it has none.
    #[inline]
    fn dispatch(&mut self, slot: u8, starts: bool, now: u64) -> Option<u64> {
        let is_plain = self.plain & bit(slot) != 0;
        let budget = &mut self.entry_mut(slot)?.budget;
        if is_plain && let Some(end_ticks) = budget.dispatch_plain(starts, now) {
            return Some(end_ticks);
        }
        if starts {
            budget.dispatch(now);
        }
        let capacity_ticks = budget.capacity_ticks(now);
        (capacity_ticks > 0).then(|| now.saturating_add(capacity_ticks))
    }

    /// When somebody gets budget who can ever be more important than a level.
    #[inline(never)]
    pub(super) fn rival_date_ticks(&self, level: u8) -> u64 {
        let above = self.above.get(usize::from(level)).copied().unwrap_or(0);
        self.dates.earliest_of_first(usize::from(above))
    }
}
