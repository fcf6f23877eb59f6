//! Written by `bulkhead bench --record-costs` with QEMU 7.2.22, `-icount shift=4`; do not edit.

use super::Costs;

/// The costs that the analysis uses, in instructions.
pub const RECORDED: Costs = Costs {
    // `bulkhead bench costs.switch`: 2072; from its decision to its guest in storms of interrupts and doorbells: 1957; from its guest to the next decision in storms of interrupts and doorbells: 115
    switch: 2155,
    // `bulkhead bench costs.interrupt_entry`: 709; interrupts of guests that wait: 709
    interrupt_entry: 738,
    // `bulkhead bench costs.longest_passage`: 6029; sixteen servers, all dates at once: 6029
    longest_passage: 6271,
    // `bulkhead bench costs.timer_latency`: 115; storms of interrupts and doorbells: 115
    timer_latency: 120,
    // `bulkhead bench costs.publication`: 2498; sixteen servers, all dates at once: 2498
    publication: 2598,
    // `bulkhead bench costs.doorbell`: 159; sender 136.0, receiver 23.0, mean of 1000
    doorbell: 166,
    // `bulkhead bench costs.trace`: 1269; sixteen servers, all dates at once, traced, longest passage: 7298 instead of 6029
    trace: 1320,
    // `bulkhead bench costs.least_stint`: 659; 577 to start and 82 to end
    least_stint: 632,
};
