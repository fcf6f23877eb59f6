//! Uses the DMA of its own functions, QEMU's `edu`, an NVMe controller and a virtio disk, against everything that it is told the address of, and
//! what it shares with another partition for virtio against that one.
//!
//! Arguments: `targets=ADDRESS,ADDRESS...` (device addresses, hexadecimal), `pages=NUMBER,NUMBER...` (more of them, hexadecimal, from 0x4000_0000
//! on), `bytes=N` (of each transfer, at most 2048, default 64), `ram=N`
//! (bytes of its own, default 16 MiB), and `attack=`:
//!
//! - none: first it shows that its weapon works, its own RAM is written and read back by DMA. Then, for each target and for places at the
//!   edges of its own RAM and of the address space, the function writes there and reads from there. A read that brings back anything
//!   but what was in the function's buffer before, or zeros, is a leak; what a write did is for others to see, in the memory that it
//!   was aimed at. With `disk=1` and 4 MiB an NVMe controller stores a page at each target, too.
//! - `space`: it writes all of configuration space by every width, moves its base addresses to the targets, and switches mastering off and on under
//!   a transfer.
//! - `tables`: each start touches one of the targets, which are no registers of its own.
//! - `flight`: see [`flight`].
//! - `late`: it ends (`ending=fault`, `off` or `reset`) while its function is about to write.
//! - `flood`: `transfers=N` refused ones by all its functions at the same time.
//! - `front`, `aim`, `honest`: see [`front`], for which it has fronts of virtio and no function.
//! - `back`, `ring`: see [`back`], for which it serves other partitions' devices, or has some.
//! - `held`: ends while the line of its disk is high, in four ways (`line=N`, `own=N`).
//! - `line`: `count=N` interrupts that it never acknowledges, or with `drop=1` raises and takes back, on line `line=N`.
//!
//! ```text
//! intruder: own RAM written and read
//! intruder: 0x40200000 write done, read nothing
//! intruder: 12 targets tried, 0 leaked
//! ```
//!
//! `edu` has no reset, so a partition that owns one is started once.
#![no_std]
#![no_main]

mod back;
mod bus;
mod disk;
mod edu;
mod flight;
mod front;
mod line;
mod raw;
mod virtio;

use bulkhead_sdk::guest_abi::guest::GUEST_RAM;
use bulkhead_sdk::{arguments, cpu, hypercall, information, println, psci};
use core::ops::Range;
use disk::Disk;
use edu::Edu;

bulkhead_sdk::entry!(main);

/// Nothing of this guest is there.
const NOWHERE: u64 = 0x2f00_0000;

fn main() {
    let text = information::arguments();
    let attack = arguments::value(text, "attack");
    match attack {
        Some("flight") => return flight::run(text),
        Some("held") => return line::held(text),
        Some("tables") => return touch_tables(text),
        Some("front") => return front::run(text),
        Some("aim") => return front::aim(text),
        Some("honest") => return front::be_honest(),
        Some("back") => return back::run(text),
        Some("ring") => return back::ring(text),
        _ => {}
    }
    let Some(function) = Edu::find() else {
        println!("intruder: no edu on the bus");
        return;
    };
    if !function.shows_itself() {
        println!("intruder: own RAM is out of reach");
        return;
    }
    println!("intruder: own RAM written and read");
    match attack {
        Some("space") => attack_space(text, function),
        Some("late") => {
            function.write_later(GUEST_RAM.0 + number(text, "ram", 0) / 2);
            end(text);
        }
        Some("flood") => flood(text),
        Some("line") => line::run(text, function),
        _ => attack_targets(text, function),
    }
}

fn number(text: &str, key: &str, default: u64) -> u64 {
    arguments::number(text, key).unwrap_or(default)
}

/// The targets that it was told, by address and by page.
fn targets(text: &str) -> impl Iterator<Item = u64> {
    let told = |key| arguments::value(text, key).unwrap_or("").split(',');
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let pages = told("pages").filter_map(number).map(|page| GUEST_RAM.0 + (page << 12));
    told("targets").filter_map(number).chain(pages)
}

/// Tries the targets, then edges: across both ends of its RAM, unaligned before it, and where addresses wrap.
fn attack_targets(text: &str, function: Edu) {
    let bytes = number(text, "bytes", 64).clamp(1, edu::BUFFER_BYTES);
    let ram: Range<u64> = GUEST_RAM.0..GUEST_RAM.0 + number(text, "ram", 16 << 20);
    let edges = [ram.start - 32, ram.end - 32, ram.end - 1, ram.end, ram.start - 4093, u64::MAX - 31, 1 << 63, 0];
    let (mut tried, mut leaked) = (0, 0);
    for target in targets(text).chain(edges) {
        tried += 1;
        leaked += u64::from(function.attack(target, bytes, &ram));
    }
    if arguments::value(text, "disk").is_some() {
        tried += attack_with_disk(text);
    }
    println!("intruder: {tried} targets tried, {leaked} leaked");
}

/// Lets an NVMe controller store a page of its disk at each target; returns how many it tried. What came of it is for others to see: a
/// controller may give its queue up after the first one that is refused.
fn attack_with_disk(text: &str) -> u32 {
    let Some(mut nvme) = disk::Nvme::find(flight::NVME_MEMORY) else { return 0 };
    if !nvme.begin() {
        println!("intruder: the disk does not answer");
        return 0;
    }
    // The owner of the functions looks at 16 refusals at a time: those before are not to hide these.
    let pause = |seconds: u64| {
        let until = cpu::counter_ticks() + seconds * cpu::frequency_hz();
        while cpu::counter_ticks() < until {
            cpu::yield_now();
        }
    };
    pause(1);
    let mut tried = 0;
    for target in targets(text) {
        // The superblock of ext4 and what follows: not zeros.
        nvme.ask(2, target & !0xfff, 4096);
        tried += 1;
    }
    pause(1);
    tried
}

/// H7, H11, H12, H17. Its functions are the same afterwards, at the same places, and reach what they reached.
fn attack_space(text: &str, function: Edu) {
    let before = bus::digest();
    let accesses = bus::sweep();
    println!(
        "intruder: {} functions after {accesses} accesses, changed={}",
        bus::present().count(),
        before != bus::digest()
    );
    function.masters_again();
    let own = GUEST_RAM.0;
    let moved = targets(text).map(|target| (target, false)).chain([(own, true)]);
    let moved = moved.filter(|(target, is_own)| function.moves_to(*target, *is_own)).count();
    println!("intruder: base addresses moved={moved} changed={}", before != bus::digest());
    let leaked = targets(text).filter(|target| function.attack_while_toggled(*target, 64)).count();
    println!("intruder: leaked={leaked} while mastering was toggled");
    // With messages as interrupts one would be sent now.
    function.raise();
    function.acknowledge();
    println!("intruder: weapon works={}", function.shows_itself());
}

/// H8: one target each start; it is no register of this guest's, so to touch it is a fault.
fn touch_tables(text: &str) {
    let start = generation(text);
    let mut all = targets(text);
    let Some(target) = all.nth(start as usize - 1) else {
        println!("intruder: touched all before start {start}");
        return;
    };
    println!("intruder: start {start} touches {target:#x}");
    raw::write(target, 4, 0x0808_0040);
    println!("intruder: {target:#x} is THERE");
}

fn flood(text: &str) {
    let target = targets(text).next().unwrap_or(0);
    let transfers = number(text, "transfers", 1);
    (0..transfers).for_each(|_| Edu::flood(target));
    println!("intruder: {transfers} floods over");
}

/// Which start this is, from 1 on.
fn generation(text: &str) -> u64 {
    hypercall::partition_status(number(text, "own", 0) as u32).map_or(1, |status| status.generation)
}

/// Ends as it is told to.
fn end(text: &str) {
    match arguments::value(text, "ending") {
        Some("off") => psci::system_off(),
        Some("reset") => psci::system_reset(),
        Some("panic") => panic!("with DMA under way"),
        Some("fault") => _ = raw::read(NOWHERE, 4),
        // Somebody else ends it.
        _ => loop {
            bulkhead_sdk::cpu::yield_now();
        },
    }
}
