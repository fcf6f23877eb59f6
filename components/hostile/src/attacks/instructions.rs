//! Single instructions that EL0 does not have, or that must not reach anybody else.

use bulkhead_component::call::version;
use bulkhead_component::println;
use core::arch::asm;

/// An instruction by its word, with x0 as the register that it may use.
macro_rules! word {
    ($word:literal) => {
        // SAFETY: an exception that the kernel takes, or an instruction without an effect but on x0.
        unsafe { asm!(".inst {word}", word = const $word, inout("x0") OWN_TEXT => _) }
    };
}

const OWN_TEXT: u64 = 0x40_0000;

pub(super) fn run(number: u64) {
    match number {
        30 => word!(0x0000_0000_u32), // UDF #0
        31 => word!(0xd420_00e0_u32), // BRK #7
        32 => word!(0xd440_0000_u32), // HLT #0
        33 => word!(0xd45e_0000_u32), // HLT #0xf000: semihosting
        34 => word!(0xd400_0002_u32), // HVC #0
        35 => word!(0xd400_0003_u32), // SMC #0
        36 => word!(0xd4a0_0001_u32), // DCPS1
        37 => word!(0xd4a0_0002_u32), // DCPS2
        38 => word!(0xd69f_03e0_u32), // ERET
        39 => word!(0xd6bf_03e0_u32), // DRPS
        40 => word!(0xd503_207f_u32), // WFI
        41 => word!(0xd500_409f_u32), // MSR PAN, #0
        42 => word!(0xd500_41bf_u32), // MSR SPSel, #1
        43 => word!(0xd503_42df_u32), // MSR DAIFSet, #2
        44 => word!(0xd503_42ff_u32), // MSR DAIFClr, #2
        45 => word!(0xd51b_4220_u32), // MSR DAIF, x0
        46 => word!(0xd518_4000_u32), // MSR SPSR_EL1, x0
        47 => word!(0xd518_4020_u32), // MSR ELR_EL1, x0
        48 => word!(0xd518_1000_u32), // MSR SCTLR_EL1, x0
        49 => word!(0xd518_2000_u32), // MSR TTBR0_EL1, x0
        50 => word!(0xd518_1040_u32), // MSR CPACR_EL1, x0
        51 => word!(0xd518_e100_u32), // MSR CNTKCTL_EL1, x0
        52 => word!(0xd51b_e320_u32), // MSR CNTV_CTL_EL0, x0
        53 => word!(0xd51b_e340_u32), // MSR CNTV_CVAL_EL0, x0
        54 => word!(0xd53b_e020_u32), // MRS x0, CNTPCT_EL0
        55 => word!(0xd51b_9c00_u32), // MSR PMCR_EL0, x0
        56 => word!(0xd51b_9e00_u32), // MSR PMUSERENR_EL0, x0
        57 => word!(0xd510_0240_u32), // MSR MDSCR_EL1, x0
        58 => word!(0xd538_cc00_u32), // MRS x0, ICC_IAR1_EL1
        59 => word!(0xd508_871f_u32), // TLBI VMALLE1
        60 => word!(0xd508_7840_u32), // AT S1E0R, x0
        61 => word!(0xd50b_7e20_u32), // DC CIVAC, x0
        62 => word!(0xd50b_7420_u32), // DC ZVA, x0
        63 => word!(0xd50b_7520_u32), // IC IVAU, x0
        64 => word!(0x4e08_0c00_u32), // DUP v0.2d, x0
        65 => word!(0xd53b_4400_u32), // MRS x0, FPCR
        66 => word!(0x2518_e000_u32), // PTRUE p0.b
        // A program counter of AArch32 in Thumb state.
        67 => {
            // SAFETY: a fault: no instruction is at an odd address.
            unsafe { asm!("br {}", in(reg) OWN_TEXT + 1) }
        }
        68 => without_stack(0xffff_ff80_4008_0000),
        69 => without_stack(1),
        _ => {}
    }
}

/// A call while the stack pointer is not this component's, or not aligned.
fn without_stack(pointer: u64) {
    let (found, code): (u64, u64);
    // SAFETY: the stack is not used while its pointer is another one; the kernel keeps it, and touches no memory of EL0.
    unsafe {
        asm!(
            "mov x20, sp", "mov sp, x21", "svc #15", "mov x21, sp", "mov sp, x20",
            inout("x21") pointer => found, out("x20") _, out("x0") code, out("x1") _, out("x2") _, out("x3") _,
        );
    }
    println!("stack pointer kept {}, code {code}, and {}", found == pointer, version().is_ok());
}
