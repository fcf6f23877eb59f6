// The program of both processes, on a page of its own: x0 = its page of data.
.section .text.bulkhead_process, "ax"
.global bulkhead_process_user
.balign 4096
bulkhead_process_user:
1:  ldr     x1, [x0]                                    // the word of the frame that is mapped now
    str     x1, [x0, #8]
    add     x2, x2, #1                                  // how often it called
    svc     #0
    b       1b
.balign 4096
