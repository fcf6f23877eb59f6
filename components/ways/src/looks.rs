//! Threads that look at the counter all the time. Who comes after one of them finds when it ran last: exactly so if the note of it was its last instruction
//! and the own first instruction is a look. The least of many is therefore what the kernel takes.

use crate::{FROM, IS_OVER, end};
use bulkhead_component::range::Range;
use core::arch::asm;

/// A longer time between two looks at the counter is an absence; a round is shorter.
const ABSENCE: u64 = 16;
/// The first are not counted.
const FIRST: u64 = 16;

/// Notes the counter in rounds of 4 instructions.
pub(crate) fn until_over() {
    // SAFETY: reads a counter, and reads and writes words that are there.
    unsafe {
        asm!(
            "2:",
            "mrs {now}, CNTVCT_EL0",
            "str {now}, [{note}]",
            "ldr {now}, [{is_over}]",
            "cbz {now}, 2b",
            now = out(reg) _,
            note = in(reg) FROM.as_ptr(),
            is_over = in(reg) IS_OVER.as_ptr(),
            options(nostack),
        );
    }
}

/// Looks until it was away, in rounds of 5 instructions; says when it was back.
fn until_away() -> u64 {
    let back: u64;
    // SAFETY: reads a counter.
    unsafe {
        asm!(
            "mrs {now}, CNTVCT_EL0",
            "2:",
            "mov {before}, {now}",
            "mrs {now}, CNTVCT_EL0",
            "sub {before}, {now}, {before}",
            "cmp {before}, {absence}",
            "b.ls 2b",
            now = out(reg) back,
            before = out(reg) _,
            absence = in(reg) ABSENCE,
            options(nostack),
        );
    }
    back
}

/// Counts how long it takes from the last look of the other one to its own first one.
pub(crate) fn count(name: &str, times: u64) {
    let mut range = Range::EMPTY;
    for time in 0..times + FIRST {
        let back = until_away();
        if time >= FIRST {
            // Without reading the counter and the note of it.
            range.add(back - FROM.load(core::sync::atomic::Ordering::Relaxed) - 2);
        }
    }
    end();
    range.print(name);
}
