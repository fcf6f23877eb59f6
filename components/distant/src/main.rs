//! Messages to another core by a port without a doorbell, and a signal by a wire behind each of them, whose doorbell the monitor's limiter may hold back (CH-E8, CH-31, CH-38, CH-40). A
//! thread's argument says what it does: 0 hears and polls, and any other one is the number of windows in which it sends 50 messages each, for each limit and poll.
//!
//! The sender reads in the accounts how many doorbells were held back in each window, and compares with the limit. The receiver compares each message with what it must be. Nothing
//! is said of time: cores of an emulated machine take turns.
#![no_std]
#![no_main]

use bulkhead_component::port::QueuingSource;
use bulkhead_component::{Code, call, interface, mixed, println};
use bulkhead_kernel_abi::MAX_WIRES;
use bulkhead_rt::Poll;

bulkhead_component::entry!(main);

bulkhead_component::accounts!(used);

bulkhead_component::ports! {
    /// What the other end sends.
    inbox: QueuingDestination;
    /// What is sent to it.
    outbox: QueuingSource;
}

bulkhead_component::slots! {
    /// Where the receiver is signalled.
    told;
    /// The wire of the first limit; the others are behind it.
    way;
}

/// The window of the limits: 16 ms. Between two sends both ends do all that they have to, which takes some 10,000 instructions.
const WINDOW: u64 = 1_000_000;
/// Evenly in a window, the first one half a distance behind its beginning.
const SENDS: u64 = 50;
const DISTANCE: u64 = WINDOW / SENDS;
/// Doorbells of each wire in a window.
const LIMITS: [u64; 6] = [10, 20, 30, 40, 50, 60];
/// Distances of polls; 0 ends the receiver.
const POLLS: [u64; 3] = [WINDOW / 5, WINDOW / 2, 2 * WINDOW];
const END: u64 = 0;
/// Windows in which the other instance starts.
const STARTS: u64 = 4;
/// What is under way behind the last message has come after this time: 2 ms.
const LATE: u64 = 125_000;

fn main(windows: u64) {
    let done = if windows == 0 { hear() } else { send(windows) };
    if let Err(why) = done {
        println!("distant: {why}");
    }
}

/// Doorbells that were held back so far, of all wires.
fn held_back() -> Result<u64, &'static str> {
    let pages = used::pages();
    (0..MAX_WIRES)
        .try_fold(0, |sum, wire| Some(sum + pages.wire(wire)?.limited))
        .ok_or("the accounts change all the time")
}

/// A message: its number, the receiver's poll, and a word that both ends know.
fn message(number: u64, poll: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    for (place, word) in bytes.chunks_exact_mut(8).zip([number, poll, mixed(number, poll)]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Sleeps until a date, and half a distance at least: so the other core has its turn behind each signal, also when its last one was long.
fn sleep_until(date: u64) {
    let date = date.max(call::counter_ticks() + DISTANCE / 2);
    while call::counter_ticks() < date {
        let _ = call::receive(0, date);
    }
}

/// What the sender has done.
struct Sender {
    outbox: QueuingSource,
    /// Messages.
    sent: u64,
    /// Signals that had room.
    signals: u64,
}

impl Sender {
    /// Sends a message and a signal behind it.
    fn send(&mut self, poll: u64, way: u64) -> Result<(), &'static str> {
        self.outbox.send(&message(self.sent, poll)).map_err(|_| "no room for a message")?;
        self.sent += 1;
        self.signal(way)
    }

    fn signal(&mut self, way: u64) -> Result<(), &'static str> {
        match interface::invoke(way, [0; 8]) {
            Ok(_) => self.signals += 1,
            Err(Code::Busy) => {}
            Err(_) => return Err("a signal is refused"),
        }
        Ok(())
    }

    /// The messages of one window; how many doorbells the limiter let pass in it.
    fn window(&mut self, start: u64, poll: u64, way: u64) -> Result<u64, &'static str> {
        let before = held_back()?;
        for number in 0..SENDS {
            sleep_until(start + DISTANCE / 2 + number * DISTANCE);
            self.send(poll, way)?;
        }
        if call::counter_ticks() >= start + WINDOW {
            return Err("a window was too short");
        }
        Ok(SENDS - (held_back()? - before))
    }

    /// All windows, for each limit and poll, from this one on.
    fn all(&mut self, windows: u64, mut start: u64) -> Result<(), &'static str> {
        for (way, limit) in (way()..).zip(LIMITS) {
            let (mut passed, mut wrong) = (0, 0_u64);
            for poll in POLLS {
                for _ in 0..windows {
                    let in_window = self.window(start, poll, way)?;
                    passed += in_window;
                    wrong += u64::from(in_window != limit.min(SENDS));
                    start += WINDOW;
                }
                // In a new window one passes, which tells of all that wait for a doorbell.
                sleep_until(start + DISTANCE / 2);
                self.signal(way)?;
                start += WINDOW;
            }
            println!("limit {limit}: {passed} passed, {wrong} windows with more or less");
        }
        Ok(())
    }
}

/// Sends all of it.
fn send(windows: u64) -> Result<(), &'static str> {
    let mut sender = Sender { outbox: outbox::open().map_err(|_| "no outbox")?, sent: 0, signals: 0 };
    let start = (call::counter_ticks() / WINDOW + STARTS) * WINDOW;
    let done = sender.all(windows, start);
    // The other end waits for it, also when something went wrong.
    sleep_until(call::counter_ticks() + WINDOW);
    sender.send(END, way())?;
    println!("sent: {} messages, {} signals", sender.sent, sender.signals);
    done
}

fn hear() -> Result<(), &'static str> {
    let mut inbox = inbox::open().map_err(|_| "no inbox")?;
    let (mut found, mut wrong, mut taken, mut looks) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut poll, mut is_over, mut bytes) = (WINDOW, false, [0; 24]);
    loop {
        let now = call::counter_ticks();
        let deadline = if is_over { now + LATE } else { Poll::new(poll).deadline_ticks(now) };
        match call::receive(told(), deadline) {
            Ok((_, count)) => taken += count,
            Err(Code::TimedOut) if is_over => break,
            Err(Code::TimedOut) => looks += 1,
            Err(_) => return Err("no wait"),
        }
        while let Ok(there) = inbox.receive(&mut bytes) {
            poll = there
                .payload
                .get(8..16)
                .and_then(|word| word.first_chunk())
                .map_or(END, |word| u64::from_le_bytes(*word));
            wrong += u64::from(there.payload != message(found, poll).as_slice());
            found += 1;
            is_over |= poll == END;
        }
    }
    println!("heard: {found} messages, {wrong} wrong, {taken} signals, {looks} looks of its own");
    Ok(())
}
