//! Attacks an instance of the real-time kernel by the channel that is a wire for that one, with all that a partition has: it is no kernel, so no word of what it writes is one
//! that a wire has. It writes all of the source's area by every width, aligned or not, without a look at what the other end does, and calls doorbells by every number.
//!
//! `first=N last=N` are numbers of attacks of `tests/hostile-kernel`, which take turns of some rounds, `rounds=N` of them in all. Each round rings the channel's doorbell `rings=N` times
//! (default 1). With `faults=1` it faults at the end, so that the next life, if the system allows one, does the same.
//!
//! ```text
//! stranger: 10000 rounds, 400 rung, 39600 held back, 0 strange, in 6250000 ticks
//! ```
#![no_std]
#![no_main]

use bulkhead_sdk::abi::plan::PortInformation;
use bulkhead_sdk::guest_abi::channel::CHANNEL_WRITER_OFFSET;
use bulkhead_sdk::hypercall::{self, CallError, Doorbell};
use bulkhead_sdk::{arguments, cpu, information, println};

bulkhead_sdk::entry!(main);

/// Rounds of an attack before the next one's.
const ROUNDS_EACH: u64 = 16;
/// Bytes of a wire's page that have a meaning: incarnation and write index, what is known to be read, and from [`ENTRIES`] on two words for each of [`ROOM`] entries.
const USED: u64 = ENTRIES + ROOM * 16;
const READ: u64 = 8;
const ENTRIES: u64 = 64;
const ROOM: u64 = 16;
/// What is exported: the first signal, by its bit.
const EXPORT: u64 = 0;
const BITS: u64 = 2;

/// The area that this end writes.
struct Area {
    start: u64,
    bytes: u64,
}

impl Area {
    /// Writes the lowest `width` bytes of a value, at any place.
    fn write(&self, offset: u64, width: u64, value: u64) {
        let place = self.start + offset % (self.bytes - 8);
        // SAFETY: eight bytes from there on are in the window's own area, which stage 2 lets this guest write; nothing else of it refers to them, and who reads them believes nothing.
        unsafe {
            match width {
                1 => (place as *mut u8).write_volatile(value as u8),
                // In assembly, since these may be unaligned: a word that others see in pieces is meant.
                2 => {
                    core::arch::asm!("strh {value:w}, [{place}]", value = in(reg) value, place = in(reg) place, options(nostack))
                }
                4 => {
                    core::arch::asm!("str {value:w}, [{place}]", value = in(reg) value, place = in(reg) place, options(nostack))
                }
                _ => {
                    core::arch::asm!("str {value}, [{place}]", value = in(reg) value, place = in(reg) place, options(nostack))
                }
            }
        }
    }

    /// All entries alike.
    fn entries(&self, index: u64, bits: u64) {
        for entry in 0..ROOM {
            self.write(ENTRIES + entry * 16, 8, index);
            self.write(ENTRIES + entry * 16 + 8, 8, bits);
        }
    }

    /// A new incarnation with a full ring.
    fn full(&self, round: u64) {
        self.write(READ, 8, 0);
        self.write(0, 8, round << 32 | ROOM);
    }
}

/// splitmix64, of a word and a number.
fn mixed(word: u64, with: u64) -> u64 {
    let word = word.wrapping_add(with.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

fn attack(area: &Area, number: u64, round: u64) {
    match number {
        // Exports that there are not, another wire's among them, and bits that are not exported, a full ring each time.
        390 => {
            for entry in 0..ROOM {
                let (index, bits) = match (round + entry) % 4 {
                    0 => (EXPORT, u64::MAX),
                    1 => (EXPORT, 1),
                    2 => (1, 1),
                    _ => (mixed(round, entry) >> (entry * 4) | 1, u64::MAX),
                };
                area.write(ENTRIES + entry * 16, 8, index);
                area.write(ENTRIES + entry * 16 + 8, 8, bits);
            }
            area.full(round);
        }
        // Pieces of words, at any byte of what has a meaning; no entry has an export in its upper half.
        391 => {
            for piece in 0..64 {
                let random = mixed(round << 8 | piece, number);
                area.write(random % USED, 1 << (random >> 60 & 3), mixed(random, piece));
            }
            area.entries(1 << 63 | mixed(round, number), u64::MAX);
        }
        // Another write index and another incarnation while the first one is taken: this core does not stop when it has rung.
        392 => {
            area.entries(u64::MAX, BITS);
            for step in 0..ROUNDS_EACH {
                area.write(READ, 8, mixed(step, round));
                area.write(0, 8, mixed(round, step));
            }
        }
        // Doorbells by each number that there may be, and by some that there cannot be.
        393 => {}
        // All that can be sent, again and again in new incarnations.
        394 | 396 => {
            area.entries(EXPORT, BITS);
            area.full(round);
        }
        // Anything anywhere in all of the area. Who is lucky has an export.
        _ => {
            for piece in 0..64 {
                let random = mixed(round << 8 | piece, number);
                area.write(random >> 8, 1 << (random & 3), mixed(random, piece));
            }
            area.entries(u64::MAX, BITS);
        }
    }
}

/// Rings doorbells that are not its own; how many of them the monitor took.
fn ring_others(port: &PortInformation, round: u64) -> u64 {
    let numbers = (0..32).chain((0..32).map(|bit| 1 << bit)).chain([u32::MAX - round as u32]);
    let others = numbers.filter(|number| *number != port.doorbell);
    let is_taken = |number| {
        cpu::yield_now();
        hypercall::doorbell(number) != Err(CallError::InvalidParameters)
    };
    others.map(|number| u64::from(is_taken(number))).sum()
}

fn main() {
    let text = information::arguments();
    let number = |key, default| arguments::number(text, key).unwrap_or(default);
    let Some(port) = information::port("up") else { return println!("stranger FAILED: no channel") };
    let area = Area { start: port.window.0 + CHANNEL_WRITER_OFFSET, bytes: port.window_bytes - CHANNEL_WRITER_OFFSET };
    let (first, last, rings) = (number("first", 395), number("last", 395), number("rings", 1));
    let numbers = last.saturating_sub(first) + 1;
    let begun = cpu::counter_ticks();
    let (rounds, mut rung, mut limited, mut strange) = (number("rounds", 1000), 0_u64, 0_u64, 0);
    for round in 1..=rounds {
        let attacked = first + round / ROUNDS_EACH % numbers;
        attack(&area, attacked, round);
        for _ in 0..rings {
            match hypercall::doorbell(port.doorbell) {
                Ok(Doorbell::Sent) => rung += 1,
                Ok(Doorbell::Limited) => limited += 1,
                Err(_) => strange += 1,
            }
            // It is another core's turn.
            cpu::yield_now();
        }
        if attacked == 393 {
            strange += ring_others(port, round);
        }
    }
    let ticks = cpu::counter_ticks() - begun;
    println!("stranger: {rounds} rounds, {rung} rung, {limited} held back, {strange} strange, in {ticks} ticks");
    if number("faults", 0) == 1 {
        // SAFETY: nothing is there: the access does not come back.
        let _ = unsafe { bulkhead_sdk::mmio::read32(0) };
    }
}
