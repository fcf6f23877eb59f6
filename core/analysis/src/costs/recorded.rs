//! Written by `bulkhead bench --record-costs` with QEMU 7.2.22, `-icount shift=4`; do not edit.

use super::Costs;

/// The costs that the analysis uses, in instructions.
pub const RECORDED: Costs = Costs {
    // `bulkhead bench costs.switch`: 2340; from its decision to its guest in storms of interrupts and doorbells: 2246; from its guest to the next decision in a device's interrupt: 94
    switch: 2434,
    // `bulkhead bench costs.interrupt_entry`: 884; interrupts of guests that wait: 884
    interrupt_entry: 920,
    // `bulkhead bench costs.longest_passage`: 9867; sixteen servers, all dates at once, traced: 9867
    longest_passage: 10262,
    // `bulkhead bench costs.timer_latency`: 94; a device's interrupt: 94
    timer_latency: 98,
    // `bulkhead bench costs.after_loading`: 163; storms of interrupts and doorbells: 163
    after_loading: 170,
    // `bulkhead bench costs.publication`: 1231; sixteen servers, all dates at once: 1231
    publication: 1281,
    // `bulkhead bench costs.doorbell`: 159; sender 136.0, receiver 23.0, mean of 1000
    doorbell: 166,
    // `bulkhead bench costs.trace`: 792; interrupts of guests that wait, traced, longest switch: 2512 instead of 1720
    trace: 824,
    // `bulkhead bench costs.least_stint`: 387; 351 to start and 36 to end
    least_stint: 371,
};
