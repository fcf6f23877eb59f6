//! Stolen time (Arm DEN 0057A): guests that share a core are told how much of their time others had.
//!
//! Each vCPU has a page of its own, which the monitor of its core writes and its guest reads. The number in it changes when the
//! vCPU is chosen again, by one store of 64 bits, so its guest never sees half of it.

use crate::state::Vcpu;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_abi::hypercall::{NOT_SUPPORTED, SUCCESS};
use bulkhead_abi::schedule::SlotPlan;
use bulkhead_abi::status::StatusPage;
use bulkhead_arch::Machine;
use bulkhead_arm::smccc;
use bulkhead_guest_abi::guest::GUEST_STOLEN_TIME;
use bulkhead_schedule::stolen_time::{BYTES, FEATURES, PLACE};
use core::mem::offset_of;

impl<M: Machine> Vcpu<M> {
    /// Answers the calls about stolen time; `None`: it is another call, or no vCPU of the partition shares its core.
    pub(crate) fn stolen_time_call(&self, function: u64, asked: u64) -> Option<u64> {
        let place = self.stolen_time_place()?;
        match function as u32 {
            // Guests look here first (1.0, 3.1).
            smccc::ARCH_FEATURES => (asked as u32 == FEATURES).then_some(SUCCESS),
            FEATURES => Some(if matches!(asked as u32, FEATURES | PLACE) { SUCCESS } else { NOT_SUPPORTED }),
            PLACE => Some(place),
            _ => None,
        }
    }

    /// Where the guest reads what was stolen from this vCPU. Nothing is from one that has a core of its own; but guests ask their first vCPU
    /// whether there is stolen time, and want a structure for each. Behind the one of a sibling its page has zeroes.
    fn stolen_time_place(&self) -> Option<u64> {
        if let Some(slot) = self.slot_plan() {
            return Some(slot.stolen_time_guest.0);
        }
        let first = u64::from(self.partition.shared_vcpus.trailing_zeros());
        let page = first.wrapping_mul(PAGE_BYTES).wrapping_add(GUEST_STOLEN_TIME.0);
        (self.partition.shared_vcpus != 0).then(|| page.wrapping_add(BYTES))
    }

    fn slot_plan(&self) -> Option<&'static SlotPlan> {
        let plan = self.core.scheduler.as_deref()?.plan;
        plan.slots.get(self.plan.slot as usize)
    }

    /// A guest of a shared core is started. Shared interrupts that came while it was off were acknowledged, because they would have come again
    /// and again, and are to come now. With a new instance nothing was stolen from it yet.
    pub(crate) fn begin_run(&mut self) {
        let Some(planned) = self.slot_plan() else { return };
        self.return_shared_interrupts();
        let generation = self.machine.load32(self.status_place(offset_of!(StatusPage, generation)));
        if core::mem::replace(&mut self.generation, generation) == generation {
            return;
        }
        if let Some(slot) = self.own_slot() {
            slot.stolen_ticks = 0;
        }
        // Written back: the guest starts with its caches off, and would read past them what memory held before.
        self.machine.scrub(planned.stolen_time, PAGE_BYTES);
    }
}
