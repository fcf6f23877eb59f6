//! Computes from start to end and notes each time in which it did not run: the schedule as this guest sees it.
//!
//! Arguments: `gap_us=N` (shortest time away that is noted, default 20), `log=0` (totals only).
//! Record: first tick away, first tick back.

use crate::{Settings, log::Log, work};
use bulkhead_sdk::{cpu, println};

const DEFAULT_GAP_MICROSECONDS: u64 = 20;
/// Blocks that show how long one takes when nobody interferes.
const CALIBRATION_BLOCKS: u64 = 32;

/// One block; returns the counter after it.
fn block() -> u64 {
    work::long_block();
    cpu::counter_ticks()
}

pub(crate) fn run(settings: &Settings) {
    let gap_ticks = settings.us("gap_us", DEFAULT_GAP_MICROSECONDS).max(1);
    let logs = settings.number("log", 1) != 0;
    let (start, end) = (settings.start_ticks(), settings.end_ticks());
    let mut log = Log::new(2);
    let mut last = cpu::counter_ticks();
    let nominal_ticks = (0..CALIBRATION_BLOCKS).fold(u64::MAX, |least, _| {
        let before = cpu::counter_ticks();
        least.min(block() - before)
    });
    if last < start {
        last = work::sleep_until(start);
    }
    // What happened before counts from the start, so that the first turn of the ring is noted as well.
    if last > start + gap_ticks {
        log.add(&[start, last]);
    }
    let (first, mut ran_ticks, mut gaps, mut longest_ticks) = (last, 0, 0u64, 0);
    while last < end {
        let now = block();
        let away_ticks = (now - last).saturating_sub(nominal_ticks);
        if away_ticks >= gap_ticks {
            gaps += 1;
            longest_ticks = away_ticks.max(longest_ticks);
            if logs {
                // When within the block it left is not known: the middle is off by half a block at most.
                log.add(&[last + nominal_ticks / 2, now - nominal_ticks / 2]);
            }
        }
        ran_ticks += nominal_ticks.min(now - last);
        last = now;
    }
    println!("hog first={first} last={last} ran={ran_ticks} gaps={gaps} longest={longest_ticks} block={nominal_ticks}");
    log.announce();
}
