//! Shared cores: who runs next, and the exchange of vCPUs.
//!
//! Every handler ends in [`Vcpu::settle`]. On a core that one vCPU owns it waits until the guest can go on. On a shared
//! core it does nothing unless something happened that may change who runs; then it asks the policy, arms the EL2 timer
//! for the next date at which the answer may change (and not otherwise), and says which vCPU is to be loaded. The caller
//! loads it, because only the caller may reach another vCPU's data.
//!
//! A vCPU is charged from the decision that chooses it until the decision that chooses the next one: for its own loading, its
//! run, and the way in to that decision. So each pre-emption costs its victim one reloading, where `real-time.md` 1.2 lets the
//! pre-empting side pay both switches; the analysis does not subtract that yet (record 0021). What the monitor does for a partition (a restart, a manager's request, console input)
//! happens when that partition's vCPU is chosen, in slices that end when an interrupt waits, and so in its own time.
//!
//! Rejected: a run queue of threads with stacks of their own. The monitor keeps nothing across a guest run, so there is
//! nothing to keep on a stack, and one stack per core is enough.

use crate::interrupt::{HYPERVISOR_TIMER, list_value};
use crate::observe::at;
use crate::scheduler::{Held, NEVER, Policy, Scheduler, Slot, Stint};
use crate::state::{RunState, Vcpu};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::{Counter, TRACE_BLOCK, TRACE_BUDGET, TRACE_SWITCH, TRACE_WAKE};
use bulkhead_abi::plan::ROUTE_PREEMPT;
use bulkhead_abi::schedule::{FLOATING_POINT_EAGER, ServerUsage, SlotUsage, UsagePage};
use bulkhead_arch::Machine;
use bulkhead_sched::budget::BudgetRule;
use core::mem::offset_of;

/// Partition number of nobody in a trace record.
const NOBODY: u64 = 0xff;
/// Private interrupts that guests own in the redistributor of a shared core: the two timers.
pub(crate) const GUEST_TIMERS: u32 = 1 << 27 | 1 << 30;
/// Bytes that a restart scrubs or copies before it looks whether somebody else is to run.
pub const RESTART_SLICE_BYTES: u64 = 4 << 10;

impl<M: Machine> Vcpu<M> {
    /// Ends a handler: returns the slot that is to be loaded instead of this vCPU, or `None` when its guest goes on.
    #[inline(always)]
    pub fn settle(&mut self) -> Option<u8> {
        let decide = match &self.scheduler {
            None => {
                if self.run != RunState::Running {
                    self.wait_until_running();
                }
                return None;
            }
            Some(scheduler) => scheduler.decide,
        };
        if decide || self.run != RunState::Running { self.decide() } else { None }
    }

    /// Asks the policy until a guest can go on or another vCPU is to be loaded.
    ///
    /// The length of this path is asserted (`./x bench`), so what is rare is in functions of its own.
    #[inline(never)]
    pub fn decide(&mut self) -> Option<u8> {
        let mut examined = false;
        loop {
            let now = self.report_own_state();
            let scheduler = self.scheduler.as_deref_mut()?;
            if now >= scheduler.next_date_ticks && scheduler.expire(now) {
                // A date of the loaded vCPU itself: it is served before anything is chosen.
                continue;
            }
            scheduler.decide = false;
            scheduler.instant = 0;
            let next = scheduler.pick(now);
            if scheduler.decide {
                // The budget behind an interrupt gate ran out; whether the gate closes now, the guest's list registers say.
                continue;
            }
            let stint = next.stint;
            let same = stint == scheduler.stint;
            let own = scheduler.loaded;
            // Publishing never delays a handler: not when somebody starts who was just woken.
            let publish = !same && !scheduler.account(stint, now) && scheduler.is_publication_due(now);
            if publish {
                self.publish_usage(now);
            }
            if self.trace_enabled {
                self.trace_decision(same);
            }
            if stint != Stint::IDLE && stint.vcpu() != own {
                if self.leaves_with_interrupt(now) && !core::mem::replace(&mut examined, true) {
                    continue;
                }
                // Its timers stop here, so their date counts for what the EL2 timer is armed for.
                self.step_aside();
                self.arm(next.deadline_ticks);
                return Some(stint.vcpu());
            }
            self.arm(next.deadline_ticks);
            match self.run {
                _ if stint == Stint::IDLE => self.wait_idle(now),
                RunState::Running => return None,
                RunState::Restoring => self.restore_until_interrupted(),
                // Told to the policy at the next turn of the loop.
                RunState::Off | RunState::Parked | RunState::BackOff => {}
            }
        }
    }

    /// Tells the policy what has become of the loaded vCPU. In most cases nothing: its guest was interrupted. Returns the
    /// instant of the report, at which the policy is to choose: whoever was blocked must not be charged beyond it.
    #[inline(always)]
    fn report_own_state(&mut self) -> u64 {
        let running = self.run == RunState::Running;
        let quiet = |slot: &mut Slot| !(slot.request || slot.watches_pending);
        if running && self.own_slot().is_some_and(quiet) {
            // What woke somebody or put its guest to sleep a moment ago is reported and decided at one instant.
            let reported = self.scheduler.as_deref_mut().map_or(0, |scheduler| core::mem::take(&mut scheduler.instant));
            if reported != 0 { reported } else { self.machine.counter_ticks() }
        } else {
            self.report_own_change()
        }
    }

    #[inline(never)]
    fn report_own_change(&mut self) -> u64 {
        let ready = self.serve_own_work();
        // A guest that went to sleep was blocked at an instant of its own; nothing may be charged beyond it.
        let reported = self.scheduler.as_deref_mut().map_or(0, |scheduler| core::mem::take(&mut scheduler.instant));
        let now = if reported != 0 { reported } else { self.machine.counter_ticks() };
        let pending = self.has_own_interrupt();
        let Some(scheduler) = self.scheduler.as_deref_mut() else { return now };
        scheduler.instant = 0;
        let own = scheduler.loaded;
        if ready {
            scheduler.wake(own, now);
        } else {
            scheduler.block(own, now);
        }
        scheduler.note_pending(own, pending, now);
        now
    }

    #[cold]
    fn trace_decision(&mut self, same: bool) {
        let Some(scheduler) = self.scheduler.as_deref_mut() else { return };
        let (woken, plan) = (core::mem::take(&mut scheduler.woken), scheduler.plan);
        for (number, slot) in (0u64..).zip(&plan.slots).filter(|(number, _)| woken >> number & 1 != 0) {
            self.trace_for(u64::from(slot.partition), TRACE_WAKE, 0, number, 0);
        }
        if !same {
            self.trace_change();
        }
    }

    /// Does what waits at EL2 for this vCPU; returns whether it can use time.
    fn serve_own_work(&mut self) -> bool {
        let now = self.machine.counter_ticks();
        if let Some(slot) = self.own_slot()
            && slot.request
        {
            slot.request = false;
            let expired = slot.monitor_ticks <= now || slot.monitor_ticks == NEVER;
            self.serve_console();
            self.serve_requests();
            if expired {
                self.own_date_passed(now);
            }
        }
        match self.run {
            // Whatever wakes a guest that sleeps is an interrupt, and its arrival says so.
            RunState::Running => self.own_slot().is_none_or(|slot| !slot.asleep),
            RunState::Restoring => true,
            RunState::Off | RunState::Parked | RunState::BackOff => false,
        }
    }

    fn own_date_passed(&mut self, now: u64) {
        if self.run == RunState::BackOff {
            if now >= self.backoff_until {
                self.end_back_off();
            } else {
                self.set_own_date(self.backoff_until);
            }
        } else {
            self.timer_expired();
        }
    }

    /// Sets the date at which the monitor has something to do for this vCPU; on a dedicated core the EL2 timer.
    pub(crate) fn set_own_date(&mut self, ticks: u64) {
        match self.scheduler.as_deref_mut() {
            Some(scheduler) => scheduler.set_own_date(ticks),
            None => self.machine.set_timer(ticks),
        }
    }

    /// Forgets that date.
    pub(crate) fn clear_own_date(&mut self) {
        match self.scheduler.as_deref_mut() {
            Some(scheduler) => scheduler.set_own_date(NEVER),
            None => self.machine.stop_timer(),
        }
    }

    /// Round robin: an interrupt that its guest has not taken acts again when the turn of another one starts, as the policies
    /// were published (`real-time.md` 3.1). Returns whether one does.
    #[inline(always)]
    fn leaves_with_interrupt(&mut self, now: u64) -> bool {
        self.own_slot().is_some_and(|slot| slot.preempts) && self.examine_again(now)
    }

    #[inline(never)]
    fn examine_again(&mut self, now: u64) -> bool {
        let free = self.machine.free_list_registers();
        let pending = |index| self.machine.list_register(index) >> 62 & 1 != 0;
        let acts = (0..4).any(|index| free & (1 << index) == 0 && pending(index));
        if let Some(scheduler) = self.scheduler.as_deref_mut().filter(|_| acts) {
            let own = scheduler.loaded;
            scheduler.arrived(own, ROUTE_PREEMPT, now);
        }
        acts
    }

    fn own_slot(&mut self) -> Option<&mut Slot> {
        self.scheduler.as_deref_mut().and_then(Scheduler::own)
    }

    /// States whether a virtual interrupt waits for this guest or is being handled by it.
    fn has_own_interrupt(&self) -> bool {
        self.machine.free_list_registers() != 0xf || self.waits_for_list_register()
    }

    /// The guest executed WFI: it sleeps unless an interrupt waits for it (SP-16).
    pub(crate) fn wait_for_interrupt(&mut self) {
        let waits = self.has_own_interrupt() || self.machine.guest_timer_asserted();
        let now = self.machine.counter_ticks();
        let Some(scheduler) = self.scheduler.as_deref_mut().filter(|_| !waits) else { return };
        let own = scheduler.loaded;
        scheduler.sleep(own, now);
        self.trace(TRACE_BLOCK, u32::from(own), 0, 0);
    }

    /// Nobody can run. Deferred interrupts get their turn; else waits for a physical interrupt and handles it. The loaded
    /// vCPU stays loaded, its timers live.
    #[inline(never)]
    fn wait_idle(&mut self, now: u64) {
        if self.scheduler.as_deref_mut().is_some_and(|scheduler| scheduler.release_deferred(now)) {
            return;
        }
        self.publish_usage(now);
        self.machine.enable_virtual_interface(false);
        self.machine.wait_for_interrupt();
        let intid = self.machine.acknowledge();
        if intid < 1020 {
            self.interrupt(intid);
        }
        self.machine.enable_virtual_interface(true);
        if self.waits_for_list_register() {
            self.machine.set_underflow_interrupt(true);
        }
    }

    /// Arms the EL2 timer for the policy's deadline or the earliest date that the policy does not know of.
    #[inline(always)]
    fn arm(&mut self, deadline_ticks: u64) {
        let Some(scheduler) = self.scheduler.as_deref_mut() else { return };
        scheduler.deadline_ticks = deadline_ticks;
        self.arm_earliest();
    }

    #[inline(always)]
    fn arm_earliest(&mut self) {
        let Some(scheduler) = self.scheduler.as_deref_mut() else { return };
        let date_ticks = scheduler.deadline_ticks.min(scheduler.next_date_ticks);
        if scheduler.armed_ticks == date_ticks {
            return;
        }
        scheduler.armed_ticks = date_ticks;
        if date_ticks == NEVER {
            self.machine.stop_timer();
        } else {
            self.machine.set_timer(date_ticks);
        }
    }

    /// Restarts go on in slices, until somebody else may want the core.
    fn restore_until_interrupted(&mut self) {
        while self.run == RunState::Restoring && !self.machine.interrupt_waits() {
            self.restore_step(RESTART_SLICE_BYTES);
        }
        let intid = self.machine.acknowledge();
        if intid < 1020 {
            self.interrupt(intid);
        }
    }

    fn trace_change(&mut self) {
        let now = self.machine.counter_ticks();
        let Some(scheduler) = self.scheduler.as_deref_mut() else { return };
        let slots = &scheduler.plan.slots;
        let partition = |slot: u8| slots.get(usize::from(slot)).map_or(NOBODY, |slot| u64::from(slot.partition));
        let stint = scheduler.stint;
        let runs = stint != Stint::IDLE;
        let starts = if runs { partition(stint.vcpu()) } else { NOBODY };
        let background = u32::from(stint.is_background()) << 16;
        let small = if runs { u32::from(stint.vcpu()) | u32::from(stint.server()) << 8 | background } else { 0xff };
        let armed = scheduler.armed_ticks;
        let (mut exhausted, mut budget) = (0, u64::MAX);
        if let Policy::Servers(servers) = &mut scheduler.policy {
            exhausted = core::mem::take(&mut scheduler.exhausted);
            if runs
                && !stint.is_background()
                && let Some(server) = servers.server(stint.server())
            {
                budget = server.budget.clone().capacity_ticks(now);
            }
        }
        let plan = scheduler.plan;
        for (number, server) in (0u32..).zip(&plan.servers).filter(|(number, _)| exhausted >> number & 1 != 0) {
            let owner = plan.slots.get(server.slot as usize).map_or(NOBODY, |slot| u64::from(slot.partition));
            self.trace_for(owner, TRACE_BUDGET, number, 1, 0);
        }
        self.trace_for(starts, TRACE_SWITCH, small, budget, armed);
    }

    /// Acts on an acknowledged interrupt that wakes a more important vCPU at once ([`bulkhead_sched::shared`]); returns its slot,
    /// which is to be loaded. `None`, and nothing is done, when it is another interrupt.
    ///
    /// The length of this path is asserted (`./x bench`).
    #[inline(always)]
    pub fn jump(&mut self, intid: u32) -> Option<u8> {
        let traced = self.trace_enabled;
        let scheduler = self.scheduler.as_deref_mut().filter(|_| !traced)?;
        let now = self.machine.counter_ticks();
        let slot = if intid == HYPERVISOR_TIMER {
            scheduler.wake_prepared_by_date(now)?
        } else {
            scheduler.wake_prepared(intid, now)?
        };
        self.machine.priority_drop(intid);
        if intid == HYPERVISOR_TIMER {
            scheduler.armed_ticks = NEVER;
            self.machine.stop_timer();
            self.machine.deactivate(intid);
            self.count(Counter::MonitorInterrupt);
        }
        self.count(Counter::Exits);
        self.count(Counter::Interrupt);
        // It runs, so it does not sleep.
        self.unload(false);
        self.arm_earliest();
        Some(slot)
    }

    /// [`Self::unload`], whether it sleeps or not.
    fn step_aside(&mut self) {
        let asleep = self.own_slot().is_some_and(|slot| slot.asleep);
        self.unload(asleep);
        if let Some(scheduler) = self.scheduler.as_deref_mut() {
            scheduler.switches = scheduler.switches.wrapping_add(1);
        }
    }

    /// Takes this vCPU out of the machine.
    #[inline(always)]
    fn unload(&mut self, asleep: bool) {
        let used = self.machine.free_list_registers() != 0xf;
        if used {
            self.save_list();
        }
        let Some(scheduler) = self.scheduler.as_deref_mut() else { return };
        scheduler.list_used = used;
        if scheduler.date_is_stale {
            scheduler.find_next_date();
        }
        let own = scheduler.loaded;
        let Some(slot) = scheduler.slots.get_mut(usize::from(own)) else { return };
        slot.registers.context.list_used = used;
        self.machine.save_guest(&mut slot.registers.context);
        slot.watches_timer = slot.gated || slot.preempts || asleep;
        if slot.watches_timer {
            slot.timer_ticks = slot.registers.context.timer_ticks();
            scheduler.next_date_ticks = scheduler.next_date_ticks.min(slot.timer_ticks);
        }
        if scheduler.plan.floating_point == FLOATING_POINT_EAGER {
            self.machine.save_floating_point(&mut slot.registers.floating_point);
        }
        if asleep && !self.trace_enabled {
            scheduler.prepare(own);
        }
    }

    #[inline(never)]
    fn save_list(&mut self) {
        let Some(slot) = self.scheduler.as_deref_mut().and_then(Scheduler::own) else { return };
        for (index, place) in (0u32..).zip(&mut slot.registers.context.list) {
            *place = self.machine.list_register(index);
            let intid = *place as u32;
            // A private interrupt is the timer of whoever is loaded: its active state leaves with this vCPU.
            if *place >> 62 != 0 && (16..32).contains(&intid) {
                self.machine.deactivate(intid);
            }
        }
    }

    /// Puts this vCPU, of slot `own`, into the machine. The scheduler has just been handed to it.
    #[inline(always)]
    pub fn load(&mut self, own: u8) {
        let plan = self.plan;
        let enabled = self.private_enabled.get() & GUEST_TIMERS;
        let Some(scheduler) = self.scheduler.as_deref_mut() else { return };
        scheduler.loaded = own;
        let Some(slot) = scheduler.slots.get_mut(usize::from(own)) else { return };
        self.machine.load_guest(&slot.registers.context, plan);
        let date = core::mem::replace(&mut slot.timer_ticks, NEVER);
        let held = core::mem::take(&mut slot.held);
        scheduler.decide |= slot.request;
        if date != NEVER && date == scheduler.next_date_ticks {
            scheduler.date_is_stale = true;
        }
        if scheduler.plan.floating_point == FLOATING_POINT_EAGER {
            self.machine.load_floating_point(&slot.registers.floating_point);
            scheduler.floating_point_owner = own;
        } else {
            self.machine.trap_floating_point(scheduler.floating_point_owner != own);
        }
        let listed = slot.registers.context.list_used;
        if scheduler.list_used || listed || scheduler.private_enabled != enabled {
            return self.load_private(listed, enabled, held);
        }
        match held {
            Held::Nothing => {}
            Held::One(intid) => match self.plain_priority(intid) {
                Some(priority) => self.machine.set_list_register(0, list_value(intid, priority)),
                None => self.deliver(intid),
            },
            Held::Several => self.deliver_held(),
        }
    }

    /// The rest of [`Self::load`] when list registers or private interrupts differ between the two vCPUs.
    #[inline(never)]
    fn load_private(&mut self, listed: bool, enabled: u32, held: Held) {
        let Some(scheduler) = self.scheduler.as_deref_mut() else { return };
        let stale = scheduler.list_used;
        if core::mem::replace(&mut scheduler.private_enabled, enabled) != enabled {
            self.enable_private(enabled);
        }
        if stale || listed {
            self.load_list(listed);
        }
        match held {
            Held::Nothing => {}
            Held::One(intid) => self.deliver(intid),
            Held::Several => self.deliver_held(),
        }
    }

    #[cold]
    fn deliver_held(&mut self) {
        let own = self.scheduler.as_deref_mut().and_then(Scheduler::own);
        let Some(words) = own.map(|slot| core::mem::take(&mut slot.waiting)) else { return };
        for (index, word) in (0u32..).zip(words) {
            let mut rest = word;
            while rest != 0 {
                self.deliver((index << 6) | rest.trailing_zeros());
                rest &= rest.wrapping_sub(1);
            }
        }
    }

    /// Loads this vCPU's list registers, or clears what another one left in them.
    #[inline(never)]
    fn load_list(&mut self, listed: bool) {
        let own = self.scheduler.as_deref_mut().and_then(Scheduler::own);
        let list = own.filter(|_| listed).map_or([0; 4], |slot| slot.registers.context.list);
        let frame = at(self.plan.gicr, crate::interrupt::SGI_FRAME);
        for (index, value) in (0u32..).zip(list) {
            self.machine.set_list_register(index, value);
            let intid = value as u32;
            if value >> 62 != 0 && (16..32).contains(&intid) {
                self.machine.store32(at(frame, 0x300), 1 << intid); // GICR_ISACTIVER0
            }
        }
        self.machine.set_underflow_interrupt(self.waits_for_list_register());
    }

    #[cold]
    fn enable_private(&self, enabled: u32) {
        let frame = at(self.plan.gicr, crate::interrupt::SGI_FRAME);
        self.machine.store32(at(frame, 0x180), GUEST_TIMERS & !enabled); // GICR_ICENABLER0
        self.machine.store32(at(frame, 0x100), enabled); // GICR_ISENABLER0
    }

    /// The guest used floating point while the registers were another vCPU's.
    pub(crate) fn take_floating_point(&mut self) {
        self.machine.trap_floating_point(false);
        let own = self.plan.slot as u8;
        let Some(scheduler) = self.scheduler.as_deref_mut() else { return };
        let owner = core::mem::replace(&mut scheduler.floating_point_owner, own);
        if owner == own {
            return;
        }
        if let Some(slot) = scheduler.slot_mut(owner) {
            self.machine.save_floating_point(&mut slot.registers.floating_point);
        }
        if let Some(slot) = scheduler.slot(own) {
            self.machine.load_floating_point(&slot.registers.floating_point);
        }
        self.count(Counter::FloatingPoint);
    }

    /// Writes what the core, its servers and its slots have seen where the host reads it: when the core is idle, and else now
    /// and then at a switch, because it costs as much as one.
    #[inline(never)]
    fn publish_usage(&mut self, now: u64) {
        let Some(scheduler) = self.scheduler.as_deref_mut() else { return };
        scheduler.published_ticks = now;
        let Some(scheduler) = self.scheduler.as_deref() else { return };
        let page = scheduler.plan.usage;
        let idle = match &scheduler.policy {
            Policy::Servers(servers) => servers.idle_ticks(),
            Policy::Ring(ring) => ring.idle_ticks(),
        };
        self.store_words(at(page, 8), [idle, scheduler.switches, now]);
        for number in 0..scheduler.plan.server_count.max(scheduler.plan.slot_count) as u8 {
            let used = match &scheduler.policy {
                Policy::Servers(servers) => {
                    let usage = servers.usage(number);
                    (usage.budgeted_ticks, usage.background_ticks)
                }
                Policy::Ring(ring) => (ring.used_and_stolen_ticks(number).0, 0),
            };
            let counts = scheduler.counts.get(usize::from(number)).copied().unwrap_or_default();
            let place = size_of::<ServerUsage>().wrapping_mul(usize::from(number));
            let words = [used.0, used.1, counts.starts, counts.exhaustions];
            self.store_words(at(page, place.wrapping_add(offset_of!(UsagePage, servers)) as u64), words);
        }
        for (number, slot) in scheduler.slots.iter().enumerate().take(scheduler.plan.slot_count as usize) {
            let usage = &slot.usage;
            let stolen_ticks = match &scheduler.policy {
                Policy::Servers(_) => 0,
                Policy::Ring(ring) => ring.used_and_stolen_ticks(number as u8).1,
            };
            let words = [
                usage.wakes,
                usage.longest_wait_ticks,
                usage.longest_blackout_ticks,
                usage.interrupts_held,
                stolen_ticks,
                usage.interrupts_limited,
            ];
            let place = size_of::<SlotUsage>().wrapping_mul(number);
            self.store_words(at(page, place.wrapping_add(offset_of!(UsagePage, slots)) as u64), words);
        }
    }

    fn store_words<const COUNT: usize>(&self, place: PhysicalAddress, words: [u64; COUNT]) {
        for (offset, word) in (0u64..).step_by(8).zip(words) {
            self.machine.store64(at(place, offset), word);
        }
    }
}
