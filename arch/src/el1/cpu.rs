//! The core itself: counter, identity, waiting, interrupt masking.

use core::arch::asm;

/// Reads the virtual counter (CNTVCT_EL0), in ticks of [`frequency_hz`].
#[must_use]
// One or two instructions, in loops and handlers whose time is measured: a call would be longer.
#[inline]
pub fn counter_ticks() -> u64 {
    let ticks: u64;
    // ISB: the counter is read after what comes before, and not early.
    // SAFETY: reads a counter. No memory is touched.
    unsafe { asm!("isb", "mrs {}, CNTVCT_EL0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Reads the counter's frequency (CNTFRQ_EL0) in Hz.
#[must_use]
pub fn frequency_hz() -> u64 {
    let hz: u64;
    // The one place that says how long a tick is, in a partition as on the bare board.
    // SAFETY: reads a constant register.
    unsafe { asm!("mrs {}, CNTFRQ_EL0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz
}

/// Reads the affinity fields of MPIDR_EL1, with the other bits zero.
#[must_use]
pub fn affinity() -> u64 {
    let mpidr: u64;
    // The register and not a word in memory: a secondary core asks before it has any.
    // SAFETY: reads a constant register.
    unsafe { asm!("mrs {}, MPIDR_EL1", out(reg) mpidr, options(nomem, nostack, preserves_flags)) };
    mpidr & 0xff_00ff_ffff
}

/// Returns the number of the vCPU that runs this: affinity level 0, as partitions number their vCPUs.
#[must_use]
pub fn vcpu() -> u32 {
    // The mask leaves 8 bits, so the conversion keeps them all.
    (affinity() & 0xff) as u32
}

/// Returns the pointer, about which the compiler knows nothing from here on. Where it knows that a method's object is a static, it reaches each field by an address of its own,
/// in two instructions instead of one, and cannot load two at once.
#[must_use]
#[inline(always)] // A call would pass a pointer of which it knows.
pub fn opaque<T>(pointer: *mut T) -> *mut T {
    let mut same = pointer;
    // An empty block, since the compiler does not look into one.
    // SAFETY: no instruction at all; the register keeps the address and where it is from.
    unsafe { asm!("/* {} */", inout(reg) same, options(pure, readonly, nostack, preserves_flags)) };
    same
}

/// Waits for an interrupt, masked or not (WFI).
// One or two instructions, in loops and handlers whose time is measured: a call would be longer.
#[inline]
pub fn wait_for_interrupt() {
    // DSB: what this core has written is seen by others, which may wait for it, before it sleeps.
    // SAFETY: stops the core until an interrupt is pending; it changes no memory by itself, but handlers may, so memory
    // is treated as changed.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
}

/// Tells the machine that this core spins (YIELD). Belongs into each wait loop: an emulator runs another core then.
///
/// `core::hint::spin_loop` emits ISB on AArch64, which no emulator takes as a hint.
// One or two instructions, in loops and handlers whose time is measured: a call would be longer.
#[inline]
pub fn yield_now() {
    // An emulator with one thread for all cores would run this loop for a whole slice of time.
    // SAFETY: a hint without effect on registers or memory.
    unsafe { asm!("yield", options(nomem, nostack, preserves_flags)) };
}

/// Lets interrupts (IRQ) through on this core.
// One or two instructions, in loops and handlers whose time is measured: a call would be longer.
#[inline]
pub fn unmask_interrupts() {
    // ISB: what is pending is taken here, and not some instructions later when it may be masked again.
    // SAFETY: handlers run from here on; they are ordinary functions that keep every register. No `nomem`: they may
    // change memory.
    unsafe { asm!("msr DAIFClr, #2", "isb", options(nostack, preserves_flags)) };
}

/// Holds interrupts (IRQ) back on this core.
// One or two instructions, in loops and handlers whose time is measured: a call would be longer.
#[inline]
pub fn mask_interrupts() {
    // No ISB: a write of the mask is in force at once for the instructions behind it.
    // SAFETY: only delays handlers. No `nomem`, so that the compiler moves no memory access out of the masked part.
    unsafe { asm!("msr DAIFSet, #2", options(nostack, preserves_flags)) };
}

/// Runs `work` with interrupts held back and puts the mask back as it was.
pub fn without_interrupts<R>(work: impl FnOnce() -> R) -> R {
    let mask: u64;
    // Read first: the caller may have masked them already, and they stay so.
    // SAFETY: reads and sets the interrupt mask; restored below.
    unsafe { asm!("mrs {}, DAIF", "msr DAIFSet, #2", out(reg) mask, options(nostack, preserves_flags)) };
    let result = work();
    // No ISB: what is pending is taken soon enough.
    // SAFETY: restores the mask read above.
    unsafe { asm!("msr DAIF, {}", in(reg) mask, options(nostack, preserves_flags)) };
    result
}

/// Waits with WFI until `condition` holds; interrupt handlers run in between and may make it true.
///
/// The condition is examined with interrupts masked, so a handler cannot slip in between the examination and the WFI;
/// WFI ends on a masked interrupt too.
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    mask_interrupts();
    while !condition() {
        wait_for_interrupt();
        unmask_interrupts();
        mask_interrupts();
    }
    unmask_interrupts();
}
