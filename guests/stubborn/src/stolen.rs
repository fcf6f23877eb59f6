//! Attack A12: a thief takes the active state of a neighbour's interrupt while it handles it.

use bulkhead_sdk::interrupt::{self, InterruptId, VIRTUAL_TIMER};
use bulkhead_sdk::{cpu, mmio, println, timer};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A PL031 of QEMU `virt`, and its interrupt, a level.
const CLOCK: u64 = 0x0901_0000;
const CLOCK_INTERRUPT: InterruptId = InterruptId(34);
const CLOCK_DATA: u64 = 0x00;
const CLOCK_MATCH: u64 = 0x04;
const CLOCK_INTERRUPT_MASK: u64 = 0x10;
const CLOCK_MASKED_STATUS: u64 = 0x18;
const CLOCK_INTERRUPT_CLEAR: u64 = 0x1c;
/// SGI frame and GICR_ICACTIVER0 of a redistributor.
const CLEAR_ACTIVE: u64 = 0x1_0380;
/// Times that other cores of the emulator have their turn while the owner handles an interrupt.
const HANDLED_FOR: u32 = 2;

static TAKEN: AtomicU64 = AtomicU64::new(0);
/// Interrupts that the device did not raise.
static FOR_NOTHING: AtomicU64 = AtomicU64::new(0);

/// The clock raises its interrupt `count` times, and each is handled for a while before the clock is made quiet.
pub(crate) fn own(count: u64) {
    interrupt::on_interrupt(handle);
    interrupt::start();
    interrupt::enable(CLOCK_INTERRUPT);
    cpu::unmask_interrupts();
    println!("stubborn owns a clock");
    for number in 1..=count {
        // SAFETY: registers of the clock, which is this guest's; it writes no memory. QEMU's raises its interrupt at once when the date is now.
        unsafe {
            mmio::write32(CLOCK + CLOCK_INTERRUPT_MASK, 1);
            mmio::write32(CLOCK + CLOCK_MATCH, mmio::read32(CLOCK + CLOCK_DATA));
        }
        cpu::wait_until(|| TAKEN.load(Relaxed) >= number);
    }
    println!("stubborn took {} interrupts, {} for nothing", TAKEN.load(Relaxed), FOR_NOTHING.load(Relaxed));
}

fn handle(id: InterruptId) {
    if id != CLOCK_INTERRUPT {
        return;
    }
    // SAFETY: as in `own`.
    if unsafe { mmio::read32(CLOCK + CLOCK_MASKED_STATUS) } == 0 {
        FOR_NOTHING.fetch_add(1, Relaxed);
        return;
    }
    for _ in 0..HANDLED_FOR {
        cpu::yield_now();
    }
    // SAFETY: as in `own`.
    unsafe { mmio::write32(CLOCK + CLOCK_INTERRUPT_CLEAR, 1) };
    TAKEN.fetch_add(1, Relaxed);
}

/// Ends the neighbour's interrupt for ever. An end needs something that is active here: the own timer, which is made to come again each time.
pub(crate) fn steal() -> ! {
    interrupt::start();
    timer::enable_interrupt();
    timer::set_compare_ticks(0);
    println!("stubborn steals");
    let clear_active = interrupt::redistributor() + CLEAR_ACTIVE;
    loop {
        // SAFETY: changes the states of interrupts only; they are masked, so no handler is in between.
        unsafe {
            core::arch::asm!(
                "mrs {found}, S3_0_C12_C12_0",   // ICC_IAR1_EL1
                "msr S3_0_C12_C12_1, {foreign}", // ICC_EOIR1_EL1
                "isb",
                found = out(reg) _, foreign = in(reg) u64::from(CLOCK_INTERRUPT.0), options(nostack)
            );
            mmio::write32(clear_active, VIRTUAL_TIMER.bit());
        }
    }
}
