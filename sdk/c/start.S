/*
 * Start of a C guest: translation on, stack, zeroed data, exception vectors, main().
 *
 * Linked with sdk/bulkhead-guest.ld like a Rust guest. Same map as the Rust SDK (sdk/src/memory.rs): devices, Normal
 * non-cacheable for Bulkhead's pages, Normal write-back for RAM. When main() returns, the guest switches itself off.
 * A guest may define bulkhead_interrupt(void) and bulkhead_fault(syndrome, address, program_counter); without them an
 * exception asks for a restart, and the health policy decides.
 */

#define BLOCK 0x401                             /* valid block, access flag */
#define DEVICE (BLOCK | (3 << 53))              /* MAIR 0, never executable */
#define NORMAL (BLOCK | (1 << 2) | (3 << 8))    /* MAIR 1, inner shareable */
#define NON_CACHEABLE (BLOCK | (2 << 2) | (3 << 8) | (3 << 53))
#define FRAME_BYTES 208

    .section .text.bulkhead_image, "ax"
    .global bulkhead_sdk_image
    .balign 64
bulkhead_sdk_image:
    /* arm64 Image header (Linux Documentation/arm64/booting.rst). */
    b       start
    .word   0
    .quad   0x80000
    .quad   __bulkhead_image_bytes
    .quad   0xa
    .quad   0, 0, 0
    .ascii  "ARM\x64"
    .word   0

start:
    msr     DAIFSet, #0xf
    msr     SPSel, #1
    adr     x9, vectors
    msr     VBAR_EL1, x9
    ldr     x9, =0x0044ff00                     /* MAIR: Device-nGnRnE, write-back, non-cacheable */
    msr     MAIR_EL1, x9
    ldr     x9, =0x200803519                    /* TCR: 39 bits, write-back walks, TTBR1 off, 40-bit output */
    msr     TCR_EL1, x9
    adrp    x9, level1
    msr     TTBR0_EL1, x9
    mov     x9, #(3 << 20)                      /* floating point on: compilers use its registers */
    msr     CPACR_EL1, x9
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    ldr     x9, =0x30d0180d                     /* SCTLR: RES1, translation, data and instruction caches, stack check */
    msr     SCTLR_EL1, x9
    isb
    adrp    x9, __bulkhead_bss_start
    add     x9, x9, :lo12:__bulkhead_bss_start
    adrp    x10, __bulkhead_bss_end
    add     x10, x10, :lo12:__bulkhead_bss_end
1:  cmp     x9, x10
    b.hs    2f
    stp     xzr, xzr, [x9], #16
    b       1b
2:  adrp    x9, __bulkhead_stack_top
    add     sp, x9, :lo12:__bulkhead_stack_top
    mov     x29, xzr
    mov     x30, xzr
    bl      main                                /* x0: device tree */
    ldr     x0, =0x84000008                     /* PSCI SYSTEM_OFF */
    hvc     #0
3:  wfi
    b       3b

    /* Without a handler of the guest's own: PSCI SYSTEM_RESET. */
    .weak   bulkhead_interrupt
    .weak   bulkhead_fault
bulkhead_interrupt:
bulkhead_fault:
    ldr     x0, =0x84000009
    hvc     #0
4:  wfi
    b       4b

    /* Saves what a C function may change, calls it, and returns. */
    .macro  vector kind
    .balign 128
    sub     sp, sp, #FRAME_BYTES
    stp     x0, x1, [sp]
    b       \kind
    .endm

    .balign 2048
vectors:
    vector  fault
    vector  interrupt
    vector  fault
    vector  fault
    vector  fault
    vector  interrupt
    vector  fault
    vector  fault
    vector  fault
    vector  interrupt
    vector  fault
    vector  fault
    vector  fault
    vector  interrupt
    vector  fault
    vector  fault

    .macro  save
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x30, [sp, #144]
    mrs     x0, ELR_EL1
    mrs     x1, SPSR_EL1
    stp     x0, x1, [sp, #160]
    .endm

    /* Floating-point registers are not saved: compile handlers with -mgeneral-regs-only. */
interrupt:
    save
    bl      bulkhead_interrupt
    b       return
fault:
    save
    mov     x2, x0
    mrs     x0, ESR_EL1
    mrs     x1, FAR_EL1
    bl      bulkhead_fault
return:
    ldp     x0, x1, [sp, #160]
    msr     ELR_EL1, x0
    msr     SPSR_EL1, x1
    ldp     x18, x30, [sp, #144]
    ldp     x16, x17, [sp, #128]
    ldp     x14, x15, [sp, #112]
    ldp     x12, x13, [sp, #96]
    ldp     x10, x11, [sp, #80]
    ldp     x8, x9, [sp, #64]
    ldp     x6, x7, [sp, #48]
    ldp     x4, x5, [sp, #32]
    ldp     x2, x3, [sp, #16]
    ldp     x0, x1, [sp]
    add     sp, sp, #FRAME_BYTES
    eret

    .section .rodata.bulkhead_tables, "a"
    .balign 4096
level1:
    .quad   level2 + 3
    .quad   0x40000000 + NORMAL
    .quad   0x80000000 + NORMAL
    .quad   0xc0000000 + NORMAL
    .zero   4096 - 32
level2:
    .set    address, 0
    .rept   512
    .if     (address >= 0x10000000) && (address < 0x18000000)
    .quad   address + NON_CACHEABLE
    .else
    .quad   address + DEVICE
    .endif
    .set    address, address + 0x200000
    .endr
