//! Memory for a kernel, as large as the one on a core has.

use bulkhead_kernel::claims::{ShareRoom, Shares};
use bulkhead_kernel::servers::TimeRoom;
use bulkhead_kernel_abi::accounts::Accounts;
use bulkhead_kernel_abi::{Capability, MAX_COMPONENTS, MAX_SERVERS, MAX_THREADS, MAX_WIRES};
use bulkhead_objects::{
    Binding, Component, Counters, EndPoint, Page, Position, Process, Quota, Region, Room, Scheduler, Thread,
};
use bulkhead_sched::band::Bands;
use bulkhead_sched::kernel::{KernelCore, Sleepers};
use bulkhead_sched::tcap::Claims;
use zerocopy::FromZeros;

/// Memory for objects.
pub(crate) fn room() -> Room<'static> {
    fn many<T>(count: usize, make: impl Fn() -> T) -> &'static mut [T] {
        Vec::leak((0..count).map(|_| make()).collect())
    }
    Room {
        components: many(MAX_COMPONENTS, Component::default),
        slots: many(64, || Capability::NULL),
        threads: many(MAX_THREADS, Thread::default),
        end_points: many(8, || EndPoint::EMPTY),
        bindings: many(4, Binding::default),
        servers: many(MAX_SERVERS, || Position::EMPTY),
        schedulers: many(4, || Scheduler::EMPTY),
        tcaps: many(12, Counters::default),
        wires: many(MAX_WIRES, Counters::default),
        bands: many(2, Counters::default),
        regions: many(4, || Region::EMPTY),
        quotas: many(4, Quota::default),
        processes: many(MAX_COMPONENTS, || Process::EMPTY),
        pages: many(32, || Page::EMPTY),
        entries: &[],
        stacks: &[],
        programs: &[],
        segments: &[],
    }
}

/// Memory for time.
pub(crate) fn time_room() -> TimeRoom<'static> {
    TimeRoom {
        core: Box::leak(Box::new(KernelCore::empty())),
        sleepers: Box::leak(Box::new(Sleepers::new())),
        accounts: Box::leak(Box::new(Accounts::new_zeroed())),
        shares: ShareRoom {
            claims: Box::leak(Box::new(Claims::new())),
            bands: Box::leak(Box::new(Bands::new())),
            state: Box::leak(Box::new(Shares::NONE)),
        },
    }
}
