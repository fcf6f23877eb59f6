//! Resets everything of a guest that lives in registers, so that a restart starts as a first start does.
//!
//! The list is the "switched" column of the register table in the documentation (`core/emulation`): with one vCPU per
//! core nothing is switched while running, and everything here is set at start. PAR_EL1 is in it (seL4 16.0.0's lesson).

/// SCTLR_EL1 at reset: RES1 bits, MMU and caches off, little-endian.
const SCTLR_EL1_RESET: u64 = 0x30d0_0800;
/// SPSR_EL2 for entry: EL1h, DAIF masked.
const SPSR_ENTRY: u64 = 0x3c5;

macro_rules! clear_registers {
    ($($name:literal),* $(,)?) => { $( write_register!($name, 0); )* };
}

pub(super) fn guest_registers(entry: u64) {
    write_register!("sctlr_el1", SCTLR_EL1_RESET);
    clear_registers!(
        "cpacr_el1",
        "ttbr0_el1",
        "ttbr1_el1",
        "tcr_el1",
        "mair_el1",
        "amair_el1",
        "vbar_el1",
        "esr_el1",
        "far_el1",
        "afsr0_el1",
        "afsr1_el1",
        "contextidr_el1",
        "tpidr_el1",
        "tpidr_el0",
        "tpidrro_el0",
        "sp_el0",
        "sp_el1",
        "elr_el1",
        "spsr_el1",
        "par_el1",
        "csselr_el1",
        "cntkctl_el1",
        "cntv_ctl_el0",
        "cntp_ctl_el0",
        "cntv_cval_el0",
        "cntp_cval_el0",
        "mdscr_el1",
        "spsr_abt",
        "spsr_und",
        "spsr_irq",
        "spsr_fiq",
        "dacr32_el2",
        "ifsr32_el2",
        "fpexc32_el2",
        "cntvoff_el2",
        "hstr_el2",
        "pmuserenr_el0",
    );
    write_register!("cnthctl_el2", 3);
    write_register!("vpidr_el2", read_register!("midr_el1"));
    write_register!("elr_el2", entry);
    write_register!("spsr_el2", SPSR_ENTRY);
    floating_point();
}

/// Zeroes v0 to v31, FPCR and FPSR. The monitor itself is compiled without floating point and never traps it (CPTR_EL2.TFP
/// = 0), so a guest's values are never touched between starts.
fn floating_point() {
    // SAFETY: the monitor is compiled for the soft-float ABI, so no Rust value lives in these registers.
    unsafe {
        core::arch::asm!(
            ".arch_extension simd",
            "movi v0.2d, #0",
            "movi v1.2d, #0",
            "movi v2.2d, #0",
            "movi v3.2d, #0",
            "movi v4.2d, #0",
            "movi v5.2d, #0",
            "movi v6.2d, #0",
            "movi v7.2d, #0",
            "movi v8.2d, #0",
            "movi v9.2d, #0",
            "movi v10.2d, #0",
            "movi v11.2d, #0",
            "movi v12.2d, #0",
            "movi v13.2d, #0",
            "movi v14.2d, #0",
            "movi v15.2d, #0",
            "movi v16.2d, #0",
            "movi v17.2d, #0",
            "movi v18.2d, #0",
            "movi v19.2d, #0",
            "movi v20.2d, #0",
            "movi v21.2d, #0",
            "movi v22.2d, #0",
            "movi v23.2d, #0",
            "movi v24.2d, #0",
            "movi v25.2d, #0",
            "movi v26.2d, #0",
            "movi v27.2d, #0",
            "movi v28.2d, #0",
            "movi v29.2d, #0",
            "movi v30.2d, #0",
            "movi v31.2d, #0",
            "msr fpcr, xzr",
            "msr fpsr, xzr",
            options(nostack, nomem)
        );
    }
}
