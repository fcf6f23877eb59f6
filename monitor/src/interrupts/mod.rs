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

use crate::observe::at;
use crate::state::Vcpu;
use bulkhead_abi::observe::{Counter, TRACE_INTERRUPT};
use bulkhead_abi::plan::{INTERRUPT_DOORBELL, InterruptPlan};
use bulkhead_arch::{END_OF_INTERRUPT, Machine};
use core::sync::atomic::Ordering::Relaxed;

/// SGI of the monitor: requests between cores.
pub const MONITOR_SGI: u32 = 15;
/// PPI of the virtual interface's maintenance interrupt.
pub const MAINTENANCE: u32 = 25;
/// PPI of the EL2 physical timer.
pub const HYPERVISOR_TIMER: u32 = 26;
/// Priority of the monitor's own interrupts.
pub const MONITOR_PRIORITY: u8 = 0;
/// Priority of every other interrupt until its guest sets one.
pub const DEFAULT_PRIORITY: u8 = 0xa0;

pub(crate) const STATE_SHIFT: u64 = 62;
pub(crate) const STATE_PENDING: u64 = 1 << STATE_SHIFT;
const HARDWARE: u64 = 1 << 61;
const GROUP1: u64 = 1 << 60;
pub(crate) const LIST_REGISTERS: u32 = 4;

/// Offset of the SGI frame in a redistributor.
pub(crate) const SGI_FRAME: u64 = 0x1_0000;
const PRIORITIES: u64 = 0x400;

/// Returns the list-register value that makes `intid` pending, backed by the physical interrupt of the same number
/// unless it is an SGI.
pub const fn list_value(intid: u32, priority: u8) -> u64 {
    let head = STATE_PENDING | GROUP1 | (priority as u64) << 48 | intid as u64;
    if intid < 16 { head } else { head | HARDWARE | (intid as u64) << 32 }
}

impl<M: Machine> Vcpu<M> {
    /// Handles an acknowledged interrupt (1020 and up: none).
    pub fn interrupt(&mut self, intid: u32) {
        self.count(Counter::Exits);
        self.count(Counter::Interrupt);
        self.trace_interrupt(intid);
        match intid {
            1020.. => self.count(Counter::MonitorInterrupt),
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
                self.refill_list_registers();
                self.finish_own(intid);
            }
            0..MONITOR_SGI => {
                self.machine.priority_drop(intid);
                self.make_pending(intid);
                self.machine.deactivate(intid);
                self.own_interrupt_arrived(intid);
            }
            _ if intid == self.plan.uart_interrupt && self.plan.uart.0 != 0 => {
                self.count(Counter::MonitorInterrupt);
                self.machine.priority_drop(intid);
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

    #[inline(always)]
    fn trace_interrupt(&mut self, intid: u32) {
        if self.trace_enabled {
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
        match self.planned_interrupt(intid) {
            Some(plan) if plan.kind == INTERRUPT_DOORBELL => self.doorbell_arrived(&plan),
            _ => self.make_pending(intid),
        }
    }

    fn planned_interrupt(&self, intid: u32) -> Option<InterruptPlan> {
        let count = self.partition.interrupt_count as usize;
        self.partition.interrupts.iter().take(count).find(|interrupt| interrupt.intid == intid).copied()
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

    pub(crate) fn priority_of(&self, intid: u32) -> u8 {
        if let Some(own) = self.private_priority(intid) {
            return own;
        }
        let frame = if intid < 32 { at(self.plan.gicr, SGI_FRAME) } else { self.plan.gicd };
        self.machine.load8(at(frame, PRIORITIES.wrapping_add(u64::from(intid))))
    }

    /// Makes an interrupt pending for the guest, or lets it wait for a list register.
    pub(crate) fn make_pending(&mut self, intid: u32) {
        if intid < 16 && (self.hold_disabled(intid) || self.merge_software_generated(intid)) {
            return;
        }
        let free = self.machine.free_list_registers();
        if free == 0 {
            self.count(Counter::ListRegisterFull);
            self.set_waiting(intid, true);
            self.ask_for_list_registers(true);
        } else {
            let mut value = list_value(intid, self.priority_of(intid));
            if value & HARDWARE != 0 && self.ends_are_seen() {
                value = value & !(HARDWARE | 0x3ff << 32) | END_OF_INTERRUPT;
            }
            self.machine.set_list_register(free.trailing_zeros(), value);
        }
    }

    /// A software-generated interrupt may be in a list register already: it becomes (or stays) pending there, since two
    /// list registers with one number are unpredictable. Like the hardware, it coalesces.
    fn merge_software_generated(&self, intid: u32) -> bool {
        let free = self.machine.free_list_registers();
        for index in (0..LIST_REGISTERS).filter(|index| free & (1 << index) == 0) {
            let value = self.machine.list_register(index);
            if value as u32 == intid && value >> STATE_SHIFT != 0 {
                self.machine.set_list_register(index, value | STATE_PENDING);
                return true;
            }
        }
        false
    }

    /// Sets the fast-path priority of an owned interrupt, for this vCPU (private ones) or for all vCPUs of the partition.
    pub fn priority_changed(&self, intid: u32, priority: u8) {
        // SGIs and doorbells of PCI functions need the slow path.
        let slow = intid < 16 || self.planned_interrupt(intid).is_some_and(|plan| plan.pci_function != 0);
        let value = if slow { 0 } else { priority };
        if intid < 32 {
            if let Some(entry) = self.fast_entries().get(intid as usize) {
                entry.store(value, Relaxed);
            }
        } else {
            for table in self.shared.fast.iter().take(self.partition.vcpu_count as usize) {
                if let Some(entry) = table.get(intid as usize) {
                    entry.store(value, Relaxed);
                }
            }
        }
    }

    /// Makes a spare interrupt pending in the distributor: how the virtual UART and doorbells raise their line.
    pub fn pend_spare(&self, intid: u32, pending: bool) {
        let base: u64 = if pending { 0x200 } else { 0x280 };
        let word = base.wrapping_add(u64::from(intid >> 5).wrapping_mul(4));
        self.machine.store32(at(self.plan.gicd, word), 1 << (intid & 31));
    }

    /// Disables and clears this core's private interrupts; enables the monitor's own where it has any (`mapped`).
    pub fn reset_private_interrupts(&mut self) {
        let frame = at(self.plan.gicr, SGI_FRAME);
        if self.is_shared() {
            self.reset_own_timers(frame);
            return;
        }
        self.machine.store32(at(frame, 0x180), u32::MAX); // GICR_ICENABLER0
        self.machine.store32(at(frame, 0x280), !(1 << MONITOR_SGI)); // GICR_ICPENDR0: what others ask of this core stays
        self.machine.store32(at(frame, 0x380), u32::MAX); // GICR_ICACTIVER0
        self.machine.store32(at(frame, 0x080), u32::MAX); // GICR_IGROUPR0
        for intid in 0..32u32 {
            let own = self.is_mapped() && matches!(intid, MONITOR_SGI | MAINTENANCE | HYPERVISOR_TIMER);
            let priority = if own { MONITOR_PRIORITY } else { DEFAULT_PRIORITY };
            self.machine.store8(at(frame, PRIORITIES.wrapping_add(u64::from(intid))), priority);
            self.priority_changed(intid, if self.owned.owns(intid) { DEFAULT_PRIORITY } else { 0 });
        }
        if self.is_mapped() {
            let own = 1 << MONITOR_SGI | 1 << MAINTENANCE | 1 << HYPERVISOR_TIMER;
            self.machine.store32(at(frame, 0x100), own); // GICR_ISENABLER0
        }
        self.machine.barrier();
        self.waiting = Default::default();
        self.machine.reset_virtual_interface(self.is_mapped());
    }

    /// Disables, clears and re-routes the partition's shared interrupts. Done by vCPU 0's core while its siblings stand.
    pub fn reset_shared_interrupts(&mut self) {
        let gicd = self.plan.gicd;
        for (index, mask) in (0u64..).zip(self.owned.shared_words()) {
            if *mask != 0 {
                for base in [0x180u64, 0x280, 0x380] {
                    self.machine.store32(at(gicd, base.wrapping_add(index.wrapping_mul(4))), *mask);
                }
            }
        }
        let count = self.partition.interrupt_count as usize;
        for interrupt in self.partition.interrupts.iter().take(count) {
            let intid = u64::from(interrupt.intid);
            self.machine.store8(at(gicd, PRIORITIES.wrapping_add(intid)), DEFAULT_PRIORITY);
            self.machine.store64(at(gicd, 0x6000u64.wrapping_add(intid.wrapping_mul(8))), self.plan.mpidr);
            self.priority_changed(interrupt.intid, DEFAULT_PRIORITY);
        }
        self.machine.barrier();
    }
}
