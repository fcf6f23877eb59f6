//! Writes down how far a control loop is: it is notified, and then asks by a call, on its own thread and time. How many lines it writes is in its argument:
//! one in so many periods.
#![no_std]
#![no_main]

use bulkhead_component::{call, println};

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// Where it is told that a period is done.
    told;
}

bulkhead_component::import! {
    /// How far the loop is; the highest bit says that it is over.
    fn state();
    /// Tells the one that waits for the end that it has come.
    fn over();
}

bulkhead_component::counts! {
    /// Notifications that it took, those that came together by their number.
    messages;
    /// Periods that it was not told of, or that the loop said out of order.
    missing;
}

/// The loop is over.
const OVER: u64 = 1 << 63;

fn main(every: u64) {
    let (mut heard, mut known, mut line) = (0, 0, every);
    loop {
        let count = match call::receive(told(), 0) {
            Ok((_, count)) => count,
            Err(code) => return println!("logger: {code:?}"),
        };
        heard += count;
        messages::count().add(count);
        let state = match state() {
            Ok(state) => state,
            Err(code) => return println!("logger: the loop does not answer: {code:?}"),
        };
        let done = state & !OVER;
        missing::count().add(u64::from(done < known));
        known = done;
        if done >= line {
            println!("logger: {done} periods");
            line = done - done % every.max(1) + every.max(1);
        }
        if state & OVER != 0 {
            // One for each period, and one for the end, which it may still have to take.
            missing::count().add(done.saturating_sub(heard));
            let _ = over();
            return;
        }
    }
}
