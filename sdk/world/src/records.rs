//! Records on the secure console, for a kernel in C: what of them the library knows. The ring is the kernel's.

use bulkhead_world::flash::WorldPlan;
use bulkhead_world::records::{FRAME_BYTES, Record};

/// How many records the payload keeps until they are written out; 0 = none.
///
/// # Safety
/// As for [`crate::machine::bulkhead_world_start`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_trace_records(plan: *const WorldPlan) -> u64 {
    // SAFETY: the caller's.
    unsafe { (*plan).trace_records }
}

/// Makes the bytes of a record.
///
/// # Safety
/// `frame` has room for them, and nobody else uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_frame(kind: u8, counter: u64, argument: u64, frame: *mut [u8; FRAME_BYTES]) {
    // SAFETY: the caller's.
    unsafe { frame.write(Record { kind, counter, argument }.frame()) };
}
