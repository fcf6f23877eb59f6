//! A non-secure world whose timer rings at instants of a pattern, and which notes how long each interrupt waited: when it was due, when its
//! vector was entered, when its handler had done its work (SG-E5, SG-E6).
//!
//! Its memory at [`PARAMETERS`] says what to do; what it found is behind that, for the host to read. It computes for ever beside, or
//! sleeps. When all is noted it switches itself off.
#![no_std]
#![no_main]

use core::arch::{asm, global_asm};

global_asm!(include_str!("start.s"));

/// The parameters, and behind them the records.
const PARAMETERS: usize = 0x4100_0000;
/// The virtual timer's INTID.
const TIMER: u64 = 27;
/// Redistributor of the core, its frame of private interrupts.
const PRIVATE: usize = 0x080b_0000;
const DISTRIBUTOR: usize = 0x0800_0000;

/// What the host writes, then what it reads. Times are ticks of the counter.
#[repr(C)]
struct Parameters {
    /// Interrupts to take.
    samples: u64,
    /// Their distance, and how much more or less it may be.
    spacing: u64,
    dither: u64,
    /// Not 0: the distance counts from the end of the handler.
    closed: u64,
    /// Work of the handler.
    handler: u64,
    /// Not 0: it says at the end of the handler that it has nothing urgent left.
    yields: u64,
    /// Not 0: it sleeps between interrupts.
    sleeps: u64,
    /// Of random numbers.
    seed: u64,
    /// Records so far.
    taken: u64,
}

/// One interrupt.
#[repr(C)]
struct Record {
    due: u64,
    entered: u64,
    done: u64,
}

fn parameters() -> *mut Parameters {
    core::ptr::with_exposed_provenance_mut(PARAMETERS)
}

fn record(number: u64) -> *mut Record {
    core::ptr::with_exposed_provenance_mut::<Record>(PARAMETERS + 0x1000).wrapping_add(number as usize)
}

fn counter() -> u64 {
    let now;
    // SAFETY: reads the counter.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack)) };
    now
}

/// splitmix64: a number below `bound`.
fn below(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((u128::from(mixed ^ mixed >> 31) * u128::from(bound)) >> 64) as u64
}

/// The compare value of the timer: when the interrupt that is taken now was due.
fn due() -> u64 {
    let due;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntv_cval_el0", out(reg) due, options(nomem, nostack)) };
    due
}

fn ring_at(instant: u64) {
    // SAFETY: the world's own timer.
    unsafe { asm!("msr cntv_cval_el0, {}", "isb", in(reg) instant, options(nomem, nostack)) };
}

fn call(function: u64) {
    // SAFETY: the payload answers in x0, and changes nothing else.
    unsafe { asm!("smc #0", inout("x0") function => _, in("x1") 0_u64, options(nostack)) };
}

/// Called by the vector with the counter as it was entered.
#[unsafe(no_mangle)]
extern "C" fn interrupt(entered: u64) {
    let acknowledged: u64;
    // SAFETY: ICC_IAR1_EL1.
    unsafe { asm!("mrs {}, S3_0_C12_C12_0", out(reg) acknowledged, options(nomem, nostack)) };
    if acknowledged != TIMER {
        return;
    }
    let due = due();
    // SAFETY: the host gave this memory, and nobody else writes to it.
    let what = unsafe { &mut *parameters() };
    let until = counter().wrapping_add(what.handler);
    while counter() < until {}
    let done = counter();
    // SAFETY: the host gave room for as many records as it asked for samples.
    unsafe { record(what.taken).write_volatile(Record { due, entered, done }) };
    what.taken = what.taken.wrapping_add(1);
    let distance = (what.spacing + below(&mut what.seed, 2 * what.dither + 1)).saturating_sub(what.dither);
    ring_at(if what.closed != 0 { done } else { due } + distance.max(1));
    // SAFETY: ICC_EOIR1_EL1.
    unsafe { asm!("msr S3_0_C12_C12_1, {}", "isb", in(reg) acknowledged, options(nomem, nostack)) };
    if what.taken == what.samples {
        call(0x8400_0008);
    }
    if what.yields != 0 {
        call(0xc600_0020);
    }
}

#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    // SAFETY: the interrupt controller of the world: its timer on, with a priority of its own; then the CPU interface.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<u32>(DISTRIBUTOR).write_volatile(1 << 1 | 1 << 4);
        core::ptr::with_exposed_provenance_mut::<u8>(PRIVATE + 0x400 + TIMER as usize).write_volatile(0xa0);
        core::ptr::with_exposed_provenance_mut::<u32>(PRIVATE + 0x100).write_volatile(1 << TIMER);
        asm!("msr S3_0_C4_C6_0, {mask}", "msr S3_0_C12_C12_7, {on}", "isb", mask = in(reg) 0xff_u64, on = in(reg) 1_u64);
    }
    // SAFETY: as in `interrupt`.
    let first = unsafe { (*parameters()).spacing };
    ring_at(counter() + first);
    // SAFETY: the timer's interrupt and the core's.
    unsafe { asm!("msr cntv_ctl_el0, {}", "isb", "msr daifclr, #2", in(reg) 1_u64, options(nostack)) };
    // SAFETY: as in `interrupt`.
    let sleeps = unsafe { (*parameters()).sleeps } != 0;
    loop {
        if sleeps {
            // SAFETY: waits for an interrupt.
            unsafe { asm!("wfi", options(nomem, nostack)) };
        }
    }
}

/// Called by every other vector: the host sees that records are missing.
#[unsafe(no_mangle)]
extern "C" fn unexpected() -> ! {
    loop {
        call(0x8400_0009);
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unexpected()
}
