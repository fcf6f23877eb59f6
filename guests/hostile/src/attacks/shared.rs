//! Garbage in what others read: console ring header and channel memory.

use crate::attack::{Attack, Expectation, Outcome};
use bulkhead_sdk::{
    abi::plan::PortInformation,
    cpu,
    guest_abi::{
        channel::{CHANNEL_READER_OFFSET, CHANNEL_WRITER_OFFSET, SLOTS_OFFSET, WRITER_MAGIC},
        guest::DIRECTION_SOURCE,
    },
    hypercall, information,
};

/// Hostile values of a 64-bit word.
const VALUES: [u64; 5] = [u64::MAX, 0, 0x8000_0000_0000_0000, 0x0000_0001_0000_0001, 0xa5a5_5a5a_dead_beef];

fn fill(address: u64, bytes: u64, value: u64) {
    for offset in (0..bytes).step_by(8) {
        // SAFETY: callers give memory that this guest may write and that holds no object of this program.
        unsafe { ((address + offset) as *mut u64).write_volatile(value) };
    }
}

fn ring_doorbell(port: &PortInformation) {
    if port.doorbell != u32::MAX {
        // Whether the limiter lets it through does not matter: readers also poll.
        let _ = hypercall::doorbell(port.doorbell);
    }
    for _ in 0..1000 {
        cpu::yield_now();
    }
}

fn ports(direction_is_source: bool) -> impl Iterator<Item = &'static PortInformation> {
    information::ports().iter().filter(move |port| (port.direction == DIRECTION_SOURCE) == direction_is_source)
}

/// A source that writes rubbish over header and slots.
fn garbage_from_source() -> Outcome {
    let mut written = 0;
    for port in ports(true) {
        for value in VALUES {
            fill(port.window.0 + CHANNEL_WRITER_OFFSET, port.window_bytes.saturating_sub(CHANNEL_WRITER_OFFSET), value);
            ring_doorbell(port);
            written += 1;
        }
    }
    if written == 0 { Outcome::skipped("no source port") } else { Outcome::contained("rounds", written) }
}

/// A well-formed header with a count that runs away and slots whose checksum is wrong.
fn lying_source() -> Outcome {
    let Some(port) = ports(true).next() else {
        return Outcome::skipped("no source port");
    };
    let base = port.window.0 + CHANNEL_WRITER_OFFSET;
    fill(base, 64, 0);
    let words = [
        WRITER_MAGIC,
        u64::from(port.kind) | (u64::from(port.message_bytes) << 32),
        u64::from(port.slots) | (1 << 32),
        3,
    ];
    for (offset, word) in (0..).step_by(8).zip(words) {
        fill(base + offset, 8, word);
    }
    for count in [1, u64::from(port.slots), u64::MAX / 2, u64::MAX] {
        fill(base + SLOTS_OFFSET, 24, count);
        fill(base + 32, 8, count);
        ring_doorbell(port);
    }
    Outcome::contained("counts tried", 4)
}

/// A destination that acknowledges what was never sent.
fn garbage_from_destination() -> Outcome {
    let mut written = 0;
    for port in ports(false) {
        for value in VALUES {
            fill(port.window.0 + CHANNEL_READER_OFFSET, 64, value);
            ring_doorbell(port);
            written += 1;
        }
    }
    if written == 0 { Outcome::skipped("no destination port") } else { Outcome::contained("rounds", written) }
}

/// Wrong magic and capacity in the own console ring, then as it was. The count stays, or this result would be lost.
fn console_header() -> Outcome {
    let Some(page) = information::information().filter(|page| page.console.0 != 0) else {
        return Outcome::skipped("no console ring");
    };
    for offset in [0, 8] {
        let word = (page.console.0 + offset) as *mut u64;
        // SAFETY: header words of the own ring, which the ring's writer does not read while it is open; put back below.
        let good = unsafe { word.read_volatile() };
        for value in VALUES {
            fill(page.console.0 + offset, 8, value);
            // Its watchdog does not know that it waits, and each turn of other cores is long.
            let _ = hypercall::heartbeat();
            for _ in 0..1000 {
                cpu::yield_now();
            }
        }
        fill(page.console.0 + offset, 8, good);
    }
    Outcome::contained("values tried", 2 * VALUES.len() as u64)
}

macro_rules! no_effect {
    ($name:literal, $run:expr) => {
        Attack { name: $name, expectation: Expectation::NoEffect, run: $run }
    };
}

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    no_effect!("garbage in a source's area", garbage_from_source),
    no_effect!("a source that lies", lying_source),
    no_effect!("garbage in a destination's page", garbage_from_destination),
    no_effect!("garbage in the console ring's header", console_header),
];
