// Entry of an instance by the arm64 boot protocol (Linux Documentation/arm64/booting.rst), on the board or in a partition: translation off, the same
// addresses. It runs where it was loaded until both halves of translation are on, reads the instance with data caches off, and looks at no table
// before the checksum over all of it is right.
//
// The instance follows the kernel's own memory: `image::Head` of `core/kernel-abi`, at the symbol __bulkhead_kernel_end.

.section .text.kernel_image, "ax"
.globl bulkhead_kernel_image
.balign 64
bulkhead_kernel_image:
    b       bulkhead_kernel_boot
    .word   0
    .quad   0x80000                                     // load offset from the base of RAM
    .quad   0                                           // bytes of the image: the writer of an instance fills it in
    .quad   0x2                                         // little endian, 4 KiB pages, at the start of RAM
    .quad   0
    .quad   0
    .quad   0
    .ascii  "ARM\x64"
    .word   0

bulkhead_kernel_boot:
    msr     DAIFSet, #0xf                           // the protocol promises it; nothing may come before the vectors
    msr     SPSel, #1                               // the stack of EL1, whatever the loader ran on
    mov     x19, x0                                     // device tree
    adrp    x20, __bulkhead_kernel_end                  // head of the instance
    adrp    x21, bulkhead_kernel_image                  // first byte of the image: the header is at the start of a page

    // All tables hold addresses: the image is where it was written for, or nothing in it is true.
    mov     x0, #{refused_place}
    ldr     x1, ={load}
    cmp     x21, x1
    b.ne    bulkhead_kernel_refuse
    mov     x0, #{refused_magic}
    ldr     x1, [x20, #{magic_offset}]
    ldr     x2, ={magic}
    cmp     x1, x2
    b.ne    bulkhead_kernel_refuse
    mov     x0, #{refused_version}
    ldr     w1, [x20, #{version_offset}]
    cmp     w1, #{version}
    b.ne    bulkhead_kernel_refuse

    // All of the image, by 8 bytes, but the word that holds the checksum. Its end must lie behind that word and within 1 GiB.
    mov     x0, #{refused_bytes}
    ldr     x22, [x20, #{bytes_offset}]
    add     x23, x20, #{checksum_offset}                // the word to leave out
    sub     x2, x23, x21
    cmp     x22, x2
    b.ls    bulkhead_kernel_refuse
    lsr     x2, x22, #30
    cbnz    x2, bulkhead_kernel_refuse
    tst     x22, #0xfff
    b.ne    bulkhead_kernel_refuse
    add     x22, x21, x22
    mov     w0, #-1
    mov     x1, x21
1:  cmp     x1, x23
    b.eq    2f
    ldr     x2, [x1]
    crc32cx w0, w0, x2
2:  add     x1, x1, #8
    cmp     x1, x22
    b.lo    1b
    mvn     w1, w0
    mov     x0, #{refused_checksum}
    ldr     w2, [x23]
    cmp     w1, w2
    b.ne    bulkhead_kernel_refuse

    // Exceptions from here on are the kernel's, at the addresses that it is linked at.
    ldr     x1, =bulkhead_kernel_vectors
    msr     VBAR_EL1, x1
    ldr     x1, ={mair}
    msr     MAIR_EL1, x1
    ldr     x1, ={tcr}
    msr     TCR_EL1, x1
    ldr     x1, [x20, #{boot_root_offset}]              // this code where it runs now; no component sees it
    msr     TTBR0_EL1, x1
    ldr     x1, [x20, #{kernel_root_offset}]
    msr     TTBR1_EL1, x1
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    ldr     x1, ={sctlr}
    // SPAN is RES1 where there is no PAN (ID_AA64MMFR1_EL1.PAN), and cleared where there is: each exception sets PAN then.
    mrs     x2, ID_AA64MMFR1_EL1
    ubfx    x2, x2, #20, #4
    cbz     x2, 3f
    bic     x1, x1, #1 << 23
3:  msr     SCTLR_EL1, x1                           // translation on: the next instruction is found by TTBR0_EL1 at the same address
    isb                                             // before anything that needs it
    msr     CPACR_EL1, xzr                              // floating point and SIMD are faults
    mov     x1, #{counter_access}
    msr     CNTKCTL_EL1, x1                         // EL0 reads the virtual counter and reaches no timer
    mov     x1, #1 << 12
    msr     MDSCR_EL1, x1                           // TDCC: EL0 has no debug communication channel; no breakpoint or step of the loader is left
    mrs     x2, ID_AA64DFR0_EL1
    sbfx    x2, x2, #8, #4                              // PMUVer: 0 and -1 are cores without the architecture's performance monitors
    cmp     x2, #0
    b.le    4f
    msr     PMUSERENR_EL0, xzr                      // EL0 counts nothing, whatever the loader let it do
4:  msr     TPIDR_EL0, xzr                          // nothing of the loader is left for a component
    msr     TPIDRRO_EL0, xzr                        // EL0 reads this one as well
    ldr     x1, =5f
    br      x1

    // The kernel's half. What it writes is zero, whatever was in RAM.
5:  adrp    x1, __bulkhead_kernel_data_start
    add     x1, x1, :lo12:__bulkhead_kernel_data_start
    adrp    x2, __bulkhead_kernel_data_end
    add     x2, x2, :lo12:__bulkhead_kernel_data_end
6:  stp     xzr, xzr, [x1], #16
    cmp     x1, x2
    b.lo    6b
    adrp    x1, __bulkhead_kernel_stack_top
    add     sp, x1, :lo12:__bulkhead_kernel_stack_top
    mov     x29, xzr
    mov     x0, x19
    bl      bulkhead_kernel_start
    b       bulkhead_kernel_resume

// x0 = why. The instance is not what its writer wrote: starting again would not mend it, so the machine goes off.
bulkhead_kernel_refuse:
    adrp    x1, bulkhead_kernel_epitaph
    add     x1, x1, :lo12:bulkhead_kernel_epitaph
    ldr     x2, ={epitaph}
    stp     x2, x0, [x1]
    dsb     sy                                      // the epitaph is in RAM before the machine ends
    ldr     x0, =0x84000008                             // PSCI SYSTEM_OFF (DEN 0022)
    hvc     #0                                      // the conduit that partition and board have
7:  wfi                                             // refused: there is nothing else to do
    b       7b
.ltorg
