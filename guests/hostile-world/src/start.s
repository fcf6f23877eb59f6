/*
 * Entry, vectors of both levels, and what only assembly can do: try one instruction, run filled registers over a switch of worlds, go to
 * EL0 or AArch32.
 *
 * Memory is Device all the time (translation off), and every exception but an interrupt comes back to the trial that caused it.
 */
    .arch   armv8-a+fp+simd
    .section .text.start, "ax"
    .global _start
_start:
    mov     x20, x0                 // number of the attack; x1 to x3: see main.rs
    ldr     x4, =__bss_start
    ldr     x5, =__stack_top
1:  stp     xzr, xzr, [x4], #16
    cmp     x4, x5
    b.lo    1b
    mov     sp, x5
    adr     x4, unexpected
    adrp    x5, caught
    str     x4, [x5, #:lo12:caught + 24]
    mrs     x4, CurrentEL
    cmp     x4, #8
    b.eq    2f
    adr     x4, vectors_el1
    msr     vbar_el1, x4
    mov     x4, #(3 << 20)          // floating point
    msr     cpacr_el1, x4
    b       3f
2:  adr     x4, vectors_el2
    msr     vbar_el2, x4
    mov     x4, #(1 << 31)
    orr     x4, x4, #(7 << 3)       // RW; AMO, IMO, FMO: interrupts are taken here
    msr     hcr_el2, x4
3:  isb
    mov     x0, x20
    bl      main
    b       .
    .ltorg
unexpected:
    ldr     x0, =__stack_top
    mov     sp, x0
    adrp    x0, caught
    add     x0, x0, #:lo12:caught
    bl      unexpected_exception
    b       .
    .ltorg

    .text
/* An exception: what it was is written down, and the trial goes on at the place that it has named. Who tries keeps nothing in x16 and x17.
   In place of a syndrome, other kinds than synchronous ones leave their slot. */
.macro CATCH level, state, syndrome
    adrp    x16, caught
    add     x16, x16, #:lo12:caught
    \syndrome
    str     x17, [x16]
    mrs     x17, far_el\level
    str     x17, [x16, #8]
    mrs     x17, elr_el\level
    str     x17, [x16, #16]
    ldr     x17, [x16, #24]
    msr     elr_el\level, x17
    mov     x17, #\state
    msr     spsr_el\level, x17
    eret
.endm

.macro TABLE level, state
    .balign 2048
vectors_el\level:
    .irp from, 0, 1, 2, 3
    .balign 128
    b       synchronous_el\level
    .balign 128
    b       interrupt_el\level
    .balign 128
    b       fast_el\level
    .balign 128
    b       error_el\level
    .endr
synchronous_el\level:
    CATCH   \level, \state, "mrs x17, esr_el\level"
fast_el\level:
    CATCH   \level, \state, "mov x17, #0xf1"
error_el\level:
    CATCH   \level, \state, "mov x17, #0xe1"
interrupt_el\level:
    stp     x0, x1, [sp, #-16]!
    mrs     x0, S3_0_C12_C12_0      // ICC_IAR1_EL1
    adrp    x1, interrupts_taken
    add     x1, x1, #:lo12:interrupts_taken
    str     x0, [x1, #8]
    ldr     x0, [x1]
    add     x0, x0, #1
    str     x0, [x1]
    ldr     x0, [x1, #8]
    ldr     x1, [x1, #16]
    cbnz    x1, 1f                  // never ended, and the rest stays masked
    msr     S3_0_C12_C12_1, x0      // ICC_EOIR1_EL1
    ldp     x0, x1, [sp], #16
    eret
1:  mrs     x0, spsr_el\level
    orr     x0, x0, #0x80
    msr     spsr_el\level, x0
    ldp     x0, x1, [sp], #16
    eret
.endm
    TABLE   1, 0x3c5
    TABLE   2, 0x3c9

.macro ENTER
    stp     x29, x30, [sp, #-112]!
    stp     x19, x20, [sp, #16]
    stp     x21, x22, [sp, #32]
    stp     x23, x24, [sp, #48]
    stp     x25, x26, [sp, #64]
    stp     x27, x28, [sp, #80]
    str     x0, [sp, #96]
.endm
.macro LEAVE
    adr     x9, unexpected
    adrp    x10, caught
    str     x9, [x10, #:lo12:caught + 24]
    ldp     x19, x20, [sp, #16]
    ldp     x21, x22, [sp, #32]
    ldp     x23, x24, [sp, #48]
    ldp     x25, x26, [sp, #64]
    ldp     x27, x28, [sp, #80]
    ldp     x29, x30, [sp], #112
    ret
.endm
.macro CONTINUE_AT place
    adr     x9, \place
    adrp    x10, caught
    str     x9, [x10, #:lo12:caught + 24]
.endm

/* x0: three words for x0 to x2, before and after; x1: code that ends with RET. Returns 1 for an exception. */
    .global execute
execute:
    ENTER
    CONTINUE_AT 1f
    mov     x9, x1
    ldr     x2, [x0, #16]
    ldp     x0, x1, [x0]
    blr     x9
    ldr     x9, [sp, #96]
    stp     x0, x1, [x9]
    str     x2, [x9, #16]
    mov     x0, #0
    b       2f
1:  mov     x0, #1
2:  LEAVE

/* Goes to a lower level. x0: sixteen words for x0 to x15, before and after; x1: where; x2: SPSR. Comes back by any exception to this level. */
    .global descend
descend:
    ENTER
    CONTINUE_AT 2f
    mrs     x9, CurrentEL
    cmp     x9, #8
    b.eq    1f
    msr     elr_el1, x1
    msr     spsr_el1, x2
    b       3f
1:  msr     elr_el2, x1
    msr     spsr_el2, x2
3:  mov     x15, x0
    ldp     x0, x1, [x15]
    ldp     x2, x3, [x15, #16]
    ldp     x4, x5, [x15, #32]
    ldp     x6, x7, [x15, #48]
    ldp     x8, x9, [x15, #64]
    ldp     x10, x11, [x15, #80]
    ldp     x12, x13, [x15, #96]
    ldp     x14, x15, [x15, #112]
    eret
2:  ldr     x16, [sp, #96]
    stp     x0, x1, [x16]
    stp     x2, x3, [x16, #16]
    stp     x4, x5, [x16, #32]
    stp     x6, x7, [x16, #48]
    stp     x8, x9, [x16, #64]
    stp     x10, x11, [x16, #80]
    stp     x12, x13, [x16, #96]
    stp     x14, x15, [x16, #112]
    LEAVE

/* x0: 32 words for x0 to x30 and NZCV, and behind them 32 for what they are afterwards. In between the stack pointer is this place too. */
.macro FILLED name, body:vararg
    .global \name
\name:
    ENTER
    adrp    x9, stack_of_filled
    mov     x10, sp
    str     x10, [x9, #:lo12:stack_of_filled]
    mov     sp, x0
    ldr     x0, [sp, #248]
    msr     nzcv, x0
    ldp     x0, x1, [sp, #0]
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldp     x8, x9, [sp, #64]
    ldp     x10, x11, [sp, #80]
    ldp     x12, x13, [sp, #96]
    ldp     x14, x15, [sp, #112]
    ldp     x16, x17, [sp, #128]
    ldp     x18, x19, [sp, #144]
    ldp     x20, x21, [sp, #160]
    ldp     x22, x23, [sp, #176]
    ldp     x24, x25, [sp, #192]
    ldp     x26, x27, [sp, #208]
    ldp     x28, x29, [sp, #224]
    ldr     x30, [sp, #240]
    \body
    stp     x0, x1, [sp, #256]
    stp     x2, x3, [sp, #272]
    stp     x4, x5, [sp, #288]
    stp     x6, x7, [sp, #304]
    stp     x8, x9, [sp, #320]
    stp     x10, x11, [sp, #336]
    stp     x12, x13, [sp, #352]
    stp     x14, x15, [sp, #368]
    stp     x16, x17, [sp, #384]
    stp     x18, x19, [sp, #400]
    stp     x20, x21, [sp, #416]
    stp     x22, x23, [sp, #432]
    stp     x24, x25, [sp, #448]
    stp     x26, x27, [sp, #464]
    stp     x28, x29, [sp, #480]
    str     x30, [sp, #496]
    mrs     x0, nzcv
    str     x0, [sp, #504]
    adrp    x9, stack_of_filled
    ldr     x10, [x9, #:lo12:stack_of_filled]
    mov     sp, x10
    LEAVE
.endm
    FILLED  filled_call, smc #0
    FILLED  filled_count_in_x0, 1: sub x0, x0, #1 ; cbnz x0, 1b
    FILLED  filled_count_in_x30, 1: sub x30, x30, #1 ; cbnz x30, 1b

/* x0: 66 words for Q0 to Q31, FPCR and FPSR, and behind them 66 for what they are afterwards; x1: rounds in between, or 0 for a call. */
    .global filled_floating
filled_floating:
    mov     x9, x0
    .irp    one, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
    ldr     q\one, [x9], #16
    .endr
    .irp    one, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
    ldr     q\one, [x9], #16
    .endr
    ldp     x2, x3, [x9], #16
    msr     fpcr, x2
    msr     fpsr, x3
    cbz     x1, 2f
1:  sub     x1, x1, #1
    cbnz    x1, 1b
    b       3f
2:  mov     x10, x9
    mov     x0, #-1
    smc     #0
    mov     x9, x10
3:  .irp    one, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
    str     q\one, [x9], #16
    .endr
    .irp    one, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
    str     q\one, [x9], #16
    .endr
    mrs     x2, fpcr
    mrs     x3, fpsr
    stp     x2, x3, [x9]
    msr     fpcr, xzr
    ret

/* An exception whose handler is another exception, for ever. */
    .balign 2048
    .global endless
endless:
    .rept   512
    udf     #0
    .endr

    .bss
    .balign 16
    .global caught, interrupts_taken
/* ESR, FAR and ELR of the latest exception, and where to go on after one. */
caught:             .skip 32
/* How many, the latest INTID, and a word that is not 0 if none is to be ended. */
interrupts_taken:   .skip 24
stack_of_filled:    .skip 8
