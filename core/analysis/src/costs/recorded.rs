//! Written by `bulkhead bench --record-costs` with QEMU 7.2.22, `-icount shift=4`; do not edit.

use super::Costs;

/// The costs that the analysis uses, in instructions.
pub const RECORDED: Costs = Costs {
    // `bulkhead bench costs.switch`: 2048; from its decision to its guest in storms of interrupts and doorbells: 1961; from its guest to the next decision in a device's interrupt: 87
    switch: 2130,
    // `bulkhead bench costs.interrupt_entry`: 876; interrupts of guests that wait: 876
    interrupt_entry: 912,
    // `bulkhead bench costs.longest_passage`: 6829; sixteen servers, all dates at once: 6829
    longest_passage: 7103,
    // `bulkhead bench costs.timer_latency`: 87; a device's interrupt: 87
    timer_latency: 91,
    // `bulkhead bench costs.publication`: 1122; sixteen servers, all dates at once: 1122
    publication: 1167,
    // `bulkhead bench costs.doorbell`: 159; sender 136.0, receiver 23.0, mean of 1000
    doorbell: 166,
    // `bulkhead bench costs.trace`: 979; interrupts of guests that wait, traced, longest switch: 2590 instead of 1611
    trace: 1019,
    // `bulkhead bench costs.least_stint`: 388; 350 to start and 38 to end
    least_stint: 372,
};
