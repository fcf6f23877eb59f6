//! Uses the one port of its partition until N messages went through, checks their order, and says so.
//!
//! What it does follows from the port: a queuing source sends numbered messages, a queuing destination takes them and
//! expects every number in turn, a sampling destination reads newest values and expects their first word never to go
//! back. A destination looks when its doorbell rings, and each 10 ms in case the limiter held the doorbell back. So the
//! last line says that all arrived, and how many doorbells it took (that number depends on time). Arguments:
//! `messages=N` (default 100), `greedy=1` (a destination looks at its doorbell alone, never by time), `faults=1` (a
//! source waits until everything was taken, and ends by a fault: the partition's policy acts).
#![no_std]
#![no_main]

use bulkhead_sdk::{
    abi::plan::PortInformation,
    arguments,
    channel::{ReceiveError, SampleError, SendError},
    cpu,
    guest_abi::{channel::PORT_SAMPLING, guest::DIRECTION_SOURCE, name_text},
    information,
    interrupt::{self, InterruptId, VIRTUAL_TIMER},
    port::{QueuingDestination, QueuingSource, SamplingDestination},
    println, timer,
};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

bulkhead_sdk::entry!(main);

const DEFAULT_MESSAGES: u64 = 100;
/// Looks per second without a doorbell.
const LOOKS_PER_SECOND: u64 = 100;
/// An address at which no partition has anything.
const NOWHERE: usize = 0x1000;
/// Room for any message.
const MESSAGE_BYTES: usize = 4032;

static DOORBELLS: AtomicU64 = AtomicU64::new(0);
static IS_AWAKE: AtomicBool = AtomicBool::new(false);

fn main() {
    let Some(port) = information::ports().first() else {
        println!("listener failed: the partition has no port");
        return;
    };
    let messages = arguments::number(information::arguments(), "messages").unwrap_or(DEFAULT_MESSAGES);
    interrupt::on_interrupt(take_interrupt);
    interrupt::start();
    timer::enable_interrupt();
    if port.interrupt != 0 {
        interrupt::enable(InterruptId(port.interrupt));
    }
    println!("listener start, port {}", name_text(&port.name));
    let outcome = match (port.direction == DIRECTION_SOURCE, port.kind == PORT_SAMPLING) {
        (true, true) => Err("a sampling source is the controller's affair"),
        (true, false) => send(port, messages, arguments::number(information::arguments(), "faults") == Some(1)),
        (false, true) => sample(port, messages),
        (false, false) => receive(port, messages),
    };
    timer::stop();
    match outcome {
        Ok(what) => println!("listener {what} {messages} in order"),
        Err(why) => println!("listener failed: {why}"),
    }
    println!("doorbells {}", DOORBELLS.load(Ordering::Relaxed));
}

fn take_interrupt(id: InterruptId) {
    if id == VIRTUAL_TIMER {
        timer::stop();
    } else {
        DOORBELLS.fetch_add(1, Ordering::Relaxed);
    }
    IS_AWAKE.store(true, Ordering::Relaxed);
}

/// Sleeps until the doorbell rings or it is time to look.
fn wait() {
    if arguments::number(information::arguments(), "greedy") != Some(1) {
        timer::set_compare_ticks(cpu::counter_ticks() + cpu::frequency_hz() / LOOKS_PER_SECOND);
    }
    cpu::wait_until(|| IS_AWAKE.swap(false, Ordering::Relaxed));
}

fn send(port: &PortInformation, messages: u64, faults: bool) -> Result<&'static str, &'static str> {
    let mut source = QueuingSource::open(name_text(&port.name)).map_err(|_| "the port cannot be opened")?;
    let all = source.free();
    let mut number = 1;
    while number <= messages {
        match source.send(&number.to_le_bytes()) {
            Ok(_) => number += 1,
            Err(SendError::Full) => wait(),
            Err(_) => return Err("the destination's memory is rubbish"),
        }
    }
    if faults {
        while source.free() < all {
            wait();
        }
        println!("listener sent {messages} and faults");
        // SAFETY: none: nothing is there, and the store must not come back.
        unsafe { core::ptr::with_exposed_provenance_mut::<u64>(NOWHERE).write_volatile(0) };
    }
    Ok("sent")
}

fn receive(port: &PortInformation, messages: u64) -> Result<&'static str, &'static str> {
    let mut destination = QueuingDestination::open(name_text(&port.name)).map_err(|_| "the port cannot be opened")?;
    let mut buffer = [0; MESSAGE_BYTES];
    let mut expected = 1;
    while expected <= messages {
        match destination.receive(&mut buffer) {
            Ok(message) if first_word(message.payload) == Some(expected) => expected += 1,
            Ok(_) => return Err("a message is missing or came twice"),
            Err(ReceiveError::Empty | ReceiveError::PeerClosed | ReceiveError::PeerReset { .. }) => wait(),
            Err(_) => return Err("the source's memory is rubbish"),
        }
    }
    Ok("received")
}

fn sample(port: &PortInformation, messages: u64) -> Result<&'static str, &'static str> {
    let mut destination = SamplingDestination::open(name_text(&port.name)).map_err(|_| "the port cannot be opened")?;
    let mut buffer = [0; MESSAGE_BYTES];
    let mut newest = 0;
    while newest < messages {
        match destination.read(&mut buffer) {
            Ok(sample) => {
                let value = first_word(sample.message.payload).ok_or("a value is too short")?;
                if value < newest {
                    return Err("an old value came after a newer one");
                }
                newest = value;
            }
            Err(SampleError::NoValue | SampleError::PeerClosed | SampleError::PeerReset { .. }) => {}
            Err(_) => return Err("the source's memory is rubbish"),
        }
        if newest < messages {
            wait();
        }
    }
    Ok("saw values up to")
}

fn first_word(payload: &[u8]) -> Option<u64> {
    payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
