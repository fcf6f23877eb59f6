// Entry of every core, before there is a stack or a Rust environment. Linked first; runs where the header behind the constants says.
// arm64 boot protocol (Linux Documentation/arm64/booting.rst): MMU off, x0 = device tree, EL2.
// Addresses are taken relative to the instruction (adr, adrp), because the same bytes serve every load address.
// The boot core finds the CRCs of the monitor itself and of the plan area here, with the MMU off: before anything of the plan
// is used, and because no core's EL2 map shows all of it.

.arch_extension crc
.section .text.head, "ax"
.globl bulkhead_image_start
bulkhead_image_start:
    b       bulkhead_primary
    .long   0
    .quad   0                       // text_offset: written by the host tool
    .quad   0                       // image_size: written by the host tool
    .quad   0x2                     // little-endian, 4 KiB pages, close to the base of RAM
    .quad   0
    .quad   0
    .quad   0
    .long   0x644d5241              // "ARM\x64"
    .long   0

.section .text.boot, "ax"
// x19 = header, x20 = core boot record, x21 = plan CRC found (boot core) or 0, x22 = 1 on the boot core, x24 = text CRC found
bulkhead_primary:
    mov     x22, #1
    b       1f
.globl bulkhead_secondary
bulkhead_secondary:
    mov     x22, #0
1:  msr     daifset, #0xf           // no vectors yet: an exception would go anywhere
    msr     spsel, #1               // the boot protocol does not say which; the other one is a guest's
    mrs     x0, CurrentEL
    cmp     x0, #(2 << 2)
    b.ne    bulkhead_dead
    adrp    x19, __image_header     // a page
    ldr     x0, [x19, #{HEADER_MAGIC}]
    ldr     x1, ={IMAGE_MAGIC}
    cmp     x0, x1
    b.ne    bulkhead_dead
    adr     x0, bulkhead_image_start
    ldr     x1, [x19, #{HEADER_IMAGE_START}]
    cmp     x0, x1                  // not where it was built for: no address of the plan would be right
    b.ne    bulkhead_dead

    // Find this core's record by MPIDR affinity.
    mrs     x0, mpidr_el1
    and     x1, x0, #0xffffff
    ubfx    x0, x0, #32, #8
    orr     x1, x1, x0, lsl #32
    ldr     w2, [x19, #{HEADER_CORE_COUNT}]
    add     x20, x19, #{HEADER_CORES}
2:  cbz     w2, bulkhead_dead
    ldr     x0, [x20, #{BOOT_MPIDR}]
    cmp     x0, x1
    b.eq    3f
    add     x20, x20, #{BOOT_SIZE}
    sub     w2, w2, #1
    b       2b

    // CRC-32C of text and constants, which end at the header, and of the plan area (boot core only).
3:  mov     w21, wzr
    cbz     x22, 5f
    adr     x0, bulkhead_image_start
    mov     x1, x19
    bl      bulkhead_crc
    mov     w24, w2
    ldr     x0, [x19, #{HEADER_PLAN}]
    ldr     x1, [x19, #{HEADER_PLAN_BYTES}]
    add     x1, x0, x1
    bl      bulkhead_crc
    mov     w21, w2

    // EL2 translation: this core's own root, then MMU, caches and write-implies-never-execute in one step.
5:  ldr     x0, [x19, #{HEADER_MAIR}]
    msr     mair_el2, x0
    ldr     x0, [x19, #{HEADER_TCR}]
    msr     tcr_el2, x0
    ldr     x0, [x20, #{BOOT_ROOT}]
    msr     ttbr0_el2, x0
    // What a boot loader left in TLBs and instruction caches is not to be used: dropped, for guests' VMIDs too, and
    // complete (DSB) and in force (ISB) before the MMU is on.
    tlbi    alle2
    tlbi    alle1
    ic      iallu
    dsb     sy
    isb
    // The ISB: all that follows is fetched, loaded and stored through the map.
    ldr     x0, ={SCTLR}
    msr     sctlr_el2, x0
    isb

    // Clear the core's private data (its head is at the front).
    ldr     x23, [x20, #{BOOT_DATA}]
    ldr     x1, [x20, #{BOOT_DATA_BYTES}]
    add     x1, x23, x1
    mov     x0, x23
6:  stp     xzr, xzr, [x0], #16
    cmp     x0, x1
    b.lo    6b

    // From the vectors on (ISB) an exception leaves an epitaph. Its handler needs the stack and the head, so they come
    // first.
    ldr     x0, [x20, #{BOOT_STACK}]
    mov     sp, x0
    str     x0, [x23, #{HEAD_STACK}]
    msr     tpidr_el2, x23
    adrp    x0, bulkhead_vectors    // 2 KiB aligned, so the low half of the page's offset is left
    add     x0, x0, :lo12:bulkhead_vectors
    msr     vbar_el2, x0
    isb
    mov     x0, x20
    mov     x1, x19
    mov     w2, w21
    mov     x3, x22
    mov     w4, w24
    bl      bulkhead_core_main
bulkhead_dead:
    wfe                             // and not WFI, which a pending interrupt ends at once although it is masked
    b       bulkhead_dead

// w2 = CRC-32C of the memory from x0 to x1, whole words.
bulkhead_crc:
    mov     w2, #-1
4:  cmp     x0, x1
    b.hs    41f
    ldr     x3, [x0], #8
    crc32cx w2, w2, x3
    b       4b
41: mvn     w2, w2
    ret
.ltorg
