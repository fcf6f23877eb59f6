//! What happens on a shared core and is told to its policy: interrupts arrive, vCPUs wake and sleep, dates pass.

use super::{CLIENT_SHIFT, Held, LIMITED, NEVER, Policy, RULES, Scheduler};
use bulkhead_abi::schedule::{Gate, MAX_SERVER_CLIENTS, PUBLICATION_TICKS, RouteRule};
use bulkhead_sched::dispatch::{Next, Prospect, Stint};
use bulkhead_sched::limiter::{self, Verdict};

/// Routes are kept as numbers, beside a flag ([`super::Scheduler::routes`]).
const DEFER: u32 = RouteRule::Defer.number();
const PREEMPT: u32 = RouteRule::Preempt.number();
/// A publication that is due is put off for so many times [`PUBLICATION_TICKS`] at most.
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
            state.asked |= 1u8.wrapping_shl(client) & !1;
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
            state.deferred |= state.asleep;
            return;
        }
        let watches_pending = state.watches_pending;
        if state.asleep {
            state.asleep = false;
            self.instant = now;
            self.wake(slot, now);
        }
        if watches_pending {
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
        if let Some(state) = self.slot_mut(slot) {
            state.request = true;
            self.wake(slot, now);
        }
    }

    /// Takes what the loaded slot has to do at EL2, if anything. It is to pay for that: neither somebody who was woken before it is done,
    /// nor who gave the core away for it.
    pub fn take_request(&mut self) -> bool {
        let requested = self.own().is_some_and(|slot| core::mem::take(&mut slot.request));
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
        let Some(state) = self.slots.get_mut(usize::from(slot)).filter(|state| !state.ready) else { return };
        state.ready = true;
        // Woken for the monitor's work alone its guest sleeps on, and what was deferred still waits for an idle moment.
        state.deferred &= state.asleep;
        state.prospect = Prospect::UNKNOWN;
        self.woken |= 1 << (slot & 31);
        state.woken = true;
        state.idle_since = now;
        state.usage.wakes = state.usage.wakes.wrapping_add(1);
        self.policy.set_ready(slot, true, now);
    }

    /// The guest of the loaded slot sleeps.
    pub fn sleep(&mut self, slot: u8, now: u64) {
        if let Some(state) = self.slot_mut(slot) {
            state.asleep = true;
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
        let Some(state) = self.slots.get_mut(usize::from(slot)).filter(|state| state.ready) else { return };
        state.ready = false;
        state.idle_since = NEVER;
        self.policy.set_ready(slot, false, now);
    }

    /// Opens and closes what depends on pending interrupts of a slot: interrupt gates and PIBS requests.
    pub fn note_pending(&mut self, slot: u8, pending: bool, now: u64) {
        self.catch_up();
        let Some(state) = self.slots.get_mut(usize::from(slot)) else { return };
        let another = pending && state.asked & !state.served != 0;
        if (state.pending == pending && !another) || !state.watches_pending {
            return;
        }
        // Without voluntary return an opening lasts until its budget is used up or the guest sleeps (SG-45).
        if !pending && state.gated && !state.voluntary && !state.spent && state.ready {
            return;
        }
        // A request to a PIBS server is done when its guest sleeps, which may be long after it ended the interrupt.
        if !pending && state.pibs.is_some() && state.ready {
            return;
        }
        // Nor does one begin while its guest may not run: it wakes the server, which would be chosen and have nobody to run.
        if pending && state.pibs.is_some() && !state.ready {
            return;
        }
        state.spent &= state.pending == pending;
        state.pending = pending;
        self.decide = true;
        let Policy::Servers(servers) = &mut self.policy else { return };
        if state.gated {
            servers.set_pending(now, slot, u64::from(pending));
        }
        if let Some(server) = state.pibs {
            // What no client's doorbell says is the default client's, who has the longest period.
            let asked = core::mem::take(&mut state.asked);
            let asked = if asked | state.served == 0 { state.default_client } else { asked };
            let changed = if pending { asked & !state.served } else { state.served };
            state.served ^= changed;
            for client in (0..MAX_SERVER_CLIENTS).filter(|client| changed.wrapping_shr(*client as u32) & 2 != 0) {
                if pending {
                    servers.request(now, server, client);
                } else {
                    servers.complete(now, server, client);
                }
            }
        }
    }

    /// Lets those wake whose interrupts were deferred; the core has nothing else to do. Returns whether there were any.
    pub fn release_deferred(&mut self, now: u64) -> bool {
        let mut any = false;
        for slot in 0..self.plan.slot_count as u8 {
            let Some(state) = self.slot_mut(slot).filter(|state| state.deferred) else { continue };
            // Now, because one that waits for its budget is ready already: asked for again and again, it would keep the core
            // from every other interrupt until then.
            state.deferred = false;
            state.asleep = false;
            any = true;
            self.wake(slot, now);
        }
        any
    }

    /// Keeps an interrupt for a slot that is not loaded.
    #[inline(always)]
    pub fn hold(&mut self, slot: u8, intid: u32) {
        let Some(state) = self.slot_mut(slot) else { return };
        state.prospect = Prospect::UNKNOWN;
        state.usage.interrupts_held = state.usage.interrupts_held.wrapping_add(1);
        state.held = match state.held {
            Held::Nothing => return state.held = Held::One(intid),
            Held::One(first) => {
                state.note_waiting(first);
                Held::Several
            }
            Held::Several => Held::Several,
        };
        state.note_waiting(intid);
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
        let loaded = usize::from(self.loaded);
        let mut next = NEVER;
        for (number, slot) in self.slots.iter().enumerate().take(self.plan.slot_count as usize) {
            next = next.min(slot.monitor_ticks);
            if number != loaded && slot.watches_timer {
                next = next.min(slot.timer_ticks);
            }
        }
        self.next_date_ticks = next;
        self.date_is_stale = false;
    }

    /// Acts on dates that have passed. Returns whether one of them was the loaded slot's.
    #[inline(never)]
    pub fn expire(&mut self, now: u64) -> bool {
        let mut own = false;
        for number in 0..self.plan.slot_count as u8 {
            let loaded = number == self.loaded;
            let Some(slot) = self.slots.get_mut(usize::from(number)) else { continue };
            if slot.monitor_ticks <= now {
                slot.monitor_ticks = NEVER;
                own |= loaded;
                self.ask(number, now);
            } else if slot.timer_ticks <= now && !loaded {
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

    /// Closes the account of who ran and opens that of who starts; returns whether the latter was woken for it.
    #[inline(always)]
    pub fn account(&mut self, stint: Stint, now: u64) -> bool {
        let before = core::mem::replace(&mut self.stint, stint);
        if before != Stint::IDLE
            && let Some(slot) = self.slots.get_mut(usize::from(before.vcpu()))
            && slot.ready
        {
            slot.idle_since = now;
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
        let Some(slot) = self.slots.get_mut(usize::from(stint.vcpu())) else { return false };
        let waited = now.saturating_sub(slot.idle_since);
        slot.idle_since = NEVER;
        let usage = &mut slot.usage;
        usage.longest_blackout_ticks = usage.longest_blackout_ticks.max(waited);
        let woken = core::mem::take(&mut slot.woken);
        if woken {
            usage.longest_wait_ticks = usage.longest_wait_ticks.max(waited);
        }
        woken
    }

    #[cold]
    pub(super) fn note_exhausted(&mut self, servers: u64) {
        self.exhausted |= servers;
        let mut left = servers;
        for (counts, planned) in self.counts.iter_mut().zip(&self.plan.servers) {
            let is_exhausted = left & 1 != 0;
            left >>= 1;
            if !is_exhausted {
                continue;
            }
            counts.exhaustions = counts.exhaustions.wrapping_add(1);
            if planned.gate() == Some(Gate::Interrupt)
                && let Some(slot) = self.slots.get_mut(planned.slot as usize)
            {
                slot.spent = true;
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
            Policy::Ring(ring) => ring.pick(now).into(),
        }
    }
}
