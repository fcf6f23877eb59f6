//! One thing done a given number of times, for counts that are taken outside the guest.
//!
//! The host runs the same system with two numbers of samples; what the longer run has more, in counters of the monitor or in
//! instructions of the emulator, is due to the samples alone. The rejected alternative, a guest that says when its loop
//! begins and ends, needs a call for it that is counted too, and a host that looks at the right moment.

use crate::measure;
use bulkhead_sdk::abi::virtio::FRAME_OFFSET;
use bulkhead_sdk::guest_abi::guest::GUEST_FRONTS;
use bulkhead_sdk::interrupt::InterruptId;
use bulkhead_sdk::{arguments, cpu, hypercall, information, interrupt, println, psci};
use core::sync::atomic::{AtomicU64, Ordering};

/// Between two doorbells: long enough for the receiver to be asleep again.
const PAUSE_TICKS: u64 = 20_000;
/// Before the first doorbell or sleep that counts: other guests get ready meanwhile.
const START_TICKS: u64 = 1_000_000;

/// Sends software generated interrupts to this core and takes each.
pub(crate) fn send_to_itself(samples: u64) {
    interrupt::start();
    interrupt::enable(measure::SGI);
    measure::with_own_vectors(|| measure::repeat(samples, || measure::own_sgi().unwrap_or(u64::MAX)));
    println!("bench sent");
}

/// The shortest sleep that counts, unless `shortest=` says otherwise.
const SHORTEST_SLEEP_TICKS: u64 = 1_500;
/// Sleeps that count differ by up to this number of ticks, so that the timer rings at every moment of what others do meanwhile.
const SPREAD_TICKS: u64 = 1_500;
/// A long sleep before each of them, so that what is done once in a while falls due.
const LONG_SLEEP_TICKS: u64 = 70_000;

/// Sleeps until its own timer wakes it, and prints how late its handler was. By the shortest sleep the core has been given away: a vCPU
/// whose date comes before it sleeps is not woken.
pub(crate) fn sleep(samples: u64) {
    let shortest = arguments::number(information::arguments(), "shortest").unwrap_or(SHORTEST_SLEEP_TICKS);
    interrupt::start();
    interrupt::enable(interrupt::VIRTUAL_TIMER);
    let mut number = 0;
    let range = measure::with_own_vectors(|| {
        // The other guests of the core start meanwhile, and those end that have nothing to do.
        measure::timer_idle(10 * START_TICKS);
        measure::repeat(samples, || {
            measure::timer_idle(LONG_SLEEP_TICKS);
            number += 1;
            measure::timer_idle(shortest + number * SPREAD_TICKS / samples)
        })
    });
    crate::row("own_timer", &range);
    println!("bench done");
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

/// QueueNotify of the partition's first front of virtio.
const QUEUE_NOTIFY: u64 = GUEST_FRONTS.0 + FRAME_OFFSET + 0x50;

/// Notifies the back end of this partition's first virtio device, as a driver does after each request.
pub(crate) fn notify(samples: u64) {
    pause(START_TICKS);
    for _ in 0..samples {
        measure::write(QUEUE_NOTIFY, 0);
        pause(PAUSE_TICKS);
    }
    println!("bench notified");
}

/// Sleeps until this many doorbells have been received.
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
