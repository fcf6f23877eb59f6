//! What a callee finds in registers, and what its caller finds after it.

use crate::callee;
use bulkhead_component::println;
use core::arch::asm;

/// Calls `mirror` with 0xaa00 + number in each register, by hand since the stub would hide what passes through, and compares.
pub(crate) fn run() {
    let mut found = [0_u64; 34];
    let words = found.as_mut_ptr();
    let slot = callee::mirror::slot();
    // SAFETY: keeps x19, x29 and x30 on the stack and names the others as changed; TPIDR_EL0 is nobody's here. What is found is written into `found`.
    unsafe {
        asm!(
            "stp x29, x30, [sp, #-48]!",
            "stp x19, x20, [sp, #16]",
            "mov x0, #0xaaaa",
            "msr TPIDR_EL0, x0",
            "mov w0, #0xf0000000",
            "msr NZCV, x0",
            "mov x8, x21",
            "mov x0, #0xaa00",
            ".irp n, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30",
            "mov x\\n, #0xaa00 + \\n",
            ".endr",
            "svc #0",
            "str x29, [sp, #32]",
            "ldr x29, [sp, #24]",
            "stp x0, x1, [x29]",
            "stp x2, x3, [x29, #16]",
            "stp x4, x5, [x29, #32]",
            "stp x6, x7, [x29, #48]",
            "stp x8, x9, [x29, #64]",
            "stp x10, x11, [x29, #80]",
            "stp x12, x13, [x29, #96]",
            "stp x14, x15, [x29, #112]",
            "stp x16, x17, [x29, #128]",
            "stp x18, x19, [x29, #144]",
            "stp x20, x21, [x29, #160]",
            "stp x22, x23, [x29, #176]",
            "stp x24, x25, [x29, #192]",
            "stp x26, x27, [x29, #208]",
            "ldr x0, [sp, #32]",
            "stp x28, x0, [x29, #224]",
            "mrs x0, TPIDR_EL0",
            "mrs x1, NZCV",
            "str x30, [x29, #240]",
            "stp x0, x1, [x29, #256]",
            "ldr x19, [sp, #16]",
            "ldp x29, x30, [sp], #48",
            inout("x20") words => _, inout("x21") slot => _,
            out("x0") _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
            out("x8") _, out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _, out("x14") _, out("x15") _,
            out("x16") _, out("x17") _, out("x18") _, out("x22") _, out("x23") _, out("x24") _, out("x25") _,
            out("x26") _, out("x27") _, out("x28") _,
        );
    }
    let seen = |number: u64| callee::seen(number).unwrap_or(u64::MAX);
    let token = seen(8);
    for (side, base, eight) in [("callee", 0xaa00, token), ("caller", 0xbb00, 0)] {
        let of = |number: u64| match side {
            "callee" => seen(number),
            _ => found.get(number as usize).copied().unwrap_or(u64::MAX),
        };
        let expected = |number: u64| match number {
            8 => eight,
            9..=18 => 0,
            _ => base + number,
        };
        for number in (0..31).filter(|number| of(*number) != expected(*number)) {
            println!("{side}: x{number} is {:#x} and not {:#x}", of(number), expected(number));
        }
    }
    println!("token {token:#x}, stack {:#x}", seen(31));
    println!("callee: TPIDR_EL0 {:#x}, flags {:#x}", seen(32), seen(33));
    println!("caller: TPIDR_EL0 {:#x}, flags {:#x}", found[32], found[33]);
}
