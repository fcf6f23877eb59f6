//! Shared cores: one vCPU leaves the machine, another one enters it.
//!
//! [`Vcpu::jump`] is the short way from an interrupt to its owner's handler, for whatever is certain without asking the policy;
//! every other exchange is decided in [`crate::sharing::decide`]. What is the same for all vCPUs of a core stays in the machine.

use crate::interrupts::noted::deactivate_noted;
use crate::interrupts::{HYPERVISOR_TIMER, list_value};
use crate::observe::at;
use crate::sharing::decide::GUEST_TIMERS;
use crate::sharing::scheduler::{Held, NEVER, Scheduler};
use crate::state::{RunState, Vcpu};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::schedule::FloatingPoint;
use bulkhead_arch::Machine;
use bulkhead_arm::{ListRegister, gic};
use bulkhead_sched::Members;
use core::sync::atomic::Ordering::Relaxed;

impl<M: Machine> Vcpu<M> {
    /// Acts on an acknowledged interrupt that wakes a more important vCPU at once ([`bulkhead_schedule::shared`]); returns its slot,
    /// which is to be loaded. `None`, and nothing is done, when it is another interrupt.
    ///
    /// The length of this path is asserted (`./x bench`).
    // A part of `shared.switch`, whose ceiling is near; one caller.
    #[inline(always)]
    pub fn jump(&mut self, intid: u32) -> Option<u8> {
        let scheduler = self.core.scheduler.as_deref_mut()?;
        let now = self.machine.counter_ticks();
        let slot = if intid == HYPERVISOR_TIMER {
            scheduler.wake_prepared_by_date(now)?
        } else {
            scheduler.wake_prepared(intid, now)?
        };
        self.machine.priority_drop(intid);
        if intid == HYPERVISOR_TIMER {
            scheduler.armed_ticks = NEVER;
            self.machine.set_timer(NEVER);
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
    pub(crate) fn step_aside(&mut self) {
        let asleep = self.own_slot().is_some_and(|slot| slot.is_asleep());
        self.unload(asleep);
        if let Some(scheduler) = self.core.scheduler.as_deref_mut() {
            scheduler.switches = scheduler.switches.wrapping_add(1);
        }
    }

    /// Takes this vCPU out of the machine.
    // In both ways out of the machine, and in `shared.switch`. The constant that `jump` gives folds into it.
    #[inline(always)]
    fn unload(&mut self, asleep: bool) {
        let used = self.overflow | (self.machine.free_list_registers() != 0xf);
        if used {
            self.save_list();
        }
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return };
        scheduler.list_used = used;
        if scheduler.date_is_stale {
            scheduler.find_next_date();
        }
        let own = scheduler.loaded;
        let Some(slot) = scheduler.slots.get_mut(usize::from(own)) else { return };
        slot.registers.context.list_used = used;
        self.machine.save_guest(&mut slot.registers.context);
        if slot.watches_timer(asleep) {
            slot.timer_ticks = slot.registers.context.timer_ticks();
            if !asleep && slot.has_acted() && slot.timer_ticks <= self.machine.counter_ticks() {
                slot.timer_ticks = NEVER;
            }
            scheduler.next_date_ticks = scheduler.next_date_ticks.min(slot.timer_ticks);
        }
        if scheduler.plan.floating_point() == Some(FloatingPoint::Eager) {
            self.machine.save_floating_point(&mut slot.registers.floating_point);
        }
        // One that was suspended in its sleep is not to run, whatever arrives.
        if asleep && self.run == RunState::Running && !self.core.trace.enabled {
            scheduler.prepare(own);
        }
    }

    // Most exchanges find the list registers empty and go around it.
    #[inline(never)]
    fn save_list(&mut self) {
        let ended = self.machine.ended_list_registers();
        let Some(slot) = self.core.scheduler.as_deref_mut().and_then(Scheduler::own) else { return };
        for (index, place) in (0u32..).zip(&mut slot.registers.context.list) {
            *place = self.machine.list_register(index);
            let noted = ListRegister(*place);
            let intid = noted.intid();
            if ended & (1 << index) != 0 {
                // Its end has not been seen yet. What is left of it asks for that when this vCPU is loaded, and names nothing.
                *place = ListRegister::END_OF_INTERRUPT;
                deactivate_noted(&self.machine, intid.0);
            } else if noted.is_in_use() && intid.is_private_line() {
                // A private interrupt is the timer of the vCPU that is loaded: its active state leaves with this vCPU.
                self.machine.deactivate(intid.0);
            }
        }
        // Timers that wait for a list register ring again when they are loaded: they are up, or nobody is interested any more.
        self.forget_waiting(0, GUEST_TIMERS);
    }

    /// Puts this vCPU, of slot `own`, into the machine. The scheduler has just been handed to it.
    // In both ways into the machine, and in `shared.switch`.
    #[inline(always)]
    pub fn load(&mut self, own: u8) {
        let plan = self.plan;
        let enabled = self.private.enabled.get() & GUEST_TIMERS;
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return };
        scheduler.loaded = own;
        let Some(slot) = scheduler.slots.get_mut(usize::from(own)) else { return };
        self.machine.load_guest(&slot.registers.context, plan);
        let date = core::mem::replace(&mut slot.timer_ticks, NEVER);
        let held = core::mem::take(&mut slot.held);
        if slot.has_work() {
            scheduler.decide = true;
        }
        if date != NEVER && date == scheduler.next_date_ticks {
            scheduler.date_is_stale = true;
        }
        if scheduler.plan.floating_point() == Some(FloatingPoint::Eager) {
            self.machine.load_floating_point(&slot.registers.floating_point);
            scheduler.floating_point_owner = own;
        } else {
            self.machine.trap_floating_point(scheduler.floating_point_owner != own);
        }
        let listed = slot.registers.context.list_used;
        if scheduler.list_used || listed || scheduler.private_enabled != enabled {
            self.load_private(listed, enabled);
        }
        match held {
            Held::Nothing => {}
            Held::One(intid) => match self.plain_priority(intid).filter(|_| !listed) {
                Some(priority) => self.machine.set_list_register(0, list_value(intid, priority).0),
                None => self.deliver(intid),
            },
            Held::Several => self.deliver_held(),
        }
    }

    /// The priority of an interrupt that the vectors could deliver by themselves: it needs nothing but a list register.
    // Ten instructions in each jump; as a function they are 22 and a call.
    #[inline(always)]
    fn plain_priority(&self, intid: u32) -> Option<u8> {
        let fast = self.fast_entries();
        let in_use = self.head.fast_table == fast.as_ptr() as usize as u64;
        fast.get(intid as usize)
            .filter(|_| in_use)
            // Relaxed, for the reason that `priority_changed` gives.
            .map(|priority| priority.load(Relaxed))
            .filter(|priority| *priority != 0)
    }

    /// Its guest continues after the policy chose it. What its loading took is not charged to it.
    // Once in each exchange, with one caller: what comes after its reading of the counter is the guest's to pay.
    #[inline(always)]
    pub fn note_loaded(&mut self) {
        if let Some(scheduler) = self.core.scheduler.as_deref_mut() {
            scheduler.loaded(self.machine.counter_ticks());
        }
        self.arm_earliest();
    }

    /// A part of [`Self::load`]: list registers were in use, or private interrupts differ between the two vCPUs.
    // Most exchanges find nothing in use and nothing different, and go around it.
    #[inline(never)]
    fn load_private(&mut self, listed: bool, enabled: u32) {
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return };
        let stale = scheduler.list_used;
        if core::mem::replace(&mut scheduler.private_enabled, enabled) != enabled {
            self.enable_private(enabled);
        }
        if stale || listed {
            self.load_list(listed);
        }
    }

    // Several interrupts for a vCPU that was not loaded are rare: kept out of the way of one.
    #[cold]
    fn deliver_held(&mut self) {
        let Some(slot) = self.own_slot() else { return };
        let words = core::mem::take(&mut slot.waiting);
        for (index, word) in (0u32..).zip(words) {
            for bit in Members(word) {
                self.deliver((index << 6) | u32::from(bit));
            }
        }
        self.ask_for_posts();
    }

    /// Loads this vCPU's list registers, or clears what another one left in them.
    // Kept apart as `save_list` is: only when list registers are in use.
    #[inline(never)]
    fn load_list(&mut self, listed: bool) {
        let list = self.own_slot().filter(|_| listed).map_or([0; 4], |slot| slot.registers.context.list);
        let frame = at(self.plan.gicr, gic::SGI_FRAME);
        for (index, value) in (0u32..).zip(list) {
            self.machine.set_list_register(index, value);
            let noted = ListRegister(value);
            if noted.is_in_use() && noted.intid().is_private_line() {
                self.machine.store32(at(frame, gic::ISACTIVER), noted.intid().bit());
            }
        }
        self.ask_for_list_registers(self.waits_for_list_register());
    }

    // Guests of one core seldom differ in what they enable.
    #[cold]
    fn enable_private(&self, enabled: u32) {
        let frame = at(self.plan.gicr, gic::SGI_FRAME);
        self.machine.store32(at(frame, gic::ICENABLER), GUEST_TIMERS & !enabled);
        self.machine.store32(at(frame, gic::ISENABLER), enabled);
    }

    /// The guest used floating point while the registers were another vCPU's.
    pub(crate) fn take_floating_point(&mut self) {
        self.machine.trap_floating_point(false);
        let own = self.plan.slot as u8;
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return };
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
}
