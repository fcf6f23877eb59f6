// Vectors of the kernel, and the way back to EL0. While a thread runs, SP_EL1 points at its registers (`arch/src/kernel.rs` has the offsets). A handler runs on
// the core's one stack, from its top, and returns the registers of the thread that runs next; nothing of it stays on the stack.

.arch_extension fp
.arch_extension simd

.macro FATAL index
    .balign 128
    mov     x0, #\index                                 // which one it was, for the epitaph
    b       bulkhead_kernel_broken
.endm

.section .text.kernel_vectors, "ax"
.balign 2048
.globl bulkhead_kernel_vectors
bulkhead_kernel_vectors:
    // From EL1 with the stack pointer of EL0: never used.
    FATAL 0
    FATAL 1
    FATAL 2
    FATAL 3
    // From EL1: the kernel is broken, unless its one load that may fault did.
    .balign 128
    mrs     x16, ELR_EL1                                // of a leaf function, so its caller keeps nothing in x16 and x17
    adr     x17, bulkhead_kernel_probe
    cmp     x16, x17
    mov     x0, #4
    b.ne    bulkhead_kernel_broken
    adr     x17, bulkhead_kernel_probe_failed
    msr     ELR_EL1, x17                            // the load is not tried again
    eret                                            // to the end that says so
    FATAL 5
    FATAL 6
    FATAL 7
    // From EL0, AArch64: calls and faults. Three calls have a fast path (`calls.s`), which comes back to the slow one when it cannot do it all.
    .balign 128
    stp     x9, x10, [sp, #72]
bulkhead_kernel_synchronous:
    mrs     x9, ESR_EL1
    mov     w10, #0x56000000                            // SVC of AArch64; its number is below
    sub     x9, x9, x10
.if {all_slow} == 0
    // A test takes the four branches out of the text, and all goes the slow way. A kernel that records has been assembled without them, since its calls
    // are recorded there.
.globl bulkhead_kernel_is_invoke
bulkhead_kernel_is_invoke:
    cbz     x9, bulkhead_kernel_invoke
    sub     x9, x9, #1
    // The second of the branches.
.globl bulkhead_kernel_is_return
bulkhead_kernel_is_return:
    cbz     x9, bulkhead_kernel_return
    cmp     x9, #14
    // The third of the branches.
.globl bulkhead_kernel_is_version
bulkhead_kernel_is_version:
    b.eq    bulkhead_kernel_version
.endif
    ldp     x9, x10, [sp, #72]
    // Where the fast path gives up; of `invoke` and `return` x9 to x18 are nobody's then.
.globl bulkhead_kernel_slow
bulkhead_kernel_slow:
    stp     x0, x1, [sp]
    mov     x0, #0                                      // `Kind::Synchronous`
    b       bulkhead_kernel_entry
    .balign 128
    stp     x0, x1, [sp]                                // the entry counts on both being stored
bulkhead_kernel_interrupt:
    mov     x0, #1                                      // `Kind::Interrupt`: nothing was asked for
    b       bulkhead_kernel_entry
    FATAL 10
    FATAL 11
    // From EL0, AArch32: no component is AArch32, and none can change to it.
    FATAL 12
    FATAL 13
    FATAL 14
    FATAL 15

// Vectors while EL0 may use floating-point registers (`floating_point.rs`): they close them, and all else is as above. So who does not declare them pays nothing, and
// neither does a kernel in which nobody does. Between the entries is what saves and loads them.
.macro EACH_PAIR instruction
    \instruction q0, q1, [x0]
    \instruction q2, q3, [x0, #32]
    \instruction q4, q5, [x0, #64]
    \instruction q6, q7, [x0, #96]
    \instruction q8, q9, [x0, #128]
    \instruction q10, q11, [x0, #160]
    \instruction q12, q13, [x0, #192]
    \instruction q14, q15, [x0, #224]
    \instruction q16, q17, [x0, #256]
    \instruction q18, q19, [x0, #288]
    \instruction q20, q21, [x0, #320]
    \instruction q22, q23, [x0, #352]
    \instruction q24, q25, [x0, #384]
    \instruction q26, q27, [x0, #416]
    \instruction q28, q29, [x0, #448]
    \instruction q30, q31, [x0, #480]
.endm

// No exception comes between the two writes, and the exception return synchronises both.
.macro CLOSE register
    msr     CPACR_EL1, xzr                          // their use is a fault again
    adr     \register, bulkhead_kernel_vectors
    msr     VBAR_EL1, \register                     // the first table, whose fast path knows nothing of these registers
.endm

.balign 2048
.globl bulkhead_kernel_open_vectors
bulkhead_kernel_open_vectors:                           // what EL1 itself does is never right, in this table either
    FATAL 0
// x0 = 528 bytes: v0 to v31, then FPCR and FPSR.
.globl bulkhead_kernel_save_floating_point
bulkhead_kernel_save_floating_point:
    EACH_PAIR stp
    mrs     x1, FPCR
    mrs     x2, FPSR
    str     x1, [x0, #512]
    str     x2, [x0, #520]
    ret
    FATAL 1
.globl bulkhead_kernel_load_floating_point
bulkhead_kernel_load_floating_point:
    EACH_PAIR ldp
    ldr     x1, [x0, #512]
    ldr     x2, [x0, #520]
    msr     FPCR, x1                                // EL1 computes nothing with either: the exception return is early enough
    msr     FPSR, x2                                // of who runs next
    ret
    FATAL 2
    FATAL 3
    FATAL 4
    FATAL 5
    FATAL 6
    FATAL 7
    // From EL0, AArch64.
    .balign 128
    stp     x9, x10, [sp, #72]                          // as the usual vector has them stored
    CLOSE   x9
    b       bulkhead_kernel_synchronous
    .balign 128
    stp     x0, x1, [sp]                                // as the usual vector has them stored
    CLOSE   x0
    b       bulkhead_kernel_interrupt
    FATAL 10
    FATAL 11
    FATAL 12
    FATAL 13
    FATAL 14
    FATAL 15

.globl bulkhead_kernel_clear_floating_point
bulkhead_kernel_clear_floating_point:
.irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    movi    v\number\().2d, #0
.endr
    msr     FPCR, xzr                               // of who runs next
    msr     FPSR, xzr                               // no exception of a computation is left
    ret

bulkhead_kernel_entry:
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
    mrs     x3, SP_EL0
    stp     x30, x3, [sp, #{stack_pointer}]             // x30 is the word below SP_EL0's
    mrs     x3, ELR_EL1
    mrs     x4, SPSR_EL1
    stp     x3, x4, [sp, #{program_counter}]
    mrs     x3, TPIDR_EL0
    str     x3, [sp, #{thread_pointer}]
    mrs     x1, ESR_EL1
    mrs     x2, FAR_EL1
    // Each call is counted once: here, or in its fast path.
    cbnz    x0, 1f
    mov     w3, #0x56000000
    sub     x3, x1, x3
    cmp     x3, #15
    b.hi    2f
    mrs     x4, TPIDR_EL1
    sub     x4, x4, #{fast}
    ldr     x5, [x4, x3, lsl #3]
    add     x5, x5, #1
    str     x5, [x4, x3, lsl #3]
.if {all_slow} == 0
    cmp     x3, #{switch}
    // The fourth of the branches.
.globl bulkhead_kernel_is_switch
bulkhead_kernel_is_switch:
    b.eq    4f
.endif
1:  adrp    x3, __bulkhead_kernel_stack_top
    add     sp, x3, :lo12:__bulkhead_kernel_stack_top
    mov     x29, xzr
    bl      bulkhead_kernel_enter

// x0 = the registers of the thread that runs next.
.globl bulkhead_kernel_resume
bulkhead_kernel_resume:
    mov     sp, x0                                  // where the next entry keeps them
    ldr     x3, [sp, #{thread_pointer}]
    msr     TPIDR_EL0, x3                           // EL0 writes it freely, so each thread has its own
    ldp     x3, x4, [sp, #{program_counter}]
    msr     ELR_EL1, x3                             // the exception return takes both from here
    msr     SPSR_EL1, x4                            // never another level: the kernel alone writes the word
    ldp     x30, x3, [sp, #{stack_pointer}]
    msr     SP_EL0, x3                              // the stack of the component that runs next
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
    eret                                                // also synchronises a TTBR0_EL1 that was written

    // A fault, or the use of closed registers by who may use them: nothing is decided then, as in the fast path of calls, and the instruction is made again.
2:  lsr     x3, x1, #26
    cmp     x3, #0x07                                   // class of SIMD and floating point (Arm ARM D17.2.37)
    b.ne    1b
    mov     x19, sp
    mov     x20, x1
    mov     x21, x2
    adrp    x3, __bulkhead_kernel_stack_top
    add     sp, x3, :lo12:__bulkhead_kernel_stack_top
    mov     x29, xzr
    bl      bulkhead_kernel_floating_point
    mov     x1, x20
    mov     x2, x21
    mov     x3, x0
    mov     x0, #0                                      // `Kind::Synchronous`
    cbz     x3, 3f
    mov     x0, x19
    b       bulkhead_kernel_resume
3:  mov     sp, x19
    b       1b

    // `switch` has a short way, which begins when all is stored.
4:  adrp    x3, __bulkhead_kernel_stack_top
    add     sp, x3, :lo12:__bulkhead_kernel_stack_top
    mov     x29, xzr
    bl      bulkhead_kernel_exchange
    cbnz    x0, bulkhead_kernel_resume
    mrs     x1, ESR_EL1                                 // nothing was done, and x0 = `Kind::Synchronous`
    mrs     x2, FAR_EL1
    b       1b

// The stack may be what is broken: the epitaph is written from its top.
bulkhead_kernel_broken:
    mrs     x1, ESR_EL1
    mrs     x2, FAR_EL1
    mrs     x3, ELR_EL1
    mov     x4, sp
    adrp    x5, __bulkhead_kernel_stack_top
    add     sp, x5, :lo12:__bulkhead_kernel_stack_top
    mov     x29, xzr
    mov     x30, xzr
    b       bulkhead_kernel_fatal

// x0 = an address of the kernel's half. Returns its word in x0 and 1 in x1; 0 in x1 when nothing is there.
.section .text.kernel_probe, "ax"
.globl bulkhead_kernel_probe
bulkhead_kernel_probe:
    ldr     x0, [x0]                                // the one load of the kernel that may fault
    mov     x1, #1
    ret
bulkhead_kernel_probe_failed:
    mov     x1, #0                                  // the vector sends a load that faulted here
    ret
