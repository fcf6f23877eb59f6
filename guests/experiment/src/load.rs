//! A general-purpose guest that masks its interrupts again and again (SP-E4, L3): the section must not delay others.
//!
//! Arguments: `section_us=N` (work with interrupts masked), `open_us=N` (work with interrupts unmasked, default 100).
//! The other loads of SP-E4 are roles of their own: L0 is a wire that sleeps, L1 a hog, L2 a wire with a request every 100 us.

use crate::{
    Settings,
    work::{self, Pace},
};
use bulkhead_sdk::{cpu, println};

pub(crate) fn run(settings: &Settings) {
    let (section, open, end) = (settings.us("section_us", 50), settings.us("open_us", 100), settings.end_ticks());
    let pace = Pace::measure();
    work::sleep_until(settings.start_ticks());
    let mut sections = 0u64;
    while cpu::counter_ticks() < end {
        // Interrupts are masked here, as everywhere outside the waits.
        pace.work(section);
        work::compute_until(cpu::counter_ticks() + open);
        sections += 1;
    }
    println!("load sections={sections}");
}
