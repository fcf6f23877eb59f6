//! Who disturbs others. Each ends by time: what it is kept from doing is what is to be shown, so a number of things that it does would never be reached.

use crate::{MILLISECOND, line, over, told};
use bulkhead_component::driver::interrupt_done;
use bulkhead_component::{call, interface, println};
use core::hint::black_box;

/// Computes without a pause, and then tells who waits for the end.
pub(crate) fn spin(milliseconds: u64) {
    let end = call::counter_ticks() + milliseconds * MILLISECOND;
    let mut rounds = 0_u64;
    while call::counter_ticks() < end {
        rounds = black_box(rounds + 1);
    }
    // An empty slot is nobody.
    let _ = interface::invoke(over(), [0; 8]);
    println!("hog: {rounds} rounds");
}

/// Takes interrupts as fast as they come.
pub(crate) fn storm(milliseconds: u64) {
    let end = call::counter_ticks() + milliseconds * MILLISECOND;
    let (mut served, mut signals) = (0_u64, 0);
    while call::counter_ticks() < end {
        let Ok((_, count)) = call::receive(told(), end) else { break };
        served += 1;
        signals += count;
        let _ = interrupt_done(line());
    }
    println!("storm: {served} served by {signals} signals");
}
