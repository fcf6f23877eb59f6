//! The part `own`: each core is one vCPU's. Where `shared` decides whose turn it is, there is nothing to decide here.
//!
//! Every door of the room [`sharing`](crate::sharing) that other rooms use is here too, so that they need not know which part
//! they are built into. What a door does for a shared core alone does nothing.

use crate::state::{RunState, Vcpu};
use bulkhead_abi::PhysicalAddress;
use bulkhead_arch::Machine;

/// A guest on a core of its own has the redistributor to itself, so nothing is kept for it.
#[derive(Debug)]
pub struct PrivateInterrupts;

impl PrivateInterrupts {
    pub(crate) const fn new() -> Self {
        Self
    }
}

impl<M: Machine> Vcpu<M> {
    /// States whether the core is shared with other vCPUs: never in this part.
    pub const fn is_shared(&self) -> bool {
        false
    }

    /// Ends a handler: waits until the guest can run.
    // Every handler ends here: one comparison, and a function of its own would cost a call more.
    #[inline(always)]
    pub fn settle(&mut self) -> Option<u8> {
        if self.looks_at_each_exit() {
            self.kicked();
        }
        if self.run != RunState::Running {
            self.wait_until_running();
        }
        None
    }

    pub(crate) fn set_own_date(&mut self, ticks: u64) {
        if !self.watches() {
            self.machine.set_timer(ticks);
        }
    }

    pub(crate) fn timer_rang(&mut self) {
        self.timer_expired();
    }

    pub(crate) fn foreign_interrupt(&mut self, intid: u32) {
        self.finish_own(intid);
    }

    pub(crate) const fn other_owner(&self, _: u32) -> Option<u64> {
        None
    }

    pub(crate) const fn own_interrupt_arrived(&self, _: u32) {}

    pub(crate) const fn end_of_interrupts(&self) {}

    pub(crate) const fn sees_every_interrupt(&self) -> bool {
        false
    }

    pub(crate) const fn ends_are_seen(&self) -> bool {
        false
    }

    pub(crate) const fn look_for_managers(&self) {}

    pub(crate) const fn take_floating_point(&self) {}

    pub(crate) const fn wait_for_interrupt(&self) {}

    pub(crate) const fn private_interrupts_changed(&self) {}

    pub(crate) const fn hold_disabled(&self, _: u32) -> bool {
        false
    }

    pub(crate) const fn reset_own_timers(&self, _: PhysicalAddress) {}

    pub(crate) const fn deliverable_private(&self) -> u64 {
        u64::MAX
    }

    pub(crate) const fn kept_private(&self, _: PhysicalAddress, _: u64) -> Option<u32> {
        None
    }

    pub(crate) const fn keep_private(&self, _: PhysicalAddress, _: u64, value: u32) -> u32 {
        value
    }
}
