//! Interrupts of a shared core: whose they are, whether they wake their owner, and whether they end somebody's turn.

use super::scheduler::{NEVER, Slot};
use crate::interrupts::ALL_FREE;
use crate::interrupts::noted::deactivate_noted;
use crate::life::manage::request_offset;
use crate::observe::at;
use crate::state::Vcpu;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::schedule::{OnInterrupt, ScheduleKind};
use bulkhead_arch::Machine;
use bulkhead_sched::Members;

impl<M: Machine> Vcpu<M> {
    /// The EL2 timer rang: on a shared core somebody is to be chosen, on a core of its own the date of this vCPU has passed.
    pub(crate) fn timer_rang(&mut self) {
        match self.core.scheduler.as_deref_mut() {
            Some(scheduler) => {
                scheduler.armed_ticks = NEVER;
                scheduler.decide = true;
            }
            None => self.timer_expired(),
        }
    }

    /// The partition whose interrupt arrived, when it is not the loaded one's; for traces.
    // Only recording comes here, so all that this saves is a call in `trace.interrupt`; no other reason is known.
    #[inline(always)]
    pub(crate) fn other_owner(&self, intid: u32) -> Option<u64> {
        let scheduler = self.core.scheduler.as_deref()?;
        let owner = scheduler.owner(intid).filter(|owner| *owner != scheduler.loaded)?;
        scheduler.plan.slots.get(usize::from(owner)).map(|slot| u64::from(slot.partition))
    }

    /// An interrupt of the loaded vCPU is in its list registers: it wakes, and its gates open.
    pub(crate) fn own_interrupt_arrived(&mut self, intid: u32) {
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return };
        let own = scheduler.loaded;
        let now = self.machine.counter_ticks();
        let route = if intid < 32 {
            scheduler.slot(own).map_or(0, |slot| slot.timer_route)
        } else {
            scheduler.route_now(intid, own, now)
        };
        scheduler.arrived(own, route, now);
    }

    /// An interrupt that the loaded vCPU does not own: on a shared core it waits at EL2, active in the physical controller and
    /// so silent, until its owner is loaded (MZ-17, MZ-18). Its route says whether that is to happen now.
    pub(crate) fn foreign_interrupt(&mut self, intid: u32) {
        let owner = self.core.scheduler.as_deref().and_then(|scheduler| scheduler.owner(intid));
        let Some((slot, scheduler)) = owner.zip(self.core.scheduler.as_deref_mut()) else {
            return self.console_interrupt(intid);
        };
        self.machine.priority_drop(intid);
        let now = self.machine.counter_ticks();
        let route = scheduler.route_now(intid, slot, now);
        if let Some(state) = scheduler.slot_mut(slot) {
            state.hold(intid);
        }
        scheduler.arrived(slot, route, now);
    }

    /// The board's UART, when the slot that receives it is not loaded; otherwise nobody's interrupt.
    fn console_interrupt(&mut self, intid: u32) {
        let now = self.machine.counter_ticks();
        let Some(scheduler) = self.core.scheduler.as_deref_mut().filter(|scheduler| scheduler.console_intid == intid)
        else {
            return self.finish_own(intid);
        };
        self.machine.priority_drop(intid);
        scheduler.console_waits = true;
        scheduler.ask(scheduler.console, now);
        self.count(Counter::MonitorInterrupt);
    }

    /// Takes the console input that waited for this vCPU.
    pub(crate) fn serve_console(&mut self) {
        let own = self.plan.slot as u8;
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return };
        if scheduler.console_waits && scheduler.console == own {
            scheduler.console_waits = false;
            self.console_input();
            self.machine.deactivate(self.plan.uart_interrupt);
        }
    }

    /// Guests whose gate closes at the end of an interrupt have list registers without hardware interrupts; their end is
    /// seen here, and the physical interrupt is deactivated for the guest (SG-45).
    pub(crate) fn end_of_interrupts(&mut self) {
        let sees_ends = self.ends_are_seen();
        let Some(scheduler) = self.core.scheduler.as_deref_mut().filter(|_| sees_ends) else { return };
        scheduler.decide = true;
        let ended = self.machine.ended_list_registers();
        for index in Members(u64::from(ended & ALL_FREE)).map(u32::from) {
            let intid = self.machine.list_register(index) as u32;
            self.machine.set_list_register(index, 0);
            deactivate_noted(&self.machine, intid);
        }
    }

    /// The vectors must not forward this vCPU's interrupts by themselves.
    pub(crate) fn sees_every_interrupt(&self) -> bool {
        let restarts_quantum = self.core.scheduler.as_deref().is_some_and(|scheduler| {
            scheduler.plan.kind() == Some(ScheduleKind::RoundRobin)
                && scheduler.plan.on_interrupt() == Some(OnInterrupt::ResetExtend)
        });
        self.ends_are_seen() || restarts_quantum || self.own_slot_is(Slot::has_clients)
    }

    /// States whether something is true of the loaded slot; of a core without slots nothing is.
    fn own_slot_is(&self, what: impl Fn(&Slot) -> bool) -> bool {
        let scheduler = self.core.scheduler.as_deref();
        scheduler.and_then(|scheduler| scheduler.slot(scheduler.loaded)).is_some_and(what)
    }

    /// This vCPU has a server whose gate closes at the end of an interrupt.
    pub(crate) fn ends_are_seen(&self) -> bool {
        self.own_slot_is(Slot::closes_at_end)
    }

    /// A core without vCPUs of its own time asks each of them whose managers have posted something new to serve it.
    pub(crate) fn look_for_managers(&mut self) {
        let now = self.machine.counter_ticks();
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return };
        for number in 0..scheduler.plan.slot_count as u8 {
            let Some(slot) = scheduler.slot_mut(number) else { continue };
            let Some(partition) = slot.partition else { continue };
            let offset = request_offset(partition.index);
            let pages = partition.manage.iter().filter(|page| page.0 != 0);
            let sum = pages.fold(0u64, |sum, page| sum.wrapping_add(self.machine.load64(at(*page, offset))));
            if sum != slot.requests_seen {
                slot.requests_seen = sum;
                scheduler.ask(number, now);
            }
        }
    }
}
