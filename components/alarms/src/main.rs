//! Asks the clock for as many alarms as its argument says, one after the other, and shows what the clock refuses.
#![no_std]
#![no_main]

use bulkhead_component::{Code, call, println};

bulkhead_component::entry!(main);

bulkhead_component::import! {
    /// An alarm after this number of seconds; the clock's answer is the number of a code.
    fn set_alarm(seconds);
    /// Where the alarm is signalled.
    fn rings();
}

/// The clock's answer.
fn ask(seconds: u64) -> Result<Code, Code> {
    set_alarm(seconds).map(|number| Code::from_number(number).unwrap_or(Code::BadCall))
}

fn main(alarms: u64) {
    println!("no time: {:?}, too much: {:?}", ask(0), ask(u64::MAX));
    for number in 1..=alarms {
        let asked = ask(1);
        let again = ask(1);
        match call::receive(rings::slot(), 0) {
            Ok((bits, count)) => {
                println!("alarm {number}: {asked:?}, again {again:?}, bits {bits:#x}, {count} time(s)")
            }
            Err(code) => println!("alarm {number}: {code:?}"),
        }
    }
    println!("late: {:?}", call::receive(rings::slot(), call::counter_ticks() + 200_000_000));
}
