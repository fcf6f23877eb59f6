/*
 * Reset, vectors and the ways between the worlds, in both configurations: MULTI is 0 in `dual`. What only `multi` has and is no part of a
 * way between the worlds is in cores.s, which follows.
 *
 * SP_EL3 points to the context of the world that RUNS, and the other world's is at a constant distance. So the first store of every way
 * needs no free register and no test.
 *
 * The table of vectors is the front of the text. EL3 always runs on SP_EL3 and what is below it is AArch64, so half of the slots
 * cannot be entered, and hold code: reset is the first of them.
 */

/* A constant of up to 32 bits, in one instruction where it fits. */
.macro CONSTANT register, value
    .if (\value) & 0xffff
    movz    \register, #((\value) & 0xffff)
    .if (\value) >> 16
    movk    \register, #((\value) >> 16), lsl #16
    .endif
    .else
    movz    \register, #((\value) >> 16), lsl #16
    .endif
.endm

.macro SAVE_LOWER
    stp     x0, x1, [sp, #0]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
.endm

/* What a call keeps, but x29 and x30; x18 besides, because pairs begin with an even register. */
.macro SAVE_UPPER
    stp     x18, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    str     x28, [sp, #224]
.endm

.macro SLOT offset
    .org    gate + \offset
.endm

    .arch   armv8-a+crc
    .section .text.gate, "ax"
    .global reset
/* Slots 0x000 to 0x180, never entered: exceptions taken on SP_EL0. All cores leave reset here at once. */
gate:
reset:
    mrs     x0, mpidr_el1
    and     x0, x0, #0xffffff       // affinity; the boot core's is zero
.if !MULTI
    cbnz    x0, park                // before this core has touched memory
.endif
    CONSTANT x2, SCTLR_EL3_VALUE
    msr     sctlr_el3, x2
    msr     vbar_el3, xzr           // the text begins at 0, and the table of vectors with it
    CONSTANT x4, CONTEXTS
    add     sp, x4, #SECURE_OFFSET
    msr     cptr_el3, xzr           // nothing of the worlds traps to EL3
    CONSTANT x2, MDCR_EL3_VALUE
    msr     mdcr_el3, x2
    CONSTANT x3, SRE_HIGH
    msr     S3_6_C12_C12_5, x3      // ICC_SRE_EL3, first: it lets the others be written
    isb
    msr     S3_6_C12_C12_4, xzr     // ICC_CTLR_EL3: an end deactivates, in every state (EOImode, CBPR and RM are unknown after reset)
.if MULTI
    msr     tpidr_el3, xzr          // this core has the payload
    cbnz    x0, other_core          // before that one has touched memory
.endif
    bl      reset_non_secure        // leaves x3 and x4 as they are, and SCR_EL3 for the secure world
    isb
    msr     S3_0_C12_C12_5, x3      // ICC_SRE_EL1, the secure one
    CONSTANT x2, SECURE_GROUP
    msr     S3_6_C12_C12_7, x2      // ICC_IGRPEN1_EL3
    CONSTANT x2, SCTLR_EL1_RESET
    msr     sctlr_el1, x2
    CONSTANT x2, SPSR_SECURE
    msr     spsr_el3, x2
    // The world plan, checked, and then by it the payload.
    CONSTANT x5, FLASH_PLAN
    add     x6, x4, #(PLAN - CONTEXTS)
    CONSTANT x7, PLAN_BYTES
    mov     x0, x6                  // for the payload
    adr     x11, plan_is_damaged
    bl      copy
    ldr     x2, [x0, #PLAN_COUNTER_HZ]
    msr     cntfrq_el0, x2
    ldp     x5, x6, [x0, #PLAN_PAYLOAD]
    ldp     x7, x2, [x0, #PLAN_PAYLOAD_BYTES]
    msr     elr_el3, x2
    adr     x11, payload_is_damaged
    bl      copy
    ic      iallu                   // what was copied is to be fetched
    dsb     sy
    eret
park:
    wfi
    b       park
/* Resets the registers of the non-secure world that the secure one cannot reach, as that world; x2 is used. */
reset_non_secure:
    CONSTANT x2, SCR_NON_SECURE
    msr     scr_el3, x2
    isb
    RESET_NON_SECURE
    CONSTANT x2, SCR_SECURE
    msr     scr_el3, x2
    ret
plan_is_damaged:
    .asciz  "BH: CRC plan\n"
payload_is_damaged:
    .asciz  "BH: CRC payload\n"
    .balign 4
.if MULTI
/* Boot of the others: no memory is read or written before the library, which sets up the words, has enabled their SGI. */
other_core:
    cmp     x0, #(MOST_CORES - 1)
    b.hi    park
    add     x4, x4, x0, lsl #CORE_SHIFT
    mov     sp, x4
    CONSTANT x3, STATE
    add     x3, x3, x0, lsl #LINE_SHIFT
    msr     tpidr_el3, x3
    mov     x2, #1
    msr     S3_0_C12_C12_6, x2      // ICC_IGRPEN0_EL1
    mov     x2, #PRIORITY_MASK
    msr     S3_0_C4_C6_0, x2        // ICC_PMR_EL1
    b       parked
.endif

/* Slots 0x200 to 0x380: an exception in EL3 itself. Nothing can cause one; if it happens, it is written down and the core stops. That of
   FIQ, which is masked, is padding: an undefined instruction, which leads to the first. */
    SLOT    0x200
fault:
    mrs     x0, esr_el3
    mrs     x1, elr_el3
    mrs     x2, far_el3
    CONSTANT x3, STATE
.if MULTI
    mrs     x4, mpidr_el1
    and     x4, x4, #(MOST_CORES - 1)
    add     x3, x3, x4, lsl #LINE_SHIFT
.endif
    stp     x0, x1, [x3]
    str     x2, [x3, #16]
    b       park
    SLOT    0x280
    b       fault
    SLOT    0x380
    b       fault
/* Boot: copies bytes x7 (a multiple of 16, not 0) from x5 to x6 and compares their CRC-32C. When it differs, the text at x11 is said on
   the secure console, and no world starts. */
copy:
    mov     w10, #-1
1:  ldp     x8, x9, [x5], #16
    stp     x8, x9, [x6], #16
    crc32cx w10, w10, x8
    crc32cx w10, w10, x9
    subs    x7, x7, #16
    b.ne    1b
    CONSTANT w9, CRC_RESIDUE
    cmp     w9, w10
    b.ne    damaged
    ret
damaged:
    CONSTANT x12, SECURE_CONSOLE
2:  ldrb    w10, [x11], #1
    cbz     w10, park
    str     w10, [x12]
    b       2b

/* Synchronous, from below: a world calls, or touched what it must not. */
    SLOT    0x400
    stp     x29, x30, [sp, #232]
    mrs     x30, scr_el3
    tbnz    x30, #0, from_non_secure
    cbnz    x0, reset_asked
/* Path 4 (SG-23): the secure world gives the core away. By convention of the call it has saved x0 to x18 itself. */
    bl      save_upper
    bl      save_registers
    CONSTANT x0, SCR_NON_SECURE
    msr     scr_el3, x0
    sub     sp, sp, #SECURE_OFFSET
    bl      load_registers
    b       load_non_secure

/* Interrupt from below: SCR_EL3.IRQ is zero, so it cannot happen (SG-25). */
    SLOT    0x480
    b       fault
reset_asked:
    bl      reset_non_secure
    b       go_on

/* Path 2 (SG-21): an interrupt of the secure world while the other one runs, whatever that one has masked. */
    SLOT    0x500
    stp     x29, x30, [sp, #232]
.if MULTI
    mrs     x30, tpidr_el3          // 0 on the payload's core, whose group 0 is off: Reason::Interrupt
    cbz     x30, to_secure
/* An interrupt of EL3: the SGI of a kick, or CNTPS, which is the end of a watch or a kick that is tried again. Either way the core comes to
   its EL2, as by an interrupt: nothing that it runs can mask this one. */
group_0:
    mrs     x30, S3_0_C12_C8_0      // ICC_IAR0_EL1
    msr     S3_7_C14_C2_1, xzr      // CNTPS_CTL_EL1, before the end, or it would come again
    msr     S3_0_C12_C8_1, x30      // ICC_EOIR0_EL1
    mrs     x30, spsr_el3
    and     x29, x30, #0x18         // M: AArch32, and the upper bit of the level
    cmp     x29, #8
    b.eq    retry
    msr     spsr_el2, x30
    mrs     x30, elr_el3
    msr     elr_el2, x30
    mrs     x30, vbar_el2
    add     x30, x30, #KICKED_VECTOR
    msr     elr_el3, x30
    mov     x30, #KICKED_STATE
    msr     spsr_el3, x30
    ldp     x29, x30, [sp, #232]
    eret
/* EL2 itself was interrupted, and would lose where it was. */
retry:
    CONSTANT x29, PLAN
    ldr     x29, [x29, #PLAN_WATCH_LEAST]
    mrs     x30, cntpct_el0
    add     x30, x30, x29
    msr     S3_7_C14_C2_2, x30      // CNTPS_CVAL_EL1
    mov     x30, #1
    msr     S3_7_C14_C2_1, x30      // CNTPS_CTL_EL1
    b       go_on
.else
    bl      save_non_secure
    mov     x19, #0                 // Reason::Interrupt
to_secure:
    bl      save_registers
    CONSTANT x0, SCR_SECURE
    msr     scr_el3, x0
    add     sp, sp, #SECURE_OFFSET
    bl      load_registers
    mov     x0, x19
    b       load_upper
.endif

/* SError from below: SCR_EL3.EA is zero, so it cannot happen. */
    SLOT    0x580
    b       fault
/* Path 5 (SG-24): the non-secure world calls, or touched group 0. */
from_non_secure:
    mrs     x30, esr_el3
    lsr     x30, x30, #26
    cmp     x30, #EXCEPTION_CLASS_REGISTER
    b.eq    skip
.if MULTI
    // EL3 answers CPU_ON and AFFINITY_INFO, of either convention, and kicks, and on cores without a payload everything. Only the number is
    // looked at here; what is another owner's is refused by `calls` as the payload would.
    and     w30, w0, #0x03ffffff
    sub     w30, w30, #(CPU_ON & 0xffff)
    cmp     w30, #1
    CONSTANT w29, CALL_KICK
    ccmp    w0, w29, #4, hi         // 4: Z
    mrs     x29, tpidr_el3
    ccmp    x29, #0, #0, ne
    b.ne    calls
    mov     x30, #1                 // Reason::Call
/* No subroutines: path 5 has no instruction to spare. x30 keeps the reason. */
to_secure:
    SAVE_LOWER
    SAVE_UPPER
    SAVE_REGISTERS
    CONSTANT x0, SCR_SECURE
    msr     scr_el3, x0
    add     sp, sp, #SECURE_OFFSET
    LOAD_REGISTERS
    mov     x0, x30
    b       load_upper
.else
    bl      save_non_secure
    mov     x19, #1                 // Reason::Call
    b       to_secure
.endif
/* An access to group 0, which is EL3's (SG-15): nothing is written, the register that would be read keeps its value. */
skip:
    mrs     x30, elr_el3
    add     x30, x30, #4
    msr     elr_el3, x30
go_on:
    ldp     x29, x30, [sp, #232]
    eret

/* Slots 0x600 to 0x780, never entered: what is below is AArch64. */
.if !MULTI
save_non_secure:
    SAVE_LOWER
.endif
save_upper:
    SAVE_UPPER
    ret
load_non_secure:
    ldp     x0, x1, [sp, #0]
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldp     x8, x9, [sp, #64]
    ldp     x10, x11, [sp, #80]
    ldp     x12, x13, [sp, #96]
    ldp     x14, x15, [sp, #112]
    ldp     x16, x17, [sp, #128]
load_upper:
    ldp     x18, x19, [sp, #144]
    ldp     x20, x21, [sp, #160]
    ldp     x22, x23, [sp, #176]
    ldp     x24, x25, [sp, #192]
    ldp     x26, x27, [sp, #208]
    ldp     x28, x29, [sp, #224]
    ldr     x30, [sp, #240]
    eret
/* Not the general ones; x1 and x2 are used. The return from EL3 that follows makes the new values hold. */
save_registers:
    SAVE_REGISTERS
    ret
load_registers:
    LOAD_REGISTERS
    ret
