/*
 * Entry at S-EL1 from EL3 (x0 = world plan, MMU off), and the vector table that the port names.
 *
 * The translation tables are in the flash file: the host made them, so that its checker can read them.
 */

#include "bulkhead_world.h"

/* Device-nGnRnE, Normal write-back, Normal non-cacheable (channels). */
#define MAIR_VALUE                      0x44ff00
#define TCR_39_BIT_4K_CACHEABLE         0x280803519 /* T0SZ=25, inner/outer write-back, inner shareable, EPD1, IPS=2: 40 bits */
#define SCTLR_TRANSLATION_AND_CACHES    0x30d8180d  /* reserved bits that are 1, WXN, I, SA0, SA, C, M */

    .section .text.start, "ax"
    .global _start
_start:
    mov     x19, x0
    ldr     x1, =MAIR_VALUE
    msr     MAIR_EL1, x1
    ldr     x1, =TCR_39_BIT_4K_CACHEABLE
    msr     TCR_EL1, x1
    ldr     x1, [x0, #BULKHEAD_WORLD_PLAN_TABLES]
    msr     TTBR0_EL1, x1
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    ldr     x1, =SCTLR_TRANSLATION_AND_CACHES
    msr     SCTLR_EL1, x1
    isb
    ldr     x1, =_freertos_vector_table
    msr     VBAR_EL1, x1
    /* FPEN = 0: floating point belongs to the other world alone. */
    msr     CPACR_EL1, xzr
    ldr     x1, =__bss_start
    ldr     x2, =__bss_end
1:  cmp     x1, x2
    b.hs    2f
    stp     xzr, xzr, [x1], #16
    b       1b
2:  ldr     x1, =__stack_top
    mov     sp, x1
    mov     x0, x19
    bl      payload_main
    b       .
    .ltorg

    .text
/* x0 = 8 * slot of the vector table; does not return. */
.macro UNEXPECTED slot
    .balign 128
    mov     x0, #\slot
    b       unexpected
.endm

/* The counter as the vector was entered, for who wants to know how late an interrupt came, and where it had been. */
.macro STAMPED_INTERRUPT
    .balign 128
    stp     x0, x1, [sp, #-16]!
    mrs     x0, CNTPCT_EL0
    adrp    x1, board_vector_counter
    str     x0, [x1, #:lo12:board_vector_counter]
    ldp     x0, x1, [sp], #16
    b       FreeRTOS_IRQ_Handler
.endm

    .balign 2048
    .global _freertos_vector_table
_freertos_vector_table:
    /* From tasks, which run at EL1 on SP_EL0. SVC is a yield; the port hangs silently at anything else. */
    stp     x0, x1, [sp, #-16]!
    mrs     x0, ESR_EL1
    lsr     x0, x0, #26
    cmp     x0, #0x15
    ldp     x0, x1, [sp], #16
    b.eq    FreeRTOS_SWI_Handler
    mov     x0, #0
    b       unexpected
    STAMPED_INTERRUPT
    UNEXPECTED 2
    UNEXPECTED 3
    /* From interrupt handlers and start-up, on SP_EL1. */
    UNEXPECTED 4
    STAMPED_INTERRUPT
    UNEXPECTED 6
    UNEXPECTED 7
    /* From EL0: never entered. */
    UNEXPECTED 8
    UNEXPECTED 9
    UNEXPECTED 10
    UNEXPECTED 11
    UNEXPECTED 12
    UNEXPECTED 13
    UNEXPECTED 14
    UNEXPECTED 15

unexpected:
    ldr     x1, =__stack_top
    mov     sp, x1
    mrs     x1, ESR_EL1
    mrs     x2, ELR_EL1
    mrs     x3, FAR_EL1
    bl      board_unexpected_exception
    b       .
    .ltorg
