/*
 * What only `multi` has: cores without a payload, and calls that EL3 answers itself (SG-13, SG-14).
 *
 * A core without a payload has non-secure code alone, or is parked. TPIDR_EL3 is the address of its line of words (StateLine), and 0 on the
 * payload's core. SP_EL3 is its context as elsewhere, where calls find room for registers. Every word has one writer, so there is no lock:
 * a core's turn is its own, and who wants to start it writes to a place of their own there.
 *
 * Decisions are made by conditional selection where nothing but values depends on them: a refused call does what an allowed one
 * does, with no target and with the words that were there.
 */

/* A core without a world waits for a request. A kick wakes it as well, and finds none. */
parked:
    wfi
    mrs     x0, S3_0_C12_C8_0       // ICC_IAR0_EL1
    msr     S3_0_C12_C8_1, x0       // ICC_EOIR0_EL1
    mrs     x5, tpidr_el3
    ldr     x1, [x5, #LINE_TURN]
    add     x1, x1, #1              // the ticket of a request for this turn
    mov     x4, #0
.irp source, 0, 1, 2, 3
    add     x3, x5, #(LINE_STARTS + START_BYTES * \source)
    ldr     x2, [x3]
    cmp     x2, x1
    csel    x4, x3, x4, eq
.endr
    cmp     x0, #KICK               // whatever woke it otherwise, the words may not be there yet
    csel    x4, x4, xzr, eq
    cbz     x4, parked
    // Its context is that of a world that begins, as the library made it, but for the entry, x0 and what calls put there.
    ldp     x0, x2, [x4, #START_ENTRY]
    str     x2, [sp, #0]
    str     x0, [sp, #ELR_OFFSET]
    stp     xzr, xzr, [sp, #192]
    stp     xzr, xzr, [sp, #208]
    stp     xzr, xzr, [sp, #224]
    str     xzr, [sp, #240]
    orr     x1, x1, #1
    stp     x1, xzr, [x5, #LINE_TURN]
    bl      reset_non_secure
    CONSTANT x0, SCR_NON_SECURE
    msr     scr_el3, x0
.rept ACTIVE_PRIORITIES - 1
    msr     S3_0_C12_C12_1, xzr     // ICC_EOIR1_EL1: see NON_SECURE_RESET
.endr
    bl      load_registers
    b       load_non_secure

/* Calls that EL3 answers; x29 is TPIDR_EL3. Only x0 changes. What is below the plan's level asks that one. */
calls:
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    str     x28, [sp, #224]
    CONSTANT x28, PLAN
    mrs     x27, spsr_el3
    ubfx    x27, x27, #2, #3        // AArch32, and the caller's level
    ldr     w30, [x28, #PLAN_CALLER_LEVEL]
    cmp     x27, #2
    ccmp    x27, x30, #0, ls        // 0: no C, lower
    csel    w26, w0, wzr, hs        // the function, or none
    CONSTANT w24, CPU_ON
    and     w25, w26, #0xbfffffff   // of either convention
    sub     w25, w25, w24
    cmp     w25, #1
    b.ls    targets
    sub     w24, w24, #(CPU_ON - CPU_OFF)
    sub     w25, w26, w24
    mov     w24, #ENDS
    lsr     w24, w24, w25
    cmp     w25, #(SYSTEM_RESET - CPU_OFF)
    csel    w24, w24, wzr, ls
    tbnz    w24, #0, ends
    CONSTANT w24, CALL_KICK
    sub     w25, w26, w24
    cmp     x27, #2                 // for EL2 alone
    ccmp    w25, #(CALL_WATCH - CALL_KICK), #0, eq
    b.eq    watch
    // A kick, or nothing that there is.
    mrs     x30, mpidr_el1
    and     x30, x30, #(MOST_CORES - 1)
    add     x30, x28, x30, lsl #2
    ldr     w30, [x30, #PLAN_KICKS]
    mov     w24, #1
    lsl     w24, w24, w1
    and     w30, w30, w24
    cmp     x27, #2
    ccmp    w25, #0, #0, eq
    ccmp    x1, #MOST_CORES, #2, eq // 2: C, not lower
    csel    w30, w30, wzr, lo
    mov     x24, #INVALID_PARAMETERS
    cmp     w25, #0
    csinv   x24, x24, xzr, eq       // NOT_SUPPORTED
    cmp     w30, #0
    csel    x0, xzr, x24, ne
/* Kicks the cores of a list, which may be empty. */
send:
    orr     x30, x30, #(KICK << 24)
    msr     S3_0_C12_C11_7, x30     // ICC_SGI0R_EL1
answered:
    ldp     x24, x25, [sp, #192]
    ldp     x26, x27, [sp, #208]
    ldr     x28, [sp, #224]
    b       go_on

/* The payload's core never comes here: there CNTPS is the payload's. */
watch:
    ldr     x24, [x28, #PLAN_WATCH_LEAST]
    ldr     x25, [x28, #PLAN_WATCH_MOST]
    cmp     x1, x24
    csel    x24, x1, x24, hi
    cmp     x24, x25
    csel    x24, x24, x25, lo
    mrs     x25, cntpct_el0
    add     x24, x24, x25
    msr     S3_7_C14_C2_2, x24      // CNTPS_CVAL_EL1
    mov     x24, #1
    msr     S3_7_C14_C2_1, x24      // CNTPS_CTL_EL1
    mov     x0, #0
    b       answered

/* CPU_ON (w25 is 0) and AFFINITY_INFO (1) of the core in x1 (DEN 0022, 5.6 and 5.7). */
targets:
    and     x30, x1, #(MOST_CORES - 1)
    CONSTANT x29, STATE
    add     x29, x29, x30, lsl #LINE_SHIFT
    mrs     x27, mpidr_el1
    and     x27, x27, #(MOST_CORES - 1)
    add     x27, x29, x27, lsl #START_SHIFT
    ldr     x24, [x29, #LINE_TURN]
    ldr     x26, [x27, #LINE_STARTS]
    add     x0, x24, #1             // the ticket of a request for this turn
    cmp     x26, x0
    mov     x26, #ON_PENDING
    csel    x26, x26, xzr, eq
    mov     x30, #ALREADY_ON
    tst     x24, #1
    csel    x26, x30, x26, ne
    ldp     x29, x30, [x28, #PLAN_WINDOW]
    sub     x29, x2, x29
    sub     x30, x30, #4
    tst     x2, #3
    ccmp    x29, x30, #2, eq        // 2: C without Z, higher
    mov     x30, #INVALID_ADDRESS
    csel    x26, x30, x26, hi
    and     x24, x0, #1             // AFFINITY_INFO: 1 = off
    mov     x30, #INVALID_PARAMETERS
    cmp     x2, #0                  // of level 0 alone
    csel    x24, x30, x24, ne
    cmp     w25, #0
    csel    x26, x26, x24, eq
    ldr     w24, [x28, #PLAN_CORES]
    cmp     x1, x24
    csel    x26, x26, x30, lo
    orr     x25, x25, x26
    cmp     x25, #0                 // CPU_ON, and nothing is against it
    ldp     x29, x30, [x27, #(LINE_STARTS + START_ENTRY)]
    csel    x29, x2, x29, eq
    csel    x30, x3, x30, eq
    stp     x29, x30, [x27, #(LINE_STARTS + START_ENTRY)]
    ldr     x29, [x27, #LINE_STARTS]
    csel    x29, x0, x29, eq
    dsb     sy                      // the ticket last
    str     x29, [x27, #LINE_STARTS]
    dsb     sy                      // and then the SGI
    mov     w30, #1
    lsl     w30, w30, w1
    csel    w30, w30, wzr, eq
    mov     x0, x26
    b       send

/* CPU_OFF (w25 is 0), SYSTEM_OFF and SYSTEM_RESET on a core without a payload, whose line is at x29: the core is parked. After CPU_OFF it
   may be started again. An end or a reset is the payload's to know: its library is called by an SGI, and nobody else can start
   the core, so that a world cannot call it as often as it likes. */
ends:
    ldr     x24, [x29, #LINE_TURN]
    add     x24, x24, #1
    cmp     w25, #0
    csinc   x24, x24, x24, eq
    csel    w26, wzr, w26, eq
    stp     x24, x26, [x29, #LINE_TURN]
    CONSTANT x30, EVENT_TO_BOOT_CORE
    CONSTANT x28, (EVENT << 24)
    csel    x30, x28, x30, eq
    dsb     sy                      // the words before the SGI
    msr     S3_0_C12_C11_5, x30     // ICC_SGI1R_EL1
    msr     S3_7_C14_C2_1, xzr      // CNTPS_CTL_EL1: no watch
    msr     cntp_ctl_el0, xzr
    msr     cntv_ctl_el0, xzr
    msr     S3_6_C12_C12_7, xzr     // ICC_IGRPEN1_EL3: nothing of the world wakes it
    b       parked
