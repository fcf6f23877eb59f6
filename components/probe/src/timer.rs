//! The periodic timer, held and given back, and what an interrupt of the kernel takes from a thread that runs.

use bulkhead_component::driver::interrupt_done;
use bulkhead_component::{call, println};

/// First argument that is about it: holds the interrupt of slot 2, which signals the end point of slot 1.
pub(crate) const FIRST: u64 = 100;
/// Sleeps for a while, so that the kernel's timer rings while another thread runs.
const SLEEPS: u64 = 101;
/// Looks how long the longest absence is meanwhile.
const SPINS: u64 = 102;
/// The same, with the interrupt held.
const HOLDS_AND_SPINS: u64 = 103;
/// Takes the interrupt, and faults with it.
const HOLDS_AND_FAULTS: u64 = 104;
/// Looks how long the longest absence is, and how many there are, when that is over.
const SPINS_LATER: u64 = 105;

const END_POINT: u64 = 1;
const INTERRUPT: u64 = 2;
/// A longer time between two looks at the counter is an absence.
const ABSENCE: u64 = 100;
/// 10 ms at 62.5 MHz.
const TEN_MILLISECONDS: u64 = 625_000;

pub(crate) fn run(argument: u64) {
    match argument {
        FIRST => hold(),
        SLEEPS => {
            let slept = call::receive(0, call::counter_ticks() + 2 * TEN_MILLISECONDS);
            println!("slept: {slept:?}");
        }
        SPINS => spin(),
        HOLDS_AND_SPINS => {
            println!("first: {:?}", call::receive(END_POINT, 0));
            spin();
            println!("done: {:?}", interrupt_done(INTERRUPT));
        }
        HOLDS_AND_FAULTS => {
            let _ = call::receive(END_POINT, 0);
            crate::attacks::run(1);
        }
        SPINS_LATER => {
            let _ = call::receive(0, call::counter_ticks() + TEN_MILLISECONDS);
            spin();
        }
        _ => {}
    }
}

fn hold() {
    println!("first: {:?}", call::receive(END_POINT, 0));
    // Ten periods: the controller masks it, and the kernel's own timer ends the wait.
    println!("held: {:?}", call::receive(END_POINT, call::counter_ticks() + TEN_MILLISECONDS));
    println!("done: {:?}", interrupt_done(INTERRUPT));
    println!("second: {:?}", call::receive(END_POINT, 0));
    println!("done: {:?}", interrupt_done(INTERRUPT));
    println!("third: {:?}", call::receive(END_POINT, 0));
    println!("done: {:?}, {:?}", interrupt_done(INTERRUPT), interrupt_done(INTERRUPT));
}

/// The longest time between two looks at the counter while the other thread's date passes.
fn spin() {
    let end = call::counter_ticks() + 4 * TEN_MILLISECONDS;
    let (mut before, mut longest, mut absences) = (call::counter_ticks(), 0, 0);
    while before < end {
        let now = call::counter_ticks();
        longest = core::cmp::max(longest, now - before);
        absences += u64::from(now - before > ABSENCE);
        before = now;
    }
    println!("longest {longest} ticks");
    println!("{absences} absences");
}
