// Vectors whose interrupt entry reads the counter first and needs no stack. Everything else goes to the SDK's vectors.
//
// An interrupt serves one record (request, entered, done) and raises the next one by itself, so nothing of the interrupted code
// stands between two requests. Registers, which the code that unmasks interrupts declares: x20 = counter at the first
// instruction, x21 = interrupt, x22 = scratch, x23 = counter when the work is done, x24 (in) = blocks of work, x26 =
// next record, x27 (in) = 1 when a request is a pause after the answer before, x28 (in) = end of the records. The
// interrupt ends after the work.

.macro bulkhead_experiment_forward offset
    .balign 128
    b       bulkhead_sdk_vectors + \offset
.endm

.section .text.bulkhead_experiment_vectors, "ax"
.global bulkhead_experiment_vectors
.balign 2048
bulkhead_experiment_vectors:
    bulkhead_experiment_forward 0x000
    bulkhead_experiment_forward 0x080
    bulkhead_experiment_forward 0x100
    bulkhead_experiment_forward 0x180
    bulkhead_experiment_forward 0x200

    // Interrupt at EL1.
    .balign 128
    mrs     x20, CNTVCT_EL0
    mrs     x21, ICC_IAR1_EL1
    b       bulkhead_experiment_work

    bulkhead_experiment_forward 0x300
    bulkhead_experiment_forward 0x380
    bulkhead_experiment_forward 0x400
    bulkhead_experiment_forward 0x480
    bulkhead_experiment_forward 0x500
    bulkhead_experiment_forward 0x580
    bulkhead_experiment_forward 0x600
    bulkhead_experiment_forward 0x680
    bulkhead_experiment_forward 0x700
    bulkhead_experiment_forward 0x780

bulkhead_experiment_work:
    cmp     x21, #1020
    b.hs    4f                      // gone before it was taken
    msr     CNTV_CTL_EL0, xzr
    mov     x22, x24
    cbz     x22, 2f
1:  .rept   126
    nop
    .endr
    subs    x22, x22, #1
    b.ne    1b
2:  mrs     x23, CNTVCT_EL0
    stp     x20, x23, [x26, #8]
    add     x26, x26, #24
    cmp     x26, x28
    b.hs    3f
    ldr     x22, [x26]
    cmp     x27, #0
    add     x20, x22, x23
    csel    x22, x22, x20, eq
    str     x22, [x26]
    // Before the end of the interrupt, as drivers do: a hypervisor may take the core away at the end.
    msr     CNTV_CVAL_EL0, x22
    mov     x22, #1
    msr     CNTV_CTL_EL0, x22
3:  msr     ICC_EOIR1_EL1, x21
4:  eret
