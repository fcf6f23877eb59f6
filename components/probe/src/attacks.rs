//! What a component must not do, by number. Each is a fault that ends the thread.

use core::arch::asm;

/// The kernel's text, in its own half.
const KERNEL_TEXT: usize = 0xffff_ff80_4008_0000;
/// The component's own text.
const OWN_TEXT: usize = 0x40_0000;
/// Where the kernel's memory is physically: in no component's map.
const PHYSICAL: usize = 0x4008_0000;

/// The addresses and what is done there; the numbers after them are single instructions.
pub(crate) fn run(number: u64) {
    let load = |address: usize| {
        // SAFETY: none: the address is not this component's, and the load must not come back.
        unsafe { core::ptr::with_exposed_provenance::<u64>(address).read_volatile() };
    };
    let store = |address: usize| {
        // SAFETY: none, as above.
        unsafe { core::ptr::with_exposed_provenance_mut::<u64>(address).write_volatile(0) };
    };
    let jump = |address: usize| {
        // SAFETY: none, as above.
        unsafe { asm!("blr {}", in(reg) address, clobber_abi("C")) };
    };
    match number {
        1 => load(0),
        2 => load(KERNEL_TEXT),
        3 => store(OWN_TEXT),
        4 => load(PHYSICAL),
        5 => load(0x7f_ffff_f000),
        6 => load(0x0080_0000_0000_0000),
        7 => jump(KERNEL_TEXT),
        // Its own stack: readable, writable, never executable.
        8 => jump(core::ptr::from_ref(&number) as usize & !3),
        9 => jump(OWN_TEXT + 0x11),
        _ => instruction(number),
    }
}

/// Single instructions that EL0 does not have.
fn instruction(number: u64) {
    // SAFETY: each is an exception that the kernel takes; none comes back.
    unsafe {
        match number {
            10 => asm!("udf #0"),
            11 => asm!("brk #7"),
            12 => asm!("hvc #0"),
            13 => asm!("smc #0"),
            14 => asm!("wfi"),
            // No WFE: QEMU 7.2 never traps it. No load by a stack pointer that is not aligned: QEMU 7.2 does not look.
            15 => asm!("msr CNTKCTL_EL1, xzr"),
            16 => asm!("mrs {}, TTBR0_EL1", out(reg) _),
            17 => asm!("msr TTBR1_EL1, xzr"),
            18 => asm!("msr DAIFSet, #2"),
            19 => asm!("msr CNTV_CTL_EL0, xzr"),
            20 => asm!("mrs {}, CNTPCT_EL0", out(reg) _),
            21 => asm!("ic iallu"),
            22 => asm!("tlbi vmalle1"),
            23 => asm!("dc zva, {}", in(reg) OWN_TEXT),
            24 => asm!("mrs {}, ICC_IAR1_EL1", out(reg) _),
            // DUP v0.2d, x0: floating point is not declared. Written as a constant, since an instruction would have to be declared before boot.
            25 => asm!(".word 0x4e080c00"),
            26 => asm!("eret"),
            27 => asm!("mrs {}, MPIDR_EL1", out(reg) _),
            28 => asm!("msr SPSel, #1"),
            29 => asm!("mrs {}, CTR_EL0", out(reg) _),
            _ => {}
        }
    }
}
