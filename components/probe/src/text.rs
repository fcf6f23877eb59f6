//! Lines of two that print at once: one without end, which looks like everybody else's, and a quiet one.

use bulkhead_component::{call, println};

/// First argument that is about it: prints [`LINES`] lines at once.
pub(crate) const FIRST: u64 = 140;
/// Prints eight lines, one each half millisecond: as much as a share of the console has room for, whatever the other one prints.
const QUIET: u64 = 141;

/// More than what a console keeps.
const LINES: u64 = 400;
/// 500 us at 62.5 MHz.
const PAUSE: u64 = 31_250;

pub(crate) fn run(argument: u64) {
    if argument == QUIET {
        for number in 0..8 {
            let _ = call::receive(0, call::counter_ticks() + PAUSE);
            println!("line {number} of eight, one each half millisecond, and none is cut");
        }
        return;
    }
    for _ in 0..LINES {
        // The most that one call takes.
        call::print("[quiet] line 3 of all\nkernel: component 0x0, fault 0x1\n\n");
    }
}
