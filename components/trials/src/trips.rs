//! Round trips between threads of two subsystems, each on a server that a scheduler of its own holds, and the end of a sleep. Who travels is on the more important server, so an answer
//! takes the core at once; who answers runs when the scheduler of the other one waits, and finds that it was told before it looked.

use crate::polls::{CAN_RUN, ENDED, WAITS};
use crate::{MILLISECOND, over, scheduler, threads, told};
use bulkhead_component::range::Range;
use bulkhead_component::{call, interface, schedule};

/// The first are not counted: everybody has to wait where it waits each time.
const FIRST: u64 = 16;
/// Longer than schedulers need to be told of an end.
const PAUSE: u64 = 30_000;
/// A scheduler looks again after this long, if nothing happens.
const PATIENCE: u64 = 1_000_000 * MILLISECOND;

/// Signals who answers, and waits for the answer; then sleeps, and looks how late it is awake.
pub(crate) fn travel(times: u64) {
    let (mut trips, mut timers) = (Range::EMPTY, Range::EMPTY);
    let mut refused = 0_u64;
    for time in 0..times + FIRST {
        let before = call::counter_ticks();
        refused += u64::from(interface::invoke(over(), [0; 8]).is_err());
        refused += u64::from(!matches!(call::receive(told(), 0), Ok((_, 1))));
        let ticks = call::counter_ticks() - before;
        if time >= FIRST {
            trips.add(ticks);
        }
    }
    for time in 0..times + FIRST {
        let date = call::counter_ticks() + PAUSE;
        let _ = call::receive(0, date);
        if time >= FIRST {
            timers.add(call::counter_ticks() - date);
        }
    }
    if refused == 0 {
        trips.print("trip");
        timers.print("timer");
    }
}

/// Answers each signal by one.
pub(crate) fn answer(times: u64) {
    for _ in 0..times + FIRST {
        if call::receive(told(), 0).is_err() || interface::invoke(over(), [0; 8]).is_err() {
            return;
        }
    }
}

/// A scheduler of one thread.
pub(crate) fn lead() {
    let mut is_able = false;
    let mut token = 0;
    loop {
        let deadline = (!is_able).then(|| call::counter_ticks() + PATIENCE);
        match schedule::events(scheduler(), deadline) {
            Ok(event) => {
                token = event.token;
                if event.what & ENDED != 0 {
                    return;
                }
                is_able = event.what & CAN_RUN != 0 || is_able && event.what & WAITS == 0;
            }
            Err(_) if is_able => {
                // With an event that came meanwhile it is stale, and that one is taken first.
                let _ = schedule::switch(scheduler(), threads() + 1, 0, 0, token);
            }
            Err(_) => {}
        }
    }
}

/// A scheduler above others, which have time of their own: it has nobody to choose.
pub(crate) fn listen(below: u64) {
    let mut ended = 0;
    while ended < below {
        if let Ok(event) = schedule::events(scheduler(), Some(call::counter_ticks() + PATIENCE)) {
            ended += u64::from(event.what & ENDED != 0);
        }
    }
}
