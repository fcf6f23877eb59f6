//! One thing done so many times, for counts that are taken outside the guest.
//!
//! The host runs the same system with two numbers of samples; what the longer run has more, in counters of the monitor or in
//! instructions of the emulator, is due to the samples alone. The rejected alternative, a guest that says when its loop
//! begins and ends, needs a call for it that is counted too, and a host that looks at the right moment.

use crate::measure;
use bulkhead_sdk::interrupt::InterruptId;
use bulkhead_sdk::{arguments, cpu, hypercall, information, interrupt, println, psci};
use core::sync::atomic::{AtomicU64, Ordering};

/// Between two doorbells: long enough for the receiver to be asleep again.
const PAUSE_TICKS: u64 = 20_000;
/// Before the first doorbell: the receiver enables its interrupt meanwhile.
const START_TICKS: u64 = 1_000_000;

/// Sends software generated interrupts to this core and takes each.
pub(crate) fn send_to_itself(samples: u64) {
    interrupt::start();
    interrupt::enable(measure::SGI);
    measure::with_own_vectors(|| measure::repeat(samples, || measure::own_sgi().unwrap_or(u64::MAX)));
    println!("bench sent");
}

/// Rings the first doorbell of this partition.
pub(crate) fn send_doorbells(samples: u64) {
    let Some(port) = information::ports().iter().find(|port| port.doorbell != u32::MAX) else {
        println!("bench FAILED: this partition has no doorbell");
        return;
    };
    pause(START_TICKS);
    let mut refused = 0_u64;
    for _ in 0..samples {
        refused += u64::from(hypercall::doorbell(port.doorbell) != Ok(hypercall::Doorbell::Sent));
        pause(PAUSE_TICKS);
    }
    println!("bench sent refused={refused}");
}

/// Sleeps until so many doorbells have been received.
pub(crate) fn receive_doorbells(samples: u64) {
    static RECEIVED: AtomicU64 = AtomicU64::new(0);
    let Some(port) = information::ports().iter().find(|port| port.interrupt != 0) else {
        println!("bench FAILED: this partition receives no doorbell");
        return;
    };
    interrupt::start();
    interrupt::on_interrupt(|_| {
        RECEIVED.fetch_add(1, Ordering::Relaxed);
    });
    interrupt::enable(interrupt::InterruptId(port.interrupt));
    cpu::wait_until(|| RECEIVED.load(Ordering::Relaxed) >= samples);
    println!("bench received");
}

/// Waits without sleeping, and lets an emulator of several cores run the other one.
fn pause(ticks: u64) {
    let start = cpu::counter_ticks();
    while cpu::counter_ticks() - start < ticks {
        cpu::yield_now();
    }
}

/// Takes none of its doorbells and leaves at the date `end_us` when all of them wait: what its monitor has to do for each then is the
/// longest that a guest can ask for by one call. `by=reset` asks for a restart, else it is CPU_OFF.
pub(crate) fn leave() -> ! {
    let text = information::arguments();
    cpu::mask_interrupts();
    interrupt::start();
    for port in information::ports().iter().filter(|port| port.interrupt != 0) {
        interrupt::enable(InterruptId(port.interrupt));
    }
    let end_ticks = arguments::number(text, "end_us").unwrap_or(0).saturating_mul(cpu::frequency_hz()) / 1_000_000;
    while cpu::counter_ticks() < end_ticks {}
    match arguments::value(text, "by") {
        Some("reset") => psci::system_reset(),
        _ => psci::cpu_off(),
    }
}
