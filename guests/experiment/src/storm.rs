//! Rings the doorbells of all its ports as fast as it can.
//!
//! Arguments: `rings=N` (default: until `end_us`), `pause_ns=N` (work between two rounds, default none).

use crate::{
    Settings,
    work::{self, Pace},
};
use bulkhead_sdk::{
    cpu,
    hypercall::{self, Doorbell},
    information, println,
};

pub(crate) fn run(settings: &Settings) {
    let (end, most) = (settings.end_ticks(), settings.number("rings", u64::MAX));
    let pause = settings.ns("pause_ns", 0);
    let pace = Pace::measure();
    work::sleep_until(settings.start_ticks());
    let (mut rings, mut sent, mut limited) = (0u64, 0u64, 0u64);
    while rings < most && cpu::counter_ticks() < end {
        for port in information::ports().iter().filter(|port| port.doorbell != u32::MAX) {
            match hypercall::doorbell(port.doorbell) {
                Ok(Doorbell::Sent) => sent += 1,
                Ok(Doorbell::Limited) => limited += 1,
                Err(_) => {}
            }
        }
        rings += 1;
        pace.work(pause);
    }
    println!("storm rings={rings} sent={sent} limited={limited}");
}
