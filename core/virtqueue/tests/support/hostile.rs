//! A back end under a hostile front, driven by a script of bytes: the fuzz target and the seeded test run the same code (H18 to H21).
//!
//! Asserted at every step, by [`super::Watched`]: no access outside the window, no store to the device page, none to the pool without an
//! announcement. Here: no panic, bounded work, no access outside the disk, frames of allowed lengths. Asserted at the end: a restart of
//! the front heals everything.

use super::front::{Driver, Monitor, header};
use super::parts::{Frames, MemoryDisk};
use super::{POOL, POOL_BYTES, Watched};
use bulkhead_abi::virtio::{COPYING, DEVICE_BLOCK, DEVICE_NET, DEVICE_PAGE_BYTES, GENERATION, RECORDS, record_offset};
use bulkhead_virtqueue::{Block, HEADER_BYTES, Net, Step, Window};

/// Accesses of a step at most: 256 descriptors, 256 pieces, records of two queues, rings, announcements.
const MOST_ACCESSES: u32 = 2 * 256 + 200;
const HEADER: u64 = POOL + 0xc000;
const DATA: u64 = POOL + 0x1_0000;
const STATUS: u64 = POOL + 0xd000;

/// Bytes of a script; zeros behind its end.
struct Script<'s>(&'s [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, limit: u32) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), 0]) % limit
    }

    /// A word as an attacker likes it: an address in or near the pool, a length, an index, anything.
    fn word(&mut self) -> u64 {
        match self.byte() % 6 {
            0 => u64::MAX,
            1 => u64::from(self.byte()),
            2 => POOL + u64::from(self.below(POOL_BYTES)),
            3 => POOL + u64::from(POOL_BYTES) - u64::from(self.byte() % 32),
            4 => 1 << (self.byte() % 64),
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    /// Somewhere in the window, most often where it hurts: descriptors, rings, records, the words of a restart.
    fn place(&mut self) -> u32 {
        let ring = DEVICE_PAGE_BYTES + 0x4000 * u32::from(self.byte() % 2);
        let at = match self.byte() % 8 {
            0 | 1 => ring + 16 * u32::from(self.byte() % 8) + 2 * u32::from(self.byte() % 8),
            2 => ring + 0x1000 + 2 * u32::from(self.byte() % 8),
            3 => ring + 0x2000 + 2 * u32::from(self.byte() % 8),
            4 => RECORDS + 4 * u32::from(self.byte() % 32),
            5 => [GENERATION, COPYING, record_offset(0), record_offset(1)][usize::from(self.byte() % 4)],
            6 => DEVICE_PAGE_BYTES + 0xc000 + u32::from(self.byte()),
            _ => self.below(DEVICE_PAGE_BYTES + POOL_BYTES - 8),
        };
        at & !1
    }
}

/// A chain of an honest driver for a queue of a device, with something of its own in it.
fn offer(driver: &mut Driver<'_>, device: u32, queue: u32, script: &mut Script<'_>) {
    let bytes = u32::from(script.byte()) * 32;
    let kind = [0, 1, 4, 8][usize::from(script.byte() % 4)];
    driver.put(HEADER, &header(kind, u64::from(script.byte() % 70)));
    let _ = match (device, queue) {
        (DEVICE_BLOCK, _) => driver.offer(&[(HEADER, 16, false), (DATA, bytes, kind == 0), (STATUS, 1, true)]),
        (_, 0) => driver.offer(&[(DATA, 1530, true)]),
        _ => {
            driver.put(HEADER, &[0; HEADER_BYTES]);
            driver.offer(&[(HEADER, HEADER_BYTES as u32, false), (DATA, bytes % 1600, false)])
        }
    };
}

/// The back end of either device.
struct BackEnd<'a> {
    window: Window<&'a Watched>,
    block: Block,
    net: Net,
    disk: MemoryDisk,
    frames: Frames,
    device: u32,
}

impl<'a> BackEnd<'a> {
    fn step(&mut self, memory: &Watched) -> Step {
        memory.accesses.set(0);
        memory.reads.borrow_mut().clear();
        let step = match self.device {
            DEVICE_BLOCK => self.block.step(&self.window, &mut self.disk),
            _ => self.net.step(&self.window, &mut self.frames),
        };
        let accesses = memory.accesses.get();
        assert!(accesses <= 2 * MOST_ACCESSES, "{accesses} accesses in one step");
        step
    }

    fn restart(&mut self, memory: &'a Watched) {
        self.window = Window::new(memory, POOL).expect("a pool");
        (self.block, self.net) = (Block::new(false, [7; 20]), Net::new());
    }
}

/// Runs a script.
pub(crate) fn run(bytes: &[u8]) {
    let script = &mut Script(bytes);
    let device = if script.byte() & 1 == 0 { DEVICE_BLOCK } else { DEVICE_NET };
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, device);
    let mut drivers = [Driver::new(&monitor, 0, 8), Driver::new(&monitor, 1, 8)];
    let mut back = BackEnd {
        window: Window::new(&memory, POOL).expect("a pool"),
        block: Block::new(false, [7; 20]),
        net: Net::new(),
        disk: MemoryDisk::new(64),
        frames: Frames::default(),
        device,
    };
    while !script.0.is_empty() {
        let queue = script.byte() % 2;
        match script.byte() % 8 {
            0 | 1 => {
                let (at, word) = (script.place(), script.word().to_le_bytes());
                memory
                    .poke(at, &word[..[2, 4, 8, 8][usize::from(script.byte() % 4)].min((memory_end() - at) as usize)]);
            }
            2 | 3 => offer(&mut drivers[usize::from(queue)], device, u32::from(queue), script),
            4 => {
                // Something changes before an access of the next steps.
                let (access, at, word) = (u32::from(script.byte()), script.place(), script.word());
                memory.before_each(move |number, bytes| {
                    if number == access {
                        let word = word.to_le_bytes();
                        let end = (at as usize + 8).min(bytes.len());
                        bytes[at as usize..end].copy_from_slice(&word[..end - at as usize]);
                    }
                });
            }
            5 => match script.byte() % 3 {
                0 => restart(&memory, &monitor, &mut back, 2 + script.below(1000)),
                1 => back.restart(&memory),
                _ => {
                    let places = [script.word(), script.word(), script.word()];
                    monitor.switch_on(u32::from(queue), u32::from(script.byte()), places);
                }
            },
            6 => drivers[usize::from(queue)] = Driver::new(&monitor, u32::from(queue), 8),
            _ => {
                back.frames.arriving.push_back(vec![3; 60]);
                for _ in 0..=script.byte() % 8 {
                    let _ = back.step(&memory);
                }
            }
        }
    }
    heal(&memory, &monitor, &mut back);
}

const fn memory_end() -> u32 {
    DEVICE_PAGE_BYTES + POOL_BYTES
}

/// The front restarts. What it wrote over the announcement holds the restart up until the back end looks.
fn restart(memory: &Watched, monitor: &Monitor<'_>, back: &mut BackEnd<'_>, generation: u32) {
    memory.leave_alone();
    monitor.front().stop();
    let _ = back.step(memory);
    monitor.restart(generation);
}

/// The front restarts, and is served.
fn heal(memory: &Watched, monitor: &Monitor<'_>, back: &mut BackEnd<'_>) {
    restart(memory, monitor, back, 0x9e37_79b9);
    let _ = back.step(memory);
    let queue = u32::from(back.device == DEVICE_NET);
    let mut driver = Driver::new(monitor, queue, 8);
    driver.put(HEADER, &[0; 16]);
    let chain = [(HEADER, 16, false), (DATA, 512, true), (STATUS, 1, true)];
    let _ = driver.offer(&chain);
    for _ in 0..8 {
        let step = back.step(memory);
        assert!(!matches!(step, Step::Stopped { .. }), "{step:?} after a restart");
    }
    let written = if back.device == DEVICE_BLOCK { 513 } else { 0 };
    assert_eq!(driver.collect(), Some((0, written)), "a restart heals");
}
