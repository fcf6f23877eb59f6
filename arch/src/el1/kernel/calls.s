// The fast path of three calls: a Call, a Send and a RemoteSend by `invoke`, `return` into a component below, and `version`. It does what `core/objects` does (invoke.rs), on the same
// bytes, and goes to the slow path before it has changed anything when a case is another one. SP_EL1 is at the thread; TPIDR_EL1 at the components,
// with the words of `Fast` in front of them and the capability slots behind them.
//
// Of `invoke` and `return` x9 to x18 arrive as zero on either side, and so does the slow path leave them: they are free here. No memory of EL0 is
// touched. But for a Send no decision about time is made, and the timer stays as it is.

.section .text.kernel_vectors, "ax"

// x8 = slot.
.globl bulkhead_kernel_invoke
bulkhead_kernel_invoke:
    mrs     x9, TPIDR_EL1
    // The capability in the slot of the component that the thread is in.
    ldrh    w10, [sp, #{place}]
    add     x10, x9, x10, lsl #{component_shift}
    ldp     w11, w12, [x10, #{slots}]                   // first slot, number of slots
    cmp     x8, x12
    b.hs    bulkhead_kernel_slow
    add     w11, w11, w8
    add     x11, x9, x11, lsl #4
    add     x11, x11, #{all_components}
    ldp     x13, x14, [x11]                             // kind, rights, object, grant; entry and token
    // Its component, of 64 whatever the number is: is this a Call that may be used, of this grant, to a component that lives?
    ubfx    x15, x13, #16, #6
    add     x10, x9, x15, lsl #{component_shift}
    ldp     x17, x16, [x10, #{gate}]                    // gate; life and grant
    eor     x17, x17, x13
    tst     x17, #{gate_mask}
    b.ne    2f
1:  ldrh    w11, [x10, #{entries}]
    lsr     x12, x14, #48
    cmp     x12, x11
    b.hs    bulkhead_kernel_slow
    ldrb    w11, [sp, #{depth}]
    tbnz    w11, #3, bulkhead_kernel_slow               // eight calls deep
    ldp     w13, w17, [x10, #{first_entry}]             // first entry, first stack
    add     w12, w12, w13
    ldp     x13, x18, [x9, #{all_entries}]              // entries, stacks
    add     x12, x13, x12, lsl #4
    ldr     x12, [x12]
    // A free stack: the last reason to refuse.
    ldr     x13, [x10, #{free_stacks}]
    cbz     x13, bulkhead_kernel_slow
    and     x8, x14, #0xffffffffffff
    ldur    x14, [x9, #{count_invoke}]
    add     x14, x14, #1
    stur    x14, [x9, #{count_invoke}]
    rbit    x14, x13
    clz     x14, x14
    add     w17, w17, w14
    ldr     x17, [x18, x17, lsl #3]
    sub     x18, x13, #1
    and     x13, x13, x18
    str     x13, [x10, #{free_stacks}]
    ldr     x18, [x10, #{space}]
    // The thread's place is the callee, its stack there and its life now; what it was goes into the frame.
    bfi     x15, x14, #16, #16
    bfi     x15, x16, #32, #32
    ldr     x16, [sp, #{place}]
    str     x15, [sp, #{place}]
    add     x14, sp, x11, lsl #4
    add     w11, w11, #1
    strb    w11, [sp, #{depth}]
    mrs     x9, ELR_EL1
    mrs     x13, SP_EL0
    stp     x9, x13, [x14, #{frames}]
    mrs     x9, TPIDR_EL0
    stp     x9, x16, [x14, #{below}]
    msr     ELR_EL1, x12                            // the entry, which the exception return takes
    msr     SP_EL0, x17                             // on a stack that nobody else has
    msr     TPIDR_EL0, xzr                          // the caller's is in the frame
    msr     SPSR_EL1, xzr                           // EL0 with clear flags
    msr     TTBR0_EL1, x18                          // the exception return synchronises it
    ldp     x9, x10, [sp, #{nothing}]
    ldp     x11, x12, [sp, #{nothing}]
    ldp     x13, x14, [sp, #{nothing}]
    ldp     x15, x16, [sp, #{nothing}]
    ldp     x17, x18, [sp, #{nothing}]
    eret                                            // into the callee, at its entry

    // Is it only that the callee needs time? There is enough until the date that was written when the thread was chosen, or the slow path looks.
2:  eor     x17, x17, #{gate_needs}
    tst     x17, #{gate_mask}
    b.ne    3f
    ldr     x12, [x10, #{needs}]
    ldur    x11, [x9, #{until}]
    mrs     x13, CNTVCT_EL0                             // read early at worst: some ticks of passage more
    subs    x11, x11, x13
    b.ls    bulkhead_kernel_slow
    cmp     x11, x12
    b.lo    bulkhead_kernel_slow
    b       1b

    // A Send that may be used, or a RemoteSend. Of the thread's registers all that the function may change are stored, so it can go on at once, or take the slow path, or be
    // stored as a whole.
3:  and     w16, w13, #0x1ff
    cmp     w16, #{send}
    b.ne    7f
    adr     x16, bulkhead_kernel_signal
6:  stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    str     x8, [sp, #64]
    str     x30, [sp, #240]
    mov     x0, x13
    mov     x1, x14
    mov     x2, sp
    adrp    x3, __bulkhead_kernel_stack_top
    add     sp, x3, :lo12:__bulkhead_kernel_stack_top
    str     x2, [sp, #-16]!
    blr     x16
    ldr     x2, [sp]
    mov     sp, x2                                  // the thread again
    ldr     x30, [sp, #240]
    cbz     x0, 4f
    mrs     x9, TPIDR_EL1
    ldur    x14, [x9, #{count_invoke}]
    add     x14, x14, #1
    stur    x14, [x9, #{count_invoke}]
    tbnz    x0, #1, 5f
    msr     SPSR_EL1, xzr                           // EL0 with clear flags
    ldp     x0, x1, [sp, #{nothing}]
    ldp     x2, x3, [sp, #{nothing}]
    ldp     x4, x5, [sp, #{nothing}]
    ldp     x6, x7, [sp, #{nothing}]
    ldp     x8, x9, [sp, #{nothing}]                    // Ok
    ldp     x10, x11, [sp, #{nothing}]
    ldp     x12, x13, [sp, #{nothing}]
    ldp     x14, x15, [sp, #{nothing}]
    ldp     x16, x17, [sp, #{nothing}]
    mov     x18, #0
    eret                                            // behind the caller's instruction

7:  cmp     w16, #{remote_send}
    b.ne    bulkhead_kernel_slow
    adr     x16, bulkhead_kernel_remote_signal
    b       6b

    // Nothing has changed: as if it had not been looked at.
4:  ldp     x0, x1, [sp]
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldr     x8, [sp, #64]
    b       bulkhead_kernel_slow

    // Somebody else runs, or the choice is not a usual one. What the sender finds when it runs again is Ok.
5:  stp     xzr, xzr, [sp]
    stp     xzr, xzr, [sp, #16]
    stp     xzr, xzr, [sp, #32]
    stp     xzr, xzr, [sp, #48]
    stp     xzr, xzr, [sp, #64]
    stp     xzr, xzr, [sp, #80]
    stp     xzr, xzr, [sp, #96]
    stp     xzr, xzr, [sp, #112]
    stp     xzr, xzr, [sp, #128]
    stp     xzr, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    stp     x28, x29, [sp, #224]
    mrs     x3, SP_EL0
    str     x3, [sp, #{stack_pointer}]
    mrs     x3, ELR_EL1
    stp     x3, xzr, [sp, #{program_counter}]           // with clear flags
    mrs     x3, TPIDR_EL0
    str     x3, [sp, #{thread_pointer}]
    adrp    x3, __bulkhead_kernel_stack_top
    add     sp, x3, :lo12:__bulkhead_kernel_stack_top
    mov     x29, xzr
    bl      bulkhead_kernel_switch
    b       bulkhead_kernel_resume

.globl bulkhead_kernel_return
bulkhead_kernel_return:
    mrs     x9, TPIDR_EL1
    ldrb    w10, [sp, #{depth}]
    subs    w10, w10, #1
    b.lo    bulkhead_kernel_slow                        // in its home component a thread ends
    // Its stack is free again. Another life would have its own, and the slow path knows.
    ldr     x11, [sp, #{place}]
    and     x12, x11, #0xffff
    add     x12, x9, x12, lsl #{component_shift}
    ldr     w13, [x12, #{life}]
    cmp     x13, x11, lsr #32
    b.ne    bulkhead_kernel_slow
    ldur    x13, [x9, #{count_return}]
    add     x13, x13, #1
    stur    x13, [x9, #{count_return}]
    strb    w10, [sp, #{depth}]
    lsr     x13, x11, #16                               // the shift takes its lowest six bits: the stack
    mov     x14, #1
    lsl     x14, x14, x13
    ldr     x15, [x12, #{free_stacks}]
    orr     x15, x15, x14
    str     x15, [x12, #{free_stacks}]
    // The thread was chosen since a component ended last, so the caller below lives.
    add     x14, sp, x10, lsl #4
    ldp     x13, x15, [x14, #{frames}]
    ldp     x16, x17, [x14, #{below}]
    str     x17, [sp, #{place}]
    and     x12, x17, #0xffff
    add     x12, x9, x12, lsl #{component_shift}
    ldr     x12, [x12, #{space}]
    msr     ELR_EL1, x13                            // behind the caller's instruction
    msr     SP_EL0, x15                             // on the caller's stack
    msr     TPIDR_EL0, x16                          // as the caller had it
    msr     SPSR_EL1, xzr                           // EL0 with clear flags
    msr     TTBR0_EL1, x12                          // the exception return synchronises it
    mov     x8, #0                                      // Ok
    ldp     x9, x10, [sp, #{nothing}]
    ldp     x11, x12, [sp, #{nothing}]
    ldp     x13, x14, [sp, #{nothing}]
    ldp     x15, x16, [sp, #{nothing}]
    ldp     x17, x18, [sp, #{nothing}]
    eret                                            // into the caller, behind its instruction

.globl bulkhead_kernel_version
bulkhead_kernel_version:
    ldp     x9, x10, [sp, #72]                          // the vector had stored them
    mrs     x0, TPIDR_EL1
    ldur    x1, [x0, #{count_version}]
    add     x1, x1, #1
    stur    x1, [x0, #{count_version}]
    ldp     x2, x3, [x0, #{version}]
    mov     w1, #{abi_version}
    mov     x0, #0                                      // Ok
    eret                                            // all else is as it was
