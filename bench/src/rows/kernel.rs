//! Rows of the real-time kernel: what its calls take.

use super::{Row, Unit};
use crate::kernel;

/// How all of them are measured.
const HOW: &str = "a component reads the counter before and after, 100,000 times, on the bare board; every run takes the same, and in `direct` it is equal to the instruction; call counters on";

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "kernel.null_call",
        what: "null call of the kernel (`version`), round trip, the SVC itself included",
        how: HOW,
        peers: "seL4 219, seL4 MCS 272, Zephyr user threads 109",
        ceiling: Some(65.0),
        unit: Unit::Instructions,
        requirements: &["CH-60"],
        slow: false,
        measure: kernel::null_call,
    },
    Row {
        name: "kernel.call",
        what: "call of a component and its return, the kernel's part of both",
        how: HOW,
        peers: "seL4 412, seL4 MCS 480, both ways between two address spaces",
        ceiling: Some(115.0),
        unit: Unit::Instructions,
        requirements: &["CH-8", "CH-60", "CH-E4"],
        slow: false,
        measure: kernel::call,
    },
    Row {
        name: "kernel.call_needs",
        what: "the same of a component that declares how much time a caller must have in hand",
        how: HOW,
        peers: "",
        ceiling: Some(140.0),
        unit: Unit::Instructions,
        requirements: &["CH-8", "CH-60", "CH-E4"],
        slow: false,
        measure: kernel::call_needs,
    },
    Row {
        name: "kernel.stubs",
        what: "a function of another component, from the caller's stub to its next instruction: callee-saved registers kept and hidden, the sum of two numbers",
        how: HOW,
        peers: "as kernel.call",
        ceiling: Some(190.0),
        unit: Unit::Instructions,
        requirements: &["CH-7", "CH-E4"],
        slow: false,
        measure: kernel::stubs,
    },
];
