//! A front: the monitor's half of the frame, and a driver of one queue.

use super::{POOL, Watched};
use bulkhead_abi::virtio::*;
use bulkhead_emulation::virtio::{DevicePage, Front, FrontState};
use zerocopy::FromZeros;

/// The device page as the monitor has it.
pub(crate) struct Page<'a>(pub(crate) &'a Watched);

impl DevicePage for Page<'_> {
    fn load(&self, offset: u32) -> u32 {
        let mut word = [0; 4];
        self.0.peek(offset, &mut word);
        u32::from_le_bytes(word)
    }

    fn store(&self, offset: u32, value: u32) {
        self.0.poke(offset, &value.to_le_bytes());
    }

    fn full_barrier(&self) {}
}

/// What of the monitor serves a front.
pub(crate) struct Monitor<'a> {
    plan: FrontPlan,
    state: FrontState,
    page: Page<'a>,
    memory: &'a Watched,
}

impl<'a> Monitor<'a> {
    /// A front that was started for the first time.
    pub(crate) fn new(memory: &'a Watched, device: u32) -> Self {
        let plan = FrontPlan { device, ..FrontPlan::default() };
        let monitor = Self { plan, state: FrontState::new_zeroed(), page: Page(memory), memory };
        monitor.front().start(1);
        monitor
    }

    pub(crate) fn front(&self) -> Front<'_, Page<'a>> {
        Front { plan: &self.plan, state: &self.state, page: &self.page }
    }

    /// Restarts the front: pool and page are cleared.
    pub(crate) fn restart(&self, generation: u32) {
        self.front().stop();
        assert!(self.front().is_left());
        self.memory.with(|bytes| {
            bytes[..GENERATION as usize].fill(0);
            bytes[DEVICE_PAGE_BYTES as usize..].fill(0);
        });
        self.front().start(generation);
    }

    /// Switches a queue on as `virtio_mmio` does.
    pub(crate) fn switch_on(&self, queue: u32, number: u32, places: [u64; 3]) {
        let front = self.front();
        let _ = front.write(0x30, 4, queue);
        let _ = front.write(0x38, 4, number);
        for (at, address) in [QUEUE_DESCRIPTORS, QUEUE_AVAILABLE, QUEUE_USED].into_iter().zip(places) {
            self.page.store(at, address as u32);
            self.page.store(at + 4, (address >> 32) as u32);
        }
        let _ = front.write(0x44, 4, 1);
    }

    pub(crate) fn switch_off(&self, queue: u32) {
        let _ = self.front().write(0x30, 4, queue);
        let _ = self.front().write(0x44, 4, 0);
    }
}

/// A buffer of a chain: address, bytes, the device writes it.
pub(crate) type Buffer = (u64, u32, bool);

/// The driver of one queue: rings in the pool, the free descriptors of which are used round and round.
pub(crate) struct Driver<'a> {
    memory: &'a Watched,
    number: u16,
    pub(crate) places: [u64; 3],
    next: u16,
    available: u16,
    used: u16,
}

impl<'a> Driver<'a> {
    /// A queue of `number` descriptors, with its rings in the pool's 16 KiB number `queue`, switched on.
    pub(crate) fn new(monitor: &Monitor<'a>, queue: u32, number: u16) -> Self {
        let first = POOL + u64::from(queue) * 0x4000;
        let places = [first, first + 0x1000, first + 0x2000];
        let driver = Self { memory: monitor.memory, number, places, next: 0, available: 0, used: 0 };
        for place in places {
            driver.put(place, &[0; 0x1000]);
        }
        monitor.switch_on(queue, u32::from(number), places);
        driver
    }

    /// Writes to the pool by its address.
    pub(crate) fn put(&self, address: u64, bytes: &[u8]) {
        self.memory.poke((address - POOL) as u32 + DEVICE_PAGE_BYTES, bytes);
    }

    /// Reads the pool.
    pub(crate) fn get(&self, address: u64, bytes: usize) -> Vec<u8> {
        let mut into = vec![0; bytes];
        self.memory.peek((address - POOL) as u32 + DEVICE_PAGE_BYTES, &mut into);
        into
    }

    fn half(&self, address: u64) -> u16 {
        u16::from_le_bytes(self.get(address, 2).try_into().unwrap())
    }

    /// Writes one descriptor.
    pub(crate) fn describe(&self, index: u16, address: u64, bytes: u32, flags: u16, next: u16) {
        let mut descriptor = [0; 16];
        descriptor[..8].copy_from_slice(&address.to_le_bytes());
        descriptor[8..12].copy_from_slice(&bytes.to_le_bytes());
        descriptor[12..14].copy_from_slice(&flags.to_le_bytes());
        descriptor[14..].copy_from_slice(&next.to_le_bytes());
        self.put(self.places[0] + 16 * u64::from(index), &descriptor);
    }

    /// Makes a chain available; returns its head.
    pub(crate) fn offer(&mut self, chain: &[Buffer]) -> u16 {
        let head = self.next;
        for (at, (address, bytes, is_written)) in chain.iter().enumerate() {
            let index = self.next;
            self.next = (index + 1) % self.number;
            let flags = u16::from(at + 1 < chain.len()) | u16::from(*is_written) << 1;
            self.describe(index, *address, *bytes, flags, self.next);
        }
        self.publish(head);
        head
    }

    /// Makes a head available.
    pub(crate) fn publish(&mut self, head: u16) {
        self.put(self.places[1] + 4 + 2 * u64::from(self.available % self.number), &head.to_le_bytes());
        self.available = self.available.wrapping_add(1);
        self.set_available(self.available);
    }

    pub(crate) fn set_available(&self, index: u16) {
        self.put(self.places[1] + 2, &index.to_le_bytes());
    }

    /// Takes the next chain that was returned: head and bytes written.
    pub(crate) fn collect(&mut self) -> Option<(u32, u32)> {
        if self.half(self.places[2] + 2) == self.used {
            return None;
        }
        let entry = self.get(self.places[2] + 4 + 8 * u64::from(self.used % self.number), 8);
        self.used = self.used.wrapping_add(1);
        let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
        Some((word(0), word(4)))
    }

    /// States whether the back end asked not to be notified.
    pub(crate) fn is_quiet(&self) -> bool {
        self.half(self.places[2]) & 1 != 0
    }

    /// Asks not to be interrupted, or to be.
    pub(crate) fn mute(&self, is_muted: bool) {
        self.put(self.places[1], &u16::from(is_muted).to_le_bytes());
    }
}

/// Header of a block request.
pub(crate) fn header(kind: u32, sector: u64) -> [u8; 16] {
    let mut header = [0; 16];
    header[..4].copy_from_slice(&kind.to_le_bytes());
    header[8..].copy_from_slice(&sector.to_le_bytes());
    header
}
