//! How an attack is tried and survived: exceptions that come back to this guest are recorded and stepped over.
//!
//! What the monitor answers with UNDEFINED, and what the guest's own translation refuses, arrives in [`handle`]. What the
//! monitor takes as a fault does not come back: the partition is restarted and the next attack follows
//! ([`crate::progress`]).

use bulkhead_sdk::{
    cpu,
    exception::{AfterFault, Frame},
    syndrome::Syndrome,
};
use core::{
    arch::asm,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// EL1 with its own stack, interrupts masked.
const STATE_EL1: u64 = 0x3c5;

/// Syndrome of an exception outside [`attempt`]; 0 when there was none.
static STRAY: AtomicU64 = AtomicU64::new(0);
static IS_ARMED: AtomicBool = AtomicBool::new(false);
/// Latest syndrome; 0 when there was no exception.
static SYNDROME: AtomicU64 = AtomicU64::new(0);
/// Where code that jumped away continues, for each vCPU; 0 while no jump is tried.
static RECOVERIES: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

fn recovery() -> &'static AtomicU64 {
    let [first, ..] = &RECOVERIES;
    RECOVERIES.get(cpu::vcpu() as usize).unwrap_or(first)
}

/// Fault handler of this guest.
pub(crate) fn handle(frame: &mut Frame, syndrome: Syndrome) -> AfterFault {
    if IS_ARMED.load(Ordering::Relaxed) {
        SYNDROME.store(syndrome.0, Ordering::Relaxed);
    } else {
        STRAY.store(syndrome.0, Ordering::Relaxed);
    }
    let goes_on = recovery().swap(0, Ordering::Relaxed);
    if goes_on != 0 {
        frame.program_counter = goes_on;
        frame.processor_state = STATE_EL1;
    } else if syndrome.class() != 0x15 {
        // An SVC returns behind itself, everything else at the instruction.
        frame.program_counter = frame.program_counter.wrapping_add(4);
    }
    AfterFault::Resume
}

/// Runs `work`; returns the last exception that came back to this guest.
pub(crate) fn attempt(work: impl FnOnce()) -> Option<Syndrome> {
    SYNDROME.store(0, Ordering::Relaxed);
    IS_ARMED.store(true, Ordering::Relaxed);
    work();
    IS_ARMED.store(false, Ordering::Relaxed);
    recovery().store(0, Ordering::Relaxed);
    let syndrome = SYNDROME.load(Ordering::Relaxed);
    (syndrome != 0).then_some(Syndrome(syndrome))
}

/// Returns the latest exception that no [`attempt`] was waiting for, once.
pub(crate) fn take_stray() -> Option<Syndrome> {
    let syndrome = STRAY.swap(0, Ordering::Relaxed);
    (syndrome != 0).then_some(Syndrome(syndrome))
}

/// Reads 4 bytes.
pub(crate) fn read(address: u64) -> u32 {
    let value: u32;
    // SAFETY: that this may fault, or may not, is what is being tried; nothing of this program is written.
    unsafe { asm!("mov {0:w}, #0", "ldr {0:w}, [{1}]", out(reg) value, in(reg) address, options(nostack)) };
    value
}

/// Writes 4 bytes to an address outside this program.
pub(crate) fn write(address: u64, value: u32) {
    // SAFETY: the callers give addresses outside this guest's RAM; the effect on others is what is being tried.
    unsafe { asm!("str {:w}, [{}]", in(reg) value, in(reg) address, options(nostack)) };
}

/// Reads 4 bytes with this guest's translation off, so that any guest address can be named.
pub(crate) fn read_untranslated(address: u64) -> u32 {
    let value: u32;
    // SAFETY: RAM is mapped one to one, so the code continues at the same place with translation off; it is on again at
    // the end, whether or not the load was stepped over. No memory of this program is used in between.
    unsafe {
        asm!(
            "mrs {control}, SCTLR_EL1",
            "bic {off}, {control}, #1",
            "msr SCTLR_EL1, {off}",
            "isb",
            "mov {value:w}, #0",
            "ldr {value:w}, [{address}]",
            "msr SCTLR_EL1, {control}",
            "isb",
            control = out(reg) _,
            off = out(reg) _,
            value = out(reg) value,
            address = in(reg) address,
            options(nostack),
        );
    }
    value
}

/// Jumps to an address outside this program and comes back through the exception.
pub(crate) fn jump(address: u64) {
    // SAFETY: what is at the address is not this guest's, so nothing but an exception is expected; it comes back at the
    // label with all registers as they were. x30 may be changed by code that runs there, so it is declared.
    unsafe {
        asm!(
            "adr x16, 2f",
            "str x16, [{recovery}]",
            "blr {address}",
            "2:",
            recovery = in(reg) recovery().as_ptr(),
            address = in(reg) address,
            out("x16") _,
            clobber_abi("C"),
        );
    }
}

/// As [`jump`], with this guest's translation off.
pub(crate) fn jump_untranslated(address: u64) {
    // SAFETY: as for `jump`; translation is on again afterwards. The store of the recovery address comes before.
    unsafe {
        asm!(
            "adr x16, 2f",
            "str x16, [{recovery}]",
            "mrs x17, SCTLR_EL1",
            "bic x16, x17, #1",
            "msr SCTLR_EL1, x16",
            "isb",
            "blr {address}",
            "2:",
            "mrs x17, SCTLR_EL1",
            "orr x17, x17, #1",
            "msr SCTLR_EL1, x17",
            "isb",
            recovery = in(reg) recovery().as_ptr(),
            address = in(reg) address,
            out("x16") _,
            out("x17") _,
            clobber_abi("C"),
        );
    }
}

/// Returns from EL1 with a processor state of choice (EL0, EL2, AArch32) to `code`; comes back by its first exception.
pub(crate) fn return_to(code: *const u32, processor_state: u64) {
    // SAFETY: (1) the exception comes back at the label in EL1 on the same stack; (2) code at EL0 in AArch32 loses the
    // upper halves of all registers, so those that may be declared are, and the others (x19, x29) are kept on the stack;
    // (3) the callers' code uses x0 and x1 alone; (4) translation is off meanwhile, because its map has no EL0 pages.
    unsafe {
        asm!(
            "stp x19, x29, [sp, #-16]!",
            "adr x2, 2f",
            "str x2, [x3]",
            "msr ELR_EL1, x0",
            "msr SPSR_EL1, x1",
            "mrs x2, SCTLR_EL1",
            "bic x2, x2, #1",
            "msr SCTLR_EL1, x2",
            "isb",
            "eret",
            "2:",
            "mrs x2, SCTLR_EL1",
            "orr x2, x2, #1",
            "msr SCTLR_EL1, x2",
            "isb",
            "ldp x19, x29, [sp], #16",
            in("x0") code,
            in("x1") processor_state,
            in("x3") recovery().as_ptr(),
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _, out("x25") _, out("x26") _,
            out("x27") _, out("x28") _,
            clobber_abi("C"),
        );
    }
}
