//! How late a message is found that was sent through a limiter to who polls (CH-E8, CH-31, CH-38). A thread's argument says what it does: 0 hears, and any other one is the number of windows in which
//! it sends 50 times each. A component of this program without threads is the limiter.
//!
//! The message is in memory before its signal, which may be held back; the receiver takes what is there when it is woken, by a signal or by the date of its poll. Nothing is printed before
//! what is measured.
#![no_std]
#![no_main]

use bulkhead_component::{Code, call, interface, println};
use bulkhead_rt::{Event, Kernel, Limit, Poll, Record, Sent, Who};
use core::sync::atomic::{AtomicU64, Ordering};

bulkhead_component::entry!(main);

mod imports {
    bulkhead_component::import! {
        /// Notifies within a limit: of 10 in a window; then those of 20 to 60.
        pub fn notify();
    }
}

bulkhead_component::slots! {
    /// A way to the receiver that has no limit: the limiter's.
    way;
    /// The receiver's end point.
    told;
}

/// A window of the limiter: what is a millisecond on a core of 250 million instructions per second.
const WINDOW: u64 = 250_000;
/// Evenly in a window, the first one half a distance behind its beginning.
const SENDS: u64 = 50;
const DISTANCE: u64 = WINDOW / SENDS;
/// Distances of polls.
const POLLS: [u64; 3] = [WINDOW / 5, WINDOW / 2, 2 * WINDOW];
/// The longest of them is this many windows: after as many everything is as before.
const AGAIN: u64 = 2;

const fn limit(maximum: u16) -> Record {
    Record::new(Limit { window_ticks: WINDOW, maximum }, 0)
}

/// By the number in the caller's capability.
static RECORDS: [Record; 6] = [limit(10), limit(20), limit(30), limit(40), limit(50), limit(60)];

/// When each message was sent, by its number.
static SENT: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
/// Messages that were sent; and how many of them count.
static COUNT: AtomicU64 = AtomicU64::new(0);
static COUNTED: AtomicU64 = AtomicU64::new(0);
/// Messages that were found; how late all together, and the latest one.
static FOUND: AtomicU64 = AtomicU64::new(0);
static LATE: AtomicU64 = AtomicU64::new(0);
static LATEST: AtomicU64 = AtomicU64::new(0);
/// The receiver's poll; 0: nobody needs to look any more.
static POLL: AtomicU64 = AtomicU64::new(WINDOW);

struct Calls;

impl Kernel for Calls {
    fn now_ticks(&mut self) -> u64 {
        call::counter_ticks()
    }

    fn switch(&mut self, _: Who, _: u64, _: u64, _: u64) -> Result<(), Code> {
        Err(Code::Denied)
    }

    fn events(&mut self, _: Option<u64>) -> Result<Event, Code> {
        Err(Code::Denied)
    }

    fn send(&mut self, _: u64) -> Result<(), Code> {
        interface::invoke(way(), [0; 8]).map(|_| ())
    }

    fn rest(&mut self) {}
}

bulkhead_component::export! {
    /// Notifies by the record that the caller's capability names: 0 if it was sent, 1 if it was held back.
    fn notify(token) {
        let record = usize::try_from(token).ok().and_then(|number| RECORDS.get(number));
        match record.map(|record| record.notify(&mut Calls)) {
            Some(Ok(Sent::Now)) => 0,
            Some(Ok(Sent::Limited { .. })) => 1,
            _ => 2,
        }
    }
}

fn main(windows: u64) {
    if windows == 0 {
        return hear();
    }
    for (limit, maximum) in (0..).zip((1..=6).map(|tens| 10 * tens)) {
        for poll in POLLS {
            send(windows, limit, maximum, poll);
        }
    }
    POLL.store(0, Ordering::Relaxed);
}

fn wait_until(date: u64) {
    while call::counter_ticks() < date {}
}

/// Sends in all windows and some behind them, whose first messages end the waiting of those before.
fn send(windows: u64, limit: u64, maximum: u64, poll: u64) {
    for (word, value) in [(&COUNTED, windows * SENDS), (&FOUND, 0), (&LATE, 0), (&LATEST, 0), (&COUNT, 0)] {
        word.store(value, Ordering::Relaxed);
    }
    POLL.store(poll, Ordering::Relaxed);
    // The receiver has this distance from its next look on, and all windows before are over.
    let start = (call::counter_ticks() / (AGAIN * WINDOW) + 2) * AGAIN * WINDOW;
    let mut passed = 0;
    for number in 0..(windows + AGAIN) * SENDS {
        wait_until(start + DISTANCE / 2 + number * DISTANCE);
        if let Some(sent) = SENT.get(number as usize % SENT.len()) {
            sent.store(call::counter_ticks(), Ordering::Relaxed);
        }
        COUNT.store(number + 1, Ordering::Release);
        let answer = interface::invoke(imports::notify::slot() + limit, [0; 8]);
        passed += u64::from(number < windows * SENDS && answer.is_ok_and(|[answer, ..]| answer == 0));
    }
    wait_until(start + (windows + 2 * AGAIN) * WINDOW);
    let [found, late, latest] = [&FOUND, &LATE, &LATEST].map(|word| word.load(Ordering::Relaxed));
    println!("limit {maximum} poll {poll}: {found} found, {passed} passed, late {late} in all, latest {latest}");
}

/// Takes what is there whenever it is woken.
fn hear() {
    let mut next = 0;
    loop {
        let period = POLL.load(Ordering::Relaxed);
        if period == 0 {
            return;
        }
        let _ = call::receive(told(), Poll::new(period).deadline_ticks(call::counter_ticks()));
        let now = call::counter_ticks();
        let there = COUNT.load(Ordering::Acquire);
        if there < next {
            next = 0;
        }
        while next < there {
            let sent = SENT.get(next as usize % SENT.len()).map_or(0, |sent| sent.load(Ordering::Relaxed));
            if next < COUNTED.load(Ordering::Relaxed) {
                FOUND.fetch_add(1, Ordering::Relaxed);
                LATE.fetch_add(now - sent, Ordering::Relaxed);
                LATEST.fetch_max(now - sent, Ordering::Relaxed);
            }
            next += 1;
        }
    }
}
