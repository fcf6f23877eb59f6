// Exception vectors of EL1: every entry saves all general registers in a `Frame` and calls Rust with the vector's number.

.macro bulkhead_vector number
    .balign 128
    sub     sp, sp, #{frame_bytes}
    stp     x0, x1, [sp]
    mov     x1, #\number
    b       bulkhead_sdk_exception_common
.endm

.section .text.bulkhead_vectors, "ax"
.global bulkhead_sdk_vectors
.balign 2048
bulkhead_sdk_vectors:
    bulkhead_vector 0
    bulkhead_vector 1
    bulkhead_vector 2
    bulkhead_vector 3
    bulkhead_vector 4
    bulkhead_vector 5
    bulkhead_vector 6
    bulkhead_vector 7
    bulkhead_vector 8
    bulkhead_vector 9
    bulkhead_vector 10
    bulkhead_vector 11
    bulkhead_vector 12
    bulkhead_vector 13
    bulkhead_vector 14
    bulkhead_vector 15

.balign 128
bulkhead_sdk_exception_common:
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
    mrs     x2, ELR_EL1
    mrs     x3, SPSR_EL1
    stp     x30, x2, [sp, #240]
    mrs     x4, ESR_EL1
    mrs     x5, FAR_EL1
    stp     x3, x4, [sp, #256]
    str     x5, [sp, #272]
    mov     x0, sp
    bl      bulkhead_sdk_take_exception
    ldp     x3, x4, [sp, #256]
    ldp     x30, x2, [sp, #240]
    msr     ELR_EL1, x2
    msr     SPSR_EL1, x3
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
    add     sp, sp, #{frame_bytes}
    eret

// Reads 8 bytes that may not be there: x0 = address; returns x0 = value, x1 = 0, or x1 = ESR_EL1 of the abort.
// `exception.rs` recognises an abort at the load by its address and continues after it.
.global bulkhead_sdk_probe_read
.global bulkhead_sdk_probe_load
bulkhead_sdk_probe_read:
    mov     x1, #0
bulkhead_sdk_probe_load:
    ldr     x0, [x0]
    ret
