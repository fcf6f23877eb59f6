//! Written by `bulkhead bench --record-costs` with QEMU 7.2.22, `-icount shift=4`; do not edit.

use super::Costs;

/// The costs that the analysis uses, in instructions.
pub const RECORDED: Costs = Costs {
    // `bulkhead bench costs.switch`: 2293; from its decision to its guest in storms of interrupts and doorbells: 2204; from its guest to the next decision in a device's interrupt: 89
    switch: 2385,
    // `bulkhead bench costs.interrupt_entry`: 880; interrupts of guests that wait: 880
    interrupt_entry: 916,
    // `bulkhead bench costs.longest_passage`: 9952; sixteen servers in other phases, traced: 9952
    longest_passage: 10351,
    // `bulkhead bench costs.timer_latency`: 89; a device's interrupt: 89
    timer_latency: 93,
    // `bulkhead bench costs.after_loading`: 163; storms of interrupts and doorbells: 163
    after_loading: 170,
    // `bulkhead bench costs.publication`: 1232; sixteen servers, all dates at once: 1232
    publication: 1282,
    // `bulkhead bench costs.doorbell`: 159; sender 136.0, receiver 23.0, mean of 1000
    doorbell: 166,
    // `bulkhead bench costs.trace`: 779; interrupts of guests that wait, traced, longest switch: 2498 instead of 1719
    trace: 811,
    // `bulkhead bench costs.least_stint`: 386; 350 to start and 36 to end
    least_stint: 370,
};
