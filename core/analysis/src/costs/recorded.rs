//! Written by `bulkhead bench --record-costs` with QEMU 7.2.22, `-icount shift=4`; do not edit.

use super::Costs;

/// The costs that the analysis uses, in instructions.
pub const RECORDED: Costs = Costs {
    // `bulkhead bench costs.switch`: 2131; from its decision to its guest in storms of interrupts and doorbells: 2044; from its guest to the next decision in a device's interrupt: 87
    switch: 2217,
    // `bulkhead bench costs.interrupt_entry`: 878; interrupts of guests that wait: 878
    interrupt_entry: 914,
    // `bulkhead bench costs.longest_passage`: 7914; sixteen servers, all dates at once: 7914
    longest_passage: 8231,
    // `bulkhead bench costs.timer_latency`: 87; a device's interrupt: 87
    timer_latency: 91,
    // `bulkhead bench costs.publication`: 1122; sixteen servers, all dates at once: 1122
    publication: 1167,
    // `bulkhead bench costs.doorbell`: 159; sender 136.0, receiver 23.0, mean of 1000
    doorbell: 166,
    // `bulkhead bench costs.trace`: 1035; attacks and restarts, traced, longest interrupt: 3039 instead of 2004
    trace: 1077,
    // `bulkhead bench costs.least_stint`: 388; 350 to start and 38 to end
    least_stint: 372,
};
