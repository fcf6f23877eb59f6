//! Registers of the machine, and the C interface over them.

use crate::cell::Cell;
use crate::cores;
use crate::memory::{self, Range};
use crate::wish;
use bulkhead_arm::gic::{
    GICD_TYPER, GICD_TYPER_LINES, GICR_WAKER, GICR_WAKER_CHILDREN_ASLEEP, GICR_WAKER_PROCESSOR_SLEEP, SGI_FRAME,
};
use bulkhead_world::calls::{Action, Answer, Caller, Window, answer};
use bulkhead_world::context::{Context, EntryLevel};
use bulkhead_world::control::{ACTIVE_PRIORITIES, Reason, SecureCall};
use bulkhead_world::flash::{WorldPlan, secure_ram};
use bulkhead_world::interrupts::{RestartWrite, Write, of_distributor, of_redistributor, of_restart};
use bulkhead_world::restart::{Loading, Step};
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
    wake(plan.redistributor);
    of_redistributor(plan.redistributor, &plan.secure_interrupts, plan.cores.closed[0]).for_each(write);
    cores::start(plan);
}

/// Wakes the redistributor of a core.
pub(crate) fn wake(redistributor: u64) {
    let waker = redistributor.wrapping_add(GICR_WAKER);
    write(Write { address: waker, value: read(waker) & !GICR_WAKER_PROCESSOR_SLEEP });
    while read(waker) & GICR_WAKER_CHILDREN_ASLEEP != 0 {}
}

/// Brings to rest what the non-secure world has begun: its interrupts are off, neither pending nor active, 32 for each `step` from 0 on, and then its
/// timers. Returns whether there is more to do. Before its memory is made new (SG-62). Urgent interrupts are to be its own again by then, by
/// `bulkhead_world_hand_back`. Like all of a restart it masks nothing: what must not be interrupted is done by the caller, in its kernel's sections.
///
/// # Safety
/// As for [`bulkhead_world_start`], which was called; the non-secure world does not run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_rest(plan: *const WorldPlan, step: u32) -> bool {
    // SAFETY: as `bulkhead_world_start`.
    let plan = unsafe { &*plan };
    let words = (read(plan.distributor.wrapping_add(GICD_TYPER)) & GICD_TYPER_LINES).wrapping_add(1).min(32);
    if step >= words {
        // SAFETY: timers of the other world alone: the payload's is CNTPS.
        unsafe { asm!("msr cntp_ctl_el0, xzr", "msr cntv_ctl_el0, xzr", "isb", options(nomem, nostack)) };
        return false;
    }
    let frame = if step == 0 { plan.redistributor.wrapping_add(SGI_FRAME) } else { plan.distributor };
    // With interrupts open: 32 interrupts are some hundred instructions, and a tick would be as late. A server that is switched in and out between
    // two writes finds that it may not run; what it armed and gave back is as it was, because each write says all of its register.
    for write_ in of_restart(frame, step, &plan.secure_interrupts, plan.cores.closed[0]) {
        match write_ {
            RestartWrite::Word(what) => write(what),
            // SAFETY: as `write`: a priority of the other world.
            RestartWrite::Byte(address, value) => unsafe {
                core::ptr::with_exposed_provenance_mut::<u8>(address as usize).write_volatile(value);
            },
        }
    }
    true
}

/// The payload's arguments: zero-terminated text.
///
/// # Safety
/// As for [`bulkhead_world_start`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_arguments(plan: *const WorldPlan) -> *const u8 {
    // SAFETY: as `bulkhead_world_start`.
    unsafe { (*plan).arguments.as_ptr() }
}

/// What a step says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum LoadingStep {
    /// There is more to do.
    More = 0,
    /// The window holds what the world begins with.
    Done = 1,
    /// A segment, in flash or in memory, is not what it was when the file was built.
    Damaged = 2,
}

/// Does the next 4 KiB of a start of the non-secure world: its window is filled with zeros, its segments are copied out of flash and then read
/// again, with their CRC-32C compared both times. Begin with zeros in `loading`.
///
/// # Safety
/// As for [`bulkhead_world_start`]; nobody else uses `loading`, and the non-secure world does not run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_load(plan: *const WorldPlan, loading: *mut Loading) -> LoadingStep {
    // SAFETY: as `bulkhead_world_start`, and the caller's own structure.
    let (plan, loading) = unsafe { (&*plan, &mut *loading) };
    let crc = match loading.step(plan) {
        Step::Scrub { address, bytes } => {
            // SAFETY: a part of the window, whole pages (the builder and `verify` see to it), and the other world does not run: the caller is
            // what runs it.
            unsafe { memory::scrub(Range { address, bytes }) };
            0
        }
        // SAFETY: the plan's segments lie in flash and in the window, page-aligned, and as above.
        Step::Copy { from, to, bytes, crc } => unsafe { memory::copy(from, Range { address: to, bytes }, crc) },
        // SAFETY: a part of the window, read.
        Step::Check { address, bytes, crc } => unsafe { memory::check(Range { address, bytes }, crc) },
        Step::Damaged { .. } => return LoadingStep::Damaged,
        _ => {
            memory::synchronise_instructions();
            return LoadingStep::Done;
        }
    };
    loading.done(plan, crc);
    LoadingStep::More
}

/// Forgets the call that waits: a server that is about to answer it finds that it is not its turn. Before [`bulkhead_world_reset`].
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_forget_call() {
    // SAFETY: the caller's.
    unsafe {
        *CALL.get() = 0;
        *TURN.get() = (*TURN.get()).wrapping_add(1);
    }
}

/// Gives the non-secure world its first context, and resets the registers that only EL3 reaches. To be called by a task: it ends interrupts
/// that the other world left active, and would end the payload's own in a handler.
///
/// # Safety
/// As for [`bulkhead_world_load`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_reset(plan: *const WorldPlan) {
    // SAFETY: as `bulkhead_world_start`.
    let plan = unsafe { &*plan };
    let context = Context::non_secure(plan.entry, plan.argument, level(plan));
    let place = core::ptr::with_exposed_provenance_mut::<Context>(secure_ram::CONTEXTS as usize);
    // SAFETY: the context's place in secure RAM, which the host's tables map; the world does not run.
    unsafe { place.write_volatile(context) };
    // SAFETY: the caller's: the world does not run.
    unsafe { wish::forget(plan) };
    for _ in 0..ACTIVE_PRIORITIES {
        reset_registers();
    }
}

/// The level at which the other world begins.
pub(crate) fn level(plan: &WorldPlan) -> EntryLevel {
    if plan.level == 2 { EntryLevel::El2 } else { EntryLevel::El1 }
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

/// 1 while a call waits for its answer: until then no server gives the core away.
static CALL: Cell<u32> = Cell::new(0);
/// Changes with every answer and every start of the world.
static TURN: Cell<u64> = Cell::new(0);

// Gives the core to the non-secure world until an interrupt of the payload arrives or it calls; `bulkhead_world.h` has the contract. A
// function of the calling convention, whose callers keep nothing in x0 to x18: those are what EL3 may change. Whether the server may
// run is looked at with interrupts masked, or an interrupt that forbids it could come between the look and the call; one that comes then is
// taken when the other world has begun, which it ends at once. And a call is noted before another server can run, which would go on
// behind a call that nobody has answered. At the label an interrupt finds the core that came back for it.
global_asm!(
    ".global bulkhead_world_enter, bulkhead_world_returned",
    "bulkhead_world_enter:",
    "adrp x2, {call}",
    "mov x3, x0",
    "mov x0, #2",
    "msr daifset, #2",
    "ldr w3, [x3]",
    "tst w3, w1",
    "b.eq 2f",
    "ldr w0, [x2, :lo12:{call}]",
    "cbnz w0, 2f",
    "smc #0", // x0 is 0: SecureCall::Enter
    "cbz x0, 2f",
    "adrp x2, {call}",
    "str w0, [x2, :lo12:{call}]",
    "2:",
    "msr daifclr, #2",
    "bulkhead_world_returned:",
    "ret",
    call = sym CALL,
);
const _: () = assert!(SecureCall::Enter as u64 == 0 && Reason::Interrupt as u64 == 0 && Reason::Call as u64 == 1);

/// Does something with interrupts masked.
fn masked<T>(what: impl FnOnce() -> T) -> T {
    let before: u64;
    // SAFETY: the state is restored below; the closure is some loads and stores.
    unsafe { asm!("mrs {}, daif", "msr daifset, #2", out(reg) before, options(nostack)) };
    let result = what();
    // SAFETY: what it was.
    unsafe { asm!("msr daif, {}", in(reg) before, options(nostack)) };
    result
}

/// Answers the call that waits, and returns what the payload has to do besides; `words` is what the call says about it.
///
/// A server can be preempted here by another one, which then answers. So the call is decoded from a copy, and the answer is written only
/// if nobody has answered meanwhile and the world was not started again; otherwise there is nothing to do.
///
/// # Safety
/// As for [`bulkhead_world_start`]; `words` is the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_answer(plan: *const WorldPlan, words: *mut [u64; 2]) -> Asked {
    // SAFETY: as `bulkhead_world_start`.
    let plan = unsafe { &*plan };
    // SAFETY: interrupts are masked.
    let turn = masked(|| unsafe { *TURN.get() });
    let context = core::ptr::with_exposed_provenance_mut::<Context>(secure_ram::CONTEXTS as usize);
    // SAFETY: as in `bulkhead_world_reset`; the first eight registers, once each: the copy is what is looked at (SG-32).
    let call = core::array::from_fn(|number| unsafe { (&raw const (*context).x[number]).read_volatile() });
    let window = Window { first: plan.window, bytes: plan.window_bytes };
    let Answer { x0, action } = answer(&call, &Caller { window, doorbells: plan.doorbells() });
    let is_mine = masked(|| {
        // SAFETY: interrupts are masked.
        let (waits, now) = unsafe { (CALL.get(), TURN.get()) };
        let is_mine = *waits != 0 && *now == turn;
        if is_mine {
            // SAFETY: the world does not run: a call of it waits.
            unsafe { (&raw mut (*context).x[0]).write_volatile(x0) };
            (*waits, *now) = (0, turn.wrapping_add(1));
        }
        is_mine
    });
    let (asked, said) = match action {
        _ if !is_mine => (Asked::Nothing, [0; 2]),
        Action::Nothing | Action::Standby => (Asked::Nothing, [0; 2]),
        Action::Heartbeat => (Asked::Heartbeat, [0; 2]),
        Action::Yield(words) => (Asked::Yield, words),
        Action::Doorbell(channel) => (Asked::Doorbell, [u64::from(channel), 0]),
        Action::Off => (Asked::Off, [0; 2]),
        Action::Reset => (Asked::Reset, [0; 2]),
    };
    // SAFETY: the caller's own words.
    unsafe { words.write(said) };
    asked
}

/// What the payload has to do about a call, besides the answer that its caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Asked {
    /// Nothing.
    Nothing = 0,
    /// The world says that it is well.
    Heartbeat = 1,
    /// It has nothing urgent left.
    Yield = 2,
    /// It wants to be off.
    Off = 3,
    /// It wants to be reset.
    Reset = 4,
    /// It rings the doorbell of a channel.
    Doorbell = 5,
}

fn reset_registers() {
    // SAFETY: EL3 returns here, having changed x0 to x18 at most, and only registers of the other world.
    unsafe {
        asm!("smc #0", inout("x0") SecureCall::Reset as u64 => _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _,
             out("x6") _, out("x7") _, out("x8") _, out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _,
             out("x14") _, out("x15") _, out("x16") _, out("x17") _, out("x18") _, options(nostack));
    }
}

pub(crate) fn read(address: u64) -> u32 {
    // SAFETY: an address of the interrupt controller, which the plan gives and the host's tables map as a device.
    unsafe { core::ptr::with_exposed_provenance::<u32>(address as usize).read_volatile() }
}

pub(crate) fn write(what: Write) {
    // SAFETY: as for `read`; no memory of the payload is there.
    unsafe { core::ptr::with_exposed_provenance_mut::<u32>(what.address as usize).write_volatile(what.value) }
}

/// The library is compiled without code that panics; should there be any, the payload stops here.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
