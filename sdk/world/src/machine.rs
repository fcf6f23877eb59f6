//! Registers of the machine, and the C interface over them.

use crate::memory::{self, Range};
use bulkhead_arm::gic::{
    GICD_TYPER, GICD_TYPER_LINES, GICR_WAKER, GICR_WAKER_CHILDREN_ASLEEP, GICR_WAKER_PROCESSOR_SLEEP,
};
use bulkhead_world::context::{Context, EntryLevel};
use bulkhead_world::control::SecureCall;
use bulkhead_world::flash::{WorldPlan, secure_ram};
use bulkhead_world::interrupts::{Write, of_distributor, of_redistributor};
use core::arch::{asm, global_asm};

/// Gives each interrupt to its world, and wakes the redistributor of this core. To be called once, before anything else of the library
/// and before any interrupt is enabled.
///
/// # Safety
/// `plan` is what the payload was given in x0, and the payload's translation tables are those of the flash file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_start(plan: *const WorldPlan) {
    // SAFETY: EL3 put the plan there and checked it, and nobody can write to it.
    let plan = unsafe { &*plan };
    let lines = read(plan.distributor.wrapping_add(GICD_TYPER)) & GICD_TYPER_LINES;
    of_distributor(plan.distributor, lines.wrapping_add(1), &plan.secure_interrupts).for_each(write);
    let waker = plan.redistributor.wrapping_add(GICR_WAKER);
    write(Write { address: waker, value: read(waker) & !GICR_WAKER_PROCESSOR_SLEEP });
    while read(waker) & GICR_WAKER_CHILDREN_ASLEEP != 0 {}
    of_redistributor(plan.redistributor, &plan.secure_interrupts).for_each(write);
}

/// Where a copy of pristine segments has come to.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Loading {
    /// The segment.
    pub segment: u64,
    /// Bytes of it that are done.
    pub offset: u64,
    /// CRC-32C register of what was copied.
    pub crc: u64,
}

/// What a step of a copy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum LoadingStep {
    /// There is more to do.
    More = 0,
    /// All segments are where they belong.
    Done = 1,
    /// A segment in flash is not what it was when the file was built.
    Damaged = 2,
}

/// Bytes of one step.
const STEP_BYTES: u64 = 4096;

/// Copies the next 4 KiB of the non-secure world's segments out of flash, and compares the CRC-32C at the end of each.
/// Begin with zeros in `loading`.
///
/// # Safety
/// As for [`bulkhead_world_start`]; nobody else uses `loading`, and the non-secure world does not run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_load(plan: *const WorldPlan, loading: *mut Loading) -> LoadingStep {
    // SAFETY: as `bulkhead_world_start`, and the caller's own structure.
    let (plan, loading) = unsafe { (&*plan, &mut *loading) };
    let used = usize::try_from(plan.segment_count).unwrap_or(0);
    let place = usize::try_from(loading.segment).unwrap_or(usize::MAX);
    let Some(segment) = plan.segments.iter().take(used).nth(place) else {
        memory::synchronise_instructions();
        return LoadingStep::Done;
    };
    if loading.offset == 0 {
        loading.crc = u64::from(u32::MAX);
    }
    let end = segment.bytes.min(loading.offset.saturating_add(STEP_BYTES));
    let to = Range { address: segment.to.wrapping_add(loading.offset), bytes: end.wrapping_sub(loading.offset) };
    // SAFETY: the plan's segments lie in flash and in the other world's window, page-aligned (the builder and `verify` see to it), and
    // the other world does not run: the caller is what runs it.
    loading.crc = u64::from(unsafe { memory::copy(segment.from.wrapping_add(loading.offset), to, loading.crc as u32) });
    loading.offset = end;
    if end < segment.bytes {
        return LoadingStep::More;
    }
    let is_whole = u64::from(!(loading.crc as u32)) == segment.crc;
    *loading = Loading { segment: loading.segment.saturating_add(1), ..Loading::default() };
    if is_whole { LoadingStep::More } else { LoadingStep::Damaged }
}

/// Gives the non-secure world its first context, and resets the registers that only EL3 reaches.
///
/// # Safety
/// As for [`bulkhead_world_load`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_reset(plan: *const WorldPlan) {
    // SAFETY: as `bulkhead_world_start`.
    let plan = unsafe { &*plan };
    let level = if plan.level == 2 { EntryLevel::El2 } else { EntryLevel::El1 };
    let context = Context::non_secure(plan.entry, plan.argument, level);
    // SAFETY: the context's place in secure RAM, which the host's tables map, and which EL3 uses while the other world runs alone.
    unsafe { core::ptr::with_exposed_provenance_mut::<Context>(secure_ram::CONTEXTS as usize).write_volatile(context) };
    reset_registers();
}

/// The plan has a world besides the payload.
///
/// # Safety
/// As for [`bulkhead_world_start`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_has_other(plan: *const WorldPlan) -> bool {
    // SAFETY: as `bulkhead_world_start`.
    unsafe { (*plan).entry != 0 }
}

// Gives the core to the non-secure world until an interrupt of the payload arrives or it calls; `bulkhead_world.h` has the contract. A function
// of the calling convention, whose callers keep nothing in x0 to x18: those are what EL3 may change. The label is where an interrupt
// finds the core that came back for it.
global_asm!(
    ".global bulkhead_world_enter, bulkhead_world_returned",
    "bulkhead_world_enter:",
    "mov x0, #{enter}",
    "smc #0",
    "bulkhead_world_returned:",
    "ret",
    enter = const SecureCall::Enter as u64,
);

/// Answers the call that brought the core back, and returns what the payload has to do besides.
///
/// # Safety
/// As for [`bulkhead_world_load`]; the last [`bulkhead_world_enter`] returned for a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_answer(_plan: *const WorldPlan) -> u64 {
    let context = core::ptr::with_exposed_provenance_mut::<Context>(secure_ram::CONTEXTS as usize);
    // SAFETY: as in `bulkhead_world_reset`.
    let x0 = unsafe { (&raw const (*context).x[0]).read_volatile() };
    // SAFETY: as above.
    let x1 = unsafe { (&raw const (*context).x[1]).read_volatile() };
    let (answer, action) = match x0 as u32 {
        0x8400_0000 => (0x1_0001, 0),
        0x8400_000a if [0x8400_0000, 0x8400_0008, 0x8400_0009, 0x8400_000a, 0x8000_0000].contains(&(x1 as u32)) => {
            (0, 0)
        }
        0x8400_0006 => (2, 0),
        0x8000_0000 => (0x1_0001, 0),
        0x8400_0008 => (0, 3),
        0x8400_0009 => (0, 4),
        _ => (u64::MAX, 0),
    };
    // SAFETY: as above.
    unsafe { (&raw mut (*context).x[0]).write_volatile(answer) };
    action
}

fn reset_registers() {
    // SAFETY: EL3 returns here, having changed x0 to x18 at most, and only registers of the other world.
    unsafe {
        asm!("smc #0", inout("x0") SecureCall::Reset as u64 => _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _,
             out("x6") _, out("x7") _, out("x8") _, out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _,
             out("x14") _, out("x15") _, out("x16") _, out("x17") _, out("x18") _, options(nostack));
    }
}

fn read(address: u64) -> u32 {
    // SAFETY: an address of the interrupt controller, which the plan gives and the host's tables map as a device.
    unsafe { core::ptr::with_exposed_provenance::<u32>(address as usize).read_volatile() }
}

fn write(what: Write) {
    // SAFETY: as for `read`; no memory of the payload is there.
    unsafe { core::ptr::with_exposed_provenance_mut::<u32>(what.address as usize).write_volatile(what.value) }
}

/// The library is compiled without code that panics; should there be any, the payload stops here.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
