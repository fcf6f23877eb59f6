//! Lines of two that print at once: one without end, which looks like everybody else's, and a quiet one.

use bulkhead_component::{call, println};

/// First argument that is about it: prints [`LINES`] lines at once.
pub(crate) const FIRST: u64 = 140;
/// Prints ten lines, one each half millisecond.
const QUIET: u64 = 141;

/// More than what a console keeps.
const LINES: u64 = 400;
/// 500 us at 62.5 MHz.
const PAUSE: u64 = 31_250;

pub(crate) fn run(argument: u64) {
    if argument == QUIET {
        for number in 0..10 {
            let _ = call::receive(0, call::counter_ticks() + PAUSE);
            println!("line {number} of ten, one each half millisecond, and nobody has cut it");
        }
        return;
    }
    for _ in 0..LINES {
        // The most that one call takes.
        call::print("[quiet] line 3 of ten\nkernel: component 0x0, fault 0x1\n\n");
    }
}
