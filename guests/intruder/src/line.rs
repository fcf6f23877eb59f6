//! Storms of a function's own line (H16): never acknowledged, or raised and taken back in a loop; and ends while a disk's line is high.

use crate::disk::{BUFFER, Disk, Virtio};
use crate::edu::Edu;
use crate::raw::read;
use crate::{NOWHERE, generation, number};
use bulkhead_sdk::guest_abi::guest::GUEST_RAM;
use bulkhead_sdk::interrupt::{self, InterruptId};
use bulkhead_sdk::{cpu, println, psci};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

static TAKEN: AtomicU64 = AtomicU64::new(0);
static ENOUGH: AtomicU64 = AtomicU64::new(u64::MAX);

pub(crate) fn run(text: &str, function: Edu) {
    let line = InterruptId(number(text, "line", 0) as u32);
    let count = number(text, "count", 1);
    let drops = number(text, "drop", 0) == 1;
    if !drops {
        ENOUGH.store(count, Relaxed);
    }
    interrupt::on_interrupt(take);
    interrupt::start();
    interrupt::set_edge(line, false);
    interrupt::enable(line);
    cpu::unmask_interrupts();
    println!("intruder: storms");
    let rounds = if drops { count } else { 1 };
    for _ in 0..rounds {
        // Masked, because nobody gets from one instruction to the next under a line that stays high.
        cpu::mask_interrupts();
        function.raise();
        if drops {
            function.acknowledge();
        }
        cpu::unmask_interrupts();
    }
    cpu::wait_until(|| drops);
    println!("intruder: storm over, raised {rounds} times, some taken={}", TAKEN.load(Relaxed) != 0);
}

/// Does nothing about it, so it comes again.
fn take(_: InterruptId) {
    let taken = TAKEN.fetch_add(1, Relaxed) + 1;
    if taken == ENOUGH.load(Relaxed) {
        println!("intruder: storm over, taken {taken} times");
        psci::system_off();
    }
}

/// Memory of the disk, behind the image.
const DISK_MEMORY: u64 = GUEST_RAM.0 + (2 << 20);
/// Bytes that are read of it.
const DISK_BYTES: u64 = 4096;
/// How long nothing may come that is not asked for, in parts of a second.
const QUIET: u64 = 100;
/// Interrupts after which one that nobody acknowledges is enough.
const MANY: u64 = 10;
static START: AtomicU64 = AtomicU64::new(0);
static LINE: AtomicU64 = AtomicU64::new(0);
static REGISTERS: AtomicU64 = AtomicU64::new(0);
/// Starts that end while the line is high, each in another way.
const ENDS: u64 = 4;

/// A disk whose line is high when this instance ends: taken and not ended, ended and taken again, switched off, and masked. Each start first looks
/// whether one comes that it never asked for; the last one uses the disk as it is meant.
pub(crate) fn held(text: &str) {
    let line = InterruptId(number(text, "line", 0) as u32);
    let start = generation(text);
    let Some(mut disk) = Virtio::find(DISK_MEMORY) else { return println!("intruder: no disk") };
    START.store(start, Relaxed);
    LINE.store(line.0.into(), Relaxed);
    REGISTERS.store(disk.registers(), Relaxed);
    interrupt::on_interrupt(take_held);
    interrupt::start();
    interrupt::set_edge(line, false);
    interrupt::enable(line);
    cpu::unmask_interrupts();
    let until = cpu::counter_ticks() + cpu::frequency_hz() / QUIET;
    while cpu::counter_ticks() < until {
        cpu::yield_now();
    }
    println!("intruder: start {start}, early={}", TAKEN.load(Relaxed));
    if start == ENDS {
        cpu::mask_interrupts();
    }
    let is_begun = disk.begin();
    disk.ask(0, DISK_MEMORY + BUFFER, DISK_BYTES);
    let is_done = disk.finish();
    // The first two end in their handlers, which the fourth never enters.
    let until = cpu::counter_ticks() + cpu::frequency_hz();
    let enough = if start == 2 { MANY } else { 1 };
    while start != ENDS && TAKEN.load(Relaxed) < enough && cpu::counter_ticks() < until {
        cpu::yield_now();
    }
    if start <= ENDS {
        psci::system_reset();
    }
    println!("intruder: start {start}, taken={}, right={}", TAKEN.load(Relaxed), is_begun && is_done);
}

fn take_held(_: InterruptId) {
    let taken = TAKEN.fetch_add(1, Relaxed) + 1;
    match START.load(Relaxed) {
        1 => psci::system_reset(),
        2 if taken == MANY => _ = read(NOWHERE, 4),
        2 => {}
        3 => interrupt::disable(InterruptId(LINE.load(Relaxed) as u32)),
        // Its interrupt status: to read it lowers the line.
        _ => _ = read(REGISTERS.load(Relaxed) + Virtio::INTERRUPT_STATUS, 1),
    }
}
