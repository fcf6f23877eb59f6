// u64 bulkhead_registers_hold(block): loads every general and floating-point register from the block, then checks them
// and the flags again and again (word 98 says how often), with pauses in which others may run. Returns 0, or 1 + the
// number of what differed first.
//
// Block, in 64-bit words: 0-30 x0-x30, 31 flags, 32-95 v0-v31 (two words each), 96 FPCR, 97 FPSR, 98 turns, 99 stack
// pointer outside, 100 found value. While it runs, SP is the block: one register fewer is needed. Interrupts are masked.

.arch_extension simd

.macro DIFFERS number
    ldr     x30, [sp, #(8 * \number)]
    cmp     x29, x30
    b.eq    9f
    str     x29, [sp, #800]
    mov     x0, #(1 + \number)
    b       bulkhead_registers_end
9:
.endm

.macro CHECK_GENERAL number
    mov     x29, x\number
    DIFFERS \number
.endm

.macro CHECK_VECTOR number
    mov     x29, v\number\().d[0]
    DIFFERS (32 + 2 * \number)
    mov     x29, v\number\().d[1]
    DIFFERS (33 + 2 * \number)
.endm

.section .text.registers_hold, "ax"
.globl bulkhead_registers_hold
bulkhead_registers_hold:
    sub     sp, sp, #96
    stp     x19, x20, [sp]
    stp     x21, x22, [sp, #16]
    stp     x23, x24, [sp, #32]
    stp     x25, x26, [sp, #48]
    stp     x27, x28, [sp, #64]
    stp     x29, x30, [sp, #80]
    mov     x1, sp
    str     x1, [x0, #792]
    mov     sp, x0
.irp number, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ldr     q\number, [sp, #(256 + 16 * \number)]
.endr
    ldr     x29, [sp, #768]
    msr     fpcr, x29
    ldr     x29, [sp, #776]
    msr     fpsr, x29
.irp number, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28
    ldr     x\number, [sp, #(8 * \number)]
.endr

bulkhead_registers_turn:
    // All of x0 to x30 and the flags are the pattern here.
    ldr     x30, [sp, #248]
    msr     nzcv, x30
    ldp     x29, x30, [sp, #232]
    .rept   300
    nop
    .endr
    // x29 and x30 check each other: the one that is not checked yet is stored.
    str     x30, [sp, #808]
    mrs     x30, nzcv
    str     x30, [sp, #816]
    DIFFERS 29
    ldr     x29, [sp, #808]
    DIFFERS 30
    ldr     x29, [sp, #816]
    DIFFERS 31
.irp number, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28
    CHECK_GENERAL \number
.endr
.irp number, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    CHECK_VECTOR \number
.endr
    mrs     x29, fpcr
    DIFFERS 96
    mrs     x29, fpsr
    DIFFERS 97
    ldr     x29, [sp, #784]
    sub     x29, x29, #1
    str     x29, [sp, #784]
    cbnz    x29, bulkhead_registers_turn
    mov     x0, #0
bulkhead_registers_end:
    ldr     x1, [sp, #792]
    mov     sp, x1
    ldp     x19, x20, [sp]
    ldp     x21, x22, [sp, #16]
    ldp     x23, x24, [sp, #32]
    ldp     x25, x26, [sp, #48]
    ldp     x27, x28, [sp, #64]
    ldp     x29, x30, [sp, #80]
    add     sp, sp, #96
    ret

// void bulkhead_registers_vectors(words): copies v0 to v31, FPCR and FPSR to 66 words.
.globl bulkhead_registers_vectors
bulkhead_registers_vectors:
.irp number, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    str     q\number, [x0, #(16 * \number)]
.endr
    mrs     x1, fpcr
    str     x1, [x0, #512]
    mrs     x1, fpsr
    str     x1, [x0, #520]
    ret
