// void bulkhead_experiment_float_load(words), void bulkhead_experiment_float_store(words): v0 to v31 from and to 64 words.

.arch_extension fp
.arch_extension simd

.section .text.experiment_float, "ax"
.globl bulkhead_experiment_float_load
bulkhead_experiment_float_load:
.irp number, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ldr     q\number, [x0, #(16 * \number)]
.endr
    ret

.globl bulkhead_experiment_float_store
bulkhead_experiment_float_store:
.irp number, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    str     q\number, [x0, #(16 * \number)]
.endr
    ret
