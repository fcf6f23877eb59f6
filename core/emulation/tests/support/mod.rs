//! What the tests and the fuzz targets of this crate share.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod bus;
pub(crate) mod input;
pub(crate) mod page;
pub(crate) mod random;
pub(crate) mod shadow;
pub(crate) mod targets;

use bulkhead_abi::plan::{INTERRUPT_DEVICE, InterruptPlan, PartitionPlan};
use std::sync::atomic::{AtomicU32, Ordering::Acquire};
use zerocopy::FromZeros;

/// A plan of two vCPUs on cores 2 and 5 of a board whose second cluster starts at core 4, with these interrupts.
pub(crate) fn plan(intids: &[u32]) -> PartitionPlan {
    let mut plan = PartitionPlan::new_zeroed();
    plan.vcpu_count = 2;
    plan.vcpu_mpidr[0] = 0x8000_0002;
    plan.vcpu_mpidr[1] = 0x8000_0101;
    for (slot, intid) in plan.interrupts.iter_mut().zip(intids) {
        *slot = InterruptPlan { intid: *intid, kind: INTERRUPT_DEVICE, edge: 0, ..InterruptPlan::default() };
    }
    plan.interrupt_count = intids.len() as u32;
    plan.highest_intid = intids.iter().copied().max().unwrap_or(31);
    plan
}

/// Waits for another thread closely enough that the accesses after it overlap with that thread's.
pub(crate) fn spin_until(word: &AtomicU32, value: u32) {
    let mut turns = 0u32;
    while word.load(Acquire) != value {
        turns += 1;
        if turns.is_multiple_of(256) { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}
