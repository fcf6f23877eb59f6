// Every encoding of a system instruction (Arm ARM C4.1.94: bits 31:22 are 0b1101010100), by its bits 20:5 as op0, op1, CRn, CRm, op2; each is followed by a
// return. No page is writable and executable, so they cannot be made at run time. The register is x0; where op0 is 0 there is none (31).

.macro ENCODINGS first
    .set encoding, \first | 0x1f
    .rept 0x4000
    .inst encoding
    ret
    .set encoding, encoding + 0x20
    .endr
    .set encoding, \first + 0x80000
    .rept 0xc000
    .inst encoding
    ret
    .set encoding, encoding + 0x20
    .endr
.endm

.section .text.sweep, "ax"
.balign 8
.globl bulkhead_sweep_writes
bulkhead_sweep_writes:
    ENCODINGS 0xd5000000
.globl bulkhead_sweep_reads
bulkhead_sweep_reads:
    ENCODINGS 0xd5200000

// SVC with each immediate.
.globl bulkhead_sweep_calls
bulkhead_sweep_calls:
    .set encoding, 0xd4000001
    .rept 0x10000
    .inst encoding
    ret
    .set encoding, encoding + 0x20
    .endr
