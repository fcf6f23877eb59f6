/* Entry at NS-EL1, and the vector of interrupts. */
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

    .macro OTHER
    .balign 128
    b       unexpected
    .endm
    .balign 2048
vectors:
    .rept 5
    OTHER
    .endr
    /* Counts what is acknowledged, and ends it. */
    .balign 128
    stp     x0, x1, [sp, #-16]!
    mrs     x0, S3_0_C12_C12_0          /* ICC_IAR1_EL1 */
    msr     S3_0_C12_C12_1, x0          /* ICC_EOIR1_EL1 */
    adrp    x1, interrupts_taken
    add     x1, x1, :lo12:interrupts_taken
    ldr     x0, [x1]
    add     x0, x0, #1
    str     x0, [x1]
    ldp     x0, x1, [sp], #16
    eret
    .rept 10
    OTHER
    .endr
    .bss
    .balign 8
    .global interrupts_taken
interrupts_taken:
    .skip 8
