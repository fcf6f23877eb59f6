//! Shared cores: who runs next, and how one vCPU makes room for another. Only the part `shared` of the monitor has this room;
//! in `own`, [`alone`](crate) stands in its place and has the same doors.

mod arrivals;
pub mod decide;
pub mod exchange;
mod posting;
mod private;
mod recording;
pub mod scheduler;
mod stolen;

pub use private::PrivateInterrupts;

use crate::state::Vcpu;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_abi::schedule::USAGE_MAGIC;
use bulkhead_arch::Machine;
use scheduler::Scheduler;

impl<M: Machine> Vcpu<M> {
    /// States whether the core is shared with other vCPUs.
    pub fn is_shared(&self) -> bool {
        self.plan.schedule.0 != 0
    }

    /// Takes this vCPU into its core's scheduler and puts its partition's first start under way.
    pub fn join(&mut self, scheduler: &mut Scheduler) {
        scheduler.add(self.plan, self.partition);
        self.listen_to_siblings(scheduler);
        self.machine.store64(scheduler.plan.usage, USAGE_MAGIC);
        if let Some(planned) = scheduler.plan.slots.get(self.plan.slot as usize) {
            self.machine.scrub(planned.stolen_time, PAGE_BYTES);
        }
        self.begin_partition();
    }
}
