//! Cores of one vCPU each: nothing is exchanged.

use super::{ThisVcpu, crash};
use bulkhead_abi::Part;
use bulkhead_abi::image::CoreBoot;
use bulkhead_abi::observe::CRASH_BAD_PLAN;
use bulkhead_arch::CoreHead;

/// This part.
pub(super) const PART: Part = if cfg!(feature = "hybrid") { Part::Hybrid } else { Part::Own };

/// Puts the first start of the core's vCPU under way. A shared core is not this part's to run: its other vCPUs would never start.
pub(super) fn begin(vcpu: &mut ThisVcpu, boot_record: &CoreBoot) {
    if boot_record.schedule.0 != 0 {
        crash(boot_record.counters, CRASH_BAD_PLAN, 0, None);
    }
    vcpu.begin_partition();
}

/// Waits until the guest can run; returns its head.
// Every handler ends here: as a function it is ten instructions around the one comparison of `settle`.
#[inline(always)]
pub(super) fn continue_with(vcpu: &mut ThisVcpu) -> *mut CoreHead {
    vcpu.settle();
    &raw mut vcpu.head
}

/// Nobody else could be woken here.
// The answer is constant, and the caller's branch on it is to fold away.
#[inline(always)]
pub(super) const fn jump(_: &ThisVcpu, _: u32) -> Option<*mut CoreHead> {
    None
}
