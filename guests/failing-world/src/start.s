/* Entry at NS-EL1 with the way to fail in x0, and the vector of interrupts. */
    .section .text.start, "ax"
    .global _start
_start:
    ldr     x1, =__stack_top
    mov     sp, x1
    adr     x1, vectors
    msr     vbar_el1, x1
    isb
    bl      main
    b       .
    .ltorg
    .balign 8
    .global text_word
text_word:
    .quad   0x1dea

    .macro OTHER
    .balign 128
    b       unexpected
    .endm
    .balign 2048
vectors:
    .rept 5
    OTHER
    .endr
    .balign 128
    stp     x0, x1, [sp, #-176]!
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x30, [sp, #144]
    bl      interrupt
    ldp     x18, x30, [sp, #144]
    ldp     x16, x17, [sp, #128]
    ldp     x14, x15, [sp, #112]
    ldp     x12, x13, [sp, #96]
    ldp     x10, x11, [sp, #80]
    ldp     x8, x9, [sp, #64]
    ldp     x6, x7, [sp, #48]
    ldp     x4, x5, [sp, #32]
    ldp     x2, x3, [sp, #16]
    ldp     x0, x1, [sp], #176
    eret
    .rept 10
    OTHER
    .endr
    .balign 2048
    .global endless
endless:
    .rept   512
    udf     #0
    .endr
