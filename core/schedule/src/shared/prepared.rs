//! Waking a more important vCPU without asking the policy first.
//!
//! What a sleeping vCPU will run with when an interrupt wakes it is known when it falls asleep ([`Core::prospect`]): nothing that
//! happens later makes it less, once the loading of its successor has been taken from it. So the path from another vCPU's
//! interrupt to its handler only compares two priorities and looks up a date; the policy is told of the wake-up at the next
//! occasion ([`Scheduler::catch_up`]), with the instant at which it happened, and comes to the same choice. When that occasion is
//! its next sleep, it is told of both at once ([`Core::visit`]). Whatever is less simple takes the general way: gates, rates,
//! equals, an interrupt that waits already.
//!
//! Rejected: a shorter general way. Charging the one that ran and choosing again is most of it, and no answer of it is needed to know
//! that the more important one runs.
//!
//! [`Core::prospect`]: bulkhead_sched::dispatch::Core::prospect
//! [`Core::visit`]: bulkhead_sched::dispatch::Core::visit

use super::{Held, NEVER, Policy, Scheduler};
use bulkhead_abi::schedule::RouteRule;
use bulkhead_sched::dispatch::{Prospect, Stint};

impl<Registers> Scheduler<Registers> {
    /// Notes with what a slot will run that falls asleep and is not loaded any longer.
    pub fn prepare(&mut self, slot: u8) {
        let Policy::Servers(servers) = &mut self.policy else { return };
        if let Some(state) = self.slots.get_mut(usize::from(slot)) {
            state.prospect = if state.only_sleeps() { servers.prospect(slot) } else { Prospect::UNKNOWN };
        }
    }

    /// An interrupt became pending at `now`: the slot that it wakes and that runs from now on, if that is certain. The caller
    /// loads it; the policy is told later.
    #[inline(always)]
    pub fn wake_prepared(&mut self, intid: u32, now: u64) -> Option<u8> {
        let slot = self.owner(intid)?;
        let route = u32::from(self.routes.get(intid as usize).copied()?);
        if !wakes(route) {
            return None;
        }
        let prospect = self.claim(slot)?;
        self.owe(slot, prospect, now);
        self.slots.get_mut(usize::from(slot))?.held = Held::One(intid);
        Some(slot)
    }

    /// As [`Self::wake_prepared`], for the date that the timer was armed for: one sleeper's own timer, and nothing else.
    #[inline(never)]
    pub fn wake_prepared_by_date(&mut self, now: u64) -> Option<u8> {
        if now < self.next_date_ticks || now >= self.deadline_ticks {
            return None;
        }
        let (mut next, mut due) = (NEVER, None);
        for (number, slot) in self.slots.iter().enumerate().take(self.plan.slot_count as usize) {
            if slot.timer_ticks > now {
                next = next.min(slot.timer_ticks).min(slot.monitor_ticks);
            } else if due.is_none() && wakes(slot.timer_route) {
                due = Some(number as u8);
                next = next.min(slot.monitor_ticks);
            } else {
                return None;
            }
        }
        let slot = due.filter(|_| next > now)?;
        let prospect = self.claim(slot)?;
        self.next_date_ticks = next;
        self.date_is_stale = false;
        // The date itself goes away when the slot is loaded, which is next.
        self.owe(slot, prospect, now);
        Some(slot)
    }

    /// The prospect of a slot that would run at once.
    #[inline(always)]
    fn claim(&mut self, slot: u8) -> Option<Prospect> {
        let prospect = self.slots.get(usize::from(slot))?.prospect;
        // Who gives the core away with an interrupt in its list registers may have a gate to open for it first.
        if prospect == Prospect::UNKNOWN || self.own().is_none_or(|own| own.is_watched()) {
            return None;
        }
        // Who runs may itself have been woken so; then the policy has to know it first.
        if self.owed_ticks != 0 {
            self.catch_up();
        }
        let Policy::Servers(servers) = &self.policy else { return None };
        (!self.decide && servers.is_outranked_by(prospect)).then_some(prospect)
    }

    #[inline(always)]
    fn owe(&mut self, slot: u8, prospect: Prospect, now: u64) {
        let Some(state) = self.slots.get_mut(usize::from(slot)) else { return };
        state.prospect = Prospect::UNKNOWN;
        state.rouse();
        self.owed_ticks = now;
        if let Policy::Servers(servers) = &self.policy {
            self.deadline_ticks = servers.deadline_of(prospect, now);
        }
    }

    /// The guest of the loaded slot, which was chosen by the policy, continues now. Who gave the core away pays until now, and has so
    /// much less when it wakes.
    pub fn loaded(&mut self, now: u64) {
        let Policy::Servers(servers) = &self.policy else { return };
        if self.leaver == Stint::IDLE {
            return;
        }
        self.loaded_ticks = now;
        self.deadline_ticks = servers.deadline_after_loading(self.deadline_ticks, self.leaver, now);
        let vcpu = self.leaver.vcpu();
        if let Some(left) = self.slots.get_mut(usize::from(vcpu)) {
            left.prospect = servers.prospect_after(left.prospect, vcpu, now);
        }
    }

    /// Tells the policy what it does not know of yet: a loading, and then a wake-up. Everything that reports to the policy does
    /// this first.
    #[inline(always)]
    pub fn catch_up(&mut self) {
        if self.loaded_ticks | self.owed_ticks != 0 {
            self.report();
        }
    }

    #[inline(never)]
    fn report(&mut self) {
        self.report_loaded();
        if self.owed_ticks != 0 {
            self.report_owed();
        }
    }

    #[inline(never)]
    fn report_loaded(&mut self) {
        let at = core::mem::take(&mut self.loaded_ticks);
        let leaver = core::mem::replace(&mut self.leaver, Stint::IDLE);
        if let Policy::Servers(servers) = &mut self.policy
            && at != 0
        {
            servers.loaded(at, leaver);
            self.charged_from = (at, leaver);
        }
    }

    /// The loaded slot sleeps again. When the policy does not know that it woke and nothing else has happened, it is told of both
    /// at once; returns whether it was.
    #[inline(always)]
    pub(super) fn end_visit(&mut self, now: u64) -> bool {
        if self.owed_ticks == 0 || self.decide {
            return false;
        }
        self.report_loaded();
        let at = self.owed_ticks;
        let Policy::Servers(servers) = &mut self.policy else { return false };
        let Some(stint) = servers.visit(self.loaded, at, now) else { return false };
        self.owed_ticks = 0;
        self.note_owed(stint, at);
        true
    }

    #[inline(never)]
    fn note_owed(&mut self, stint: Stint, at: u64) {
        if let Some(slot) = self.slots.get_mut(usize::from(self.loaded)) {
            slot.usage.wakes = slot.usage.wakes.wrapping_add(1);
        }
        // It has not waited.
        self.account(stint, at, |_, _| ());
        self.switches = self.switches.wrapping_add(1);
    }

    /// What [`Self::wake`] and [`Self::pick`] do, for a slot that has not waited.
    #[inline(always)]
    fn report_owed(&mut self) {
        let at = core::mem::take(&mut self.owed_ticks);
        let own = self.loaded;
        let (Policy::Servers(servers), Some(slot)) = (&mut self.policy, self.slots.get_mut(usize::from(own))) else {
            return;
        };
        servers.wake(at, own);
        let next = servers.next(at);
        let exhausted = servers.take_exhausted();
        slot.book_wake();
        self.note_owed(next.stint, at);
        // It was certain, so this only guards against a mistake: the policy would be asked again at once.
        if next.stint.vcpu() != own || next.deadline_ticks < self.deadline_ticks {
            self.decide = true;
        }
        if exhausted != 0 {
            self.note_exhausted(exhausted);
        }
    }
}

/// An interrupt of this route wakes its owner, however often it comes.
#[inline(always)]
const fn wakes(route: u32) -> bool {
    matches!(RouteRule::from_number(route), Some(RouteRule::Priority | RouteRule::Preempt))
}
