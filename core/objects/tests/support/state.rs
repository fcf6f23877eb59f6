//! All state, to compare.

use super::{Bench, Fake};
use bulkhead_kernel_abi::Capability;
use bulkhead_objects::{
    Binding, Component, EndPoint, Links, Page, Position, Process, Quota, Region, Scheduler, Thread,
};

/// Everything that a refused call must leave as it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Copy {
    pub(crate) components: Vec<Component>,
    pub(crate) slots: Vec<Capability>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) end_points: Vec<EndPoint>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) servers: Vec<Position>,
    pub(crate) schedulers: Vec<Scheduler>,
    pub(crate) regions: Vec<Region>,
    pub(crate) quotas: Vec<Quota>,
    pub(crate) processes: Vec<Process>,
    pub(crate) pages: Vec<Page>,
    queues: (Links, Links),
    pub(crate) running: Option<u16>,
    pub(crate) world: Fake,
}

impl Copy {
    pub(crate) fn of(b: &Bench<'_>) -> Self {
        let room = b.objects.room();
        let (ready, listed) = b.objects.queues();
        Self {
            components: room.components.to_vec(),
            slots: room.slots.to_vec(),
            threads: room.threads.to_vec(),
            end_points: room.end_points.to_vec(),
            bindings: room.bindings.to_vec(),
            servers: room.servers.to_vec(),
            schedulers: room.schedulers.to_vec(),
            regions: room.regions.to_vec(),
            quotas: room.quotas.to_vec(),
            processes: room.processes.to_vec(),
            pages: room.pages.to_vec(),
            queues: (ready.clone(), listed.clone()),
            running: b.objects.running(),
            world: b.world.clone(),
        }
    }
}
