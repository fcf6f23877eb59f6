//! A non-secure world for experiments with servers, which notes what happened to it. Its memory at [`PARAMETERS`] says what to do; what it found
//! is behind that, for the host to read. When all is noted it switches itself off. Its kinds:
//!
//! - [`ARRIVALS`]: its timer rings at instants of a pattern. Each record is one interrupt: when it was due, when its vector was entered, when its
//!   handler had done its work (SG-E5, SG-E6). It computes for ever beside, or sleeps.
//! - [`ABSENCES`]: it computes and looks at the counter. Each record is a time in which it did not run (SG-E6).
//! - [`THREADS`]: a kernel of two threads, an idle one and one that its timer wakes. Each record holds, before, the date and the priority that
//!   the thread has then; afterwards the date, the thread's first instruction, and its end. The hook of its switch says which latency task
//!   the thread that runs next wants (SG-81, SG-82, SG-E7).
//! - [`WINDOWS`]: it computes, and each interrupt of its windows releases a job. Each record is one: when the vector was entered, twice, and when the job was
//!   done (SG-51).
//! - [`WISHES`]: as [`ABSENCES`], and between two looks it writes words into the page of its wish, at [`Parameters::spacing`], that are priorities
//!   and none (SG-81).
#![no_std]
#![no_main]

use bulkhead_world::servers::{PriorityRange, wanted_by_priority};
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
    /// Which kind of world.
    kind: u64,
    /// Records to make.
    samples: u64,
    /// Their distance, and how much more or less it may be; of [`WISHES`] the page.
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

const ARRIVALS: u64 = 0;
const ABSENCES: u64 = 1;
const THREADS: u64 = 2;
const WINDOWS: u64 = 3;
const WISHES: u64 = 4;
/// The interrupt of its windows.
const WINDOW: u64 = 43;

/// A shorter absence is none: a tick of the payload while the world runs.
const LEAST_ABSENCE: u64 = 2_500;
const OFF: u64 = 0x8400_0008;
const RESET: u64 = 0x8400_0009;
const YIELD: u64 = 0xc600_0020;

/// Thread priorities and the latency tasks that they want: the published sample (SG-81).
const WANTED: [PriorityRange; 2] =
    [PriorityRange { from: 95, to: 99, server: 0 }, PriorityRange { from: 88, to: 94, server: 1 }];
const IDLE: u32 = 0;
/// A date of the timer that does not come.
const NEVER: u64 = u64::MAX;

/// One of what the world notes.
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

fn call(function: u64, argument: u64) {
    // SAFETY: the payload answers in x0, and changes nothing else.
    unsafe { asm!("smc #0", inout("x0") function => _, in("x1") argument, options(nostack)) };
}

/// Makes a record; the last one is the end.
fn note(what: &mut Parameters, made: Record) {
    // SAFETY: the host gave room for as many records as it asked for samples.
    unsafe { record(what.taken).write_volatile(made) };
    what.taken = what.taken.wrapping_add(1);
    if what.taken == what.samples {
        call(OFF, 0);
    }
}

/// Called by the vector with the counter as it was entered.
#[unsafe(no_mangle)]
extern "C" fn interrupt(entered: u64) {
    let acknowledged: u64;
    // SAFETY: ICC_IAR1_EL1.
    unsafe { asm!("mrs {}, S3_0_C12_C12_0", out(reg) acknowledged, options(nomem, nostack)) };
    // SAFETY: the host gave this memory, and nobody else writes to it: what runs outside of handlers masks them meanwhile.
    let what = unsafe { &mut *parameters() };
    if acknowledged == WINDOW && what.kind == WINDOWS {
        let until = counter().wrapping_add(what.handler);
        while counter() < until {}
        end_interrupt(acknowledged);
        note(what, Record { due: entered, entered, done: counter() });
        return;
    }
    if acknowledged != TIMER {
        return;
    }
    let due = due();
    if what.kind == THREADS {
        ring_at(NEVER);
        end_interrupt(acknowledged);
        // SAFETY: as in `note`: the record of the thread that is woken now.
        let priority = unsafe { record(what.taken).read_volatile() }.entered;
        switched(priority as u32);
        return;
    }
    let until = counter().wrapping_add(what.handler);
    while counter() < until {}
    let done = counter();
    let distance = (what.spacing + below(&mut what.seed, 2 * what.dither + 1)).saturating_sub(what.dither);
    ring_at(if what.closed != 0 { done } else { due } + distance.max(1));
    end_interrupt(acknowledged);
    note(what, Record { due, entered, done });
    if what.yields != 0 {
        call(YIELD, 0);
    }
}

fn end_interrupt(acknowledged: u64) {
    // SAFETY: ICC_EOIR1_EL1.
    unsafe { asm!("msr S3_0_C12_C12_1, {}", "isb", in(reg) acknowledged, options(nomem, nostack)) };
}

/// The hook of the switch to a thread. It says so also if the thread before wanted the same: an interrupt may have raised what the payload takes
/// for wanted.
fn switched(priority: u32) {
    call(YIELD, wanted_by_priority(&WANTED, priority));
}

/// The two threads: sleeps until the timer has woken the other one, which works and sleeps again.
fn run_threads() -> ! {
    // SAFETY: as in `interrupt`: interrupts are masked but in the look for them.
    let what = unsafe { &mut *parameters() };
    loop {
        // SAFETY: as in `note`.
        let Record { due, .. } = unsafe { record(what.taken).read_volatile() };
        ring_at(due);
        switched(IDLE);
        // The handler takes the date away. The payload's interrupts end the sleep as well.
        while self::due() != NEVER {
            // SAFETY: an interrupt that is masked ends the sleep, and is taken behind it.
            unsafe { asm!("wfi", "msr daifclr, #2", "isb", "msr daifset, #2", options(nostack)) };
        }
        let entered = counter();
        let until = entered.wrapping_add(what.handler);
        while counter() < until {}
        note(what, Record { due, entered, done: counter() });
    }
}

fn note_absences(mut between: impl FnMut(u64)) -> ! {
    // SAFETY: as in `interrupt`: there are none.
    let what = unsafe { &mut *parameters() };
    let mut before = counter();
    loop {
        let now = counter();
        if now.wrapping_sub(before) > LEAST_ABSENCE {
            note(what, Record { due: before, entered: now, done: now });
        }
        before = now;
        between(now);
    }
}

/// Wants all that there is, nothing, and nonsense.
fn wish(page: u64, now: u64) {
    let word = core::ptr::with_exposed_provenance_mut::<u64>(page as usize);
    for wanted in [now, 97, 0, u64::MAX, 90, now << 32 | 97] {
        // SAFETY: the host gave the page, and nothing of this program is there.
        unsafe { word.write_volatile(wanted) };
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
    // SAFETY: as above: the interrupt of its windows.
    unsafe {
        core::ptr::with_exposed_provenance_mut::<u8>(DISTRIBUTOR + 0x400 + WINDOW as usize).write_volatile(0xa0);
        core::ptr::with_exposed_provenance_mut::<u32>(DISTRIBUTOR + 0x104).write_volatile(1 << (WINDOW - 32));
    }
    // SAFETY: as in `interrupt`.
    let Parameters { kind, spacing, sleeps, .. } = unsafe { parameters().read_volatile() };
    ring_at(if kind == ARRIVALS { counter() + spacing } else { NEVER });
    // SAFETY: the timer's interrupt.
    unsafe { asm!("msr cntv_ctl_el0, {}", "isb", in(reg) 1_u64, options(nostack)) };
    match kind {
        ABSENCES => note_absences(|_| ()),
        WISHES => note_absences(|now| wish(spacing, now)),
        THREADS => run_threads(),
        _ => (),
    }
    // SAFETY: the core's interrupts.
    unsafe { asm!("msr daifclr, #2", options(nostack)) };
    loop {
        if sleeps != 0 {
            // SAFETY: waits for an interrupt.
            unsafe { asm!("wfi", options(nomem, nostack)) };
        }
    }
}

/// Called by every other vector: the host sees that records are missing.
#[unsafe(no_mangle)]
extern "C" fn unexpected() -> ! {
    loop {
        call(RESET, 0);
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unexpected()
}
