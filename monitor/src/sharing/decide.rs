//! Shared cores: who runs next.
//!
//! Every handler ends in [`Vcpu::settle`]. On a core that one vCPU owns it waits until the guest can go on. On a shared
//! core it does nothing unless something happened that may change who runs; then it asks the policy, arms the EL2 timer
//! for the next date at which the answer may change (and not otherwise), and says which vCPU is to be loaded. The caller
//! loads it, because only the caller may reach another vCPU's data.
//!
//! A vCPU is charged from the decision that chooses it until the decision that chooses the next one, and one that gives the core
//! away until its successor's guest continues, or begins with work of its own here. So the side that pre-empts pays for both
//! exchanges (`real-time.md` 1.2), and its victim only for the way in to the decision. What the monitor does for a partition (a
//! restart, a manager's request, console input) happens when that partition's vCPU is chosen, in slices that end when an interrupt
//! waits, and so in its own time.
//!
//! Rejected: a run queue of threads with stacks of their own. The monitor keeps nothing across a guest run, so there is
//! nothing to keep on a stack, and one stack per core is enough.

use crate::observe::at;
use crate::sharing::scheduler::{NEVER, Scheduler, Slot, Stint};
use crate::state::{RunState, Vcpu};
use bulkhead_abi::observe::TRACE_BLOCK;
use bulkhead_abi::plan::RouteRule;
use bulkhead_abi::schedule::UsagePage;
use bulkhead_arch::Machine;
use bulkhead_arm::{Intid, ListRegister};
use bulkhead_schedule::stolen_time::{STOLEN_OFFSET, nanoseconds};
use core::mem::offset_of;

/// Private interrupts that guests own in the redistributor of a shared core: the two timers.
pub(crate) const GUEST_TIMERS: u32 = Intid::VIRTUAL_TIMER.bit() | Intid::PHYSICAL_TIMER.bit();
/// Before a date by less than this nothing is published: it takes longer than a publication and the exchange that follows, together
/// some 3,700 instructions with as many servers as a core can have (`./x bench costs`).
const PUBLICATION_GUARD_TICKS: u64 = 4_096;
/// Bytes that a restart scrubs or copies before it looks whether somebody else is to run.
pub const RESTART_SLICE_BYTES: u64 = 4 << 10;

impl<M: Machine> Vcpu<M> {
    /// Ends a handler: returns the slot that is to be loaded instead of this vCPU, or `None` when its guest continues.
    // Every handler ends here, in most cases with two comparisons; a function for them costs each a call.
    #[inline(always)]
    pub fn settle(&mut self) -> Option<u8> {
        let decide = match &self.core.scheduler {
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
    // `settle` is in every handler, and what comes after it is to be there once.
    #[inline(never)]
    pub fn decide(&mut self) -> Option<u8> {
        let mut examined = false;
        loop {
            let now = self.report_own_state();
            let scheduler = self.core.scheduler.as_deref_mut()?;
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
            scheduler.deadline_ticks = next.deadline_ticks;
            let stint = next.stint;
            let same = stint == scheduler.stint;
            let own = scheduler.loaded;
            // Publishing never delays a handler: neither when somebody starts who was just woken, nor shortly before somebody wakes.
            // A core that becomes idle does it while it waits.
            let (machine, tick_length) = (&self.machine, scheduler.plan.tick_length);
            let robbed = |place, ticks| machine.store64(at(place, STOLEN_OFFSET), nanoseconds(ticks, tick_length));
            let starts = !same && !scheduler.account(stint, now, robbed) && stint != Stint::IDLE;
            let publish = starts && scheduler.is_publication_due(now);
            if publish {
                self.publish_usage(now);
            }
            if self.core.trace.enabled {
                self.trace_decision(now, same);
            }
            if stint != Stint::IDLE && stint.vcpu() != own {
                if self.leaves_with_interrupt(now) && !core::mem::replace(&mut examined, true) {
                    continue;
                }
                // Its timers stop here, so their date counts for what the EL2 timer is armed for.
                self.step_aside();
                return Some(stint.vcpu());
            }
            self.arm_earliest();
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
    /// instant of the report, at which the policy is to choose: a vCPU that was blocked must not be charged beyond it.
    // The first step of each decision, with one caller; `shared.*` and `costs.*` have ceilings.
    #[inline(always)]
    fn report_own_state(&mut self) -> u64 {
        let running = self.run == RunState::Running;
        let quiet = |slot: &mut Slot| !(slot.has_work() || slot.is_watched());
        if running && self.own_slot().is_some_and(quiet) { self.report_instant() } else { self.report_own_change() }
    }

    /// What woke somebody or put its guest to sleep a moment ago is reported and decided at one instant, beyond which nothing may
    /// be charged to it.
    // A few instructions of each decision.
    #[inline(always)]
    fn report_instant(&mut self) -> u64 {
        let reported =
            self.core.scheduler.as_deref_mut().map_or(0, |scheduler| core::mem::take(&mut scheduler.instant));
        if reported != 0 { reported } else { self.machine.counter_ticks() }
    }

    // Some 120 instructions, and the registers that they need, for a vCPU that sleeps or has work of its own.
    #[inline(never)]
    fn report_own_change(&mut self) -> u64 {
        let ready = self.serve_own_work();
        let now = self.report_instant();
        let pending = self.has_own_interrupt();
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return now };
        let own = scheduler.loaded;
        if ready {
            scheduler.wake(own, now);
        } else {
            scheduler.block(own, now);
        }
        scheduler.note_pending(own, pending, now);
        now
    }

    /// Does what waits at EL2 for this vCPU; returns whether it can use time.
    fn serve_own_work(&mut self) -> bool {
        let now = self.machine.counter_ticks();
        if self.core.scheduler.as_deref_mut().is_some_and(Scheduler::take_request)
            && let Some(slot) = self.own_slot()
        {
            let expired = slot.monitor_ticks <= now || slot.monitor_ticks == NEVER;
            self.serve_console();
            self.heed_parking();
            self.serve_requests();
            self.note_going_on();
            self.take_posts();
            if expired {
                self.own_date_passed(now);
            }
        }
        match self.run {
            // Whatever wakes a guest that sleeps is an interrupt, and its arrival says so.
            RunState::Running => self.own_slot().is_none_or(|slot| !slot.is_asleep()),
            #[cfg(feature = "devices")]
            RunState::Restoring if self.functions_rest() => false,
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

    /// Sets the date at which the monitor has something to do for this vCPU ([`NEVER`]: it has none); on a dedicated core the EL2
    /// timer.
    pub(crate) fn set_own_date(&mut self, ticks: u64) {
        #[cfg(feature = "devices")]
        let ticks = self.functions.date(ticks);
        match self.core.scheduler.as_deref_mut() {
            Some(scheduler) => scheduler.set_own_date(ticks),
            None => self.machine.set_timer(ticks),
        }
    }

    /// Round robin: an interrupt that its guest has not taken acts again when the turn of another one starts, as the policies
    /// were published (`real-time.md` 3.1); so does a timer whose date passed before its guest took it. Returns whether one
    /// does.
    // One comparison on the way out, except under a policy that pre-empts.
    #[inline(always)]
    fn leaves_with_interrupt(&mut self, now: u64) -> bool {
        self.own_slot().is_some_and(|slot| slot.preempts()) && self.examine_again(now)
    }

    // Reads all list registers, for one policy alone: kept out of the way of the others.
    #[inline(never)]
    fn examine_again(&mut self, now: u64) -> bool {
        let free = self.machine.free_list_registers();
        let pending = |index| self.machine.list_register(index) & ListRegister::PENDING != 0;
        let listed = (0..4).any(|index| free & (1 << index) == 0 && pending(index));
        let acts = listed || self.machine.guest_timer_asserted();
        if let Some(scheduler) = self.core.scheduler.as_deref_mut().filter(|_| acts) {
            let own = scheduler.loaded;
            scheduler.arrived(own, RouteRule::Preempt.number(), now);
        }
        acts
    }

    pub(crate) fn own_slot(&mut self) -> Option<&mut Slot> {
        self.core.scheduler.as_deref_mut().and_then(Scheduler::own)
    }

    /// States whether a virtual interrupt waits for this guest or is being handled by it.
    fn has_own_interrupt(&self) -> bool {
        self.machine.free_list_registers() != 0xf || self.waits_for_list_register()
    }

    /// The guest executed WFI: it sleeps unless an interrupt waits for it (SP-16).
    pub(crate) fn wait_for_interrupt(&mut self) {
        let waits = self.has_own_interrupt() || self.machine.guest_timer_asserted();
        let now = self.machine.counter_ticks();
        let Some(scheduler) = self.core.scheduler.as_deref_mut().filter(|_| !waits) else { return };
        let own = scheduler.loaded;
        scheduler.sleep(own, now);
        self.trace(TRACE_BLOCK, u32::from(own), 0, 0);
    }

    /// Nobody can run. Deferred interrupts get their turn; else waits for a physical interrupt and handles it. The loaded
    /// vCPU stays loaded, its timers live.
    // A core that idles is in no hurry; a decision that finds a vCPU to run goes around these 80 instructions.
    #[inline(never)]
    fn wait_idle(&mut self, now: u64) {
        if self.core.scheduler.as_deref_mut().is_some_and(|scheduler| scheduler.release_deferred(now)) {
            return;
        }
        self.publish_usage(now);
        self.machine.enable_virtual_interface(false);
        self.machine.wait_for_interrupt();
        self.take_interrupt();
        self.machine.enable_virtual_interface(true);
        if self.waits_for_list_register() {
            self.machine.set_underflow_interrupt(true);
        }
    }

    /// Arms the EL2 timer for the policy's deadline or the earliest date that the policy does not know of.
    // At each decision and each jump, in most cases without setting the timer.
    #[inline(always)]
    pub(crate) fn arm_earliest(&mut self) {
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return };
        let date_ticks = scheduler.deadline_ticks.min(scheduler.next_date_ticks);
        if scheduler.armed_ticks == date_ticks {
            return;
        }
        scheduler.armed_ticks = date_ticks;
        self.machine.set_timer(date_ticks);
    }

    /// Restarts go on in slices, until somebody else may want the core.
    fn restore_until_interrupted(&mut self) {
        if let Some(scheduler) = self.core.scheduler.as_deref_mut() {
            scheduler.pay_oneself();
        }
        while self.run == RunState::Restoring && !self.machine.interrupt_waits() {
            self.restore_step(RESTART_SLICE_BYTES);
            #[cfg(feature = "devices")]
            if self.functions_rest() {
                break;
            }
        }
        self.take_interrupt();
    }

    /// The date at which the next sleeper of this core is to wake: that of the loaded vCPU is in the machine.
    fn next_wake_ticks(&mut self) -> u64 {
        let asleep = self.own_slot().is_some_and(|slot| slot.is_asleep());
        let own_ticks = if asleep { self.machine.guest_timer_ticks() } else { NEVER };
        self.core.scheduler.as_deref().map_or(NEVER, |scheduler| scheduler.next_date_ticks).min(own_ticks)
    }

    /// Writes what the core, its servers and its slots have seen where the host reads it: when the core is idle, and else now
    /// and then at a switch, because it costs as much as one. Somebody whose date comes meanwhile would wait for it, so it is put off
    /// for a while when there is such a date.
    // Now and then, so not in the frame of each decision. There are two callers: the compiler keeps it apart by itself
    // today.
    #[inline(never)]
    fn publish_usage(&mut self, now: u64) {
        let wakes_soon = self.next_wake_ticks().saturating_sub(now) < PUBLICATION_GUARD_TICKS;
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return };
        if wakes_soon && !scheduler.is_publication_overdue(now) {
            return;
        }
        scheduler.published_ticks = now;
        let (machine, page) = (&self.machine, scheduler.plan.usage);
        // The host reads while this is written: the first word tells it to wait for the last one.
        machine.store64(at(page, offset_of!(UsagePage, begun_ticks) as u64), now);
        // No number of the new set is seen before the word that says that it is begun; a release store at the end
        // orders only what comes before it.
        machine.barrier();
        scheduler.usage(|offset, word| machine.store64(at(page, offset as u64), word));
        machine.publish64(at(page, offset_of!(UsagePage, time_ticks) as u64), now);
    }
}
