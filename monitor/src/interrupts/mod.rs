//! Physical interrupts at EL2 and the list registers through which the guest gets them (`mapped`).
//!
//! Owned interrupts are acknowledged, their priority is dropped, and a list register with the HW bit makes the guest's
//! end-of-interrupt deactivate the physical one without an exit (Arm IHI 0069 chapter 6; `platform-facts.md` 1b). The
//! vectors do this in assembly when list register 0 is free; this module is the slow path: software-generated
//! interrupts, full list registers, doorbells of PCI functions, and the monitor's own interrupts.
//!
//! When all four list registers are in use, the interrupt waits in a bitmap and the underflow maintenance interrupt asks
//! for more. Nothing is lost: an interrupt that waits is active in the physical controller, so it cannot arrive again.

pub(crate) mod noted;

use crate::life::powers::{Route, Stop};
use crate::observe::at;
use crate::state::{FAST_ENTRIES, Vcpu};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::{Counter, TRACE_INTERRUPT};
use bulkhead_abi::plan::{INTERRUPT_DOORBELL, InterruptPlan};
use bulkhead_arch::Machine;
use bulkhead_arm::{Intid, ListRegister, gic};
use bulkhead_emulation::gic::{PRIORITY_BITS, physical_priority};
use bulkhead_sched::Members;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// SGI of the monitor: requests between cores.
pub const MONITOR_SGI: u32 = 15;
/// PPI of the virtual interface's maintenance interrupt.
pub const MAINTENANCE: u32 = Intid::MAINTENANCE.0;
/// PPI of the EL2 physical timer.
pub const HYPERVISOR_TIMER: u32 = Intid::HYPERVISOR_TIMER.0;
/// Bits of the monitor's own interrupts, all of them private ones.
pub(crate) const OWN_INTERRUPTS: u32 =
    Intid(MONITOR_SGI).bit() | Intid::MAINTENANCE.bit() | Intid::HYPERVISOR_TIMER.bit();
/// Priority of the monitor's own interrupts, as EL2 sees it: with one security state or two, nothing of a guest is as urgent.
pub const MONITOR_PRIORITY: u8 = 0;
/// Priority of every other interrupt until its guest sets one, the same byte with one security state or two.
pub const DEFAULT_PRIORITY: u8 = 0xa0;

pub(crate) const LIST_REGISTERS: u32 = 4;
/// All of them as bits: none is in use.
pub(crate) const ALL_FREE: u32 = (1 << LIST_REGISTERS) - 1;

/// Returns the list-register value that makes `intid` pending, backed by the physical interrupt of the same number
/// unless it is an SGI.
pub const fn list_value(intid: u32, priority: u8) -> ListRegister {
    let value = ListRegister::pending(Intid(intid), priority);
    if Intid(intid).is_software_generated() { value } else { value.with_physical() }
}

impl<M: Machine> Vcpu<M> {
    /// Handles an acknowledged interrupt (1020 to 1023: none).
    pub fn interrupt(&mut self, intid: u32) {
        self.count(Counter::Exits);
        self.count(Counter::Interrupt);
        self.trace_interrupt(intid);
        match intid {
            Intid::FIRST_SPECIAL..=Intid::LAST_SPECIAL => {
                self.count(Counter::MonitorInterrupt);
                self.kicked();
            }
            MONITOR_SGI => {
                self.finish_own(intid);
                if self.is_shared() {
                    self.look_for_managers();
                } else {
                    self.serve_requests();
                }
            }
            HYPERVISOR_TIMER => {
                self.machine.set_timer(u64::MAX);
                self.finish_own(intid);
                self.timer_rang();
            }
            MAINTENANCE => {
                self.count(Counter::Maintenance);
                self.end_of_interrupts();
                #[cfg(feature = "hybrid")]
                self.silent_ones_ended();
                self.refill_list_registers();
                self.finish_own(intid);
            }
            #[cfg(feature = "shared")]
            0..MONITOR_SGI if self.is_shared() => self.sibling_calls(intid),
            0..MONITOR_SGI => {
                self.machine.priority_drop(intid);
                self.make_pending(intid);
                self.machine.deactivate(intid);
                self.own_interrupt_arrived(intid);
            }
            _ if intid == self.plan.uart_interrupt && self.plan.uart.0 != 0 => {
                self.count(Counter::MonitorInterrupt);
                self.machine.priority_drop(intid);
                #[cfg(feature = "hybrid")]
                if self.hands_over_input() {
                    return;
                }
                self.console_input();
                self.machine.deactivate(intid);
            }
            _ if self.owned.owns(intid) => {
                self.machine.priority_drop(intid);
                self.deliver(intid);
                self.own_interrupt_arrived(intid);
            }
            _ => self.foreign_interrupt(intid),
        }
    }

    /// Handles an interrupt that arrived while no guest ran.
    pub(crate) fn take_interrupt(&mut self) {
        let intid = self.machine.acknowledge();
        if !(Intid::FIRST_SPECIAL..=Intid::LAST_SPECIAL).contains(&intid) {
            self.interrupt(intid);
        }
    }

    // One comparison when nothing is recorded, and no call for it in every interrupt.
    #[inline(always)]
    fn trace_interrupt(&mut self, intid: u32) {
        if self.core.trace.enabled {
            let other = self.other_owner(intid);
            let owner = other.unwrap_or(u64::from(self.plan.partition));
            self.trace_for(owner, TRACE_INTERRUPT, intid, u64::from(other.is_some()), 0);
        }
    }

    pub(crate) fn finish_own(&self, intid: u32) {
        self.count(Counter::MonitorInterrupt);
        self.machine.priority_drop(intid);
        self.machine.deactivate(intid);
    }

    /// Brings an owned interrupt, acknowledged and dropped, to the guest.
    pub(crate) fn deliver(&mut self, intid: u32) {
        #[cfg(feature = "hybrid")]
        if self.arrives_again(intid) {
            return;
        }
        match self.planned_interrupt(intid) {
            Some(plan) if plan.kind == INTERRUPT_DOORBELL => self.doorbell_arrived(&plan),
            _ => self.make_pending(intid),
        }
    }

    pub(crate) fn planned_interrupt(&self, intid: u32) -> Option<InterruptPlan> {
        self.partition.interrupts().iter().find(|interrupt| interrupt.intid == intid).copied()
    }

    /// A doorbell of a PCI function obeys the function's interrupt disable; a native doorbell is just an interrupt.
    fn doorbell_arrived(&mut self, plan: &InterruptPlan) {
        self.count(Counter::DoorbellReceived);
        let deliver = match plan.pci_function.checked_sub(1) {
            Some(function) => self.shared.pci.doorbell_arrived(self.partition, function),
            None => true,
        };
        if deliver {
            self.make_pending(plan.intid);
        } else {
            self.machine.deactivate(plan.intid);
        }
    }

    /// The priority of an own interrupt, as the guest wrote it.
    // On the way of an interrupt to a list register (`sgi.self`).
    #[inline(always)]
    pub(crate) fn priority_of(&self, intid: u32) -> u8 {
        // Relaxed, for the reason that `keep_priority` gives.
        self.kept_priority(intid).load(Relaxed)
    }

    /// Where the priority of an interrupt is kept: for this vCPU (private ones) or for the partition.
    // One load and a choice of two places, in `priority_of`.
    #[inline(always)]
    fn kept_priority(&self, intid: u32) -> &AtomicU8 {
        let shared = &self.shared.priorities;
        let of_partition = shared.get(intid as usize % FAST_ENTRIES).unwrap_or(&shared[0]);
        self.priorities.get(intid as usize).unwrap_or(of_partition)
    }

    /// Makes an interrupt pending for the guest, or lets it wait for a list register.
    pub(crate) fn make_pending(&mut self, intid: u32) {
        let free = self.machine.free_list_registers();
        if Intid(intid).is_software_generated()
            && (self.hold_disabled(intid) || free != ALL_FREE && self.merge_software_generated(intid, free))
        {
            return;
        }
        if free == 0 {
            self.count(Counter::ListRegisterFull);
            self.set_waiting(intid, true);
            self.ask_for_list_registers(true);
        } else {
            let mut value = list_value(intid, self.priority_of(intid));
            if value.is_hardware() && self.ends_are_seen() {
                value = value.with_end_seen();
            }
            self.machine.set_list_register(free.trailing_zeros(), value.0);
        }
    }

    /// A software-generated interrupt may be in a list register already: it becomes (or stays) pending there, since two
    /// list registers with one number are unpredictable. Like the hardware, it coalesces.
    fn merge_software_generated(&self, intid: u32, free: u32) -> bool {
        for index in Members(u64::from(free ^ ALL_FREE)).map(u32::from) {
            let value = ListRegister(self.machine.list_register(index));
            if value.intid().0 == intid && value.is_in_use() {
                self.machine.set_list_register(index, value.0 | ListRegister::PENDING);
                return true;
            }
        }
        false
    }

    /// Sets the priority of an interrupt that the guest owns: what it reads, what its list registers have, and what is made from
    /// it for the interrupt controller. A `direct` guest masks in the physical interface, so there its byte is the controller's.
    pub(crate) fn set_priority(&self, intid: u32, priority: u8) {
        self.keep_priority(intid, priority);
        // The redistributor of a shared core keeps one priority for all.
        if !(self.is_shared() && Intid(intid).is_private()) {
            let physical = if self.is_mapped() { physical_priority(priority) } else { priority };
            self.machine.store8(self.priority_place(intid), physical);
        }
    }

    /// Where the interrupt controller has the priority of an interrupt.
    pub(crate) fn priority_place(&self, intid: u32) -> PhysicalAddress {
        let frame = if Intid(intid).is_private() { at(self.plan.gicr, gic::SGI_FRAME) } else { self.plan.gicd };
        at(frame, gic::priority_byte(Intid(intid)))
    }

    /// Keeps the priority of an interrupt, for this vCPU (private ones) or for all vCPUs of the partition.
    pub fn keep_priority(&self, intid: u32, priority: u8) {
        let priority = priority & PRIORITY_BITS;
        // Software-generated ones and doorbells of PCI functions need the slow path; others are not the guest's.
        let slow = Intid(intid).is_software_generated()
            || !self.owned.owns(intid)
            || self.planned_interrupt(intid).is_some_and(|plan| plan.pci_function != 0);
        let value = if slow { 0 } else { priority };
        let all = self.shared.fast.get(..self.partition.vcpu_count as usize).unwrap_or_default();
        let tables = if Intid(intid).is_private() { core::slice::from_ref(self.fast_entries()) } else { all };
        let fast = tables.iter().filter_map(|table| table.get(intid as usize)).map(|entry| (entry, value));
        for (entry, value) in fast.chain([(self.kept_priority(intid), priority)]) {
            // Relaxed: each byte stands for itself. A core that still reads the former priority delivers as if its
            // interrupt had come before the guest's write.
            entry.store(value, Relaxed);
        }
    }

    /// Routes a shared interrupt to a core.
    pub(crate) fn route(&self, intid: u32, mpidr: u64, _: Route) {
        self.machine.store64(at(self.plan.gicd, gic::route(Intid(intid))), mpidr);
    }

    /// Where a shared interrupt is routed to.
    #[cfg(feature = "hybrid")]
    pub(crate) fn routed_to(&self, intid: u32) -> u64 {
        self.machine.load64(at(self.plan.gicd, gic::route(Intid(intid))))
    }

    /// States whether a shared interrupt is active in the distributor.
    #[cfg(feature = "shared")]
    pub(crate) fn is_active(&self, intid: u32) -> bool {
        let word = gic::bit_word(gic::ISACTIVER, Intid(intid));
        self.machine.load32(at(self.plan.gicd, word)) & Intid(intid).bit() != 0
    }

    /// Makes a spare interrupt pending in the distributor: how the virtual UART and doorbells raise their line.
    pub fn pend_spare(&self, intid: u32, pending: bool) {
        let register = if pending { gic::ISPENDR } else { gic::ICPENDR };
        let word = gic::bit_word(register, Intid(intid));
        self.machine.store32(at(self.plan.gicd, word), Intid(intid).bit());
    }

    /// Disables and clears this core's private interrupts; enables the monitor's own where it has any (`mapped`).
    pub fn reset_private_interrupts(&mut self, _: Stop) {
        let frame = at(self.plan.gicr, gic::SGI_FRAME);
        // Relaxed: this core's own. Those that cannot take the fast path need nothing more.
        self.priorities.iter().for_each(|kept| kept.store(DEFAULT_PRIORITY, Relaxed));
        let fast = (Intid::SOFTWARE_END..Intid::FIRST_SHARED).filter(|intid| self.owned.owns(*intid));
        fast.for_each(|intid| self.keep_priority(intid, DEFAULT_PRIORITY));
        if self.is_shared() {
            self.reset_own_timers(frame);
            return;
        }
        self.machine.store32(at(frame, gic::ICENABLER), u32::MAX);
        self.machine.store32(at(frame, gic::ICPENDR), !Intid(MONITOR_SGI).bit()); // what others ask of this core stays
        self.machine.store32(at(frame, gic::ICACTIVER), u32::MAX);
        self.begin_private_interrupts();
        // The controller has been told before the core continues: a run does not begin with an interrupt of the one
        // before.
        self.machine.barrier();
        self.waiting = Default::default();
        self.machine.reset_virtual_interface(self.is_mapped());
        self.reset_interface();
    }

    /// Gives this core's private interrupts, all of them disabled, group and priority, and enables the monitor's own where it
    /// has any (`mapped`). With two security states the group is what firmware made it, and the write has no effect.
    pub(crate) fn begin_private_interrupts(&self) {
        let frame = at(self.plan.gicr, gic::SGI_FRAME);
        let own = if self.is_mapped() { self.own_interrupts() } else { 0 };
        self.machine.store32(at(frame, gic::IGROUPR), u32::MAX);
        for intid in 0..Intid::FIRST_SHARED {
            let priority = if own & Intid(intid).bit() != 0 { MONITOR_PRIORITY } else { DEFAULT_PRIORITY };
            self.machine.store8(self.priority_place(intid), priority);
        }
        self.machine.store32(at(frame, gic::ISENABLER), own);
    }

    /// Disables, clears and re-routes the partition's shared interrupts. Done by vCPU 0's core while its siblings stand.
    pub fn reset_shared_interrupts(&self, _: Stop, route: Route) {
        let gicd = self.plan.gicd;
        for (index, mask) in (0u64..).zip(self.owned.shared_words()) {
            if *mask != 0 {
                for register in [gic::ICENABLER, gic::ICPENDR, gic::ICACTIVER] {
                    self.machine.store32(at(gicd, register.wrapping_add(index.wrapping_mul(4))), *mask);
                }
            }
        }
        for interrupt in self.partition.interrupts() {
            self.set_priority(interrupt.intid, DEFAULT_PRIORITY);
            self.route(interrupt.intid, self.plan.mpidr, route);
        }
        // Silent and routed before any core of the partition is started or anybody is told that it stopped.
        self.machine.barrier();
    }
}
