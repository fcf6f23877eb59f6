//! Written by `./x bench --record-costs` with QEMU 7.2.22, `-icount shift=4`; do not edit.

use super::Costs;

/// The costs that the analysis uses, in instructions.
pub const RECORDED: Costs = Costs {
    // `./x bench costs.switch`: 2099; from its decision to its guest in storms of interrupts and doorbells: 2005; from its guest to the next decision in a device's interrupt: 94
    switch: 2183,
    // `./x bench costs.interrupt_entry`: 931; interrupts of guests that wait, farther: 931
    interrupt_entry: 969,
    // `./x bench costs.longest_passage`: 6761; a guest that leaves with sixteen doorbells: 6761
    longest_passage: 7032,
    // `./x bench costs.timer_latency`: 94; a device's interrupt: 94
    timer_latency: 98,
    // `./x bench costs.after_loading`: 161; storms of interrupts and doorbells: 161
    after_loading: 168,
    // `./x bench costs.publication`: 1176; sixteen servers, all dates at once: 1176
    publication: 1224,
    // `./x bench costs.doorbell`: 159; sender 136.0, receiver 23.0, mean of 1000
    doorbell: 166,
    // `./x bench costs.trace`: 321; longest switch: 1900 instead of 1579
    trace: 334,
    // `./x bench costs.least_stint`: 394; 358 to start and 36 to end
    least_stint: 378,
};
