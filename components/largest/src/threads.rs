//! Threads beside the one that counts.

use crate::{FROM, IS_OVER, TOOK, deeper, note};
use bulkhead_component::call;
use core::sync::atomic::{AtomicU64, Ordering};

/// Where the thread is told that it is to look.
const FOLLOWER: u64 = 2;
/// The bit by which it is told to end.
const END_BIT: u64 = 2;
/// What a thread that was made adds to.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Looks how long it took to it, when it is told to.
pub(crate) fn follow() {
    loop {
        let bits = call::receive(FOLLOWER, 0).map_or(END_BIT, |(bits, _)| bits);
        TOOK.store(call::counter_ticks() - FROM.load(Ordering::Relaxed), Ordering::Relaxed);
        if bits & END_BIT != 0 {
            // The end of the thread is what is counted.
            return note();
        }
    }
}

/// Looks how long it took to it, each time that somebody noted when.
pub(crate) fn watch() {
    let mut last = 0;
    while IS_OVER.load(Ordering::Relaxed) == 0 {
        let from = FROM.load(Ordering::Relaxed);
        if from != last {
            TOOK.store(call::counter_ticks() - from, Ordering::Relaxed);
            last = from;
        }
    }
}

/// Goes into a component that goes into itself, eight calls deep.
pub(crate) fn go_deep() {
    let _ = deeper(7);
}

/// Stays there.
pub(crate) fn spin() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// The first instruction of a thread that is made at run time.
pub(crate) extern "C" fn made(_argument: u64) -> ! {
    MADE.fetch_add(1, Ordering::Relaxed);
    call::finish()
}
