//! How many instructions the kernel takes from one thread to another (rows 4, 5, 8 and 9 of its numbers), by the counter: with `-icount shift=4` each
//! instruction is one tick. The lowest byte of a thread's argument is its role and the rest how often it is counted.
//!
//! Slot 1 receives from the one end point, slot 2 sends to it, slot 3 ends the receiver, slot 4 is the interrupt.
#![no_std]
#![no_main]

mod looks;
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
        SENDS_TO_MORE => signals::to_more(times),
        ANSWERS => signals::answer(),
        DRIVES => signals::drive(times, None),
        DRIVES_FOR_CLIENT => signals::drive(times, Some(CLIENT)),
        LOOKS => looks::until_over(),
        COMES_BACK => looks::count("came_back", times),
        FOLLOWS => looks::count("used_up", times),
        _ => println!("no such role"),
    }
}

/// Smallest, largest and sum of what was counted.
struct Range {
    least: u64,
    most: u64,
    sum: u64,
    times: u64,
}

impl Range {
    const EMPTY: Self = Self { least: u64::MAX, most: 0, sum: 0, times: 0 };

    fn add(&mut self, one: u64) {
        let Self { least, most, sum, times } = *self;
        *self = Self { least: least.min(one), most: most.max(one), sum: sum + one, times: times + 1 };
    }

    fn print(&self, name: &str) {
        let Self { least, most, sum, times } = self;
        println!("bench {name} min={least} max={most} sum={sum} n={times}");
    }
}

/// All is counted: the others end as well.
fn end() {
    IS_OVER.store(1, Ordering::Relaxed);
}
