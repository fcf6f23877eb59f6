// Entry of every core at EL1: translation on, stack, zeroed data, then Rust.
//
// No Rust runs before translation and caches are on, because atomics are undefined on Device memory. The tables are
// constants of the image (`memory.rs`), so nothing is written before they are in use.

.section .text.bulkhead_image, "ax"
.global bulkhead_sdk_image
.balign 64
bulkhead_sdk_image:
    // arm64 Image header (Linux Documentation/arm64/booting.rst).
    b       bulkhead_sdk_primary
    .word   0
    .quad   0x80000                                     // load offset from the base of RAM
    .quad   __bulkhead_image_bytes
    .quad   0xa                                         // little endian, 4 KiB pages, anywhere in memory
    .quad   0
    .quad   0
    .quad   0
    .ascii  "ARM\x64"
    .word   0

bulkhead_sdk_primary:
    msr     DAIFSet, #0xf
    mov     x19, x0                                     // device tree
    bl      bulkhead_sdk_enable_translation
    adrp    x0, __bulkhead_bss_start
    add     x0, x0, :lo12:__bulkhead_bss_start
    adrp    x1, __bulkhead_bss_end
    add     x1, x1, :lo12:__bulkhead_bss_end
1:  cmp     x0, x1
    b.hs    2f
    stp     xzr, xzr, [x0], #16
    b       1b
2:  adrp    x0, __bulkhead_stack_top
    add     sp, x0, :lo12:__bulkhead_stack_top
    mov     x29, xzr
    mov     x30, xzr
    mov     x0, x19
    b       bulkhead_sdk_start

// PSCI CPU_ON enters here with x0 = address of a `SecondaryStart`.
.global bulkhead_sdk_secondary
bulkhead_sdk_secondary:
    msr     DAIFSet, #0xf
    mov     x19, x0
    bl      bulkhead_sdk_enable_translation
    ldr     x1, [x19]                                   // SecondaryStart::stack_top
    mov     sp, x1
    mov     x29, xzr
    mov     x30, xzr
    mov     x0, x19
    b       bulkhead_sdk_start_secondary

// Uses x9 and x10.
bulkhead_sdk_enable_translation:
    msr     SPSel, #1
    adrp    x9, bulkhead_sdk_vectors
    add     x9, x9, :lo12:bulkhead_sdk_vectors
    msr     VBAR_EL1, x9
    ldr     x9, ={mair}
    msr     MAIR_EL1, x9
    ldr     x9, ={tcr}
    msr     TCR_EL1, x9
    adrp    x9, bulkhead_sdk_level1
    msr     TTBR0_EL1, x9
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    ldr     x9, ={sctlr}
    msr     SCTLR_EL1, x9
    isb
    ret
.ltorg

// Level 1: 39-bit addresses, 1 GiB an entry. Entry 0 holds devices and Bulkhead's pages, entries 1 to 3 RAM.
.section .rodata.bulkhead_tables, "a"
.balign 4096
bulkhead_sdk_level1:
    .quad   {level2} + 3
    .quad   0x40000000 + {ram}
    .quad   0x80000000 + {ram}
    .quad   0xc0000000 + {ram}
    .zero   4096 - 32
