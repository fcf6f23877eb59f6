//! Powers: the right to do what others feel, as values that only the room `life` can make. Code that routes an interrupt, stops a
//! guest or powers the board off needs one of them as an argument, so a review of who may is a review of this room.
//!
//! They have no size: a power is a fact for the compiler and costs no instruction.

use crate::state::Vcpu;
use bulkhead_abi::plan::FLAG_MANAGES;
use bulkhead_abi::status::StatusPage;
use bulkhead_arch::{Machine, MayPowerOff};
use bulkhead_arm::Affinity;
use core::mem::offset_of;

/// To route an interrupt to a core.
#[derive(Clone, Copy, Debug)]
pub struct Route(pub(super) ());

/// To stop a guest: to silence its interrupts, to make its vCPUs stand, or to ask the core of another partition for it.
#[derive(Clone, Copy, Debug)]
pub struct Stop(pub(super) ());

#[cfg(all(test, feature = "shared"))]
impl Stop {
    /// For tests, which stand for this room.
    pub(crate) const OF_TEST: Self = Self(());
}

/// To power the board off.
#[derive(Clone, Copy, Debug)]
pub struct PowerOff(pub(super) ());

impl MayPowerOff for PowerOff {}

impl<M: Machine> Vcpu<M> {
    /// Of other partitions only a manager may stop any, and only by its plan ([`Vcpu::manage`] says which).
    pub(crate) fn power_of_manager(&self) -> Option<Stop> {
        (self.partition.flags & FLAG_MANAGES != 0).then_some(Stop(()))
    }

    /// A guest routes an interrupt: one of its own, to one of its own cores. The filter of GICD_IROUTER asks for nothing else.
    pub(crate) fn route_for_guest(&self, intid: u32, route: u64) {
        let own_core = |mpidr: &u64| mpidr & Affinity::FIELDS == route;
        if self.owned.owns(intid) && self.partition.vcpu_mpidr().iter().any(own_core) {
            self.route(intid, route, Route(()));
        }
    }

    /// Gives the console's focus to the next partition: the one that gets the UART's interrupt has it.
    pub(crate) fn give_focus(&self) {
        let word = self.status_place(offset_of!(StatusPage, focus_given));
        self.machine.publish32(word, self.machine.load32(word).wrapping_add(1));
        self.route(self.plan.uart_interrupt, self.plan.uart_next_mpidr, Route(()));
        // The caller deactivates the interrupt next, by a system register, which a DSB alone orders behind a store:
        // with the old route it would come back here.
        self.machine.barrier();
    }
}
