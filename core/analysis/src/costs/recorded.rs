//! Written by `bulkhead bench --record-costs` with QEMU 7.2.22, `-icount shift=4`; do not edit.

use super::Costs;

/// The costs that the analysis uses, in instructions.
pub const RECORDED: Costs = Costs {
    // `bulkhead bench costs.switch`: 2410; from its decision to its guest in attacks and restarts, traced: 2295; from its guest to the next decision in storms of interrupts and doorbells: 115
    switch: 2459,
    // `bulkhead bench costs.interrupt_entry`: 1347; storms of interrupts and doorbells: 1347
    interrupt_entry: 1374,
    // `bulkhead bench costs.longest_passage`: 7298; sixteen servers, all dates at once, traced: 7298
    longest_passage: 7444,
    // `bulkhead bench costs.timer_latency`: 115; storms of interrupts and doorbells: 115
    timer_latency: 118,
    // `bulkhead bench costs.publication`: 2498; sixteen servers, all dates at once, traced: 2498
    publication: 2548,
    // `bulkhead bench costs.doorbell`: 159; sender 136.0, receiver 23.0, mean of 1000
    doorbell: 163,
    // `bulkhead bench costs.least_stint`: 623; 577 to start and 46 to end
    least_stint: 610,
};
