//! One end of a queue between partitions: sends as fast as its work lets it, or takes and works (QV-52).
//!
//! What it does follows from its port, as with the guest `listener`. A source works, then sends the time at which it sends; when the
//! queue is full it looks again, as computing guests do. A destination takes messages and works for each; it looks again when there is
//! none, or with `sleeps=1` waits for its doorbell. Work is a fixed number of instructions of the guest's own, so the rate says how much
//! time each end had.
//!
//! Arguments: `work=N` (instructions for each message, default 1000), `period_us=N` (a source sends at dates of this distance and sleeps
//! in between; default 0, always), `start_us=N` and `end_us=N` (in microseconds of the machine's counter). The last line says how many
//! messages there were between start and end and the shortest time from one to the next, and for a destination the least and longest time
//! from a message's sending to its taking.
#![no_std]
#![no_main]

use bulkhead_sdk::{
    arguments,
    channel::{ReceiveError, SendError},
    cpu,
    guest_abi::{guest::DIRECTION_SOURCE, name_text},
    information,
    interrupt::{self, InterruptId},
    port::{QueuingDestination, QueuingSource},
    println, timer,
};
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

bulkhead_sdk::entry!(main);

const DEFAULT_WORK: u64 = 1000;
const MICROSECONDS_PER_SECOND: u64 = 1_000_000;
/// Instructions of a turn of [`work`]'s loop.
const LOOP_INSTRUCTIONS: u64 = 2;
/// Room for any message here.
const MESSAGE_BYTES: usize = 64;

/// An interrupt came since the last look.
static IS_AWAKE: AtomicBool = AtomicBool::new(false);

struct Settings {
    work: u64,
    period_ticks: u64,
    start_ticks: u64,
    end_ticks: u64,
    sleeps: bool,
}

impl Settings {
    fn read() -> Self {
        let text = information::arguments();
        let number = |key, default| arguments::number(text, key).unwrap_or(default);
        let ticks = |us: u64| cpu::frequency_hz() * us / MICROSECONDS_PER_SECOND;
        Self {
            work: number("work", DEFAULT_WORK),
            period_ticks: ticks(number("period_us", 0)),
            start_ticks: ticks(number("start_us", 0)),
            end_ticks: ticks(number("end_us", MICROSECONDS_PER_SECOND)),
            sleeps: number("sleeps", 0) != 0,
        }
    }
}

fn main() {
    let settings = Settings::read();
    let Some(port) = information::ports().first() else {
        println!("stream failed: the partition has no port");
        return;
    };
    interrupt::on_interrupt(take_interrupt);
    interrupt::start();
    timer::enable_interrupt();
    if port.interrupt != 0 {
        interrupt::enable(InterruptId(port.interrupt));
    }
    println!("stream start");
    cpu::unmask_interrupts();
    let name = name_text(&port.name);
    if port.direction == DIRECTION_SOURCE { send(name, &settings) } else { receive(name, &settings) }
}

fn take_interrupt(id: InterruptId) {
    if id == interrupt::VIRTUAL_TIMER {
        timer::stop();
    }
    IS_AWAKE.store(true, Relaxed);
}

/// Sleeps until an interrupt or a date.
fn sleep_until(date: u64) {
    timer::set_compare_ticks(date);
    cpu::wait_until(|| IS_AWAKE.swap(false, Relaxed) || cpu::counter_ticks() >= date);
    timer::stop();
    cpu::unmask_interrupts();
}

/// Shortest time from a message to the next one: what one takes when nothing comes between.
struct Pace {
    last: u64,
    least: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { last: 0, least: u64::MAX }
    }
}

impl Pace {
    fn note(&mut self, now: u64) {
        self.least = self.least.min(now - self.last);
        self.last = now;
    }
}

/// Own work, in instructions.
#[inline(never)]
fn work(instructions: u64) {
    // SAFETY: counts a register down.
    unsafe {
        asm!(
            "2:", "subs {count}, {count}, #1", "b.ne 2b",
            count = inout(reg) (instructions / LOOP_INSTRUCTIONS).max(1) => _,
            options(nomem, nostack),
        );
    }
}

fn send(name: &str, settings: &Settings) {
    let Ok(mut source) = QueuingSource::open(name) else {
        println!("stream failed: the port cannot be opened");
        return;
    };
    let (mut sent, mut full, mut date) = (0u64, 0u64, settings.start_ticks);
    let mut pace = Pace::default();
    while cpu::counter_ticks() < settings.start_ticks {
        sleep_until(settings.start_ticks);
    }
    while cpu::counter_ticks() < settings.end_ticks {
        if settings.period_ticks != 0 {
            date += settings.period_ticks;
            while cpu::counter_ticks() < date {
                sleep_until(date);
            }
        }
        work(settings.work);
        let now = cpu::counter_ticks();
        pace.note(now);
        let message = now.to_le_bytes();
        while let Err(SendError::Full) = source.send(&message) {
            full += 1;
            if cpu::counter_ticks() >= settings.end_ticks {
                break;
            }
        }
        sent += 1;
    }
    println!("stream sent={sent} full={full} each={}", pace.least);
}

fn receive(name: &str, settings: &Settings) {
    let Ok(mut destination) = QueuingDestination::open(name) else {
        println!("stream failed: the port cannot be opened");
        return;
    };
    let mut buffer = [0; MESSAGE_BYTES];
    let (mut received, mut least, mut longest) = (0u64, u64::MAX, 0u64);
    let mut pace = Pace::default();
    while cpu::counter_ticks() < settings.end_ticks {
        match destination.receive(&mut buffer) {
            Ok(message) => {
                let now = cpu::counter_ticks();
                pace.note(now);
                let sent = message.payload.first_chunk().map_or(now, |bytes| u64::from_le_bytes(*bytes));
                if now >= settings.start_ticks {
                    received += 1;
                    least = least.min(now - sent);
                    longest = longest.max(now - sent);
                }
                work(settings.work);
            }
            Err(ReceiveError::Empty | ReceiveError::PeerClosed | ReceiveError::PeerReset { .. }) if settings.sleeps => {
                sleep_until(settings.end_ticks);
            }
            Err(_) => {}
        }
    }
    println!("stream received={received} least={least} longest={longest} each={}", pace.least);
}
