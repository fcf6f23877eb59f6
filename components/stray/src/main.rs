//! A driver that aims the DMA of its device at what is not its own: the kernel's text, its tables, and the pages around those for DMA, which are other
//! components' and tables. The device is QEMU's for teaching (docs/specs/edu.txt), which copies between memory and a buffer of its own, to any address.
//!
//! It prints where its pages are for devices, and what it tried; whether anything came of it is for others to see.
#![no_std]
#![no_main]

use bulkhead_component::driver::Registers;
use bulkhead_component::{call, println};

bulkhead_component::entry!(main);

bulkhead_component::devices! {
    /// Registers of the device.
    edu;
    /// Its configuration space.
    configuration;
}

bulkhead_component::dma!(memory);

/// From, to, how much, and the command: 32 bits of each are enough for addresses of this board.
const FROM: u64 = 0x80;
const TO: u64 = 0x88;
const COUNT: u64 = 0x90;
const COMMAND: u64 = 0x98;
const RUN: u32 = 1;
const TO_MEMORY: u32 = 2;
/// Where the device sees its own buffer.
const BUFFER: u32 = 0x4_0000;
/// What is copied.
const BYTES: u32 = 64;
/// Command register of PCI: memory, and mastering.
const PCI_COMMAND: u64 = 4;
const MEMORY_AND_MASTER: u32 = 6;
const PATTERN: u64 = 0x5712_a75e_c0de_0000;
/// Second half of the first page.
const SECOND: u64 = 2048;
const PAGE: u64 = 4096;

/// Copies, and waits until it is done: the device takes its time, 100 ms.
fn copy(edu: Registers, from: u32, to: u32, direction: u32, hz: u64) {
    edu.write32(FROM, from);
    edu.write32(TO, to);
    edu.write32(COUNT, BYTES);
    edu.write32(COMMAND, RUN | direction);
    while edu.read32(COMMAND) & RUN != 0 {
        let _ = call::receive(0, call::counter_ticks() + hz / 20);
    }
}

fn main(argument: u64) {
    let (edu, memory) = (edu::registers(), memory::place());
    configuration::registers().write32(PCI_COMMAND, MEMORY_AND_MASTER);
    let hz = call::version().map_or(1, |version| version.counter_hz);
    for word in 0..u64::from(BYTES) / 8 {
        memory.write(word * 8, PATTERN + word);
        memory.write(SECOND + word * 8, 0);
    }
    let own = memory.physical();
    // In, and out again to another place of its own: that is what it may do.
    copy(edu, own as u32, BUFFER, 0, hz);
    copy(edu, BUFFER, (own + SECOND) as u32, TO_MEMORY, hz);
    let came = (0..u64::from(BYTES) / 8).filter(|word| memory.read(SECOND + word * 8) == PATTERN + word).count();
    println!("stray: pages at {own:#x}, {came} words came back");
    // The kernel's text, and what is in front of and behind its own pages, of which the argument is the number.
    let targets = [0x4008_0000, 0x4000_0000, own - PAGE, own - BYTES as u64, own + argument * PAGE];
    for target in targets {
        copy(edu, BUFFER, target as u32, TO_MEMORY, hz);
    }
    println!("stray: tried {}", targets.len());
}
