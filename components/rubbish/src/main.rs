//! Attacks another instance by the channel between them, which that one believes to be a wire, or has as a port: writes what no kernel and no honest source writes, and rings. The argument has the
//! numbers of the first attack (15:0) and the last one (31:16) of `tests/hostile-kernel`, and of rounds (63:32). They take turns of some rounds; without a number of rounds it begins when the other one
//! says so, and ends when it does.
//!
//! What a kernel writes into a wire no component can write. Here the same channel is a port of this component, so all that its partition could do is done from EL0.
#![no_std]
#![no_main]

use bulkhead_component::port::Notified;
use bulkhead_component::{Code, call, mixed, println};
use bulkhead_kernel_abi::call::{Call, Flag};
use bulkhead_kernel_abi::image::COMPONENT_PORTS;
use core::arch::asm;

bulkhead_component::entry!(main);

bulkhead_component::ports! {
    /// The channel.
    there: QueuingSource;
}

bulkhead_component::slots! {
    /// When to begin, and when to end.
    told;
}

/// The page that this end writes: behind the peer's status and the destination's page.
const PAGE: u64 = COMPONENT_PORTS + 2 * 4096;
const WORDS: u64 = 4096 / 8;
/// Words of a wire: incarnation and write index, what is known to be read, and two for each entry.
const WRITTEN: u64 = 0;
const READ: u64 = 1;
const ENTRIES: u64 = 8;
const ROOM: u64 = 16;
/// Words of a port's source: magic, kind and bytes of a message, slots, incarnation (upper half), messages written; then slots, each with number, time and length.
const MAGIC: u64 = 0;
const INCARNATION: u64 = 3;
const MESSAGES: u64 = 4;
const SLOTS: u64 = 8;
const LENGTH: u64 = 2;
/// What a source's head begins with.
const HEAD: u64 = u64::from_le_bytes(*b"BHCHANW1");
/// What is exported: the first signal, by its bit.
const EXPORT: u64 = 0;
const BITS: u64 = 2;

/// Rounds of an attack before the next one's.
const ROUNDS_EACH: u64 = 16;

/// The running number of an attack's round, from 1 on.
type Round = u64;

fn write(word: u64, value: u64) {
    let place = core::ptr::with_exposed_provenance_mut::<u64>((PAGE + word % WORDS * 8) as usize);
    // SAFETY: a word of the page of the channel that the description gives this component to write; nothing else of this program refers to it, but for the
    // port, which does nothing but ring.
    unsafe { place.write_volatile(value) };
}

/// All entries alike.
fn entries(index: u64, bits: u64) {
    for entry in 0..ROOM {
        write(ENTRIES + 2 * entry, index);
        write(ENTRIES + 2 * entry + 1, bits);
    }
}

/// An incarnation, and how many entries it has written.
fn written(epoch: u64, index: u64) {
    write(WRITTEN, epoch << 32 | index & 0xffff_ffff);
}

/// A new incarnation with a full ring.
fn full(round: Round) {
    write(READ, 0);
    written(round, ROOM);
}

/// On the emulator the other core looks at what is here now.
fn others_turn() {
    // SAFETY: a hint: it is another core's turn.
    unsafe { asm!("yield", options(nostack, preserves_flags)) };
}

fn attack(number: u64, round: Round) {
    match number {
        // Further ahead than a ring is long: each time by as much.
        330 => {
            entries(EXPORT, BITS);
            write(READ, 0);
            written(1, round * (ROOM + 1));
        }
        // Behind what was read.
        331 => {
            entries(EXPORT, BITS);
            write(READ, 0);
            written(1, 0_u64.wrapping_sub(round));
        }
        // No incarnation.
        332 => {
            entries(EXPORT, BITS);
            written(0, round * ROOM);
        }
        // Exports that there are not.
        333 => {
            entries(1 << (round % 64), BITS);
            full(round);
        }
        // Bits that are not exported, beside one that is, and none.
        334 => {
            entries(EXPORT, if round.is_multiple_of(2) { 0 } else { BITS | 1 << (round % 64) | 1 << 63 });
            full(round);
        }
        // Rings without a word.
        335 | 363 => {}
        // All that can be sent, again and again in new incarnations.
        336 => {
            entries(EXPORT, BITS);
            full(round);
        }
        // A new incarnation that says to be read up to anywhere.
        337 => {
            entries(EXPORT, BITS);
            let read = mixed(round, number);
            entries(EXPORT, BITS);
            write(READ, read);
            written(round, read + round % (2 * ROOM));
        }
        // Of a port: how many messages there are, far ahead of and far behind what was taken.
        360 => write(MESSAGES, mixed(round, number) >> (round % 64)),
        // A new incarnation with one message, numbered as it must be, and longer than a slot, or with another checksum.
        361 => {
            write(SLOTS, 1);
            write(SLOTS + LENGTH, if round.is_multiple_of(2) { u64::MAX >> (round % 32) } else { 8 });
            write(MAGIC, HEAD);
            write(MESSAGES, 1);
            write(INCARNATION, round << 32);
        }
        // Another head at each look.
        362 => {
            for change in 0..ROUNDS_EACH {
                write(INCARNATION, mixed(round, change) << 32);
                others_turn();
                write(MESSAGES, mixed(change, round) % ROOM);
                others_turn();
                write(MAGIC, if change.is_multiple_of(2) { HEAD } else { 0 });
                others_turn();
            }
        }
        // Anything anywhere.
        _ => {
            for word in 0..64 {
                let random = mixed(round << 8 | word, number);
                write(random, mixed(random, word) >> (random % 64));
            }
        }
    }
}

/// States whether the other one has signalled.
fn is_told() -> bool {
    let flags = Flag::All.number() | Flag::NoWait.number();
    call::call::<{ Call::Receive.number() }>([told(), flags, 0, 0, 0, 0, 0, 0])[0] == Code::Ok.number()
}

fn main(argument: u64) {
    let Ok(port) = there::open() else { return println!("rubbish: no channel") };
    let most = argument >> 32;
    if most == 0
        && let Err(code) = call::receive(told(), 0)
    {
        return println!("rubbish: {code:?}");
    }
    let (first, last) = (argument & 0xffff, argument >> 16 & 0xffff);
    let numbers = last.saturating_sub(first) + 1;
    let (mut rounds, mut rung) = (0, 0_u64);
    while if most == 0 { !is_told() } else { rounds < most } {
        rounds += 1;
        attack(first + rounds / ROUNDS_EACH % numbers, rounds);
        rung += u64::from(port.ring() == Notified::Rung);
        others_turn();
    }
    println!("rubbish: {rounds} rounds, {rung} rung");
}
