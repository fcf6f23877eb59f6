//! Interrupts that are noted for a guest, in list registers and waiting for one, and everything but hardware that takes them
//! away. One that is noted is active in the physical controller and so silent; who forgets it deactivates it.

use crate::interrupts::LIST_REGISTERS;
use crate::state::Vcpu;
use bulkhead_arch::Machine;
use bulkhead_arm::{Intid, ListRegister, gic};
use bulkhead_sched::Members;
use core::cell::Cell;

/// Deactivates what a list register or an entry of [`Vcpu::waiting`] stood for that is emptied by anything but hardware: what
/// stayed active would never come again, and a private interrupt not even for the next vCPU of the core. Software-generated
/// interrupts were deactivated when they were noted.
///
/// While a vCPU runs all are emptied through this. Three ways take everything at once:
/// - [`Vcpu::reset_private_interrupts`], at a start and when a partition stops: it clears the active state of private interrupts in
///   the redistributor. [`Vcpu::reset_shared_interrupts`] does so for the partition's shared ones, when it stops and when it is
///   started; at CPU_ON alone nothing does, since on a machine too what a core was handling when it was switched off stays active.
/// - [`Vcpu::return_shared_interrupts`], at CPU_OFF: shared interrupts go back to the distributor and are deactivated. Timers that
///   wait are dropped while active: on a shared core the partition ends there and its reset follows in the same handler; on a core
///   of its own nobody else can miss them before the reset at the next start.
/// - `Vcpu::save_list`, when a vCPU is unloaded: private interrupts are deactivated, shared ones are kept with the vCPU.
pub(crate) fn deactivate_noted<M: Machine>(machine: &M, intid: u32) {
    if !Intid(intid).is_software_generated() {
        machine.deactivate(intid);
    }
}

impl<M: Machine> Vcpu<M> {
    pub(crate) fn set_waiting(&self, intid: u32, waits: bool) {
        if let Some(word) = self.waiting.get((intid >> 6) as usize) {
            let bit = 1u64 << (intid & 63);
            word.set(if waits { word.get() | bit } else { word.get() & !bit });
        }
    }

    /// Of 32 interrupts, those of `bits` that wait for a list register.
    pub(crate) fn waiting_of(&self, first_intid: u32, bits: u32) -> u32 {
        let word = self.waiting.get((first_intid >> 6) as usize).map_or(0, Cell::get);
        (word >> (first_intid & 32)) as u32 & bits
    }

    /// Takes interrupts back that wait for a list register.
    pub(crate) fn forget_waiting(&self, first_intid: u32, bits: u32) {
        // Usually none: each unload comes through here.
        for bit in Members(u64::from(self.waiting_of(first_intid, bits))) {
            let intid = first_intid | u32::from(bit);
            self.set_waiting(intid, false);
            deactivate_noted(&self.machine, intid);
            #[cfg(feature = "hybrid")]
            self.listen_to(intid);
        }
    }

    /// Asks for the maintenance interrupt of list registers that become free, or no longer.
    pub(crate) fn ask_for_list_registers(&mut self, on: bool) {
        self.overflow = on;
        self.machine.set_underflow_interrupt(on);
    }

    /// Follows a guest's write to GICx_ICPENDR or GICx_ICACTIVER in this core's list registers and in what waits for one: an
    /// interrupt whose pending or active state was cleared must not stay there, or its next arrival would fill a second list
    /// register with the same number, which is unpredictable. Returns the bits that are for the interrupt controller: what is
    /// only pending to the guest is active there, and that is not for the guest to clear.
    // Guests hardly write these two kinds of registers, and without it this is inlined into the path of every write to
    // the interrupt controller.
    #[cold]
    pub(crate) fn forget_cleared(&self, register: u64, bits: u32) -> u32 {
        let first_intid = (register as u32 & 0x7f) << 3;
        let clears_pending = register < gic::ISACTIVER;
        let cleared_state = if clears_pending { ListRegister::PENDING } else { ListRegister::ACTIVE };
        let mut still_pending = self.waiting_of(first_intid, bits);
        for index in 0..LIST_REGISTERS {
            let value = ListRegister(self.machine.list_register(index));
            let place = value.intid().0.wrapping_sub(first_intid);
            if !value.is_in_use() || place >= 32 || bits & (1 << place) == 0 {
                continue;
            }
            let left = ListRegister(value.0 & !cleared_state);
            if !left.is_in_use() {
                self.machine.set_list_register(index, 0);
                deactivate_noted(&self.machine, value.intid().0);
                #[cfg(feature = "hybrid")]
                self.listen_to(value.intid().0);
            } else {
                self.machine.set_list_register(index, left.0);
                still_pending |= 1 << place;
            }
        }
        if clears_pending {
            self.forget_waiting(first_intid, bits);
            return bits;
        }
        // What waits at EL2 for a sibling that shares its core is active there, and so enters that core once: a guest that cleared
        // that could call the core as often as it likes. So it clears what is noted for this vCPU, above, and nothing else.
        #[cfg(feature = "shared")]
        if self.partition.shared_vcpus > 1 && first_intid >= Intid::FIRST_SHARED {
            return 0;
        }
        bits & !still_pending
    }

    /// Moves waiting interrupts into free list registers, most urgent first.
    pub(crate) fn refill_list_registers(&mut self) {
        for _ in 0..LIST_REGISTERS {
            if self.machine.free_list_registers() == 0 {
                break;
            }
            let Some(intid) = self.most_urgent_waiting() else { break };
            self.set_waiting(intid, false);
            self.make_pending(intid);
            #[cfg(feature = "hybrid")]
            self.no_longer_waits(intid);
        }
        self.ask_for_list_registers(self.waits_for_list_register());
    }

    /// States whether an interrupt only waits for a free list register.
    pub(crate) fn waits_for_list_register(&self) -> bool {
        let [private, second, third, fourth] = &self.waiting;
        private.get() & self.deliverable_private() | second.get() | third.get() | fourth.get() != 0
    }

    fn most_urgent_waiting(&self) -> Option<u32> {
        let mut best: Option<(u8, u32)> = None;
        for (index, word) in (0u32..).zip(&self.waiting) {
            let private = if index == 0 { self.deliverable_private() } else { u64::MAX };
            for bit in Members(word.get() & private) {
                let intid = (index << 6) | u32::from(bit);
                let candidate = (self.priority_of(intid), intid);
                best = Some(best.map_or(candidate, |found| found.min(candidate)));
            }
        }
        best.map(|(_, intid)| intid)
    }
}
