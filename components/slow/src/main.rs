//! Works for as long as its caller says, or without end. It has no thread of its own.
#![no_std]
#![no_main]

use bulkhead_component::call;

bulkhead_component::entry!(main);

fn main(_argument: u64) {}

bulkhead_component::export! {
    /// Keeps the core for so many ticks, and answers them; 0 is for ever.
    fn work(_token, ticks) {
        let start_ticks = call::counter_ticks();
        while ticks == 0 || call::counter_ticks() - start_ticks < ticks {}
        ticks
    }
}
