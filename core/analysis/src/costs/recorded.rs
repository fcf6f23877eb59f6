//! Written by `./x bench --record-costs` with QEMU 7.2.22, `-icount shift=4`; do not edit.

use super::Costs;

/// The costs that the analysis uses, in instructions.
pub const RECORDED: Costs = Costs {
    // `./x bench costs.switch`: 2088; from its decision to its guest in storms of interrupts and doorbells: 1994; from its guest to the next decision in a device's interrupt: 94
    switch: 2172,
    // `./x bench costs.interrupt_entry`: 942; interrupts of guests that wait, farther: 942
    interrupt_entry: 980,
    // `./x bench costs.longest_passage`: 6869; a guest that leaves with sixteen doorbells: 6869
    longest_passage: 7144,
    // `./x bench costs.timer_latency`: 94; a device's interrupt: 94
    timer_latency: 98,
    // `./x bench costs.after_loading`: 160; storms of interrupts and doorbells: 160
    after_loading: 167,
    // `./x bench costs.publication`: 1204; sixteen servers, all dates at once: 1204
    publication: 1253,
    // `./x bench costs.doorbell`: 159; sender 136.0, receiver 23.0, mean of 1000
    doorbell: 166,
    // `./x bench costs.trace`: 304; longest interrupt: 1246 instead of 942
    trace: 317,
    // `./x bench costs.least_stint`: 394; 358 to start and 36 to end
    least_stint: 378,
};
