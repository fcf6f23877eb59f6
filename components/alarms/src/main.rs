//! Asks the clock for as many alarms as its argument says, one after the other, and shows what the clock refuses. A driver that ends in the middle of an alarm
//! and is begun again may have forgotten it, so nobody waits for ever: what did not come within three seconds is asked for again.
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

bulkhead_component::counts! {
    /// Alarms that rang.
    rung;
    /// Alarms that were asked for again.
    repeated;
}

/// How often one alarm is asked for, at most.
const MOST_REQUESTS: u64 = 5;

/// The clock's answer.
fn ask(seconds: u64) -> Result<Code, Code> {
    set_alarm(seconds).map(|number| Code::from_number(number).unwrap_or(Code::BadCall))
}

fn main(alarms: u64) {
    let Ok(version) = call::version() else { return };
    println!("no time: {:?}, too much: {:?}", ask(0), ask(u64::MAX));
    for number in 1..=alarms {
        for _ in 0..MOST_REQUESTS {
            let asked = ask(1);
            let again = ask(1);
            match call::receive(rings::slot(), call::counter_ticks() + 3 * version.counter_hz) {
                Ok((bits, count)) => {
                    println!("alarm {number}: {asked:?}, again {again:?}, bits {bits:#x}, {count} time(s)");
                    rung::count().add(1);
                    break;
                }
                Err(code) => println!("alarm {number}: {code:?}, once more"),
            }
            repeated::count().add(1);
        }
    }
    println!("late: {:?}", call::receive(rings::slot(), call::counter_ticks() + 200_000_000));
}
