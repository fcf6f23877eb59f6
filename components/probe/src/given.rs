//! Servers that are made at run time: when there is no room.

use bulkhead_component::{call, println, schedule};

/// The argument that is about it: makes servers in a band, until it is full.
pub(crate) const FIRST: u64 = 132;

/// Slots.
const BAND: u64 = 4;
const EMPTY: u64 = 5;

/// 10 ms at 62.5 MHz.
const PERIOD: u64 = 625_000;

pub(crate) fn run() {
    let mut made = 0;
    let refusal = loop {
        if let Err(code) = schedule::create_server(BAND, PERIOD / 100, PERIOD, EMPTY + made) {
            break code;
        }
        made += 1;
    };
    let destroyed = schedule::destroy_server(EMPTY);
    // Its time has to come back first.
    let at_once = schedule::create_server(BAND, PERIOD / 100, PERIOD, EMPTY + made);
    let _ = call::receive(0, call::counter_ticks() + PERIOD);
    let later = schedule::create_server(BAND, PERIOD / 100, PERIOD, EMPTY + made);
    println!("made {made}, then {refusal:?}");
    println!("ended one: {destroyed:?}, another at once: {at_once:?}, a period later: {later:?}");
}
