//! Disks by the barest of drivers: reads, polled, without an interrupt. What is written to memory is written by DMA alone.

use crate::bus::Space;
use crate::raw::{read, write};
use bulkhead_sdk::cpu;
use core::sync::atomic::{Ordering::SeqCst, fence};

/// Bytes of a request, of all requests together, and of a sector.
pub(crate) const REQUEST_BYTES: u64 = 128 << 10;
pub(crate) const TRANSFER_BYTES: u64 = 1 << 20;
const SECTOR_BYTES: u64 = 512;
const PAGE_BYTES: u64 = 4096;
/// Where the destination is in a disk's memory; queues and lists are before it.
pub(crate) const BUFFER: u64 = 1 << 20;
/// Longest wait for an answer, of the machine's time. The disk answers by the host's, which may be busy, while the machine's counts instructions: no
/// working disk comes near it.
const GUARD_SECONDS: u64 = 1000;

/// Waits for something; false when it does not come.
fn comes(condition: impl Fn() -> bool) -> bool {
    let last = cpu::counter_ticks() + GUARD_SECONDS * cpu::frequency_hz();
    while !condition() {
        if cpu::counter_ticks() > last {
            return false;
        }
        cpu::yield_now();
    }
    true
}

/// A disk, by its registers, and 2 MiB of this guest's memory that it alone uses.
pub(crate) trait Disk {
    /// Puts it to work.
    fn begin(&mut self) -> bool;
    /// Asks for sectors, without waiting. At most `REQUEST_BYTES`.
    fn ask(&mut self, sector: u64, target: u64, bytes: u64);
    /// Waits until everything asked for is answered; states whether nothing failed.
    fn finish(&mut self) -> bool;
    /// Its memory.
    fn memory(&self) -> u64;

    /// Asks for the first MiB of the disk.
    fn ask_for_all(&mut self) {
        let buffer = self.memory() + BUFFER;
        for offset in (0..TRANSFER_BYTES).step_by(REQUEST_BYTES as usize) {
            self.ask(offset / SECTOR_BYTES, buffer + offset, REQUEST_BYTES);
        }
    }
}

/// NVM Express 1.4: controller registers, one queue for its own commands and one for reads.
pub(crate) struct Nvme {
    registers: u64,
    memory: u64,
    /// Commands given, and answers taken, by queue.
    given: [u64; 2],
    taken: [u64; 2],
}

impl Nvme {
    const IDENTITY: u64 = 0x0010_1b36;
    const CC: u64 = 0x14;
    const CSTS: u64 = 0x1c;
    const AQA: u64 = 0x24;
    const ASQ: u64 = 0x28;
    const ACQ: u64 = 0x30;
    const DOORBELLS: u64 = 0x1000;
    /// Enabled, entries of 64 and of 16 bytes.
    const ENABLED: u64 = 1 | 6 << 16 | 4 << 20;
    /// Entries of each queue.
    const ENTRIES: u64 = 32;
    const CREATE_ANSWERS: u64 = 5;
    const CREATE_COMMANDS: u64 = 1;
    const READ: u64 = 2;

    /// Looks for it, and makes it a master of the bus.
    pub(crate) fn find(memory: u64) -> Option<Self> {
        let space = Space::all(Self::IDENTITY).next()?;
        space.master();
        Some(Self { registers: space.base(0), memory, given: [0; 2], taken: [0; 2] })
    }

    fn commands(&self, queue: usize) -> u64 {
        self.memory + 2 * queue as u64 * PAGE_BYTES
    }

    fn answers(&self, queue: usize) -> u64 {
        self.commands(queue) + PAGE_BYTES
    }

    /// Gives a command: operation, namespace, destination in two words, and three words of its own.
    fn command(&mut self, queue: usize, operation: u64, target: [u64; 2], own: [u64; 3]) {
        let entry = self.commands(queue) + self.given[queue] % Self::ENTRIES * 64;
        let namespace = u64::from(queue == 1);
        let words = [operation | self.given[queue] << 16, namespace, 0, 0, 0, 0];
        (0..).zip(words).for_each(|(word, value)| write(entry + 4 * word, 4, value));
        write(entry + 24, 8, target[0]);
        write(entry + 32, 8, target[1]);
        (0..).zip(own).for_each(|(word, value)| write(entry + 40 + 4 * word, 4, value));
        self.given[queue] += 1;
        fence(SeqCst);
        write(self.registers + Self::DOORBELLS + 8 * queue as u64, 4, self.given[queue] % Self::ENTRIES);
    }

    /// Takes all answers of a queue.
    fn answered(&mut self, queue: usize) -> bool {
        let mut is_good = true;
        while self.taken[queue] < self.given[queue] {
            let entry = self.answers(queue) + self.taken[queue] % Self::ENTRIES * 16;
            let phase = u64::from((self.taken[queue] / Self::ENTRIES).is_multiple_of(2));
            if !comes(|| read(entry + 14, 2) & 1 == phase) {
                return false;
            }
            is_good &= read(entry + 14, 2) >> 1 == 0;
            self.taken[queue] += 1;
            let doorbell = self.registers + Self::DOORBELLS + 8 * queue as u64 + 4;
            write(doorbell, 4, self.taken[queue] % Self::ENTRIES);
        }
        is_good
    }
}

impl Disk for Nvme {
    fn begin(&mut self) -> bool {
        let size = Self::ENTRIES - 1;
        write(self.registers + Self::AQA, 4, size << 16 | size);
        write(self.registers + Self::ASQ, 8, self.commands(0));
        write(self.registers + Self::ACQ, 8, self.answers(0));
        write(self.registers + Self::CC, 4, Self::ENABLED);
        let registers = self.registers;
        if !comes(|| read(registers + Self::CSTS, 4) & 1 != 0) {
            return false;
        }
        // In one piece of memory, without interrupts; commands are answered in queue 1.
        self.command(0, Self::CREATE_ANSWERS, [self.answers(1), 0], [size << 16 | 1, 1, 0]);
        self.command(0, Self::CREATE_COMMANDS, [self.commands(1), 0], [size << 16 | 1, 1 << 16 | 1, 0]);
        self.answered(0)
    }

    fn ask(&mut self, sector: u64, target: u64, bytes: u64) {
        // The first page in the command, the others in a list.
        let list = self.memory + (8 + self.given[1] % 16) * PAGE_BYTES;
        for page in 1..bytes / PAGE_BYTES {
            write(list + 8 * (page - 1), 8, target + page * PAGE_BYTES);
        }
        let second = if bytes > PAGE_BYTES { list } else { 0 };
        self.command(1, Self::READ, [target, second], [sector, 0, bytes / SECTOR_BYTES - 1]);
    }

    fn finish(&mut self) -> bool {
        self.answered(1)
    }

    fn memory(&self) -> u64 {
        self.memory
    }
}

/// A block device of virtio 1.1 (4.1, 5.2): one queue, each request in three descriptors.
pub(crate) struct Virtio {
    registers: u64,
    memory: u64,
    given: u64,
}

impl Virtio {
    const IDENTITY: u64 = 0x1042_1af4;
    /// Its registers are behind this base address register, as its capabilities say; common ones at the front.
    const BASE: u64 = 4;
    const FEATURES_SELECT: u64 = 0x08;
    const FEATURES: u64 = 0x0c;
    const STATUS: u64 = 0x14;
    const QUEUE_SIZE: u64 = 0x18;
    const QUEUE_ENABLE: u64 = 0x1c;
    const QUEUE: [u64; 3] = [0x20, 0x28, 0x30];
    pub(crate) const INTERRUPT_STATUS: u64 = 0x1000;
    const NOTIFY: u64 = 0x3000;
    /// VIRTIO_F_VERSION_1 and VIRTIO_F_ACCESS_PLATFORM, in the upper word.
    const OWN_FEATURES: u64 = 3;
    /// Descriptors: 16 requests at a time.
    const ENTRIES: u64 = 64;
    const NEXT: u64 = 1;
    const WRITTEN: u64 = 2;

    /// Looks for it, and makes it a master of the bus.
    pub(crate) fn find(memory: u64) -> Option<Self> {
        let space = Space::all(Self::IDENTITY).next()?;
        space.master();
        Some(Self { registers: space.base(Self::BASE), memory, given: 0 })
    }

    pub(crate) const fn registers(&self) -> u64 {
        self.registers
    }

    /// Descriptors, offered ones, used ones, headers.
    fn page(&self, page: u64) -> u64 {
        self.memory + page * PAGE_BYTES
    }
}

impl Disk for Virtio {
    fn begin(&mut self) -> bool {
        let at = |register: u64| self.registers + register;
        for status in [0, 1, 3] {
            write(at(Self::STATUS), 1, status);
        }
        write(at(Self::FEATURES_SELECT), 4, 1);
        write(at(Self::FEATURES), 4, Self::OWN_FEATURES);
        write(at(Self::STATUS), 1, 0xb);
        write(at(Self::QUEUE_SIZE), 2, Self::ENTRIES);
        for (page, register) in (0..).zip(Self::QUEUE) {
            write(at(register), 4, self.page(page) & 0xffff_ffff);
            write(at(register) + 4, 4, self.page(page) >> 32);
        }
        write(at(Self::QUEUE_ENABLE), 2, 1);
        write(at(Self::STATUS), 1, 0xf);
        read(at(Self::STATUS), 1) == 0xf
    }

    fn ask(&mut self, sector: u64, target: u64, bytes: u64) {
        let slot = self.given % 16;
        let header = self.page(3) + slot * 64;
        write(header, 8, 0);
        write(header + 8, 8, sector);
        write(header + 32, 1, 0xff);
        let first = slot * 3;
        let parts =
            [(header, 16, Self::NEXT), (target, bytes, Self::NEXT | Self::WRITTEN), (header + 32, 1, Self::WRITTEN)];
        for (number, (address, bytes, flags)) in (first..).zip(parts) {
            let descriptor = self.page(0) + number * 16;
            write(descriptor, 8, address);
            write(descriptor + 8, 8, bytes | flags << 32 | (number + 1) << 48);
        }
        write(self.page(1) + 4 + self.given % Self::ENTRIES * 2, 2, first);
        self.given += 1;
        fence(SeqCst);
        write(self.page(1) + 2, 2, self.given & 0xffff);
        fence(SeqCst);
        write(self.registers + Self::NOTIFY, 2, 0);
    }

    fn finish(&mut self) -> bool {
        let (used, given) = (self.page(2) + 2, self.given);
        let slots = 0..given.min(16);
        comes(|| read(used, 2) == given & 0xffff)
            && slots.into_iter().all(|slot| read(self.page(3) + slot * 64 + 32, 1) == 0)
    }

    fn memory(&self) -> u64 {
        self.memory
    }
}
