// Every register of a thread at EL0 at its first instruction, as the kernel left it.

.section .text.hostile, "ax"

// The first instructions: what a new thread finds, in the order of `Fresh`. The SDK's entry has used x29 and x30.
.globl bulkhead_component_main
bulkhead_component_main:
    stp     x29, x30, [sp, #-16]!
    sub     sp, sp, #256
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    mrs     x1, NZCV
    stp     x28, x1, [sp, #224]
    mrs     x1, TPIDR_EL0
    mrs     x2, TPIDRRO_EL0
    stp     x1, x2, [sp, #240]
    mov     x0, sp
    bl      bulkhead_hostile_main
    add     sp, sp, #256
    ldp     x29, x30, [sp], #16
    ret
