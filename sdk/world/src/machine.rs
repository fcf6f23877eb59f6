//! Registers of the machine, and the C interface over them.

use bulkhead_arm::gic::{
    GICD_TYPER, GICD_TYPER_LINES, GICR_WAKER, GICR_WAKER_CHILDREN_ASLEEP, GICR_WAKER_PROCESSOR_SLEEP,
};
use bulkhead_world::flash::WorldPlan;
use bulkhead_world::interrupts::{Write, of_distributor, of_redistributor};

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
