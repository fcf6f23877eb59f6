//! The scheduler of a shared core: [`bulkhead_schedule::shared`] with this machine's registers.

use crate::state::VcpuShared;
use bulkhead_abi::schedule::SCHEDULER_BYTES;
use bulkhead_arch::{FloatingPoint, GuestContext};
pub use bulkhead_sched::dispatch::Stint;
pub use bulkhead_schedule::shared::{Held, NEVER, Policy};

/// Registers of a vCPU while they are not in the machine.
#[derive(Debug, Default)]
pub struct Registers {
    /// Those that leave whenever another vCPU is loaded.
    pub context: GuestContext,
    /// Those that leave when another vCPU uses them (or always, where the plan says so).
    pub floating_point: FloatingPoint,
    /// What its siblings tell it, if it has any that could.
    pub words: Option<&'static VcpuShared>,
}

/// The scheduler.
pub type Scheduler = bulkhead_schedule::shared::Scheduler<Registers>;
/// One vCPU of the core.
pub type Slot = bulkhead_schedule::shared::Slot<Registers>;

const _: () = assert!(size_of::<Scheduler>() <= SCHEDULER_BYTES as usize, "the scheduler fits where the plan puts it");
