//! What the monitor at EL2 says of its partitions (SG-4, SG-61), for a kernel in C: their states, and their faults with the addresses.
//!
//! The pages are EL2's, which may be broken: what lies there are numbers for the application, and nothing here follows from them. The host's tables
//! map them uncached, as EL2 writes them.

use bulkhead_abi::status::{FaultRecord, StatusPage};
use bulkhead_world::flash::WorldPlan;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering::Acquire};

/// How a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Found {
    /// One of the `STATE_` constants of `core/abi`.
    pub state: u32,
    /// One of its `REASON_` constants.
    pub reason: u32,
    /// Times started.
    pub starts: u64,
    /// Faults so far.
    pub faults: u64,
    /// The guest address of the latest one, where it was an access.
    pub address: u64,
    /// Where its guest stood.
    pub program_counter: u64,
}

/// Reads how a partition is. False when there is none of this number.
///
/// # Safety
/// `plan` is what the payload was given in x0, and `found` is the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_partition_look(plan: *const WorldPlan, partition: u32, found: *mut Found) -> bool {
    // SAFETY: EL3 put the plan there and checked it, and nobody can write to it.
    let pages = unsafe { (*plan).partitions };
    let Some(page) = pages.get(partition as usize).copied().filter(|page| *page != 0) else { return false };
    let place = |offset: usize| page.wrapping_add(offset as u64) as usize;
    // SAFETY: words of a page that the plan gives and the host's tables map; EL2 may write to it meanwhile.
    let half = |offset| unsafe { core::ptr::with_exposed_provenance::<u32>(place(offset)).read_volatile() };
    // SAFETY: as above.
    let word = |offset| unsafe { core::ptr::with_exposed_provenance::<u64>(place(offset)).read_volatile() };
    let state = core::ptr::with_exposed_provenance_mut::<u32>(place(offset_of!(StatusPage, state)));
    let fault = offset_of!(StatusPage, fault);
    let now = Found {
        // Acquire, for the Release with which EL2 publishes a state: what it wrote before is read behind it. Only the state orders: of a fault that EL2
        // is just recording, the number may be there before the address, or the other way round.
        // SAFETY: as above, and everybody writes it whole.
        state: unsafe { AtomicU32::from_ptr(state) }.load(Acquire),
        reason: half(offset_of!(StatusPage, reason)),
        starts: half(offset_of!(StatusPage, generation)).into(),
        faults: word(offset_of!(StatusPage, faults)),
        address: word(fault.wrapping_add(offset_of!(FaultRecord, guest_address))),
        program_counter: word(fault.wrapping_add(offset_of!(FaultRecord, program_counter))),
    };
    // SAFETY: the caller's.
    unsafe { found.write(now) };
    true
}
