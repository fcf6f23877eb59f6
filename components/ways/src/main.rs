//! How many instructions the kernel takes from one thread to another, and for calls about time (rows 4, 5 and 7 to 11 of its numbers), by the counter: with `-icount shift=4` each
//! instruction is one tick. The lowest byte of a thread's argument is its role and the rest how often it is counted.
//!
//! Slot 1 receives from the one end point, slot 2 sends to it, slot 3 ends the receiver, slot 4 is the interrupt. From slot 5 on are the scheduler and its two
//! threads; from slot 8 on claims on time, or a band.
#![no_std]
#![no_main]

mod calls;
mod computing;
mod looks;
mod scheduled;
mod signals;

use bulkhead_component::println;
use core::sync::atomic::{AtomicU64, Ordering};

bulkhead_component::entry!(main);

/// Sends to a thread of its own server, which waits its turn.
const SENDS_TO_PEER: u64 = 1;
/// Sends to a thread that may not preempt, and sleeps so that it runs.
const SENDS_TO_LESS: u64 = 2;
/// Waits for what these send.
const WAITS: u64 = 3;
/// Sends to a thread that runs at once.
const SENDS_TO_MORE: u64 = 4;
/// Is that one.
const ANSWERS: u64 = 5;
/// Serves the interrupt.
const DRIVES: u64 = 6;
/// Looks at the counter meanwhile.
const LOOKS: u64 = 7;
/// Looks whenever its budget comes back.
const COMES_BACK: u64 = 8;
/// Looks whenever the other one's is used up.
const FOLLOWS: u64 = 9;

/// Serves the interrupt for a client.
const DRIVES_FOR_CLIENT: u64 = 10;
/// Is the scheduler of the two others.
const SCHEDULES: u64 = 11;
/// Gives the core to the other one of the two.
const SWITCHES: u64 = 12;
/// The same, and says nothing.
const SWITCHES_BACK: u64 = 13;
/// Gives time from claim to claim, which have been through one scheduler.
const DELEGATES: u64 = 14;
/// The same through so many that with the kernel's there are 16 words.
const DELEGATES_ALL: u64 = 15;
/// Makes servers.
const CREATES: u64 = 16;
/// Makes the null call, and computes with floating point around it.
const COMPUTES: u64 = 17;
/// Sends to a thread that runs at once, and both compute.
const COMPUTES_AND_SENDS: u64 = 18;
/// Is that one.
const ANSWERS_AND_COMPUTES: u64 = 19;
/// Is the scheduler of the two others, and a part of their server's time is for somebody else.
const DIVIDES_AND_SCHEDULES: u64 = 20;

/// When the one who is counted from ran last.
static FROM: AtomicU64 = AtomicU64::new(0);
/// Nobody needs to look any more.
static IS_OVER: AtomicU64 = AtomicU64::new(0);

const END_POINT: u64 = 1;
const SEND: u64 = 2;
const SEND_END: u64 = 3;
const INTERRUPT: u64 = 4;
/// The client's server.
const CLIENT: u64 = 1;

fn main(argument: u64) {
    let times = argument >> 8;
    match argument & 0xff {
        SENDS_TO_PEER => signals::to_peer(times),
        SENDS_TO_LESS => signals::to_less(times),
        WAITS => signals::wait(),
        SENDS_TO_MORE => signals::to_more(times, || ()),
        ANSWERS => signals::answer(times, signals::receive),
        DRIVES => signals::drive(times, None),
        DRIVES_FOR_CLIENT => signals::drive(times, Some(CLIENT)),
        LOOKS => looks::until_over(),
        COMES_BACK => looks::count("came_back", times),
        FOLLOWS => looks::count("used_up", times),
        SCHEDULES => scheduled::schedule(),
        DIVIDES_AND_SCHEDULES => {
            scheduled::divide();
            scheduled::schedule();
        }
        SWITCHES => scheduled::switch(times, 0),
        SWITCHES_BACK => scheduled::switch(times, 1),
        DELEGATES => calls::delegate(times, 1),
        DELEGATES_ALL => calls::delegate(times, 15),
        CREATES => calls::create(times),
        COMPUTES => computing::null_call(times),
        COMPUTES_AND_SENDS => signals::to_more(times, computing::compute),
        ANSWERS_AND_COMPUTES => signals::answer(times, computing::receive),
        _ => println!("no such role"),
    }
}

/// All is counted: the others end as well.
fn end() {
    IS_OVER.store(1, Ordering::Relaxed);
}
