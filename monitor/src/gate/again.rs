//! Interrupts that arrive while their guest has them already (attack A12; design record 0034).
//!
//! What a `mapped` guest has in a list register, or what waits for one, is active in the interrupt controller and so silent. A `direct` guest can
//! take that state from any shared interrupt, because ICC_EOIR1_EL1 does not trap. One that its source still asserts then arrives again, as
//! often as the thief writes. A second list register with its number would be unpredictable, and each arrival is an exit of the owner.
//!
//! So when it has arrived again it is silent until its guest has ended it: it has the priority that is never signalled, and its list register
//! tells of its end. Whatever the thief does, its owner pays two exits for each interrupt. All state is in the interrupt controller and in the
//! list register, so there is none that could differ from it.

use crate::interrupts::noted::deactivate_noted;
use crate::interrupts::{ALL_FREE, LIST_REGISTERS};
use crate::state::Vcpu;
use bulkhead_abi::observe::Counter;
use bulkhead_arch::Machine;
use bulkhead_arm::{Intid, ListRegister};
use bulkhead_emulation::gic::{LEAST_URGENT_PHYSICAL, physical_priority};
use bulkhead_sched::Members;

/// Never signalled: the largest mask is no less urgent (IHI 0069, 4.8).
const SILENT: u8 = 0xff;

impl<M: Machine> Vcpu<M> {
    /// States whether the guest has this interrupt already, and if so makes it silent. Nobody else reaches the private interrupts of a core.
    pub(crate) fn arrives_again(&self, intid: u32) -> bool {
        let intid = Intid(intid);
        if intid.is_private() || self.waiting_of(intid.0 & !31, intid.bit()) == 0 && !self.tells_of_end(intid.0) {
            return false;
        }
        self.count(Counter::ArrivedAgain);
        self.machine.store8(self.priority_place(intid.0), SILENT);
        // A level is still there when it is listened to again; an edge is over, and nobody has seen this one.
        if self.planned_interrupt(intid.0).is_some_and(|plan| plan.edge != 0) {
            self.pend_spare(intid.0, true);
        }
        true
    }

    /// Makes the list register that has an interrupt tell of its end. False when none has it.
    fn tells_of_end(&self, intid: u32) -> bool {
        for index in 0..LIST_REGISTERS {
            let value = ListRegister(self.machine.list_register(index));
            if value.is_in_use() && value.intid().0 == intid {
                self.machine.set_list_register(index, value.with_end_seen().0);
                return true;
            }
        }
        false
    }

    /// One that became silent while it waited has a list register now.
    pub(crate) fn no_longer_waits(&self, intid: u32) {
        if self.machine.load8(self.priority_place(intid)) > LEAST_URGENT_PHYSICAL {
            self.tells_of_end(intid);
        }
    }

    /// The guest has ended interrupts that had become silent. At CPU_OFF that may not have been told yet.
    pub(crate) fn silent_ones_ended(&self) {
        for index in Members(u64::from(self.machine.ended_list_registers() & ALL_FREE)).map(u32::from) {
            let intid = self.machine.list_register(index) as u32;
            self.machine.set_list_register(index, 0);
            deactivate_noted(&self.machine, intid);
            self.listen_to(intid);
        }
    }

    /// The guest no longer has an interrupt, which may have become silent meanwhile.
    // Five callers that nobody waits for: one copy.
    #[inline(never)]
    pub(crate) fn listen_to(&self, intid: u32) {
        self.machine.store8(self.priority_place(intid), physical_priority(self.priority_of(intid)));
    }
}
