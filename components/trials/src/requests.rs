//! Requests on a grid of time, who serves them, and a less important thread that sees how long that takes.

use crate::{MILLISECOND, line, told};
use bulkhead_component::driver::interrupt_done;
use bulkhead_component::range::Range;
use bulkhead_component::{call, println};
use core::sync::atomic::{AtomicU64, Ordering};

/// Between two requests.
const PERIOD: u64 = 3 * MILLISECOND;
/// A longer time between two looks at the counter is an absence; a look takes less.
const ABSENCE: u64 = 100;

/// All requests are served.
static IS_OVER: AtomicU64 = AtomicU64::new(0);

/// Serves requests from the first one until `requests` periods have begun: were one lost or one twice, the number would be another one.
pub(crate) fn serve(requests: u64) {
    let Ok((_, mut signals)) = call::receive(told(), 0) else { return };
    let end = call::counter_ticks() + (requests - 1) * PERIOD + PERIOD / 2;
    let mut served = 1_u64;
    let _ = interrupt_done(line());
    while let Ok((_, count)) = call::receive(told(), end) {
        served += 1;
        signals += count;
        let _ = interrupt_done(line());
    }
    IS_OVER.store(1, Ordering::Relaxed);
    println!("requests: {served} served by {signals} signals");
}

/// Looks at the counter, and says how long each absence was: from its last look to the first one behind the handler.
pub(crate) fn watch() {
    let mut range = Range::EMPTY;
    let mut before = call::counter_ticks();
    loop {
        let now = call::counter_ticks();
        if now - before > ABSENCE {
            // The last absence is the end of the other one.
            if IS_OVER.load(Ordering::Relaxed) != 0 {
                break;
            }
            range.add(now - before);
        }
        before = now;
    }
    range.print("handler");
}
