//! Threads that compute with floating point: their registers are closed by each entry into the kernel, and loaded at the next use of one.
//!
//! The program is built without floating point, so no register is the compiler's and each use is one that is written here.

use crate::END_POINT;
use bulkhead_component::range::Range;
use bulkhead_kernel_abi::call::{Call, Flag};
use core::arch::asm;

/// Uses a register.
pub(crate) fn compute() {
    // SAFETY: writes a register that is nobody's.
    unsafe { asm!(".arch_extension fp", "fmov d0, xzr", options(nomem, nostack, preserves_flags)) };
}

/// The null call, and the next use of a register behind it: without reading the counter and the SVC itself.
pub(crate) fn null_call(times: u64) {
    let mut range = Range::EMPTY;
    for _ in 0..times {
        compute();
        let (before, after): (u64, u64);
        // SAFETY: the kernel keeps x8 to x30 and touches no memory of a component; d0 is nobody's.
        unsafe {
            asm!(
                ".arch_extension fp",
                "mrs {before}, CNTVCT_EL0",
                "svc #{number}",
                "fmov d0, xzr",
                "mrs {after}, CNTVCT_EL0",
                number = const Call::Version.number(),
                before = out(reg) before,
                after = lateout(reg) after,
                out("x0") _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
                options(nostack),
            );
        }
        range.add(after - before - 2);
    }
    range.print("null_call");
}

/// Waits for the end point, and uses a register; its bits, and the counter behind that.
pub(crate) fn receive() -> (u64, u64) {
    let (bits, now): (u64, u64);
    // SAFETY: the kernel keeps x8 to x30 and touches no memory of a component; d0 is nobody's.
    unsafe {
        asm!(
            ".arch_extension fp",
            "svc #2",
            "fmov d0, xzr",
            "mrs {now}, CNTVCT_EL0",
            now = lateout(reg) now,
            inout("x0") END_POINT => _,
            inout("x1") Flag::All.number() => bits,
            inout("x2") 0_u64 => _,
            out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
            options(nostack),
        );
    }
    (bits, now)
}
