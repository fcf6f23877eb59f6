// Every register of a thread at EL0 on both sides of a call, as the kernel left it.

.section .text.hostile, "ax"

// x0 = what all registers are to be (33 words: x0 to x30, NZCV, TPIDR_EL0), x1 = where to store what they are behind call \number; number 70000 is no call but a
// loop of x0 turns.
.macro EXCHANGE number
.globl bulkhead_hostile_exchange_\number
bulkhead_hostile_exchange_\number:
    stp     x29, x30, [sp, #-112]!
    stp     x19, x20, [sp, #16]
    stp     x21, x22, [sp, #32]
    stp     x23, x24, [sp, #48]
    stp     x25, x26, [sp, #64]
    stp     x27, x28, [sp, #80]
    str     x1, [sp, #96]
    sub     sp, sp, #272
    ldp     x1, x2, [x0, #248]
    msr     NZCV, x1                                    // the flags of the pattern, which must come back
    msr     TPIDR_EL0, x2                               // as must the word that is EL0's own
    ldp     x1, x2, [x0, #8]
    ldp     x3, x4, [x0, #24]
    ldp     x5, x6, [x0, #40]
    ldp     x7, x8, [x0, #56]
    ldp     x9, x10, [x0, #72]
    ldp     x11, x12, [x0, #88]
    ldp     x13, x14, [x0, #104]
    ldp     x15, x16, [x0, #120]
    ldp     x17, x18, [x0, #136]
    ldp     x19, x20, [x0, #152]
    ldp     x21, x22, [x0, #168]
    ldp     x23, x24, [x0, #184]
    ldp     x25, x26, [x0, #200]
    ldp     x27, x28, [x0, #216]
    ldp     x29, x30, [x0, #232]
    ldr     x0, [x0]
.if \number == 70000
1:  sub     x0, x0, #1
    cbnz    x0, 1b
.else
    svc     #\number
.endif
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
    mrs     x1, NZCV
    stp     x30, x1, [sp, #240]
    mrs     x1, TPIDR_EL0
    str     x1, [sp, #256]
    mov     x0, sp
    ldr     x1, [sp, #368]
    mov     x2, #33
2:  ldr     x3, [x0], #8
    str     x3, [x1], #8
    subs    x2, x2, #1
    b.ne    2b
    add     sp, sp, #272
    ldp     x27, x28, [sp, #80]
    ldp     x25, x26, [sp, #64]
    ldp     x23, x24, [sp, #48]
    ldp     x21, x22, [sp, #32]
    ldp     x19, x20, [sp, #16]
    ldp     x29, x30, [sp], #112
    ret
.endm

EXCHANGE 0
EXCHANGE 1
EXCHANGE 2
EXCHANGE 3
EXCHANGE 4
EXCHANGE 5
EXCHANGE 6
EXCHANGE 7
EXCHANGE 8
EXCHANGE 9
EXCHANGE 10
EXCHANGE 11
EXCHANGE 12
EXCHANGE 13
EXCHANGE 14
EXCHANGE 15
EXCHANGE 16
EXCHANGE 255
EXCHANGE 256
EXCHANGE 65535
EXCHANGE 70000
