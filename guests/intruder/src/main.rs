//! Uses the DMA of its own function, QEMU's `edu`, against everything that it is told the address of.
//!
//! Arguments: `targets=ADDRESS,ADDRESS...` (device addresses, hexadecimal), `bytes=N` (of each transfer, at most 2048, default 64), `ram=N`
//! (bytes of its own, default 16 MiB).
//! First it shows that its weapon works: its own RAM is written and read back by DMA. Then, for each target and for places at the
//! edges of its own RAM and of the address space, the function writes there and reads from there. A read that brings back anything
//! but what was in the function's buffer before, or zeros, is a leak; what a write did is for others to see, in the memory that it
//! was aimed at.
//!
//! ```text
//! intruder: own RAM written and read
//! intruder: 0x40200000 write done, read nothing
//! intruder: 12 targets tried, 0 leaked
//! ```
//!
//! A transfer takes `edu` 100 ms. It has no reset, so a partition that owns one is started once.
#![no_std]
#![no_main]

use bulkhead_sdk::guest_abi::guest::{GUEST_ECAM, GUEST_RAM};
use bulkhead_sdk::{arguments, cpu, information, mmio, println};
use core::ops::Range;
use core::sync::atomic::{Ordering::SeqCst, fence};

bulkhead_sdk::entry!(main);

/// Vendor and device of `edu`.
const EDU: u32 = 0x11e8_1234;
/// Devices of the virtual bus that may hold it.
const DEVICES: u64 = 32;
const CONFIGURATION_STRIDE: u64 = 1 << 15;
const COMMAND: u64 = 0x04;
const BASE_ADDRESS_0: u64 = 0x10;
/// Command: memory and bus mastering.
const MEMORY_AND_MASTER: u32 = 6;

/// Registers of `edu` (QEMU docs/specs/edu): where from, where to, how much, go.
const SOURCE: u64 = 0x80;
const DESTINATION: u64 = 0x88;
const COUNT: u64 = 0x90;
const CONTROL: u64 = 0x98;
const RUN: u32 = 1;
/// Direction: from the function's buffer to memory.
const TO_MEMORY: u32 = 2;
/// The function's own buffer, in addresses of its own, as much of it as is used: QEMU 7.2 ends when a transfer touches its last byte.
const BUFFER: u64 = 0x4_0000;
const BUFFER_BYTES: u64 = 2048;
/// Longest wait for a transfer; it takes 100 ms.
const GUARD_SECONDS: u64 = 2;

/// What the function writes everywhere.
const WEAPON: u8 = 0xa5;
/// What is in the function's buffer before it reads.
const BAIT: u8 = 0x3c;

/// Memory of this guest that its function uses, within a page.
#[repr(C, align(4096))]
struct Page([u8; BUFFER_BYTES as usize]);

static mut OWN: Page = Page([0; BUFFER_BYTES as usize]);

fn main() {
    let text = information::arguments();
    let Some(function) = Function::find() else {
        println!("intruder: no edu on the bus");
        return;
    };
    let bytes = arguments::number(text, "bytes").unwrap_or(64).clamp(1, BUFFER_BYTES);
    if !function.shows_itself() {
        println!("intruder: own RAM is out of reach");
        return;
    }
    println!("intruder: own RAM written and read");
    let (mut tried, mut leaked) = (0, 0);
    let ram = GUEST_RAM.0..GUEST_RAM.0 + arguments::number(text, "ram").unwrap_or(16 << 20);
    for target in targets(text, &ram) {
        tried += 1;
        leaked += u64::from(function.attack(target, bytes, &ram));
    }
    println!("intruder: {tried} targets tried, {leaked} leaked");
}

/// The targets that it was told, then edges: across both ends of its RAM, unaligned before it, and where addresses wrap.
fn targets(text: &str, ram: &Range<u64>) -> impl Iterator<Item = u64> {
    let told = arguments::value(text, "targets").unwrap_or("");
    let told = told.split(',').filter_map(|target| u64::from_str_radix(target.trim_start_matches("0x"), 16).ok());
    told.chain([ram.start - 32, ram.end - 32, ram.end - 1, ram.end, ram.start - 4093, u64::MAX - 31, 1 << 63, 0])
}

/// The function, by where its registers are.
struct Function {
    registers: u64,
}

impl Function {
    /// Looks for it, and makes it a master of the bus.
    fn find() -> Option<Self> {
        let spaces = (1..DEVICES).map(|device| GUEST_ECAM.0 + device * CONFIGURATION_STRIDE);
        // SAFETY: configuration space of this guest's bus; a read changes nothing.
        let space = { spaces }.find(|space| unsafe { mmio::read32(*space) } == EDU)?;
        // SAFETY: as above; mastering lets the function write memory, which is what this guest is about.
        let registers = unsafe {
            mmio::write32(space + COMMAND, MEMORY_AND_MASTER);
            u64::from(mmio::read32(space + BASE_ADDRESS_0) & !0xf)
        };
        Some(Self { registers })
    }

    /// Lets the function copy, and waits for its end.
    fn transfer(&self, source: u64, destination: u64, bytes: u64, direction: u32) {
        // The function sees what was written before.
        fence(SeqCst);
        // SAFETY: registers of the function, which belongs to this guest alone. What it writes is its own buffer, this guest's page, or
        // memory that this guest must not reach: that is the attack.
        unsafe {
            mmio::write64(self.registers + SOURCE, source);
            mmio::write64(self.registers + DESTINATION, destination);
            mmio::write64(self.registers + COUNT, bytes);
            mmio::write32(self.registers + CONTROL, RUN | direction);
        }
        let last = cpu::counter_ticks() + GUARD_SECONDS * cpu::frequency_hz();
        // SAFETY: as above.
        while unsafe { mmio::read32(self.registers + CONTROL) } & RUN != 0 && cpu::counter_ticks() < last {
            core::hint::spin_loop();
        }
    }

    /// Fills the function's buffer from own RAM.
    fn fill(&self, value: u8) {
        let page = own();
        for place in 0..BUFFER_BYTES {
            // SAFETY: within the page, which nothing else uses while no transfer runs.
            unsafe { (page as *mut u8).add(place as usize).write_volatile(value) };
        }
        self.transfer(page, BUFFER, BUFFER_BYTES, 0);
    }

    /// Brings the function's buffer to own RAM; states whether its front has a byte that a test does not like.
    fn buffer_has(&self, bytes: u64, is_bad: impl Fn(u64, u8) -> bool) -> bool {
        let page = own();
        self.transfer(BUFFER, page, BUFFER_BYTES, TO_MEMORY);
        fence(SeqCst);
        // SAFETY: within the page, and no transfer runs.
        (0..bytes).any(|place| is_bad(place, unsafe { (page as *const u8).add(place as usize).read_volatile() }))
    }

    /// The weapon works on what is the guest's own: otherwise no attack would mean anything.
    fn shows_itself(&self) -> bool {
        self.fill(WEAPON);
        let page = own();
        // SAFETY: within the page, and no transfer runs.
        unsafe { (page as *mut u8).write_volatile(BAIT) };
        !self.buffer_has(BUFFER_BYTES, |_, byte| byte != WEAPON)
    }

    /// Writes to a target and reads from it; states whether something came back that is not of its own RAM.
    fn attack(&self, target: u64, bytes: u64, ram: &Range<u64>) -> bool {
        self.fill(WEAPON);
        self.transfer(BUFFER, target, bytes, TO_MEMORY);
        self.fill(BAIT);
        self.transfer(target, BUFFER, bytes, 0);
        let is_foreign = |place: u64| !ram.contains(&target.wrapping_add(place));
        let leaked = self.buffer_has(bytes, |place, byte| byte != BAIT && byte != 0 && is_foreign(place));
        println!("intruder: {target:#x} write done, read {}", if leaked { "SOMETHING" } else { "nothing" });
        leaked
    }
}

/// Address of the page, which is the same for the function.
fn own() -> u64 {
    &raw mut OWN as u64
}
