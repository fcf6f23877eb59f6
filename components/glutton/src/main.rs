//! Attacks who sends to it: its page of a channel says what no honest destination says about what it has taken. The argument has the numbers of the first attack (15:0) and the last one (31:16) of
//! `tests/hostile-kernel`, and how many milliseconds it lasts (63:32). They take turns of some milliseconds.
//!
//! The channel is a port of this component, and its program does not ask for it: it writes words where the window is.
#![no_std]
#![no_main]

use bulkhead_component::{call, mixed, println};
use bulkhead_kernel_abi::image::COMPONENT_PORTS;
use core::arch::asm;

bulkhead_component::entry!(main);

/// The page that this end writes: behind the peer's status; and where the source says which incarnation it is.
const PAGE: u64 = COMPONENT_PORTS + 4096;
const SOURCE: u64 = COMPONENT_PORTS + 2 * 4096;
const WORDS: u64 = 4096 / 8;
/// Words of a destination: magic, messages read, incarnation (upper half) that they are of. Of a source: its incarnation (upper half), messages written.
const MAGIC: u64 = 0;
const READ: u64 = 1;
const INCARNATION: u64 = 2;
const SOURCES_INCARNATION: u64 = 3;
const WRITTEN: u64 = 4;
/// What a destination's head begins with.
const HEAD: u64 = u64::from_le_bytes(*b"BHCHANR1");

/// Milliseconds of an attack before the next one's; who sends looks each 10 ms.
const EACH_MS: u64 = 7;
/// Changes of a round, and messages that there may be.
const CHANGES: u64 = 16;

fn write(word: u64, value: u64) {
    let place = core::ptr::with_exposed_provenance_mut::<u64>((PAGE + word % WORDS * 8) as usize);
    // SAFETY: a word of the page of the channel that the description gives this component to write; nothing else of this program refers to it.
    unsafe { place.write_volatile(value) };
}

/// A word of what the source says.
fn source(word: u64) -> u64 {
    let place = core::ptr::with_exposed_provenance::<u64>((SOURCE + word * 8) as usize);
    // SAFETY: a word of the source's first page, which this component reads.
    unsafe { place.read_volatile() }
}

/// A destination that has opened its end, of the source's incarnation, and has read as many messages.
fn has_read(messages: u64) {
    write(READ, messages);
    write(INCARNATION, source(SOURCES_INCARNATION) >> 32 << 32);
    write(MAGIC, HEAD);
}

/// On the emulator the other core looks at what is here now.
fn others_turn() {
    // SAFETY: a hint: it is another core's turn.
    unsafe { asm!("yield", options(nostack, preserves_flags)) };
}

fn attack(number: u64, round: u64) {
    match number {
        // More than there are, fewer than it said before, and any number.
        365 => has_read(mixed(round, number) >> (round % 64)),
        // All that there are, at once: nothing was looked at.
        366 => has_read(source(WRITTEN)),
        // Another head and another incarnation at each look.
        367 => {
            for change in 0..CHANGES {
                write(INCARNATION, mixed(round, change) << 32);
                others_turn();
                has_read(mixed(change, round) % CHANGES);
                others_turn();
                write(MAGIC, if change.is_multiple_of(2) { HEAD } else { 0 });
                others_turn();
            }
        }
        // Anything anywhere, of an end that is open, and more often where its head is.
        _ => {
            has_read(source(WRITTEN));
            for word in 0..16 {
                let random = mixed(round << 8 | word, number);
                write(random % (8 << (word % 7)), mixed(random, word) >> (random % 64));
                others_turn();
            }
        }
    }
}

fn main(argument: u64) {
    let Ok(version) = call::version() else { return };
    let (first, last) = (argument & 0xffff, argument >> 16 & 0xffff);
    let (begin, millisecond) = (call::counter_ticks(), version.counter_hz / 1000);
    let numbers = last.saturating_sub(first) + 1;
    let mut round = 0;
    loop {
        let passed = (call::counter_ticks() - begin) / millisecond;
        if passed >= argument >> 32 {
            break;
        }
        round += 1;
        attack(first + passed / EACH_MS % numbers, round);
        others_turn();
    }
    println!("glutton: {round} rounds");
}
