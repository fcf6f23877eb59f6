//! Servers that are made at run time: what the call takes, and when there is no room.

use bulkhead_component::{call, println, schedule};

/// The argument that is about it: makes servers in a band, until it is full.
pub(crate) const FIRST: u64 = 132;

/// Slots.
const BAND: u64 = 4;
const EMPTY: u64 = 5;

/// 10 ms at 62.5 MHz.
const PERIOD: u64 = 625_000;

/// The shortest and the longest.
struct Span(u64, u64);

impl Span {
    const NONE: Self = Self(u64::MAX, 0);

    fn add(&mut self, ticks: u64) {
        *self = Self(core::cmp::min(self.0, ticks), core::cmp::max(self.1, ticks));
    }
}

pub(crate) fn run() {
    let (mut took, mut made) = (Span::NONE, 0);
    let refusal = loop {
        let before = call::counter_ticks();
        match schedule::create_server(BAND, PERIOD / 100, PERIOD, EMPTY + made) {
            Ok(()) => took.add(call::counter_ticks() - before),
            Err(code) => break code,
        }
        made += 1;
    };
    let destroyed = schedule::destroy_server(EMPTY);
    // Its time has to come back first.
    let at_once = schedule::create_server(BAND, PERIOD / 100, PERIOD, EMPTY + made);
    let _ = call::receive(0, call::counter_ticks() + PERIOD);
    let later = schedule::create_server(BAND, PERIOD / 100, PERIOD, EMPTY + made);
    println!("made {made}, {} to {} ticks, then {refusal:?}", took.0, took.1);
    println!("ended one: {destroyed:?}, another at once: {at_once:?}, a period later: {later:?}");
}
