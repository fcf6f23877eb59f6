//! A non-secure world that works for some milliseconds and then fails in the way of its number (SG-61, SG-62, SG-E8).
//!
//! It says that it begins, and whether all that it changed the time before is as it was built: a word of its data, its own text, and a page far from
//! both. Then it takes interrupts of its timer and shows signs of life, and fails.
#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU64, Ordering};

global_asm!(include_str!("start.s"));

/// The virtual timer's INTID.
const TIMER: u64 = 27;
/// Redistributor of the core, its frame of private interrupts.
const PRIVATE: usize = 0x080b_0000;
const DISTRIBUTOR: usize = 0x0800_0000;
const UART: usize = 0x0900_0000;
/// Ticks of the counter in a millisecond.
const MS: u64 = 62_500;
/// Interrupts that it takes before it fails.
const WORK: u64 = 4;
/// A page that no segment fills.
const FAR: usize = 0x4040_0000;
/// Where nothing is that a world may execute: secure RAM.
const NOWHERE: usize = 0x0e02_0000;

const CALL_HEARTBEAT: u64 = 0xc600_0001;
const SYSTEM_OFF: u64 = 0x8400_0008;
const SYSTEM_RESET: u64 = 0x8400_0009;

/// How it fails; other numbers do not.
mod way {
    pub(super) const MASKED_LOOP: u64 = 1;
    pub(super) const ENDLESS_FAULT: u64 = 2;
    pub(super) const LIES: u64 = 3;
    pub(super) const SILENCE: u64 = 4;
    pub(super) const OFF: u64 = 5;
    pub(super) const RESET: u64 = 6;
}

static TICKS: AtomicU64 = AtomicU64::new(0);
static IS_SILENT: AtomicU64 = AtomicU64::new(0);
/// What it was built with, in `.data`.
static BUILT: AtomicU64 = AtomicU64::new(0x5eed);

unsafe extern "C" {
    /// A word of the text that nothing executes.
    static text_word: AtomicU64;
    /// Vectors of undefined instructions. Others that cannot be fetched would be no time at all on QEMU, which counts instructions.
    static endless: u32;
}

fn print(text: &str) {
    for byte in text.bytes() {
        // SAFETY: the world's own UART, which QEMU never has full.
        unsafe { core::ptr::with_exposed_provenance_mut::<u32>(UART).write_volatile(u32::from(byte)) };
    }
}

fn counter() -> u64 {
    let now;
    // SAFETY: reads the counter.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack)) };
    now
}

fn ring_in(ticks: u64) {
    // SAFETY: the world's own timer.
    unsafe { asm!("msr cntv_cval_el0, {}", "isb", in(reg) counter() + ticks, options(nomem, nostack)) };
}

fn call(function: u64) {
    // SAFETY: the payload answers in x0, and changes nothing else.
    unsafe { asm!("smc #0", inout("x0") function => _, in("x1") 0_u64, options(nostack)) };
}

/// Called by the vector of interrupts.
#[unsafe(no_mangle)]
extern "C" fn interrupt() {
    let acknowledged: u64;
    // SAFETY: ICC_IAR1_EL1.
    unsafe { asm!("mrs {}, S3_0_C12_C12_0", out(reg) acknowledged, options(nomem, nostack)) };
    if acknowledged != TIMER {
        return;
    }
    ring_in(MS);
    TICKS.fetch_add(1, Ordering::Relaxed);
    if IS_SILENT.load(Ordering::Relaxed) == 0 {
        call(CALL_HEARTBEAT);
    }
    // SAFETY: ICC_EOIR1_EL1.
    unsafe { asm!("msr S3_0_C12_C12_1, {}", "isb", in(reg) acknowledged, options(nomem, nostack)) };
}

/// States whether all is as it was built, and changes it.
fn is_pristine() -> bool {
    let far = core::ptr::with_exposed_provenance_mut::<u64>(FAR);
    // SAFETY: the world's own memory, where nothing else is.
    let far_was = unsafe { far.read_volatile() };
    // SAFETY: as above.
    unsafe { far.write_volatile(!0) };
    // SAFETY: a word of the text, which is not executed and may be written: there is no translation.
    let text = unsafe { &text_word };
    let text_was = text.swap(!0, Ordering::Relaxed);
    BUILT.swap(!0, Ordering::Relaxed) == 0x5eed && text_was == 0x1dea && far_was == 0
}

/// Everything that a world can mask.
fn mask() {
    // SAFETY: the world's own masks: DAIF, ICC_IGRPEN1_EL1, ICC_PMR_EL1.
    unsafe {
        asm!("msr daifset, #15", "msr S3_0_C12_C12_7, xzr", "msr S3_0_C4_C6_0, xzr", "isb", options(nomem, nostack));
    }
}

fn fail(way: u64) {
    match way {
        way::MASKED_LOOP => {
            mask();
            loop {
                core::hint::spin_loop();
            }
        }
        way::ENDLESS_FAULT => {
            mask();
            // SAFETY: nothing comes back: what is jumped to cannot be fetched, and the vectors fault themselves.
            unsafe {
                asm!("msr vbar_el1, {}", "isb", "br {}", in(reg) &raw const endless, in(reg) NOWHERE, options(noreturn));
            };
        }
        way::LIES => {
            mask();
            loop {
                call(CALL_HEARTBEAT);
            }
        }
        way::SILENCE => IS_SILENT.store(1, Ordering::Relaxed),
        way::OFF => call(SYSTEM_OFF),
        way::RESET => call(SYSTEM_RESET),
        _ => (),
    }
}

#[unsafe(no_mangle)]
extern "C" fn main(way: u64) -> ! {
    print(if is_pristine() { "world: begins\n" } else { "world: FAILED: begins with what was before\n" });
    // SAFETY: the interrupt controller of the world: its timer on, with a priority of its own; then the CPU interface.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<u32>(DISTRIBUTOR).write_volatile(1 << 1 | 1 << 4);
        core::ptr::with_exposed_provenance_mut::<u8>(PRIVATE + 0x400 + TIMER as usize).write_volatile(0xa0);
        core::ptr::with_exposed_provenance_mut::<u32>(PRIVATE + 0x100).write_volatile(1 << TIMER);
        asm!("msr S3_0_C4_C6_0, {mask}", "msr S3_0_C12_C12_7, {on}", "isb", mask = in(reg) 0xff_u64, on = in(reg) 1_u64);
    }
    ring_in(MS);
    // SAFETY: the timer's interrupt and the core's.
    unsafe { asm!("msr cntv_ctl_el0, {}", "isb", "msr daifclr, #2", in(reg) 1_u64, options(nostack)) };
    while TICKS.load(Ordering::Relaxed) < WORK {}
    print("world: works\n");
    fail(way);
    loop {
        // SAFETY: waits for an interrupt.
        unsafe { asm!("wfi", options(nomem, nostack)) };
    }
}

/// Called by every other vector.
#[unsafe(no_mangle)]
extern "C" fn unexpected() -> ! {
    print("world: FAILED: an exception\n");
    loop {
        core::hint::spin_loop();
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unexpected()
}
