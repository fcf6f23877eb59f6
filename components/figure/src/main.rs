//! Quest's figure 4 on the servers of an instance (QV-E10): two threads that always compute and a driver with one request of 3 ms note when they ran, and say so at the end.
//!
//! The figure begins with the eighth beat of the kernel's second timer, when what starting took is back in all budgets: then the second thread begins. It begins the first one 1 ms
//! later, and the ninth beat is the driver's request. The argument says who a thread is: 0 the first, 1 the second, 2 the driver, with its client's number above that.
#![no_std]
#![no_main]

use bulkhead_component::driver::interrupt_done;
use bulkhead_component::{call, println};
use bulkhead_kernel_abi::call::{Call, InterruptOperation};
use core::sync::atomic::{AtomicU64, Ordering};

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// Where the first thread is begun.
    first;
    /// Where the second one is.
    second;
    /// Where the beats are signalled.
    beats;
    /// Their interrupt.
    line;
}

bulkhead_component::import! {
    /// Begins the first thread.
    fn begin_first();
    /// Begins the second one.
    fn begin_second();
}

/// Ticks of a millisecond.
const MILLISECOND: u64 = 62_500;
/// The beat with which the figure begins.
const BEGIN: u64 = 8;
/// A thread that sees the counter make a longer step did not run meanwhile.
const STEP: u64 = 400;
/// Most runs of one thread.
const RUNS: usize = 40;

/// When the figure began.
static ZERO: AtomicU64 = AtomicU64::new(0);

/// When a thread ran.
struct Runs {
    of: [(u64, u64); RUNS],
    count: usize,
    from: u64,
    last: u64,
}

impl Runs {
    fn begin(now: u64) -> Self {
        Self { of: [(0, 0); RUNS], count: 0, from: now, last: now }
    }

    /// Looks at the counter; returns what it shows, and how long the thread has computed since the last look.
    fn look(&mut self) -> (u64, u64) {
        let now = call::counter_ticks();
        let step = now - self.last;
        if step > STEP {
            self.end();
            self.from = now;
        }
        self.last = now;
        (now, if step > STEP { 0 } else { step })
    }

    fn end(&mut self) {
        if let Some(place) = self.of.get_mut(self.count) {
            *place = (self.from, self.last);
            self.count += 1;
        }
    }

    fn say(&self, name: &str) {
        let zero = ZERO.load(Ordering::Relaxed);
        for (from, to) in self.of.iter().take(self.count) {
            println!("{name} {} {}", from.saturating_sub(zero), to.saturating_sub(zero));
        }
        println!("{name} said");
    }
}

/// When the figure ends.
fn over() -> u64 {
    ZERO.load(Ordering::Relaxed) + 130 * MILLISECOND
}

fn main(argument: u64) {
    match argument & 0xff {
        0 => {
            let _ = call::receive(first(), 0);
            let mut runs = Runs::begin(call::counter_ticks());
            while runs.look().0 < over() {}
            runs.end();
            runs.say("v0");
        }
        1 => {
            let _ = call::receive(second(), 0);
            let zero = call::counter_ticks();
            ZERO.store(zero, Ordering::Relaxed);
            let mut runs = Runs::begin(zero);
            while runs.look().0 < zero + MILLISECOND {}
            let _ = begin_first();
            while runs.look().0 < over() {}
            runs.end();
            runs.say("v1");
        }
        _ => drive(argument >> 8),
    }
}

/// Serves each beat, and works for 3 ms of its own time at the one behind [`BEGIN`].
fn drive(client: u64) {
    for beat in 1..=BEGIN {
        let _ = call::receive(beats(), 0);
        if beat == BEGIN {
            let _ = begin_second();
        }
        let _ = interrupt_done(line());
        call::call::<{ Call::Interrupt.number() }>([
            InterruptOperation::Finish.number(),
            line(),
            client,
            0,
            0,
            0,
            0,
            0,
        ]);
    }
    let _ = call::receive(beats(), 0);
    let mut runs = Runs::begin(call::counter_ticks());
    let mut done = 0;
    while done < 3 * MILLISECOND {
        done += runs.look().1;
    }
    runs.end();
    // No beat is served any more; and the others have said theirs by then.
    let _ = call::receive(0, over() + 100 * MILLISECOND);
    runs.say("io");
}
