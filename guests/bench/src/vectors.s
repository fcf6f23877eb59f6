// Vectors whose interrupt entry reads the counter first and needs no stack. Everything else goes to the SDK's vectors.

.macro bulkhead_bench_forward offset
    .balign 128
    b       bulkhead_sdk_vectors + \offset
.endm

.section .text.bulkhead_bench_vectors, "ax"
.global bulkhead_bench_vectors
.balign 2048
bulkhead_bench_vectors:
    bulkhead_bench_forward 0x000
    bulkhead_bench_forward 0x080
    bulkhead_bench_forward 0x100
    bulkhead_bench_forward 0x180
    bulkhead_bench_forward 0x200

    // Interrupt at EL1: x20 = counter at the first instruction, x21 = interrupt; the timer is stopped.
    .balign 128
    mrs     x20, CNTVCT_EL0
    mrs     x21, ICC_IAR1_EL1
    msr     CNTV_CTL_EL0, xzr
    msr     ICC_EOIR1_EL1, x21
    eret

    bulkhead_bench_forward 0x300
    bulkhead_bench_forward 0x380
    bulkhead_bench_forward 0x400
    bulkhead_bench_forward 0x480
    bulkhead_bench_forward 0x500
    bulkhead_bench_forward 0x580
    bulkhead_bench_forward 0x600
    bulkhead_bench_forward 0x680
    bulkhead_bench_forward 0x700
    bulkhead_bench_forward 0x780
