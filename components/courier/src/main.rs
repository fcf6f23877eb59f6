//! Takes numbered messages of one port and sends as many by another one, numbered by itself: what comes from one partition goes to another one, in order.
//!
//! It is woken by the doorbell of its inbox and looks after 10 ms in any case, since the channel's limiter may hold a doorbell back. The argument says how many
//! messages there are; each life of the sender numbers its own from 1 on.
#![no_std]
#![no_main]

use bulkhead_component::driver::interrupt_done;
use bulkhead_component::port::{Notified, QueuingDestination, QueuingSource, ReceiveError, SendError};
use bulkhead_component::{Code, call, println};

bulkhead_component::entry!(main);

bulkhead_component::ports! {
    /// Where messages come from.
    inbox: QueuingDestination;
    /// Where they go.
    outbox: QueuingSource;
}

bulkhead_component::slots! {
    /// Where the inbox's doorbell is signalled.
    arrived;
    /// That doorbell.
    bell;
}

/// Room for any message.
const MESSAGE_BYTES: usize = 4032;

/// The most messages, or mistakes, that one look takes: as many as there is room for in the tests' channels.
const EACH_LOOK: u64 = 16;

/// Counts messages and mistakes. What wakes it early does not make it look more often than its server lets it.
fn suspicious(inbox: &mut QueuingDestination, looks: u64, ticks: u64) {
    let (mut messages, mut mistakes, mut doorbells) = (0_u64, 0_u64, 0_u64);
    let mut buffer = [0; MESSAGE_BYTES];
    let first = call::counter_ticks();
    for look in 1..=looks {
        // Doorbells come as they like; the next look by the clock comes all the same.
        while let Ok((_, count)) = call::receive(arrived(), first + look * ticks) {
            doorbells += count;
            for _ in 0..EACH_LOOK {
                match inbox.receive(&mut buffer) {
                    Ok(_) => messages += 1,
                    Err(ReceiveError::Empty | ReceiveError::PeerClosed) => break,
                    Err(_) => mistakes += 1,
                }
            }
            let _ = interrupt_done(bell());
        }
    }
    println!("courier: took {messages}, {mistakes} mistakes, {doorbells} doorbells");
}

/// Sends as much as one look lets it, whatever the other end says, and counts what it is told.
fn insistent(outbox: &mut QueuingSource, looks: u64, ticks: u64) {
    let (mut sent, mut full, mut mistakes, mut others) = (0_u64, 0_u64, 0_u64, 0_u64);
    let first = call::counter_ticks();
    for look in 1..=looks {
        for number in 0..EACH_LOOK {
            match outbox.send(&number.to_le_bytes()) {
                Ok(_) => sent += 1,
                Err(SendError::Full) => full += 1,
                Err(SendError::Corrupt(_)) => mistakes += 1,
                Err(_) => others += 1,
            }
        }
        // The end of a sleep is a deadline that has passed.
        let _ = call::receive(0, first + look * ticks);
    }
    println!("courier: {sent} sent, {full} full, {mistakes} mistakes, {others} others");
}

/// What has happened.
#[derive(Default)]
struct Counts {
    messages: u64,
    /// Further lives of the sender.
    lives: u64,
    doorbells: u64,
    /// The number that the next message of this life has.
    next: u64,
}

fn main(argument: u64) {
    let (Ok(mut inbox), Ok(mut outbox)) = (inbox::open(), outbox::open()) else {
        return println!("courier: its ports cannot be opened");
    };
    let look = call::version().map_or(0, |version| version.counter_hz / 100);
    let mut counts = Counts { next: 1, ..Counts::default() };
    // Whatever rang before this life began; there may be nothing.
    let _ = interrupt_done(bell());
    if argument >> 32 != 0 && argument & 1 == 1 {
        return insistent(&mut outbox, argument >> 32, look);
    } else if argument >> 32 != 0 {
        return suspicious(&mut inbox, argument >> 32, look);
    }
    let mut buffer = [0; MESSAGE_BYTES];
    while counts.messages < argument {
        match inbox.receive(&mut buffer) {
            Ok(message) => {
                let number = message.payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                if number != Some(counts.next) {
                    return println!("courier: message {number:?} in the place of {}", counts.next);
                }
                let number = counts.messages + 1;
                loop {
                    match outbox.send(&number.to_le_bytes()) {
                        Ok(Notified::Rung | Notified::NoDoorbell) => break,
                        // Who takes from the other end takes its time.
                        Err(SendError::Full) => {
                            let _ = call::receive(0, call::counter_ticks() + look);
                        }
                        other => return println!("courier: {other:?}"),
                    }
                }
                counts.next += 1;
                counts.messages += 1;
            }
            Err(ReceiveError::PeerReset { .. }) => (counts.lives, counts.next) = (counts.lives + 1, 1),
            Err(ReceiveError::Empty | ReceiveError::PeerClosed) => {
                match call::receive(arrived(), call::counter_ticks() + look) {
                    Ok((_, count)) => {
                        counts.doorbells += count;
                        let _ = interrupt_done(bell());
                    }
                    Err(Code::TimedOut) => {}
                    Err(code) => return println!("courier: {code:?}"),
                }
            }
            Err(error) => return println!("courier: {error}"),
        }
    }
    let Counts { messages, lives, doorbells, .. } = counts;
    let was_woken = doorbells > 0 && doorbells <= messages;
    println!("courier: {messages} messages, {lives} more lives, woken {was_woken}");
}
