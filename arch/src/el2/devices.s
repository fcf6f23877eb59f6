// Entry of a core that the boot core starts, in the part `devices`: PSCI's context, in x0, is what the boot core found out about PCI
// functions.
.section .text.boot, "ax"
.globl bulkhead_secondary_told
// Kept where nothing else is until a guest starts on this core: the code behind it uses general registers.
bulkhead_secondary_told:
    msr     tpidr_el0, x0           // read by Rust code, which the path to it does not hand registers
    b       bulkhead_secondary
