//! Takes the periodic interrupt as often as its argument says, and tells when it came: the instants are on the kernel's grid, whatever was late.
//!
//! The argument is the number of beats in bits 31:0; in bits 63:32, ticks for which the tenth beat is held, so that dates pass meanwhile.
#![no_std]
#![no_main]

use bulkhead_component::driver::interrupt_done;
use bulkhead_component::{call, println};

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// Where the beats are signalled.
    rings;
    /// The interrupt.
    line;
}

/// The beat that is held.
const HELD: u64 = 10;

fn main(argument: u64) {
    let (beats, hold_ticks) = (argument & 0xffff_ffff, argument >> 32);
    let (mut first, mut last, mut signals) = (0, 0, 0);
    let (mut shortest, mut longest) = (u64::MAX, 0);
    for beat in 1..=beats {
        let (_, count) = match call::receive(rings(), 0) {
            Ok(told) => told,
            Err(code) => return println!("beats: {code:?}"),
        };
        let now = call::counter_ticks();
        signals += count;
        if beat == 1 {
            first = now;
        } else {
            shortest = shortest.min(now - last);
            longest = longest.max(now - last);
        }
        last = now;
        if beat == HELD && hold_ticks != 0 {
            let _ = call::receive(0, now + hold_ticks);
        }
        let _ = interrupt_done(line());
    }
    println!("beats: {beats} by {signals} signals in {} ticks, {shortest} to {longest}", last - first);
}
