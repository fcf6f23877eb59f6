//! Messages of doubled sizes from one component to another one through a port of 4 KiB (QV-E9). Two components of this program are the ends. The port is memory of the one that receives: who
//! sends calls it with eight words at a time, on its own thread and time, and signals that the port is full; the other one adds up what is there, and signals that it was taken. A message
//! that is larger goes in pieces.
//!
//! The lowest byte of a thread's argument says what it does, and the rest how many messages of each size there are. Nothing is printed before what is measured.
#![no_std]
#![no_main]

use bulkhead_component::{call, interface, println};
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

bulkhead_component::entry!(main);

mod imports {
    bulkhead_component::import! {
        /// Puts eight words into the other one's port; answers how many are in it, or all ones.
        pub fn put(a, b, c, d, e, f, g, h);
    }
}

bulkhead_component::slots! {
    /// Where it is told.
    told;
    /// Whom it tells.
    other;
}

/// Takes what is put into its port.
const RECEIVES: u64 = 0;
/// Sends.
const SENDS: u64 = 1;
/// Computes without a pause beside them, from the first message on.
const COMPUTES: u64 = 2;

/// 100 ms at 62.5 MHz: the distance of two messages.
const PERIOD: u64 = 6_250_000;
/// The first one, and how many sizes there are, each twice the one before: to 256 KiB.
const SMALLEST_BYTES: u64 = 64;
const SIZES: usize = 13;
/// Words of a call, and of the port.
const CALL_WORDS: usize = 8;
const PORT_WORDS: usize = 512;
const WORD_BYTES: u64 = 8;
/// Pieces of one message of each size.
const PIECES: u64 = 7 + 2 + 4 + 8 + 16 + 32 + 64;

static PORT: [AtomicU64; PORT_WORDS] = [const { AtomicU64::new(0) }; PORT_WORDS];
static USED: AtomicU64 = AtomicU64::new(0);

bulkhead_component::export! {
    /// Puts eight words into the port.
    fn put(_token, a, b, c, d, e, f, g, h) {
        let used = USED.load(Ordering::Relaxed);
        let Some(room) = PORT.get(used as usize..).and_then(<[AtomicU64]>::first_chunk::<CALL_WORDS>) else {
            return u64::MAX;
        };
        for (place, word) in room.iter().zip([a, b, c, d, e, f, g, h]) {
            place.store(word, Ordering::Relaxed);
        }
        let used = used + CALL_WORDS as u64;
        USED.store(used, Ordering::Relaxed);
        used
    }
}

fn main(argument: u64) {
    let times = argument >> 8;
    match argument & 0xff {
        RECEIVES => receive(times),
        SENDS => send(times),
        COMPUTES => compute(times),
        other => println!("mail: {other} is nothing that it does"),
    }
}

/// When the first message is sent: the same date for everybody who asks when it begins.
fn first() -> u64 {
    (call::counter_ticks() / PERIOD + 2) * PERIOD
}

/// Adds a word to a sum in which the order counts.
fn added(sum: u64, word: u64) -> u64 {
    sum.rotate_left(1).wrapping_add(word)
}

fn receive(times: u64) {
    let mut sum = 0;
    for _ in 0..times * PIECES {
        if call::receive(told(), 0).is_err() {
            return;
        }
        let used = USED.swap(0, Ordering::Relaxed) as usize;
        sum = PORT.iter().take(used).fold(sum, |sum, word| added(sum, word.load(Ordering::Relaxed)));
        if interface::invoke(other(), [0; 8]).is_err() {
            return;
        }
    }
    println!("received: sum {sum}");
}

/// Puts a piece into the port; returns the next word, and what all add up to, or nothing if it was refused.
fn put_piece(bytes: u64, mut word: u64, mut sum: u64) -> Option<(u64, u64)> {
    for _ in 0..bytes / (CALL_WORDS as u64 * WORD_BYTES) {
        let words: [u64; CALL_WORDS] = core::array::from_fn(|place| word + place as u64);
        sum = words.iter().fold(sum, |sum, word| added(sum, *word));
        word += CALL_WORDS as u64;
        match interface::invoke(imports::put::slot(), words) {
            Ok([u64::MAX, ..]) | Err(_) => return None,
            Ok(_) => {}
        }
    }
    interface::invoke(other(), [0; 8]).ok()?;
    call::receive(told(), 0).ok()?;
    Some((word, sum))
}

fn send(times: u64) {
    let port_bytes = PORT_WORDS as u64 * WORD_BYTES;
    let mut took = [[u64::MAX, 0, 0]; SIZES];
    let (mut date, mut word, mut sum) = (first(), 1, 0);
    for _ in 0..times {
        for (size, took) in took.iter_mut().enumerate() {
            // The end of a sleep is a deadline that has passed.
            let _ = call::receive(0, date);
            let mut left = SMALLEST_BYTES << size;
            while left > 0 {
                let piece = core::cmp::min(left, port_bytes);
                let Some(next) = put_piece(piece, word, sum) else { return println!("mail: refused") };
                (word, sum) = next;
                left -= piece;
            }
            let ticks = call::counter_ticks() - date;
            let [least, most, all] = *took;
            *took = [core::cmp::min(least, ticks), core::cmp::max(most, ticks), all + ticks];
            date += PERIOD;
        }
    }
    for (size, [least, most, all]) in took.into_iter().enumerate() {
        println!("{} bytes: {least} {most} {all}", SMALLEST_BYTES << size);
    }
    println!("sent: sum {sum}");
}

/// Never waits, until a while after the last message.
fn compute(times: u64) {
    let first = first();
    let _ = call::receive(0, first);
    let end = first + (times * SIZES as u64 + 1) * PERIOD;
    let mut rounds = 0_u64;
    while call::counter_ticks() < end {
        rounds = black_box(rounds + 1);
    }
    println!("shell: {rounds} rounds");
}
