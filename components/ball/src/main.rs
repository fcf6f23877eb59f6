//! Throws a ball to a component of another instance, over a wire, and catches it when it comes back over another one. It counts what comes and not when.
#![no_std]
#![no_main]

use bulkhead_component::{Code, call, println};

bulkhead_component::entry!(main);

bulkhead_component::import! {
    /// Throws the ball to the other one.
    fn throw();
}

bulkhead_component::slots! {
    /// Where it comes back.
    caught;
}

/// The argument: how often it is caught, doubled, and 1 more for the one who begins.
fn main(argument: u64) {
    let (rounds, begins) = (argument >> 1, argument & 1 == 1);
    let mut refused = 0_u64;
    let mut again = || {
        if throw().is_err() {
            refused += 1;
        }
    };
    if begins {
        again();
    }
    let (mut balls, mut others) = (0, 0_u64);
    while balls < rounds {
        match call::receive(caught(), 0) {
            Ok((bits, count)) => {
                balls += count;
                others |= bits & !1;
                (0..count).for_each(|_| again());
            }
            Err(code) => return println!("ball: {code:?}"),
        }
    }
    // Each was thrown once: nothing more comes, but the last one to who did not begin.
    let last = call::receive(caught(), call::counter_ticks() + 62_500);
    let is_quiet = last == Err(Code::TimedOut) || !begins && last.is_ok_and(|(_, count)| count == 1);
    println!("ball: caught {balls}, refused {refused}, other signals {others:#x}, quiet {is_quiet}");
}
