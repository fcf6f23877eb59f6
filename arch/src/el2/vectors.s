// Vectors of EL2. While a guest runs, SP_EL2 points at the core's head (the guest's register frame is its first field).
// A handler gets the head in x0, runs on the core's stack, and returns the head of the vCPU that runs next, whose frame
// is loaded. The main loop "enter, exit, match, enter" is thus unrolled: the monitor keeps nothing in registers across
// a guest run.

.macro SAVE_LOW                     // what Rust code may change; x0-x3 are saved already
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x19, [sp, #144]    // x19 costs nothing here and is part of the whole frame
    str     x30, [sp, #240]
.endm

.macro SAVE_REST                    // the whole frame: an emulated access may name any register
    SAVE_LOW
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    stp     x28, x29, [sp, #224]
.endm

.macro HANDLE handler               // x1 = argument; the handler returns the head to continue with
    mov     x0, sp
    ldr     x2, [x0, #{HEAD_STACK}]
    mov     sp, x2
    bl      \handler
    mov     sp, x0
    b       bulkhead_restore
.endm

.macro FATAL index
    .balign 128
    mov     x0, #\index             // which one it was, for the epitaph
    b       bulkhead_fatal
.endm

.section .text.vectors, "ax"
.balign 2048
.globl bulkhead_vectors
bulkhead_vectors:
    // From EL2 itself, SP_EL0 and SP_ELx: the monitor is broken. Write an epitaph, stop this core, touch nothing else.
    FATAL 0
    FATAL 1
    FATAL 2
    FATAL 3
    FATAL 4
    FATAL 5
    FATAL 6
    FATAL 7
    // From a guest, AArch64. A call saves only what Rust code may change: x19 to x29 stay where they are.
    .balign 128
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    mrs     x1, esr_el2
    lsr     w2, w1, #26
    cmp     w2, #{CLASS_HVC64}
    b.ne    bulkhead_synchronous
    b       bulkhead_call
    .balign 128
    // Interrupt. The fast path forwards an owned, enabled interrupt into list register 0 when that is free.
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    mrs     x1, S3_0_C12_C12_0      // ICC_IAR1_EL1
    cmp     x1, #{FAST_ENTRIES}
    b.hs    bulkhead_interrupt
    ldr     x0, [sp, #{HEAD_FAST}]
    ldrb    w0, [x0, x1]
    cbz     w0, bulkhead_interrupt
    mrs     x2, S3_4_C12_C11_5      // ICH_ELRSR_EL2
.if {BELOW_PAYLOAD}                 // one that is in another list register may come again: `arrives_again`
    cmp     w2, #0xf                // all four are free
    b.ne    bulkhead_interrupt
.else
    tbz     w2, #0, bulkhead_interrupt
.endif
    orr     x2, x1, x1, lsl #32     // virtual and physical INTID
    orr     x2, x2, x0, lsl #48     // priority
    orr     x2, x2, #0x7000000000000000 // pending, hardware, group 1
    msr     S3_4_C12_C12_0, x2      // ICH_LR0_EL2: the guest has it from the ERET on
    msr     S3_0_C12_C12_1, x1      // ICC_EOIR1_EL1: priority drop, so that less urgent ones come again
    ldr     x2, [sp, #{HEAD_COUNTERS}]
    ldp     x0, x1, [x2]            // exits, interrupts
    add     x0, x0, #1
    add     x1, x1, #1
    stp     x0, x1, [x2]
    ldp     x2, x3, [sp, #16]
    ldp     x0, x1, [sp]
    eret                            // synchronises both writes, so neither has an ISB
    .balign 128
    // FIQ: nothing is in group 0, so this is spurious; leave it to the slow path, which counts it.
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    mov     x1, #1023
    b       bulkhead_interrupt
    .balign 128
    // SError, physical by HCR_EL2.AMO: it becomes a fault of this partition.
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    b       bulkhead_serror
    // From a guest, AArch32 (EL0 programs): the same.
    .balign 128
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    mrs     x1, esr_el2
    b       bulkhead_synchronous
    .balign 128
    // Interrupt: all of them on the slow path, which is right for each.
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    mrs     x1, S3_0_C12_C12_0
    b       bulkhead_interrupt
    .balign 128
    // FIQ: spurious, as from an AArch64 guest.
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    mov     x1, #1023
    b       bulkhead_interrupt
    .balign 128
    // SError: a fault, as from an AArch64 guest.
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    b       bulkhead_serror
    .balign 128

// Rust keeps x19 to x29 for its caller, so they stay where they are in both directions.
bulkhead_call:
.if {BELOW_PAYLOAD}                   // a call may end with a stop, or with another start: see `whole_frame`
    SAVE_REST
.else
    SAVE_LOW
.endif
    mov     x0, sp
    ldr     x1, [x0, #{HEAD_STACK}]
    mov     sp, x1
    bl      bulkhead_handle_call
bulkhead_return:                    // x0 = head; w1 = 1 when registers above x18 are new too (loaded, started)
    mov     sp, x0
    cbz     w1, bulkhead_restore_low
    b       bulkhead_restore

bulkhead_synchronous:               // x1 = ESR_EL2
    SAVE_REST
    lsr     w2, w1, #26
    cmp     w2, #{CLASS_DATA_ABORT} // emulated registers: the most frequent of the rest
    b.ne    1f
    mov     x0, sp
    ldr     x2, [x0, #{HEAD_STACK}]
    mov     sp, x2
    bl      bulkhead_handle_data_abort
    b       bulkhead_return
1:  HANDLE  bulkhead_handle_synchronous

// The whole frame, because another vCPU may run next in place of this one.
bulkhead_interrupt:                 // x1 = INTID acknowledged
    SAVE_REST
    HANDLE  bulkhead_handle_interrupt

// The whole frame, because the fault ends this run and another vCPU may run next.
bulkhead_serror:
    SAVE_REST
    mrs     x1, esr_el2
    HANDLE  bulkhead_handle_serror

// Enters the guest for the first time: x0 = head.
.globl bulkhead_enter
bulkhead_enter:
    mov     sp, x0
// All of it from the head that the handler returned, which may be another vCPU's.
bulkhead_restore:
    ldr     x19, [sp, #152]
    ldp     x20, x21, [sp, #160]
    ldp     x22, x23, [sp, #176]
    ldp     x24, x25, [sp, #192]
    ldp     x26, x27, [sp, #208]
    ldp     x28, x29, [sp, #224]
// A call that returns to the same guest comes in here: Rust has kept the registers above.
bulkhead_restore_low:
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldp     x8, x9, [sp, #64]
    ldp     x10, x11, [sp, #80]
    ldp     x12, x13, [sp, #96]
    ldp     x14, x15, [sp, #112]
    ldp     x16, x17, [sp, #128]
    ldr     x18, [sp, #144]
    ldr     x30, [sp, #240]
    ldp     x0, x1, [sp]
    eret                            // synchronises what a handler wrote for the guest, hence no ISB there

bulkhead_fatal:                     // x0 = vector; a fault may have come from a bad stack: use the head's own
    mrs     x1, tpidr_el2
    ldr     x2, [x1, #{HEAD_STACK}]
    mov     x3, sp
    mov     sp, x2
    bl      bulkhead_handle_fatal
    b       bulkhead_dead
