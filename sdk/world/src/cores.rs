//! Cores beside the payload's, where the secure monitor is `multi` (SG-13): what EL3 finds of them, and worlds that ended there.
//!
//! EL3 has no loop and initialises nothing, so the library does, before it enables the SGI by which EL3 can be asked to start a core: a core
//! without a world looks at no word before that SGI has come.

use crate::machine::{level, wake, write};
use bulkhead_world::context::{CORE_BYTES, Context};
use bulkhead_world::cores::{KICK, LINE_BYTES, MOST_CORES, Start, StateLine, ticket_after_end};
use bulkhead_world::flash::{WorldPlan, secure_ram};
use bulkhead_world::interrupts::of_other_core;
use core::arch::asm;

/// A core's line; the number is below [`MOST_CORES`].
fn line(core: usize) -> *mut StateLine {
    let offset = LINE_BYTES.wrapping_mul(core as u64);
    core::ptr::with_exposed_provenance_mut(secure_ram::STATE.wrapping_add(offset) as usize)
}

/// Gives EL3 a line and a context for each core of the plan, and each core's private interrupts to their owners.
pub(crate) fn start(plan: &WorldPlan) {
    let others = plan.cores.redistributors.iter().zip(plan.cores.closed.iter().skip(1));
    let count = (plan.cores.count as usize).min(MOST_CORES);
    if count == 0 {
        return;
    }
    // SAFETY: the page of lines in secure RAM, which the host's tables map; no other core looks at it yet. The boot core has a world.
    unsafe { line(0).write_volatile(StateLine { turn: 1, ..StateLine::default() }) };
    for (core, (redistributor, closed)) in (1..count).zip(others) {
        let place = secure_ram::CONTEXTS as usize + CORE_BYTES * core;
        let context = Context::non_secure(0, 0, level(plan));
        // SAFETY: as above: the core's line and its context, and then the barrier: both are there before the core can be asked to look.
        unsafe {
            line(core).write_volatile(StateLine::default());
            core::ptr::with_exposed_provenance_mut::<Context>(place).write_volatile(context);
            asm!("dsb sy", options(nostack));
        }
        wake(*redistributor);
        of_other_core(*redistributor, *closed).for_each(write);
    }
}

/// The function id, SYSTEM_OFF or SYSTEM_RESET, by which the world of a core without a payload ended; 0 while it has not, or when it was let begin
/// again. The library's own SGI arrives then. Until the payload lets it begin again, nobody can start the core.
///
/// # Safety
/// As for [`crate::machine::bulkhead_world_start`], which was called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_ended(plan: *const WorldPlan, core: u32) -> u64 {
    // SAFETY: the caller's.
    unsafe { end(plan, core) }.map_or(0, |(ended, _)| ended)
}

/// How a world ended, and the ticket by which it begins again; `None` when it has not ended, or a request waits.
///
/// # Safety
/// As for [`bulkhead_world_ended`].
unsafe fn end(plan: *const WorldPlan, core: u32) -> Option<(u64, u64)> {
    // SAFETY: EL3 put the plan there and checked it, and nobody can write to it.
    if core == 0 || core >= unsafe { (*plan).cores.count } {
        return None;
    }
    let line = line(core as usize);
    // SAFETY: words of the core's line, which it writes alone, and the payload's own request there.
    // The turn first: a world that begins again meanwhile has an end of before and the turn of now otherwise, so one that runs would get a ticket. The
    // host's tables map the page as Device memory, which keeps the order.
    let (turn, ended, ticket) = unsafe {
        (
            (&raw const (*line).turn).read_volatile(),
            (&raw const (*line).ended).read_volatile(),
            (&raw const (*line).starts[0].ticket).read_volatile(),
        )
    };
    ticket_after_end(ended, turn, ticket).map(|ticket| (ended, ticket))
}

/// Lets the world of a core begin again that ended. Returns false, and does nothing, when [`bulkhead_world_ended`] says 0.
///
/// # Safety
/// As for [`bulkhead_world_ended`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_begin(plan: *const WorldPlan, core: u32, entry: u64, argument: u64) -> bool {
    // SAFETY: the caller's.
    let Some((_, ticket)) = (unsafe { end(plan, core) }) else { return false };
    let line = line(core as usize);
    // SAFETY: a request in the place of the payload's core, which EL3 does not look at before its ticket is right. EL3 writes there for a core that
    // may be started by others alone, and this one has an odd turn, so it leaves the words as they are. The ticket comes last, and then the SGI, both
    // behind barriers.
    unsafe {
        let place = &raw mut (*line).starts[0];
        place.write_volatile(Start { ticket: 0, entry, argument, pad: 0 });
        asm!("dsb sy", options(nostack));
        (&raw mut (*place).ticket).write_volatile(ticket);
        let sgi = u64::from(KICK) << 24 | 1 << core;
        asm!("dsb sy", "msr S3_0_C12_C11_7, {}", "isb", in(reg) sgi, options(nostack));
    }
    true
}
