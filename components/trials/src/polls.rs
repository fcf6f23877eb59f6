//! A job of a known length, and who polls above it: a thread of a more important server, or the job's own scheduler.

use crate::{MILLISECOND, scheduler, threads, told};
use bulkhead_component::{Code, call, mixed, println, schedule};
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

/// Rounds of the job that are one millisecond or so, each of eleven instructions.
const ROUNDS: u64 = 5_700;
/// What an event says.
pub(crate) const CAN_RUN: u8 = 1;
pub(crate) const WAITS: u8 = 2;
pub(crate) const ENDED: u8 = 32;

/// The job is done.
static IS_DONE: AtomicU64 = AtomicU64::new(0);

pub(crate) fn work(milliseconds: u64) {
    let before = call::counter_ticks();
    black_box((0..milliseconds * ROUNDS).fold(0, |sum, round| mixed(sum, black_box(round))));
    let ticks = call::counter_ticks() - before;
    IS_DONE.store(1, Ordering::Relaxed);
    println!("job: {ticks} ticks");
}

/// Ticks of a number of microseconds.
fn period(microseconds: u64) -> u64 {
    microseconds * MILLISECOND / 1000
}

/// Waits for what nobody sends, from date to date.
pub(crate) fn poll(microseconds: u64) {
    let (period, mut polls) = (period(microseconds), 0_u64);
    let mut date = call::counter_ticks() + period;
    while IS_DONE.load(Ordering::Relaxed) == 0 {
        let found = call::receive(told(), date);
        // The one behind the job's end cost it nothing.
        if found == Err(Code::TimedOut) && IS_DONE.load(Ordering::Relaxed) == 0 {
            polls += 1;
        }
        date += period;
    }
    println!("polls: {polls}");
}

/// Lets the job run from date to date.
pub(crate) fn schedule(microseconds: u64) {
    let (period, mut polls) = (period(microseconds), 0_u64);
    let (mut is_able, mut token) = (false, 0);
    let mut date = call::counter_ticks() + period;
    loop {
        match schedule::events(scheduler(), (!is_able).then_some(date)) {
            Ok(event) => {
                token = event.token;
                if event.what & ENDED != 0 {
                    break;
                }
                is_able = event.what & CAN_RUN != 0 || is_able && event.what & WAITS == 0;
            }
            Err(_) => {
                if call::counter_ticks() >= date {
                    // What is there is taken, and nobody waits.
                    let _ = call::receive(told(), 1);
                    polls += 1;
                    date += period;
                }
                if is_able {
                    // With an event that came meanwhile it is stale, and that one is taken first.
                    let _ = schedule::switch(scheduler(), threads() + 1, 0, date, token);
                }
            }
        }
    }
    println!("polls: {polls}");
}
