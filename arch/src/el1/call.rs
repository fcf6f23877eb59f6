//! Calls to the level below, by the SMC Calling Convention (Arm DEN 0028).

use core::arch::asm;

/// Makes a call by HVC (SMC Calling Convention) and returns x0 to x3.
// The registers of its arguments are those of most callers, and a doorbell is counted in instructions.
#[inline]
pub fn call(function: u64, arguments: [u64; 3]) -> [u64; 4] {
    let [mut x0, mut x1, mut x2, mut x3] = [function, arguments[0], arguments[1], arguments[2]];
    // HVC and not SMC: in a partition both reach the monitor, and on the bare board this is the conduit that QEMU has.
    // SAFETY: the callee keeps x18 and up (DEN 0028) and no call writes memory of the caller. A PSCI call that ends
    // this vCPU does not come back. Not `nomem`: another partition may act on memory written before.
    unsafe {
        asm!(
            "hvc #0",
            inout("x0") x0, inout("x1") x1, inout("x2") x2, inout("x3") x3,
            lateout("x4") _, lateout("x5") _, lateout("x6") _, lateout("x7") _, lateout("x8") _, lateout("x9") _,
            lateout("x10") _, lateout("x11") _, lateout("x12") _, lateout("x13") _, lateout("x14") _, lateout("x15") _,
            lateout("x16") _, lateout("x17") _,
            options(nostack),
        );
    }
    [x0, x1, x2, x3]
}
