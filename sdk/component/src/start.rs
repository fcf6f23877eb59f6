//! The head of a component's text, its entry, and the panic handler.

use bulkhead_kernel_abi::{KERNEL_ABI_VERSION, image};
use core::arch::{asm, global_asm};
use core::panic::PanicInfo;

// x0 is the thread's argument, and the stack is there.
global_asm!(
    ".section .text.component_head, \"ax\"",
    ".balign 16",
    ".quad {magic}",
    ".word {version}",
    ".word 0",
    ".globl bulkhead_component_entry",
    "bulkhead_component_entry:",
    "mov x29, xzr",
    "mov x30, xzr",
    "bl bulkhead_component_main",
    "svc #1",
    "brk #0",
    magic = const image::COMPONENT_MAGIC,
    version = const KERNEL_ABI_VERSION,
);

#[panic_handler]
fn panic(information: &PanicInfo<'_>) -> ! {
    crate::println!("component {information}");
    // A fault, so that its supervisor is told.
    // SAFETY: an exception that the kernel takes.
    unsafe { asm!("brk #1", options(noreturn, nostack)) }
}
