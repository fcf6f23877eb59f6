//! What is reported to a kernel's core: time passes, servers begin and cease to ask, work is done on behalf of one.

use super::{Entry, KernelCore, Next, Stint, bit};
use crate::Members;
use crate::budget::BudgetRule;
use crate::dates::NEVER;

impl<const SERVERS: usize> KernelCore<SERVERS> {
    /// Time has passed until `now`: charges the server that ran and brings back what is due. Every other report does this first.
    #[inline]
    pub fn advance(&mut self, now: u64) {
        if !self.advance_within_budget(now) {
            self.advance_in_full(now, self.at_once);
        }
    }

    /// As [`Self::advance`], but brings back no more than `at_most` budgets, the most important servers' first; returns whether more are due.
    pub fn bring_back(&mut self, now: u64, at_most: u8) -> bool {
        if !self.advance_within_budget(now) {
            self.advance_in_full(now, at_most);
        }
        self.quiet_until_ticks <= now
    }

    /// As [`Self::advance`], in the usual case: nothing falls due and the budget lasts. Returns false, and does nothing, in any other.
    #[inline(always)]
    pub(super) fn advance_within_budget(&mut self, now: u64) -> bool {
        if now >= self.quiet_until_ticks {
            return false;
        }
        if now <= self.now_ticks {
            return true;
        }
        let used_ticks = now.wrapping_sub(self.now_ticks);
        let charged = self.charge_usual(used_ticks);
        if charged {
            self.now_ticks = now;
        }
        charged
    }

    /// Charges the server that runs, if that is the usual case. Returns false, and does nothing, in any other.
    #[inline(always)]
    fn charge_usual(&mut self, used_ticks: u64) -> bool {
        let running = self.running;
        if running == Stint::IDLE {
            self.idle_ticks = self.idle_ticks.wrapping_add(used_ticks);
            return true;
        }
        let Some(entry) = self.entries.get_mut(crate::within::<SERVERS>(usize::from(running.server()))) else {
            return false;
        };
        if running.is_background() {
            entry.usage.background_ticks = entry.usage.background_ticks.wrapping_add(used_ticks);
            return true;
        }
        let charged = self.plain & bit(running.server()) != 0 && entry.budget.charge_plain(used_ticks);
        if charged {
            entry.usage.budgeted_ticks = entry.usage.budgeted_ticks.wrapping_add(used_ticks);
        }
        charged
    }

    /// As [`Self::advance`], when [`Self::advance_within_budget`] has just refused; brings back no more than `at_most` budgets.
    #[inline(never)]
    pub(super) fn advance_in_full(&mut self, now: u64, at_most: u8) {
        let used_ticks = now.saturating_sub(self.now_ticks);
        self.now_ticks = self.now_ticks.max(now);
        let is_due = now >= self.quiet_until_ticks;
        // If nothing is due it was the charge that was refused.
        if used_ticks > 0 && !(is_due && self.charge_usual(used_ticks)) {
            self.charge(self.running.server(), now, used_ticks);
        }
        if !is_due {
            return;
        }
        for _ in 0..at_most {
            let Some(slot) = self.dates.due(now) else { break };
            let is_back = |entry: &Entry| entry.budget.is_back_plain(now);
            if self.plain & bit(slot) != 0 && self.entry(slot).is_some_and(is_back) {
                self.replenish(slot);
            } else {
                // It may have been charged since its date was filed, as it ran until the choice behind the end of its budget.
                self.place(slot, now);
            }
        }
        self.quiet_until_ticks = self.dates.earliest();
    }

    /// The date of a plain server is due: its budget is usable.
    #[inline(always)]
    fn replenish(&mut self, slot: u8) {
        self.dates.set(slot, NEVER);
        self.deadline_ticks = 0;
        let is_vetoed = self.vetoed & bit(slot) != 0;
        let Some(entry) = self.entries.get(crate::within::<SERVERS>(usize::from(slot))) else { return };
        let (level, goes_on) = (entry.level, entry.goes_on);
        if goes_on {
            self.spare.remove(slot);
        }
        if !is_vetoed {
            self.ready.push(slot, level);
        }
    }

    /// The charge that may leave the budget empty.
    fn charge(&mut self, slot: u8, now: u64, used_ticks: u64) {
        let Some(entry) = self.entry_mut(slot) else { return };
        // Asked for a later instant it would come back first.
        let capacity_ticks = entry.budget.capacity_ticks(now.saturating_sub(used_ticks));
        entry.budget.charge(now, used_ticks);
        let usage = &mut entry.usage;
        usage.budgeted_ticks = usage.budgeted_ticks.wrapping_add(used_ticks);
        let left_ticks = entry.budget.capacity_ticks(now);
        if left_ticks == 0 {
            let overrun_ticks = used_ticks.saturating_sub(capacity_ticks);
            entry.usage.longest_overrun_ticks = entry.usage.longest_overrun_ticks.max(overrun_ticks);
            self.exhausted |= bit(slot);
        }
        // Who runs and has what is left of that stays where it is, until when it was said to.
        let stays = left_ticks != 0 && left_ticks == capacity_ticks.saturating_sub(used_ticks);
        let runs = self.running.server() == slot && !self.running.is_background();
        if self.asking & bit(slot) != 0 && !(stays && runs) {
            self.place(slot, now);
        }
    }

    /// The time since the last report was work for this server and not for who was chosen then: an interrupt's top half, or loading its
    /// successor. It is charged there, as a debt if nothing is left (QV-35). Time of a server that does not exist is charged to who
    /// runs. The deadline of who continues is later by as much: the core is to be asked again.
    pub fn charge_for(&mut self, until: u64, slot: u8) {
        let runs = self.running.server() == slot && !self.running.is_background();
        if runs || !self.is_live(slot) {
            return self.advance(until);
        }
        let from = self.now_ticks;
        let used_ticks = until.saturating_sub(from);
        if used_ticks == 0 {
            return;
        }
        (self.now_ticks, self.deadline_ticks) = (until, 0);
        // What was worked off now is dated now, as if the server had been chosen.
        let sleeps = self.asking & bit(slot) == 0;
        if let Some(entry) = self.entry_mut(slot) {
            if sleeps {
                entry.budget.wake(from);
            }
            entry.budget.dispatch(from);
        }
        self.charge(slot, until, used_ticks);
        if let Some(entry) = self.entry_mut(slot).filter(|_| sleeps) {
            entry.budget.block(until);
        }
        // Who was interrupted, or was loaded meanwhile, continues from now: what it has is dated by when it is really used, or it were back too early.
        let running = self.running;
        if !running.is_background()
            && let Some(entry) = self.entry_mut(running.server())
        {
            entry.budget.dispatch(until);
        }
    }

    /// The server that runs was loaded at `at`: the time since it was chosen is charged to `leaver`, which gave the core away. One
    /// that ran in the background pays nothing.
    pub fn loaded(&mut self, at: u64, leaver: Stint) {
        let slot = leaver.server();
        if leaver == Stint::IDLE || slot == self.running.server() || !self.is_live(slot) {
            return;
        }
        if !leaver.is_background() {
            return self.charge_for(at, slot);
        }
        let used_ticks = at.saturating_sub(self.now_ticks);
        (self.now_ticks, self.deadline_ticks) = (self.now_ticks.max(at), 0);
        if let Some(Entry { usage, .. }) = self.entry_mut(slot) {
            usage.background_ticks = usage.background_ticks.wrapping_add(used_ticks);
        }
    }

    /// The server has somebody to run.
    pub fn wake(&mut self, now: u64, slot: u8) {
        self.advance(now);
        if self.asking & bit(slot) != 0 || !self.is_live(slot) {
            return;
        }
        self.asking |= bit(slot);
        if let Some(entry) = self.entry_mut(slot) {
            entry.budget.wake(now);
        }
        self.place(slot, now);
    }

    /// The server has nobody to run.
    pub fn block(&mut self, now: u64, slot: u8) {
        self.advance(now);
        if self.asking & bit(slot) == 0 || !self.is_live(slot) {
            return;
        }
        self.asking &= !bit(slot);
        self.vetoed &= !bit(slot);
        self.ready.remove(slot);
        self.spare.remove(slot);
        self.dates.set(slot, NEVER);
        self.quiet_until_ticks = self.dates.earliest();
        self.deadline_ticks = 0;
        if let Some(entry) = self.entry_mut(slot) {
            entry.budget.block(now);
        }
    }

    /// A request of a client reached a server that works for others (QV-32): its level, grant and date may change. It does not wake
    /// anybody. Returns false when there is no such client.
    pub fn request(&mut self, now: u64, slot: u8, client: usize) -> bool {
        self.tell_of_client(now, slot, client, true)
    }

    /// A request of a client is done. Returns false when none waited.
    pub fn complete(&mut self, now: u64, slot: u8, client: usize) -> bool {
        self.tell_of_client(now, slot, client, false)
    }

    fn tell_of_client(&mut self, now: u64, slot: u8, client: usize, begins: bool) -> bool {
        self.advance(now);
        if !self.is_live(slot) {
            return false;
        }
        let Some(entry) = self.entry_mut(slot) else { return false };
        let Some(rule) = entry.budget.of_clients() else { return false };
        let known = if begins { rule.request(now, client) } else { rule.complete(client) };
        entry.level = rule.priority();
        if known && self.asking & bit(slot) != 0 {
            self.place(slot, now);
        }
        known
    }

    /// Passes a server over from now on. It continues to ask, so no date of its budget moves (CH-23).
    pub fn veto(&mut self, slot: u8) {
        if self.asking & bit(slot) != 0 {
            self.vetoed |= bit(slot);
            self.ready.remove(slot);
            self.deadline_ticks = 0;
        }
    }

    /// Passes nobody over any more.
    pub fn lift(&mut self, now: u64) {
        self.lift_others(now, |_, _| false);
    }

    /// A server runs on another claim from `now` on, if it is chosen: if it is passed over, that was the word of a scheduler against the one before.
    #[inline]
    pub fn runs_on_another(&mut self, now: u64, slot: u8) {
        if self.vetoed & bit(slot) != 0 {
            self.lift_others(now, |other, _| other != slot);
        }
    }

    /// Passes nobody over any more but who has budget and stays so: `stays` is asked with slot and level.
    pub(super) fn lift_others(&mut self, now: u64, stays: impl Fn(u8, u8) -> bool) {
        self.deadline_ticks = 0;
        for slot in Members(self.vetoed) {
            let Some(entry) = self.entry_mut(slot) else { continue };
            let (level, has_budget) = (entry.level, entry.budget.capacity_ticks(now) > 0);
            if has_budget && stays(slot, level) {
                continue;
            }
            self.vetoed &= !bit(slot);
            // The usual case: it has no date and does not wait in the background.
            if has_budget && !self.dates.has(slot) && self.spare.level(slot).is_none() {
                self.ready.push(slot, level);
            } else {
                self.place(slot, now);
            }
        }
    }

    /// A server with budget asks at `now`, the instant of entry, and the core chooses: what [`Self::wake`] and [`Self::next`] do. The
    /// usual case is short: nothing falls due, the budget of the victim lasts, and the server is more important than it.
    ///
    /// The server that is chosen is charged from `now` on. So an interrupt's top half is paid by the right one if its server takes the
    /// core; otherwise the kernel tells [`Self::charge_for`] when it is through and asks again.
    #[inline(never)]
    pub fn signal(&mut self, now: u64, slot: u8) -> Next {
        if self.advance_within_budget(now)
            && self.plain & !self.asking & bit(slot) != 0
            && let Some(entry) = self.entries.get_mut(crate::within::<SERVERS>(usize::from(slot)))
        {
            let level = entry.level;
            let due_ticks = entry.budget.wake_plain_with(now);
            if due_ticks != 0 {
                self.asking |= bit(slot);
                self.ready.push(slot, level);
                if self.ready.first() == Some((level, slot)) {
                    // It has just been dated, so nothing is left to do when it is dispatched.
                    let stint = Stint::new(slot, slot, level, false);
                    self.running = stint;
                    let mut deadline_ticks = now.saturating_add(due_ticks);
                    if self.quiet_until_ticks < deadline_ticks {
                        deadline_ticks = deadline_ticks.min(self.rival_date_ticks(level));
                    }
                    self.deadline_ticks = deadline_ticks;
                    return Next { stint, deadline_ticks };
                }
                if self.deadline_ticks != 0 {
                    // Who runs was the best before, and still is.
                    return Next { stint: self.running, deadline_ticks: self.deadline_ticks };
                }
            }
        }
        self.signal_in_full(now, slot)
    }

    /// A server with budget, which is not more important than who runs, asks from `now` on. So nothing else changes, and who runs is charged for
    /// this time with the next report. Returns false, with nothing changed, in any other case.
    #[inline]
    pub fn wake_behind(&mut self, now: u64, slot: u8) -> bool {
        let running = self.running;
        let is_usual = self.plain & !self.asking & bit(slot) != 0 && now < self.quiet_until_ticks;
        if !is_usual || running == Stint::IDLE || running.is_background() {
            return false;
        }
        let Some(entry) = self.entries.get_mut(crate::within::<SERVERS>(usize::from(slot))) else { return false };
        let level = entry.level;
        // A budget that is not there yet keeps its date.
        if level < running.level() || entry.budget.wake_plain_with(now) == 0 {
            return false;
        }
        self.asking |= bit(slot);
        self.ready.push(slot, level);
        true
    }

    #[inline(never)]
    fn signal_in_full(&mut self, now: u64, slot: u8) -> Next {
        self.wake(now, slot);
        self.next(now)
    }

    /// The servers that ask and wait for their budgets (in the background or not), as a bit set. Linear; for simulators.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        Members(self.asking).those(|slot| self.dates.has(slot))
    }
}
