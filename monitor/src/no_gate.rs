//! No payload above (parts `own` and `shared`): cores reach each other by SGI, and nobody stops a `direct` guest, which is trusted.
//!
//! The doors of `gate.rs`, which do nothing here.

use crate::interrupts::OWN_INTERRUPTS;
use crate::state::Vcpu;
use bulkhead_arch::Machine;
use bulkhead_emulation::trap::Syndrome;

impl<M: Machine> Vcpu<M> {
    pub(crate) const fn own_interrupts(&self) -> u32 {
        OWN_INTERRUPTS
    }

    pub(crate) const fn may_be_kept(&self, _: u32) -> bool {
        false
    }

    pub(crate) const fn kicks(&self, _: u64, _: u32) -> bool {
        false
    }

    pub(crate) const fn kicked(&self) -> bool {
        false
    }

    // In `shared` nobody asks: its dates are those of all guests of a core.
    #[cfg(not(feature = "shared"))]
    pub(crate) const fn watches(&self) -> bool {
        false
    }

    pub(crate) const fn reset_interface(&self) {}

    /// States whether every exit of this guest ends with a look at what others ask of it: never here.
    pub const fn looks_at_each_exit(&self) -> bool {
        false
    }

    pub(crate) const fn interface_accessed(&self, _: Syndrome) -> bool {
        false
    }
}
