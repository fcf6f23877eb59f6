//! A front of virtio by its registers and its pool: what a driver does with them, and room for what no driver does.
//!
//! Registers are those of virtio-mmio (Virtual I/O Device 1.2, 4.2.2), rings those of 2.7. Each queue has 128 KiB of the pool.

use crate::raw::{read, write};
use bulkhead_sdk::guest_abi::guest::{GUEST_FRONT_STEP, GUEST_FRONTS, GUEST_POOL};
use bulkhead_sdk::{cpu, interrupt, timer};
use core::sync::atomic::{Ordering::SeqCst, fence};

/// Offset of a frame's first register in its page (`bulkhead_abi::virtio`).
const FRAME_OFFSET: u64 = 0xfa0;
/// From a frame's start to the device page.
const PAGE: u64 = 0x60;
const DEVICE_ID: u64 = 0x08;
const QUEUE_SELECT: u64 = 0x30;
const QUEUE_NUMBER: u64 = 0x38;
const QUEUE_READY: u64 = 0x44;
const QUEUE_NOTIFY: u64 = 0x50;
/// Addresses of descriptors, available and used ring of the queue that is selected.
const QUEUE_PLACES: [u64; 3] = [0x80, 0x90, 0xa0];
/// Identity of a disk.
const BLOCK: u64 = 2;

const AREA_BYTES: u64 = 0x2_0000;
const QUEUES: u64 = 2;
/// Where the parts of a queue are in its area.
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const HEADER: u64 = 0x4000;
const STATUS: u64 = 0x4100;
pub(crate) const DATA: u64 = 0x5000;

pub(crate) const SECTOR_BYTES: u64 = 512;
/// Descriptor flags: there is a next one; the device writes.
pub(crate) const NEXT: u64 = 1;
pub(crate) const WRITE: u64 = 2;
/// Requests of a disk.
pub(crate) const READ_SECTORS: u64 = 0;
pub(crate) const WRITE_SECTORS: u64 = 1;
/// Bytes before a frame of a network card, and of the frames sent here.
const FRAME_HEADER_BYTES: u64 = 12;
const FRAME_BYTES: u64 = 60;
/// Bytes of a buffer for a frame.
const ROOM_BYTES: u64 = 2048;

/// Lets [`pause`] sleep.
pub(crate) fn prepare_pauses() {
    interrupt::on_interrupt(|_| timer::stop());
    interrupt::start();
    timer::enable_interrupt();
}

/// Gives the host's processors to those who are waited for. Interrupts are masked but at its end, so none comes before it sleeps.
pub(crate) fn pause() {
    timer::set_compare_ticks(cpu::counter_ticks() + cpu::frequency_hz() / 4000);
    cpu::wait_for_interrupt();
    cpu::unmask_interrupts();
    cpu::mask_interrupts();
}

/// A queue's number of descriptors and its places, as the device is told.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) number: u64,
    pub(crate) places: [u64; 3],
}

/// A queue of a device.
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    frame: u64,
    index: u64,
    pub(crate) area: u64,
}

impl Queue {
    /// Queue `index` of the front with this number.
    pub(crate) fn new(front: u64, index: u64) -> Self {
        let frame = GUEST_FRONTS.0 + front * GUEST_FRONT_STEP + FRAME_OFFSET;
        Self { frame, index, area: GUEST_POOL.0 + (front * QUEUES + index) * AREA_BYTES }
    }

    /// The device page.
    pub(crate) fn page(self) -> u64 {
        self.frame + PAGE
    }

    pub(crate) fn is_disk(self) -> bool {
        read(self.frame + DEVICE_ID, 4) == BLOCK
    }

    /// What an honest driver tells the device.
    pub(crate) fn honest(self) -> Setup {
        Setup { number: 8, places: [self.area, self.area + AVAILABLE, self.area + USED] }
    }

    pub(crate) fn off(self) {
        write(self.frame + QUEUE_SELECT, 4, self.index);
        write(self.frame + QUEUE_READY, 4, 0);
    }

    pub(crate) fn on(self, setup: Setup) {
        write(self.frame + QUEUE_SELECT, 4, self.index);
        write(self.frame + QUEUE_NUMBER, 4, setup.number);
        for (register, place) in QUEUE_PLACES.into_iter().zip(setup.places) {
            write(self.frame + register, 4, place & 0xffff_ffff);
            write(self.frame + register + 4, 4, place >> 32);
        }
        write(self.frame + QUEUE_READY, 4, 1);
    }

    pub(crate) fn notify(self) {
        fence(SeqCst);
        write(self.frame + QUEUE_NOTIFY, 4, self.index);
    }

    /// Zeros in rings and header.
    pub(crate) fn clear(self) {
        (self.area..self.area + DATA).step_by(8).for_each(|place| write(place, 8, 0));
    }

    pub(crate) fn describe(self, index: u64, address: u64, bytes: u64, flags: u64, next: u64) {
        write(self.area + 16 * index, 8, address);
        write(self.area + 16 * index + 8, 8, bytes & 0xffff_ffff | (flags & 0xffff) << 32 | next << 48);
    }

    /// Makes a chain available as the one with this number.
    pub(crate) fn offer(self, number: u64, head: u64) {
        write(self.area + AVAILABLE + 4 + 2 * (number % 8), 2, head);
        fence(SeqCst);
        self.set_available(number + 1);
    }

    pub(crate) fn set_available(self, index: u64) {
        write(self.area + AVAILABLE + 2, 2, index & 0xffff);
    }

    /// Chains that were returned.
    pub(crate) fn used(self) -> u64 {
        let used = read(self.area + USED + 2, 2);
        fence(SeqCst);
        used
    }

    pub(crate) fn header(self) -> u64 {
        self.area + HEADER
    }

    /// Describes a request of a disk by descriptors 0 to 2.
    pub(crate) fn request(self, kind: u64, sector: u64, bytes: u64) {
        write(self.header(), 8, kind);
        write(self.header() + 8, 8, sector);
        write(self.area + STATUS, 1, 0xee);
        self.describe(0, self.header(), 16, NEXT, 1);
        self.describe(1, self.area + DATA, bytes, if kind == READ_SECTORS { NEXT | WRITE } else { NEXT }, 2);
        self.describe(2, self.area + STATUS, 1, WRITE, 0);
    }

    /// Describes what an honest driver offers, by descriptor 0 and those behind it.
    pub(crate) fn describe_honest(self) {
        if self.is_disk() {
            self.request(READ_SECTORS, 0, SECTOR_BYTES);
        } else if self.index == 0 {
            self.describe(0, self.area + DATA, ROOM_BYTES, WRITE, 0);
        } else {
            (0..FRAME_BYTES)
                .step_by(4)
                .for_each(|byte| write(self.header() + FRAME_HEADER_BYTES + byte, 4, 0xffff_ffff));
            self.describe(0, self.header(), FRAME_HEADER_BYTES + FRAME_BYTES, 0, 0);
        }
    }

    /// Waits until `count` chains were returned in all.
    pub(crate) fn wait(self, count: u64) {
        while self.used() != count & 0xffff {
            pause();
        }
    }

    /// Does a request as chain number `number`; states whether it was done.
    pub(crate) fn serve(self, number: u64, kind: u64, sector: u64, bytes: u64) -> bool {
        self.request(kind, sector, bytes);
        self.offer(number, 0);
        self.notify();
        self.wait(number + 1);
        read(self.area + STATUS, 1) == 0
    }
}
