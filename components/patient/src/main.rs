//! Calls a component that may not come back, for as long as it wants to wait: its second thread is told when the first one has run that long, and ends the
//! call (SG-8, SG-43, CH-10). A callee that nobody may abort keeps the thread, so that one is stopped.
//!
//! Argument 0 is the thread that calls, 1 the one that is told.
#![no_std]
#![no_main]

use bulkhead_component::{call, println, task};

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// The thread that calls.
    caller;
    /// Tells the other one that the time is over.
    late;
    /// Where that one is told.
    told;
    /// Tells it that no call follows.
    over;
}

bulkhead_component::import! {
    /// Takes so many ticks; 0 is for ever.
    fn work(ticks);
}

/// The signal that says it is late; the other one is the end.
const LATE: u64 = 1;

fn main(argument: u64) {
    let Ok(version) = call::version() else { return };
    let millisecond = version.counter_hz / 1000;
    if argument != 0 { watch() } else { calls(millisecond) }
}

/// A call in time, one without end, and one in time again.
fn calls(millisecond: u64) {
    for ticks in [millisecond, 0, millisecond] {
        let before_ticks = call::counter_ticks();
        let limited = task::limit(caller(), 10 * millisecond, late());
        let answer = work(ticks);
        let unlimited = task::unlimit(caller());
        let took = (call::counter_ticks() - before_ticks) / millisecond;
        println!("work {ticks}: {answer:?} in {took} ms, limit {limited:?} {unlimited:?}");
    }
    let _ = bulkhead_component::interface::invoke(over(), [0; 8]);
}

/// Ends each call that takes too long.
fn watch() {
    while let Ok((LATE, _)) = call::receive(told(), 0) {
        let aborted = task::abort(caller());
        println!("late: {:?}, {aborted:?}", task::read(caller()));
        if aborted.is_err() {
            return println!("stopped: {:?}", task::stop(caller()));
        }
    }
}
