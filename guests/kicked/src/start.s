/* Entry at NS-EL2 of every core, whose number is in x0; vectors of EL2; and what runs at EL1. */
    .section .text.start, "ax"
    .global _start, masked, masked_loop, masked_end, below, here
_start:
    ldr     x1, =__stacks + 0x4000
    add     x1, x1, x0, lsl #14
    mov     sp, x1
    adr     x1, vectors
    msr     vbar_el2, x1
    isb
    bl      main
    b       .
    .ltorg

/* masked(progress): EL1 with everything masked, for ever. x1 to x28 keep a pattern: their number times x29. */
masked:
    msr     daifset, #15
    msr     S3_0_C4_C6_0, xzr       // ICC_PMR_EL1
    msr     S3_0_C12_C12_7, xzr     // ICC_IGRPEN1_EL1
    mov     x1, #-1
    msr     S3_0_C12_C9_0, x1       // ICC_AP1R0_EL1
    isb
    ldr     x29, =0x0101010101010101
    mov     x1, x29
    add     x2, x1, x29
    add     x3, x2, x29
    add     x4, x3, x29
    add     x5, x4, x29
    add     x6, x5, x29
    add     x7, x6, x29
    add     x8, x7, x29
    add     x9, x8, x29
    add     x10, x9, x29
    add     x11, x10, x29
    add     x12, x11, x29
    add     x13, x12, x29
    add     x14, x13, x29
    add     x15, x14, x29
    add     x16, x15, x29
    add     x17, x16, x29
    add     x18, x17, x29
    add     x19, x18, x29
    add     x20, x19, x29
    add     x21, x20, x29
    add     x22, x21, x29
    add     x23, x22, x29
    add     x24, x23, x29
    add     x25, x24, x29
    add     x26, x25, x29
    add     x27, x26, x29
    add     x28, x27, x29
masked_loop:
    ldr     x30, [x0]
    add     x30, x30, #1
    str     x30, [x0]
    yield
    b       masked_loop
masked_end:
    .ltorg

/* below(registers): a call at EL1 with these x0 to x17, which are replaced by what they are then. here(registers): the same at EL2. */
below:
    adr     x1, at_el1
    msr     elr_el2, x1
    mov     x1, #0x3c5
    msr     spsr_el2, x1
    adr     x1, 2f
    b       call_by
2:  eret
at_el1:
    smc     #0
    hvc     #0
here:
    adr     x1, 2f
    b       call_by
2:  smc     #0
    b       came_back
call_by:
    stp     x29, x30, [sp, #-112]!
    stp     x19, x20, [sp, #16]
    stp     x21, x22, [sp, #32]
    stp     x23, x24, [sp, #48]
    stp     x25, x26, [sp, #64]
    stp     x27, x28, [sp, #80]
    str     x0, [sp, #96]
    mov     x18, x1
    ldp     x2, x3, [x0, #16]
    ldp     x4, x5, [x0, #32]
    ldp     x6, x7, [x0, #48]
    ldp     x8, x9, [x0, #64]
    ldp     x10, x11, [x0, #80]
    ldp     x12, x13, [x0, #96]
    ldp     x14, x15, [x0, #112]
    ldp     x16, x17, [x0, #128]
    ldp     x0, x1, [x0]
    br      x18
came_back:
    ldr     x18, [sp, #96]
    stp     x0, x1, [x18]
    stp     x2, x3, [x18, #16]
    stp     x4, x5, [x18, #32]
    stp     x6, x7, [x18, #48]
    stp     x8, x9, [x18, #64]
    stp     x10, x11, [x18, #80]
    stp     x12, x13, [x18, #96]
    stp     x14, x15, [x18, #112]
    stp     x16, x17, [x18, #128]
    ldp     x27, x28, [sp, #80]
    ldp     x25, x26, [sp, #64]
    ldp     x23, x24, [sp, #48]
    ldp     x21, x22, [sp, #32]
    ldp     x19, x20, [sp, #16]
    ldp     x29, x30, [sp], #112
    ret

    .macro OTHER
    .balign 128
    b       unexpected
    .endm
    .balign 2048
vectors:
    .rept 8
    OTHER
    .endr
    .balign 128
    b       came_back
    OTHER
    .balign 128
    sub     sp, sp, #272
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
    stp     x28, x29, [sp, #224]
    mrs     x1, elr_el2
    stp     x30, x1, [sp, #240]
    mrs     x1, spsr_el2
    str     x1, [sp, #256]
    mov     x0, sp
    bl      kicked
    ldr     x1, [sp, #256]
    msr     spsr_el2, x1
    ldp     x30, x1, [sp, #240]
    msr     elr_el2, x1
    ldp     x28, x29, [sp, #224]
    ldp     x26, x27, [sp, #208]
    ldp     x24, x25, [sp, #192]
    ldp     x22, x23, [sp, #176]
    ldp     x20, x21, [sp, #160]
    ldp     x18, x19, [sp, #144]
    ldp     x16, x17, [sp, #128]
    ldp     x14, x15, [sp, #112]
    ldp     x12, x13, [sp, #96]
    ldp     x10, x11, [sp, #80]
    ldp     x8, x9, [sp, #64]
    ldp     x6, x7, [sp, #48]
    ldp     x4, x5, [sp, #32]
    ldp     x2, x3, [sp, #16]
    ldp     x0, x1, [sp]
    add     sp, sp, #272
    eret
    .rept 5
    OTHER
    .endr
