//! The GIC's CPU interface by system registers (Arm IHI 0069, chapter 12).

use bulkhead_arm::Intid;
use core::arch::asm;

/// Prepares this core's interface: no priority is filtered, there are no pre-emption groups, the end of an interrupt also deactivates it,
/// group 1 is on.
pub fn start() {
    // Without SRE, in force by the first ISB, the other registers cannot be accessed. Signalling is switched on last, and
    // is in force when this returns.
    // SAFETY: registers of this core's interface alone; no interrupt is taken before it is unmasked.
    unsafe {
        asm!(
            "mrs {scratch}, ICC_SRE_EL1",
            "orr {scratch}, {scratch}, #1",
            "msr ICC_SRE_EL1, {scratch}",
            "isb",
            "mov {scratch}, #0xff",
            "msr ICC_PMR_EL1, {scratch}",
            "msr ICC_BPR1_EL1, xzr",
            "msr ICC_CTLR_EL1, xzr",
            "mov {scratch}, #1",
            "msr ICC_IGRPEN1_EL1, {scratch}",
            "isb",
            scratch = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Acknowledges the most urgent pending interrupt and returns it; a special number when there is none.
#[must_use]
pub fn acknowledge() -> Intid {
    let acknowledged: u64;
    // DSB: the interrupt is active before its handler touches the device.
    // SAFETY: changes the state of interrupts only; its end is up to the caller.
    unsafe { asm!("mrs {}, ICC_IAR1_EL1", "dsb sy", out(reg) acknowledged, options(nostack, preserves_flags)) };
    // The register holds 24 bits.
    Intid((acknowledged & 0xff_ffff) as u32)
}

/// Ends an interrupt that [`acknowledge`] returned.
pub fn end(intid: Intid) {
    // ISB: it is over before anything else is acknowledged.
    // SAFETY: as for `acknowledge`.
    unsafe { asm!("msr ICC_EOIR1_EL1, {}", "isb", in(reg) u64::from(intid.0), options(nostack, preserves_flags)) };
}

/// Sends software-generated interrupts: a value of ICC_SGI1R_EL1.
pub fn send(value: u64) {
    // DSB: what the other core is to find comes before the interrupt that makes it look. ISB: it is sent now.
    // SAFETY: makes an interrupt pending on cores of this guest.
    unsafe { asm!("dsb ish", "msr ICC_SGI1R_EL1, {}", "isb", in(reg) value, options(nostack, preserves_flags)) };
}
