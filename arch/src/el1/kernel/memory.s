// What the compiler calls to copy and to fill memory of the kernel: 32 bytes in six instructions, or four. Its own functions take 8 bytes at a time, and one
// where an address is not a multiple of 8. The core allows any address here (SCTLR_EL1.A is clear, and translation is on before anything is called), and all
// that is copied is normal memory. No register of floating point: those are threads'.

.section .text.kernel_memory, "ax"

// x0 = to, x1 = from, x2 = bytes, which do not overlap. Returns x0.
.globl memcpy
.type memcpy, %function
memcpy:
    mov     x3, x0
    subs    x2, x2, #32
    b.lo    2f
1:  ldp     x4, x5, [x1], #32
    ldp     x6, x7, [x1, #-16]
    stp     x4, x5, [x3], #32
    stp     x6, x7, [x3, #-16]
    subs    x2, x2, #32
    b.hs    1b
    // 32 was taken off once too often: bits 4:0 are still those of what is left.
2:  tbz     x2, #4, 3f
    ldp     x4, x5, [x1], #16
    stp     x4, x5, [x3], #16
3:  tbz     x2, #3, 4f
    ldr     x4, [x1], #8
    str     x4, [x3], #8
4:  tst     x2, #7
    b.eq    8f
    tbz     x2, #2, 5f
    ldr     w4, [x1], #4
    str     w4, [x3], #4
5:  tbz     x2, #1, 6f
    ldrh    w4, [x1], #2
    strh    w4, [x3], #2
6:  tbz     x2, #0, 8f
    ldrb    w4, [x1]
    strb    w4, [x3]
8:  ret
.size memcpy, . - memcpy

.globl memset
.type memset, %function
// x0 = to, w1 = the byte, x2 = bytes. Returns x0. The byte is in all bytes of x1 first, so that a pair of it is stored by one instruction.
memset:
    mov     x3, x0
    and     x1, x1, #0xff
    orr     x1, x1, x1, lsl #8
    orr     x1, x1, x1, lsl #16
    orr     x1, x1, x1, lsl #32
    subs    x2, x2, #32
    b.lo    2f
1:  stp     x1, x1, [x3], #32
    stp     x1, x1, [x3, #-16]
    subs    x2, x2, #32
    b.hs    1b
2:  tbz     x2, #4, 3f
    stp     x1, x1, [x3], #16
3:  tbz     x2, #3, 4f
    str     x1, [x3], #8
4:  tst     x2, #7
    b.eq    8f
    tbz     x2, #2, 5f
    str     w1, [x3], #4
5:  tbz     x2, #1, 6f
    strh    w1, [x3], #2
6:  tbz     x2, #0, 8f
    strb    w1, [x3]
8:  ret
.size memset, . - memset
