//! Touches pages 4,160 bytes apart, of data and of text, and says what a round takes: 1, 2, 4 to 512 of them. The argument has the number of rounds from bit 8 on; bit 0 says
//! that each round reads a register of the UART as well, which is an exit where a monitor stands in for it.
#![no_std]
#![no_main]

use bulkhead_component::{call, println};
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU64, Ordering};

bulkhead_component::entry!(main);

bulkhead_component::devices! {
    /// The UART.
    uart;
}

/// Most pages.
const MOST: u64 = 512;
/// A page and a cache line in words: each touch is in another set of what a core would remember.
const STEP: usize = 4160 / 8;
/// Flags of the UART: reading them changes nothing.
const UARTFR: u64 = 0x18;

static DATA: [AtomicU64; MOST as usize * STEP] = [const { AtomicU64::new(0) }; MOST as usize * STEP];

// Stops 4,160 bytes apart: each counts x0 down, and goes to the next one or back.
global_asm!(
    ".section .text.stops, \"ax\"",
    ".balign 64",
    "stops_of_text:",
    ".rept {most}",
    "subs x0, x0, #1",
    "b.ne 1f",
    "ret",
    "1: b . + 4148",
    ".skip 4144",
    ".endr",
    "ret",
    most = const MOST,
);

fn touch_data(pages: u64) {
    for word in DATA.iter().step_by(STEP).take(pages as usize) {
        word.fetch_add(1, Ordering::Relaxed);
    }
}

fn touch_text(pages: u64) {
    // SAFETY: the stops above: they change x0 and the flags, and come back to the link register after at most as many as there are.
    unsafe { asm!("bl stops_of_text", inout("x0") pages.clamp(1, MOST) => _, out("lr") _, options(nostack)) };
}

/// Digits have one width, so that as much is printed however long a round takes.
fn count(name: &str, pages: u64, rounds: u64, exits: bool, touch: fn(u64)) {
    // Each page is known before what is counted.
    touch(pages);
    let (mut least, mut most, mut sum) = (u64::MAX, 0, 0);
    for _ in 0..rounds {
        let before = call::counter_ticks();
        touch(pages);
        if exits {
            let _ = uart::registers().read32(UARTFR);
        }
        let ticks = call::counter_ticks() - before;
        (least, most, sum) = (least.min(ticks), most.max(ticks), sum + ticks);
    }
    println!("bench {name}_{pages} min={least:012} max={most:012} sum={sum:012} n={rounds:012}");
}

fn main(argument: u64) {
    let (rounds, exits) = (argument >> 8, argument & 1 == 1);
    let mut pages = 1;
    while pages <= MOST {
        count("data", pages, rounds, exits, touch_data);
        count("text", pages, rounds, exits, touch_text);
        pages *= 2;
    }
}
