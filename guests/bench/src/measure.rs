//! The measured paths, each between two counter reads with nothing else in between.
//!
//! Under `-icount shift=4` one tick of the counter is one instruction. A result is the difference of the two reads less
//! one for the read itself: nothing measures 0, a no-operation 1, a trapping instruction 1 plus the instructions
//! that serve it. There is no ISB beside the reads, which would be counted; on hardware these numbers are approximate.

use bulkhead_sdk::{abi::hypercall::CALL_VERSION, arm::psci::Function, interrupt};
use core::arch::{asm, global_asm};

global_asm!(include_str!("vectors.s"));

unsafe extern "C" {
    static bulkhead_bench_vectors: [u8; 0];
    static bulkhead_sdk_vectors: [u8; 0];
}

/// A call that every conduit answers.
const PSCI_VERSION: u64 = Function::Version.id();

/// Smallest and largest of some samples.
pub(crate) struct Range {
    pub(crate) minimum_ticks: u64,
    pub(crate) maximum_ticks: u64,
    pub(crate) samples: u64,
}

/// Runs `sample` this many times.
pub(crate) fn repeat(samples: u64, mut sample: impl FnMut() -> u64) -> Range {
    let mut range = Range { minimum_ticks: u64::MAX, maximum_ticks: 0, samples };
    for _ in 0..samples {
        let ticks = sample();
        range.minimum_ticks = range.minimum_ticks.min(ticks);
        range.maximum_ticks = range.maximum_ticks.max(ticks);
    }
    range
}

/// Runs `work` with the vectors of this file.
pub(crate) fn with_own_vectors<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the table is a whole, aligned vector table; everything but interrupts goes to the SDK's.
    unsafe {
        asm!("msr VBAR_EL1, {}", "isb", in(reg) &raw const bulkhead_bench_vectors, options(nostack, preserves_flags))
    };
    let result = work();
    // SAFETY: puts the SDK's vectors back.
    unsafe {
        asm!("msr VBAR_EL1, {}", "isb", in(reg) &raw const bulkhead_sdk_vectors, options(nostack, preserves_flags))
    };
    result
}

/// Far enough away for the core to be waiting when it comes.
pub(crate) const DELAY_TICKS: u64 = 500;

/// Compare value of the virtual timer to the first instruction of its handler, while the core runs instructions.
pub(crate) fn timer_busy() -> u64 {
    let compare = bulkhead_sdk::cpu::counter_ticks() + DELAY_TICKS;
    let entered: u64;
    // SAFETY: own vectors are installed (the one caller is in `with_own_vectors`): the handler changes x20 and x21, which
    // are declared, stops the timer and returns. x20 becomes non-zero then and ends the loop.
    unsafe {
        asm!(
            "mov x20, #0",
            "msr CNTV_CVAL_EL0, {compare}",
            "msr CNTV_CTL_EL0, {one}",
            "msr DAIFClr, #2",
            "2:",
            "cbz x20, 2b",
            "msr DAIFSet, #2",
            compare = in(reg) compare,
            one = in(reg) 1u64,
            out("x20") entered,
            out("x21") _,
            options(nostack, preserves_flags),
        );
    }
    entered.wrapping_sub(compare)
}

/// As [`timer_busy`], `delay_ticks` from now, while the core sleeps in WFI with interrupts masked, as idle loops of operating systems
/// do.
///
/// Unmasked, the interrupt could come just before the WFI, which then would wait for ever. So the instruction that
/// unmasks is part of the result, on the bare board as well.
pub(crate) fn timer_idle(delay_ticks: u64) -> u64 {
    let compare = bulkhead_sdk::cpu::counter_ticks() + delay_ticks;
    let entered: u64;
    // SAFETY: as in `timer_busy`.
    unsafe {
        asm!(
            "mov x20, #0",
            "msr CNTV_CVAL_EL0, {compare}",
            "msr CNTV_CTL_EL0, {one}",
            "2:",
            "wfi",
            "msr DAIFClr, #2",
            "msr DAIFSet, #2",
            "cbz x20, 2b",
            compare = in(reg) compare,
            one = in(reg) 1u64,
            out("x20") entered,
            out("x21") _,
            options(nostack, preserves_flags),
        );
    }
    entered.wrapping_sub(compare)
}

/// A software generated interrupt to oneself: the instruction that sends it to the first instruction of its handler.
///
/// `None` when it does not come: a `direct` partition on another core than 0 names itself by a virtual affinity that the
/// physical interface takes for somebody else.
pub(crate) fn own_sgi() -> Option<u64> {
    /// Rounds of the wait for an interrupt that comes at once.
    const PATIENCE: u64 = 10_000;
    let value = (u64::from(SGI.0) << 24) | (1 << bulkhead_sdk::cpu::vcpu());
    let (entered, before): (u64, u64);
    // SAFETY: as in `timer_busy`; the interrupt is this core's own.
    unsafe {
        asm!(
            "mov x20, #0",
            "msr DAIFClr, #2",
            "mrs {before}, CNTVCT_EL0",
            "msr ICC_SGI1R_EL1, {value}",
            "2:",
            "subs {patience}, {patience}, #1",
            "b.eq 3f",
            "cbz x20, 2b",
            "3:",
            "msr DAIFSet, #2",
            value = in(reg) value,
            patience = inout(reg) PATIENCE => _,
            before = out(reg) before,
            out("x20") entered,
            out("x21") _,
            options(nostack),
        );
    }
    (entered != 0).then(|| (entered - before).saturating_sub(1))
}

/// The software generated interrupt used by [`own_sgi`].
pub(crate) const SGI: interrupt::InterruptId = interrupt::InterruptId(1);

/// Defines a function that measures one instruction between two counter reads.
macro_rules! between_reads {
    ($(#[$doc:meta])* $name:ident($($parameter:ident: u64 => $register:tt),*), $($instruction:literal)?) => {
        $(#[$doc])*
        pub(crate) fn $name($($parameter: u64),*) -> u64 {
            let (before, after): (u64, u64);
            // SAFETY: the caller of the bench names registers of its own devices and calls without effect on memory; what
            // a call may change (x0 to x17) is declared.
            unsafe {
                asm!(
                    "mrs x20, CNTVCT_EL0",
                    $($instruction,)?
                    "mrs x21, CNTVCT_EL0",
                    $(in($register) $parameter,)*
                    out("x20") before,
                    out("x21") after,
                    clobber_abi("C"),
                    options(nostack),
                );
            }
            after - before - 1
        }
    };
}

between_reads!(
    /// Nothing: the method's own error, 0.
    nothing(),
);
between_reads!(
    /// A no-operation: 1.
    no_operation(), "nop"
);
between_reads!(
    /// A call by HVC.
    call_by_hvc(function: u64 => "x0", argument: u64 => "x1"), "hvc #0"
);
between_reads!(
    /// A call by SMC.
    call_by_smc(function: u64 => "x0"), "smc #0"
);
between_reads!(
    /// A 32-bit read.
    read(address: u64 => "x0"), "ldr w1, [x0]"
);
between_reads!(
    /// A 32-bit write.
    write(address: u64 => "x0", value: u64 => "x1"), "str w1, [x0]"
);

/// The null hypercall.
pub(crate) fn version_by_hvc() -> u64 {
    call_by_hvc(CALL_VERSION, 0)
}

/// The null hypercall by SMC.
pub(crate) fn version_by_smc() -> u64 {
    call_by_smc(CALL_VERSION)
}

/// PSCI_VERSION by HVC.
pub(crate) fn psci_version() -> u64 {
    call_by_hvc(PSCI_VERSION, 0)
}
