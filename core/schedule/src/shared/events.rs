//! What happens on a shared core and is told to its policy: interrupts arrive, vCPUs wake and sleep, dates pass.

use super::{CLIENT_SHIFT, LIMITED, NEVER, Policy, RULES, Scheduler, Slot};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::schedule::{Gate, PUBLICATION_TICKS, RouteRule};
use bulkhead_sched::Members;
use bulkhead_sched::dispatch::{Next, Stint};
use bulkhead_sched::limiter::{self, Verdict};

/// Routes are kept as numbers, beside a flag ([`super::Scheduler::routes`]).
const DEFER: u32 = RouteRule::Defer.number();
const PREEMPT: u32 = RouteRule::Preempt.number();
/// A publication that is due is put off for this many times [`PUBLICATION_TICKS`] at most.
const PUBLICATION_PATIENCE: u64 = 16;

impl<Registers> Scheduler<Registers> {
    /// The route of an interrupt that happens now: its rule, or to wait when it is beyond its limit (MZ-26). The doorbell of a client of
    /// the slot's PIBS server is noted as that client's request (QV-34).
    #[inline(always)]
    pub fn route_now(&mut self, intid: u32, slot: u8, now: u64) -> u32 {
        let route = self.routes.get(intid as usize).copied().map_or(DEFER, u32::from);
        if route & !RULES == 0 { route } else { self.special_route(route, intid, slot, now) }
    }

    #[cold]
    fn special_route(&mut self, route: u32, intid: u32, slot: u8, now: u64) -> u32 {
        let client = (route & !LIMITED) >> CLIENT_SHIFT;
        if let Some(state) = self.slot_mut(slot) {
            // Client 0 is place 1: bit 0 is nobody's.
            state.ask_for(1u8.wrapping_shl(client) & !1);
        }
        let rule = route & RULES;
        if route & LIMITED == 0 { rule } else { self.limited_route(rule, intid, slot, now) }
    }

    fn limited_route(&mut self, route: u32, intid: u32, slot: u8, now: u64) -> u32 {
        let Some(limit) = self.limits.iter_mut().find(|limit| limit.intid == intid) else {
            return DEFER;
        };
        if limiter::try_pass(&limit.word, now, limit.period_ticks, limit.events) == Verdict::Send {
            return route;
        }
        if let Some(state) = self.slot_mut(slot) {
            state.usage.interrupts_limited = state.usage.interrupts_limited.wrapping_add(1);
        }
        DEFER
    }

    /// An interrupt (or a timer) of a slot that is not loaded, or that sleeps, has become pending.
    #[inline(always)]
    pub fn arrived(&mut self, slot: u8, route: u32, now: u64) {
        let Some(state) = self.slots.get_mut(usize::from(slot)) else { return };
        if route == DEFER {
            return state.defer();
        }
        let is_watched = state.is_watched();
        if state.rouse() {
            self.instant = now;
            self.wake(slot, now);
        }
        if is_watched {
            self.note_pending(slot, true, now);
        }
        if let Policy::Ring(ring) = &mut self.policy
            && route == PREEMPT
        {
            ring.advance(now);
            ring.interrupt(slot);
            self.decide = true;
        }
    }

    /// Gives a slot something to do at EL2.
    pub fn ask(&mut self, slot: u8, now: u64) {
        self.wake(slot, now);
        if let Some(state) = self.slot_mut(slot) {
            state.give_work();
        }
    }

    /// Lets the guest of a slot stand without a turn of it: it has nothing to do until [`Self::let_go`], whatever arrives for it. One
    /// that is loaded says itself that it has nothing to do.
    pub fn park(&mut self, number: u8, now: u64) {
        self.catch_up();
        let is_loaded = number == self.loaded;
        let Some(slot) = self.slot_mut(number) else { return };
        slot.stand();
        if !is_loaded && slot.give_up() {
            self.policy.set_ready(number, false, now);
        }
        self.decide = true;
    }

    /// Lets the guest of a slot go on that stood. It looks at EL2 first at what it was told meanwhile.
    pub fn let_go(&mut self, number: u8, now: u64) {
        let is_loaded = number == self.loaded;
        let Some(slot) = self.slot_mut(number) else { return };
        slot.go_on();
        if !is_loaded {
            slot.hold_posts();
        }
        self.ask(number, now);
    }

    /// Something is posted for a slot that is not loaded ([`crate::posts`]): it wakes as for a private interrupt.
    pub fn posted(&mut self, number: u8, now: u64) {
        let Some(slot) = self.slot_mut(number) else { return };
        slot.hold_posts();
        let route = slot.timer_route;
        self.arrived(number, route, now);
    }

    /// Takes what the loaded slot has to do at EL2, if anything. It is to pay for that: neither somebody who was woken before it is done,
    /// nor who gave the core away for it.
    pub fn take_request(&mut self) -> bool {
        let requested = self.own().is_some_and(Slot::take_work);
        if requested {
            self.instant = 0;
            self.pay_oneself();
        }
        requested
    }

    /// Lets the loaded slot pay from now on, if its guest does not go on yet.
    pub fn pay_oneself(&mut self) {
        self.catch_up();
        self.leaver = Stint::IDLE;
    }

    /// Tells the policy that a slot has something to do.
    pub fn wake(&mut self, slot: u8, now: u64) {
        self.catch_up();
        self.decide = true;
        if self.slot_mut(slot).is_some_and(|slot| slot.set_ready(now)) {
            self.woken |= 1 << (slot & 31);
            self.policy.set_ready(slot, true, now);
        }
    }

    /// The guest of the loaded slot sleeps.
    pub fn sleep(&mut self, slot: u8, now: u64) {
        if let Some(state) = self.slot_mut(slot) {
            state.fall_asleep();
        }
        if !self.end_visit(now) {
            self.block(slot, now);
        }
        self.instant = now;
        self.decide = true;
    }

    /// Tells the policy that a slot has nothing to do.
    pub fn block(&mut self, slot: u8, now: u64) {
        self.catch_up();
        if self.slot_mut(slot).is_some_and(Slot::set_idle) {
            self.policy.set_ready(slot, false, now);
        }
    }

    /// Opens and closes what depends on pending interrupts of a slot: interrupt gates and PIBS requests.
    pub fn note_pending(&mut self, slot: u8, pending: bool, now: u64) {
        self.catch_up();
        let Some(state) = self.slot_mut(slot) else { return };
        let (gate, server, clients) = state.note_pending(pending);
        self.decide |= gate || clients != 0;
        let Policy::Servers(servers) = &mut self.policy else { return };
        if gate {
            servers.set_pending(now, slot, u64::from(pending));
        }
        if clients == 0 {
            return;
        }
        // Client 0 is bit 1.
        for client in Members(u64::from(clients >> 1)).map(usize::from) {
            if pending {
                servers.request(now, server, client);
            } else {
                servers.complete(now, server, client);
            }
        }
    }

    /// Lets those wake whose interrupts were deferred; the core has nothing else to do. Returns whether there were any.
    pub fn release_deferred(&mut self, now: u64) -> bool {
        let mut any = false;
        for slot in 0..self.plan.slot_count as u8 {
            if self.slot_mut(slot).is_some_and(Slot::release) {
                any = true;
                self.wake(slot, now);
            }
        }
        any
    }

    /// Sets the date at which the monitor has something to do for the loaded slot.
    pub fn set_own_date(&mut self, ticks: u64) {
        if let Some(slot) = self.own() {
            slot.monitor_ticks = ticks;
        }
        self.find_next_date();
    }

    /// Finds the earliest date again, after one of them went away.
    #[inline(never)]
    pub fn find_next_date(&mut self) {
        let slots = self.slots.iter().take(self.plan.slot_count as usize);
        self.next_date_ticks = slots.fold(NEVER, |next, slot| next.min(slot.monitor_ticks).min(slot.timer_ticks));
        self.date_is_stale = false;
    }

    /// Acts on dates that have passed. Returns whether one of them was the loaded slot's.
    #[inline(never)]
    pub fn expire(&mut self, now: u64) -> bool {
        let mut own = false;
        for number in 0..self.plan.slot_count as u8 {
            let Some(slot) = self.slots.get_mut(usize::from(number)) else { continue };
            if slot.monitor_ticks <= now {
                slot.monitor_ticks = NEVER;
                own |= number == self.loaded;
                self.ask(number, now);
            } else if slot.timer_ticks <= now {
                slot.timer_ticks = NEVER;
                let route = slot.timer_route;
                self.arrived(number, route, now);
            }
        }
        self.find_next_date();
        own
    }

    /// States whether the usage page is old enough to be written again.
    pub fn is_publication_due(&self, now: u64) -> bool {
        now.wrapping_sub(self.published_ticks) > PUBLICATION_TICKS
    }

    /// States whether the usage page is so old that it is written although somebody is to run soon: else guests that sleep for short
    /// times only could keep the host from ever seeing what they use.
    pub fn is_publication_overdue(&self, now: u64) -> bool {
        now.wrapping_sub(self.published_ticks) > PUBLICATION_PATIENCE * PUBLICATION_TICKS
    }

    /// Closes the account of who ran and opens that of who starts; returns whether the latter was woken for it. `robbed` gets the place and
    /// the ticks of what was stolen from it, when that has become more.
    #[inline(always)]
    pub fn account(&mut self, stint: Stint, now: u64, robbed: impl FnOnce(PhysicalAddress, u64)) -> bool {
        let before = core::mem::replace(&mut self.stint, stint);
        // Nobody's stint has no slot.
        if let Some(slot) = self.slot_mut(before.vcpu()) {
            slot.stop(now);
        }
        if stint == Stint::IDLE {
            self.leaver = Stint::IDLE;
            return false;
        }
        // One that is more important has taken the core, and pays for that itself.
        self.leaver = if stint.level() < before.level() { Stint::IDLE } else { before };
        if let Some(counts) = self.counts.get_mut(usize::from(stint.server())) {
            counts.starts = counts.starts.wrapping_add(1);
        }
        self.slot_mut(stint.vcpu()).is_some_and(|slot| slot.start(now, robbed))
    }

    #[cold]
    pub(super) fn note_exhausted(&mut self, servers: u64) {
        self.exhausted |= servers;
        for server in Members(servers).map(usize::from) {
            if let Some(counts) = self.counts.get_mut(server) {
                counts.exhaustions = counts.exhaustions.wrapping_add(1);
            }
            if let Some(planned) = self.plan.servers.get(server)
                && planned.gate() == Some(Gate::Interrupt)
                && let Some(slot) = self.slots.get_mut(planned.slot as usize)
            {
                slot.spend();
                self.decide = true;
            }
        }
    }

    /// Chooses.
    #[inline(always)]
    pub fn pick(&mut self, now: u64) -> Next {
        self.catch_up();
        match &mut self.policy {
            Policy::Servers(servers) => {
                let next = servers.next(now);
                let exhausted = servers.take_exhausted();
                if exhausted != 0 {
                    self.note_exhausted(exhausted);
                }
                next
            }
            Policy::Ring(ring) => ring.pick(now),
        }
    }
}
