//! DMA in flight when its partition ends (H12 to H14). Each start finds its functions, makes them masters of the bus by its first
//! instructions, and watches its memory before it does anything else with them: whatever is not zero there was written for an
//! earlier start. Then it uses a block of each 2 MiB of its RAM, asks for a MiB of each disk, and ends. The last start waits for
//! what it asked for, and then tries the places right beside its RAM, and its targets, with translations of all of it in use.
//!
//! Arguments: `starts=N`, `own=N` (its own number), `watch_ms=N` (how long it watches).
//!
//! ```text
//! intruder: start 1, memory clean
//! intruder: start 1, asked
//! intruder: start 4, 2 disks read right
//! intruder: 4 targets refused
//! ```

use crate::disk::{BUFFER, Disk, Nvme, TRANSFER_BYTES, Virtio};
use crate::raw::{first_that_is_set, read};
use crate::{end, generation, number, targets};
use bulkhead_sdk::guest_abi::guest::GUEST_RAM;
use bulkhead_sdk::{cpu, println};

/// Memory of the disks, behind the image.
pub(crate) const NVME_MEMORY: u64 = GUEST_RAM.0 + (2 << 20);
const VIRTIO_MEMORY: u64 = NVME_MEMORY + DISK_BYTES;
const DISK_BYTES: u64 = 2 << 20;
/// Blocks of translation.
const BLOCK_BYTES: u64 = 2 << 20;
/// What warms a block: one page, the last of it but for the image's own block, whose end nobody uses either.
const PAGE_BYTES: u64 = 4096;

pub(crate) fn run(text: &str) {
    let (mut nvme, mut virtio) = (Nvme::find(NVME_MEMORY), Virtio::find(VIRTIO_MEMORY));
    let start = generation(text);
    let disks = || [NVME_MEMORY, VIRTIO_MEMORY];
    let until = cpu::counter_ticks() + number(text, "watch_ms", 10) * cpu::frequency_hz() / 1000;
    let mut dirt = None;
    while dirt.is_none() && cpu::counter_ticks() < until {
        dirt = disks().iter().find_map(|memory| first_that_is_set(*memory, DISK_BYTES));
    }
    match dirt {
        None => println!("intruder: start {start}, memory clean"),
        Some(place) => println!("intruder: start {start}, DIRTY at {place:#x}"),
    }
    let ram = GUEST_RAM.0..GUEST_RAM.0 + number(text, "ram", 8 << 20);
    let used = u32::from(nvme.is_some()) + u32::from(virtio.is_some());
    let mut each = |what: &mut dyn FnMut(&mut dyn Disk) -> bool| {
        let first = nvme.as_mut().map(|disk| what(disk));
        let second = virtio.as_mut().map(|disk| what(disk));
        [first, second].into_iter().flatten().all(|is_good| is_good)
    };
    let warmed = each(&mut |disk| {
        let blocks = ram.clone().step_by(BLOCK_BYTES as usize);
        let begun = disk.begin();
        blocks.for_each(|block| disk.ask(0, block + BLOCK_BYTES - PAGE_BYTES, PAGE_BYTES));
        begun && disk.finish()
    });
    each(&mut |disk| {
        disk.ask_for_all();
        true
    });
    println!("intruder: start {start}, asked, warmed={warmed}");
    if start < number(text, "starts", 1) {
        return end(text);
    }
    let is_right = each(&mut |disk| disk.finish() && is_pattern(disk.memory() + BUFFER));
    println!("intruder: start {start}, {used} disks, right={is_right}");
    // From here on a queue may be given up by its device.
    let beside = [ram.end, ram.start - PAGE_BYTES];
    let mut refused = 0;
    for target in beside.into_iter().chain(targets(text)) {
        each(&mut |disk| {
            disk.ask(0, target, PAGE_BYTES);
            true
        });
        refused += 1;
    }
    let until = cpu::counter_ticks() + cpu::frequency_hz() / 100;
    while cpu::counter_ticks() < until {
        cpu::yield_now();
    }
    println!("intruder: {refused} targets tried");
}

/// What the test wrote to the disks: each word says where it is.
fn is_pattern(buffer: u64) -> bool {
    (0..TRANSFER_BYTES).step_by(8).all(|offset| read(buffer + offset, 8) == offset ^ 0x5aa5_5aa5_5aa5_5aa5)
}
