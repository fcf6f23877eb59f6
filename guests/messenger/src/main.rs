//! A partition that talks with the payload of the secure world (`guests/freertos/talking-world`): it sends on the channel `answers`, and receives
//! on `telemetry`.
//!
//! `role=ping` sends `count=N` messages one by one, waits for the interrupt of the channel, and looks at what came back: the same bytes, inverted.
//! With `again=1` it then asks for a reset, once: the next run continues with the ends where this one stopped.
//! `role=hostile seed=N` writes, `count=N` times, anything anywhere in both pools, counts and rings that are nearly right among it, and now and then
//! what no end can have written. `role=wait` does nothing, without an end; `role=wild` reads memory of the secure world.
//!
//! ```text
//! messenger ping good 200 wrong 0 interrupts 200
//! messenger hostile wrote 2000 rounds
//! ```
#![no_std]
#![no_main]

use bulkhead_sdk::channel::SharedMemory;
use bulkhead_sdk::guest_abi::guest::{DIRECTION_DESTINATION, DIRECTION_SOURCE};
use bulkhead_sdk::interrupt::{self, InterruptId};
use bulkhead_sdk::pool::{self, PoolDestination, PoolError, PoolSource};
use bulkhead_sdk::port::PortError;
use bulkhead_sdk::{arguments, cpu, information, println, psci};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

bulkhead_sdk::entry!(main);

const SECURE_RAM: u64 = 0x0e00_0000;
const MESSAGE_BYTES: usize = 32;
/// Between two rounds of an attacker, so that the payload looks at some of them.
const ROUND_US: u64 = 500;

static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

fn main() {
    let text = information::arguments();
    let count = arguments::number(text, "count").unwrap_or(100);
    let done = match arguments::value(text, "role") {
        Some("ping") => ping(count, arguments::number(text, "again") == Some(1)),
        Some("hostile") => attack(count, arguments::number(text, "seed").unwrap_or(1)),
        Some("wild") => return wild(),
        Some("wait") => return cpu::wait_until(|| false),
        _ => return println!("messenger FAILED: no such role"),
    };
    if let Err(error) = done {
        println!("messenger FAILED: {error}");
    }
}

/// Reads memory of the secure world.
fn wild() {
    println!("messenger reads secure RAM");
    // SAFETY: no memory of this partition: the access does not come back.
    let read = unsafe { bulkhead_sdk::mmio::read32(SECURE_RAM) };
    println!("messenger FAILED: read {read:#x}");
}

fn took(_: InterruptId) {
    INTERRUPTS.fetch_add(1, Relaxed);
}

/// The bytes of a message, and how many they are, follow from its tag.
fn bytes_of(tag: u32) -> ([u8; MESSAGE_BYTES], usize) {
    let mut bytes = [0; MESSAGE_BYTES];
    bytes.iter_mut().zip(tag..).for_each(|(byte, value)| *byte = value as u8);
    (bytes, 1 + tag as usize % MESSAGE_BYTES)
}

fn is_answer(tag: u32, answer: Result<(&[u8], u32), PoolError>) -> bool {
    let (bytes, length) = bytes_of(tag);
    let expected = bytes.iter().take(length).map(|byte| !byte);
    answer.is_ok_and(|(found, found_tag)| found_tag == tag && found.iter().copied().eq(expected))
}

fn ping(count: u64, again: bool) -> Result<(), PortError> {
    let (mut source, mut destination) = (PoolSource::open("answers")?, PoolDestination::open("telemetry")?);
    interrupt::on_interrupt(took);
    interrupt::start();
    if let Some(id) = destination.interrupt() {
        interrupt::enable(id);
    }
    let mut buffer = [0; MESSAGE_BYTES];
    let (mut good, mut wrong) = (0_u64, 0_u64);
    for tag in (1..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
        let (bytes, length) = bytes_of(tag);
        let seen = INTERRUPTS.load(Relaxed);
        source.send(bytes.get(..length).unwrap_or(&bytes), tag)?;
        cpu::wait_until(|| INTERRUPTS.load(Relaxed) != seen);
        let is_good = is_answer(tag, destination.receive(&mut buffer));
        (good, wrong) = (good + u64::from(is_good), wrong + u64::from(!is_good));
    }
    println!("messenger ping good {good} wrong {wrong} interrupts {}", INTERRUPTS.load(Relaxed));
    // How many this end has sent in all runs.
    let is_first = pool::find("answers", DIRECTION_SOURCE)?.1.load(0) <= count;
    if again && is_first {
        psci::system_reset();
    }
    if again {
        println!("messenger went on");
    }
    Ok(())
}

/// splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

fn attack(rounds: u64, mut seed: u64) -> Result<(), PortError> {
    let (_, to, _) = pool::find("answers", DIRECTION_SOURCE)?;
    let (_, from, _) = pool::find("telemetry", DIRECTION_DESTINATION)?;
    let mut sent = 0_u64;
    for _ in 0..rounds {
        for _ in 0..random(&mut seed) % 24 {
            let choice = random(&mut seed);
            let memory = if choice & 1 == 0 { &to } else { &from };
            // Half of it goes to the rings, where messages are that are nearly right: a block of eight, up to 63 bytes.
            let words = if choice & 2 == 0 { 64 } else { memory.words() };
            let value = random(&mut seed);
            let nearly = value & 7 | (value >> 8 & 63) << 16 | value & !0xffff_ffff;
            let values = [value, nearly, nearly, value & 15];
            let place = (choice >> 8) as usize % words.max(1);
            memory.store(place.max(1), values.get((choice >> 2 & 3) as usize).copied().unwrap_or(value));
        }
        // What the other end looks at first: how many were sent to it, and how many it gets back.
        let choice = random(&mut seed);
        let is_nonsense = choice & 0xf0 == 0;
        sent += if is_nonsense { 0 } else { choice & 3 };
        let freed = from.load(0).saturating_sub(choice >> 2 & 3);
        to.store_release(0, if is_nonsense { choice } else { sent });
        from.store_release(8, if choice & 0xf00 == 0 { choice } else { freed });
        let until = cpu::counter_ticks() + cpu::frequency_hz() * ROUND_US / 1_000_000;
        while cpu::counter_ticks() < until {
            cpu::yield_now();
        }
    }
    println!("messenger hostile wrote {rounds} rounds");
    Ok(())
}
