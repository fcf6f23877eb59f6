// Exchange of a vCPU's registers: everything that a guest can write at EL1 and that no control of the plan traps or fixes.
// The order is that of `GuestContext::registers`; both functions use caller-saved registers only.

// In pairs, which halves the loads and stores: exchanges are counted in instructions (`shared.switch`).
.macro SAVE first, second, offset
    mrs     x2, \first
    mrs     x3, \second
    stp     x2, x3, [x0, #\offset]
.endm

.macro LOAD first, second, offset
    // No ISB: the guest alone uses these registers, from the ERET on, which synchronises them.
    ldp     x2, x3, [x0, #\offset]
    msr     \first, x2
    msr     \second, x3
.endm

// One list for both ways: nothing is loaded that was not saved.
.macro EACH action
    \action elr_el2, spsr_el2, 0
    \action sctlr_el1, cpacr_el1, 16
    \action ttbr0_el1, ttbr1_el1, 32
    \action tcr_el1, mair_el1, 48
    \action vbar_el1, contextidr_el1, 64
    \action esr_el1, far_el1, 80
    \action elr_el1, spsr_el1, 96
    \action sp_el0, sp_el1, 112
    \action tpidr_el0, tpidr_el1, 128
    \action tpidrro_el0, par_el1, 144
    \action csselr_el1, cntkctl_el1, 160
    \action afsr0_el1, afsr1_el1, 176
    \action amair_el1, S3_4_C12_C9_0, 192  // ICH_AP1R0_EL2
    \action cntv_cval_el0, cntv_ctl_el0, 208
    \action cntp_cval_el0, cntp_ctl_el0, 224
.endm

.section .text.switch, "ax"
// Nothing is cleared: the vCPU that is loaded next overwrites all of it.
.globl bulkhead_save_guest
bulkhead_save_guest:                // x0 = context
    EACH SAVE
    mrs     x2, S3_4_C12_C11_7      // ICH_VMCR_EL2
    str     x2, [x0, #240]
    ret
.globl bulkhead_load_guest
bulkhead_load_guest:                // x0 = context
    EACH LOAD
    ldr     x2, [x0, #240]
    // The guest's view of its CPU interface (ICH_VMCR_EL2), without an ISB as above.
    msr     S3_4_C12_C11_7, x2
    ret

.arch_extension simd
// Rust code of EL2 is compiled without these registers, so they are the guest's at any time and moved here alone.
.macro SIMD action
    \action q0, q1, [x0]
    \action q2, q3, [x0, #32]
    \action q4, q5, [x0, #64]
    \action q6, q7, [x0, #96]
    \action q8, q9, [x0, #128]
    \action q10, q11, [x0, #160]
    \action q12, q13, [x0, #192]
    \action q14, q15, [x0, #224]
    \action q16, q17, [x0, #256]
    \action q18, q19, [x0, #288]
    \action q20, q21, [x0, #320]
    \action q22, q23, [x0, #352]
    \action q24, q25, [x0, #384]
    \action q26, q27, [x0, #416]
    \action q28, q29, [x0, #448]
    \action q30, q31, [x0, #480]
.endm
// The caller has switched the trap off (CPTR_EL2.TFP), which would stop EL2 too.
.globl bulkhead_save_floating_point
bulkhead_save_floating_point:       // x0 = registers
    SIMD    stp
    mrs     x2, fpcr
    mrs     x3, fpsr
    str     x2, [x0, #512]
    str     x3, [x0, #520]
    ret
.globl bulkhead_load_floating_point
bulkhead_load_floating_point:       // x0 = registers
    SIMD    ldp
    ldr     x2, [x0, #512]
    ldr     x3, [x0, #520]
    // No ISB: EL2 computes nothing with them, and the guest has them from the ERET on.
    msr     fpcr, x2
    msr     fpsr, x3
    ret
