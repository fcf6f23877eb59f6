//! A control loop: computes in each period of 10 ms, as often as its argument says. A period is lost if its work is not done before the next one begins.
#![no_std]
#![no_main]

use bulkhead_component::{call, mixed, println};
use core::hint::black_box;

bulkhead_component::entry!(main);

/// Rounds of the work of one period, each about ten instructions.
const ROUNDS: u64 = 2_000;

fn main(argument: u64) {
    let Ok(version) = call::version() else { return };
    let period = version.counter_hz / 100;
    let first = call::counter_ticks() + period;
    let (mut lost, mut worst) = (0, 0);
    for number in 0..argument {
        let release = first + number * period;
        // The end of a sleep is a deadline that has passed.
        let _ = call::receive(0, release);
        black_box((0..ROUNDS).fold(number, mixed));
        let response = call::counter_ticks() - release;
        lost += u64::from(response > period);
        worst = core::cmp::max(worst, response);
    }
    println!("loop: {argument} periods, {lost} lost, worst response {worst} ticks");
}
