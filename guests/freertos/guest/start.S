/*
 * Entry at EL1 by the arm64 boot protocol (x0 = device tree, MMU off), and the vector table that the port names.
 *
 * Translation is switched on first: with it off all RAM is Device memory, slow on silicon and with other attributes than
 * the writer of the image used. Identity map in 1 GiB blocks: devices below 0x4000_0000, RAM up to 0x1_0000_0000.
 */

#define MAIR_DEVICE_NGNRNE_0_NORMAL_1   0xff00
#define TCR_39_BIT_4K_CACHEABLE         0x80803519  /* T0SZ=25, inner/outer write-back, inner shareable, EPD1, IPS=0 */
#define SCTLR_TRANSLATION_AND_CACHES    0x30d0180d  /* reserved bits that are 1, I, SA0, SA, C, M */
#define BLOCK_DEVICE                    0x0060000000000401  /* UXN, PXN, AF, attribute 0, block */
#define BLOCK_NORMAL                    0x0040000000000705  /* UXN, AF, inner shareable, attribute 1, block */

    .section .text.start, "ax"
    .global _start
_start:
    msr     DAIFSet, #0xf
    msr     SPSel, #1
    mov     x19, x0
    ldr     x1, =MAIR_DEVICE_NGNRNE_0_NORMAL_1
    msr     MAIR_EL1, x1
    ldr     x1, =TCR_39_BIT_4K_CACHEABLE
    msr     TCR_EL1, x1
    adrp    x1, translation_table
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
    ldr     x1, =__bss_start
    ldr     x2, =__bss_end
1:  cmp     x1, x2
    b.hs    2f
    stp     xzr, xzr, [x1], #16
    b       1b
2:  ldr     x1, =__stack_top
    mov     sp, x1
    mov     x0, x19
    bl      guest_main
    b       .
    .ltorg

    .section .rodata.translation_table, "a"
    .balign 4096
translation_table:
    .quad   0x00000000 + BLOCK_DEVICE
    .quad   0x40000000 + BLOCK_NORMAL
    .quad   0x80000000 + BLOCK_NORMAL
    .quad   0xc0000000 + BLOCK_NORMAL
    .zero   4096 - 32

    .text
/* x0 = 8 * slot of the vector table; does not return. */
.macro UNEXPECTED slot
    .balign 128
    mov     x0, #\slot
    b       unexpected
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
    .balign 128
    b       FreeRTOS_IRQ_Handler
    UNEXPECTED 2
    UNEXPECTED 3
    /* From interrupt handlers and start-up, on SP_EL1. */
    UNEXPECTED 4
    .balign 128
    b       FreeRTOS_IRQ_Handler
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
