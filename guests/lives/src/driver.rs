//! A block device of virtio-mmio (Virtual I/O Device 1.2, 4.2, 5.2) by the barest of drivers: one queue, polled, each request in three descriptors.

use crate::mark::{REQUEST_BYTES, WORD_BYTES};
use bulkhead_abi::virtio::{
    CONFIGURATION, DEVICE_PAGE_BYTES, FEATURES_HIGH, FRAME_OFFSET, GENERATION, INTERRUPT_STATUS, PAGE_REGISTER,
    QUEUE_AVAILABLE, QUEUE_DESCRIPTORS, QUEUE_USED,
};
use bulkhead_sdk::channel::{MappedBytes, MappedWindow, SharedMemory};
use bulkhead_sdk::guest_abi::guest::{GUEST_FRONTS, GUEST_POOL};
use bulkhead_sdk::mmio;

/// Requests that can be under way.
pub(crate) const DEPTH: u32 = 8;
/// Descriptors of the queue.
const NUMBER: u32 = 32;
/// Where things are in the pool: descriptors, offered chains, used chains, headers with their status, data.
const DESCRIPTORS: u32 = 0;
const AVAILABLE: u32 = 0x1000;
const USED: u32 = 0x2000;
const HEADERS: u32 = 0x3000;
const DATA: u32 = 1 << 20;
/// Bytes from one header to the next; the status is in between.
const HEADER_STEP: u32 = 64;
const STATUS: u32 = 32;

const REGISTERS: u64 = GUEST_FRONTS.0 + FRAME_OFFSET;
const DRIVER_FEATURES: u64 = 0x20;
const DRIVER_FEATURES_SELECT: u64 = 0x24;
const QUEUE_SELECT: u64 = 0x30;
const QUEUE_SIZE: u64 = 0x38;
const QUEUE_READY: u64 = 0x44;
const QUEUE_NOTIFY: u64 = 0x50;
/// The status is in the device page.
const DEVICE_STATUS: usize = 0x70 - PAGE_REGISTER as usize;
/// What a driver says before it is ready: it sees the device, it knows it, they agree.
const AGREED: u32 = 0b1011;
const READY: u32 = AGREED | 0b100;

const NEXT: u64 = 1;
const WRITE: u64 = 2;

/// What is done with data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// The device.
pub(crate) struct Driver {
    pool: MappedBytes<'static>,
    page: MappedBytes<'static>,
    given: u32,
    taken: u32,
}

impl Driver {
    /// Looks at pool and device page, and returns how many words of them are set that no front has before its driver begins.
    pub(crate) fn words_found(pool_bytes: usize) -> Option<u64> {
        let page = GUEST_FRONTS.0 + FRAME_OFFSET + u64::from(PAGE_REGISTER);
        // SAFETY: pool and device page are memory of this guest as long as it runs, which no Rust object is in, and this guest reaches them
        // by atomics alone; the back end may write there, too.
        let (pool, page) = unsafe {
            (
                MappedWindow::new(GUEST_POOL.0 as *mut u8, pool_bytes)?,
                MappedWindow::new(page as *mut u8, DEVICE_PAGE_BYTES as usize)?,
            )
        };
        let is_set = |memory: &MappedWindow<'static>, word: usize| memory.load(word) != 0;
        let in_pool = (0..pool.words()).filter(|word| is_set(&pool, *word)).count();
        // The template of a restart: the status of interrupts, and two words of configuration.
        let of_template = |word: usize| {
            let at = word as u32 * WORD_BYTES;
            at == INTERRUPT_STATUS || (CONFIGURATION..CONFIGURATION + 2 * WORD_BYTES).contains(&at)
        };
        let words = (GENERATION / WORD_BYTES) as usize;
        let in_page = (0..words).filter(|word| is_set(&page, *word) != of_template(*word)).count();
        Some((in_pool + in_page) as u64)
    }

    /// Starts the driver.
    pub(crate) fn start(pool_bytes: usize) -> Option<Self> {
        let page = (REGISTERS + u64::from(PAGE_REGISTER)) as *mut u8;
        // SAFETY: as in `words_found`, whose windows are gone; this guest has one vCPU.
        let (pool, page) = unsafe {
            (
                MappedBytes::new(GUEST_POOL.0 as *mut u8, pool_bytes)?,
                MappedBytes::new(page, DEVICE_PAGE_BYTES as usize)?,
            )
        };
        let driver = Self { pool, page, given: 0, taken: 0 };
        [0, 1, 3].into_iter().for_each(|status| driver.page.store_word(DEVICE_STATUS, status));
        register(DRIVER_FEATURES_SELECT, 1);
        register(DRIVER_FEATURES, FEATURES_HIGH);
        driver.page.store_word(DEVICE_STATUS, AGREED);
        register(QUEUE_SELECT, 0);
        register(QUEUE_SIZE, NUMBER);
        for (field, at) in [(QUEUE_DESCRIPTORS, DESCRIPTORS), (QUEUE_AVAILABLE, AVAILABLE), (QUEUE_USED, USED)] {
            let address = GUEST_POOL.0 + u64::from(at);
            driver.page.store_word(field as usize, address as u32);
            driver.page.store_word(field as usize + 4, (address >> 32) as u32);
        }
        driver.page.full_barrier();
        register(QUEUE_READY, 1);
        driver.page.store_word(DEVICE_STATUS, READY);
        Some(driver)
    }

    /// Where the data of a request is in the pool.
    const fn data(request: u32) -> u32 {
        DATA + request % DEPTH * REQUEST_BYTES
    }

    /// Puts a word into the data of the next request.
    pub(crate) fn fill(&self, word: u32, value: u64) {
        self.pool.write((Self::data(self.given) + word * WORD_BYTES) as usize, &value.to_le_bytes());
    }

    /// Asks for a request at a place of the disk. Fewer than [`DEPTH`] are under way.
    pub(crate) fn ask(&mut self, kind: Kind, place: u32) {
        let slot = self.given % DEPTH;
        let header = HEADERS + slot * HEADER_STEP;
        let sector = u64::from(place) * u64::from(REQUEST_BYTES) / 512;
        self.pool.write(header as usize, &u64::from(kind == Kind::Write).to_le_bytes());
        self.pool.write(header as usize + 8, &sector.to_le_bytes());
        self.pool.write((header + STATUS) as usize, &[u8::MAX]);
        let data = NEXT | if kind == Kind::Read { WRITE } else { 0 };
        let links = [(header, 16, NEXT), (Self::data(self.given), REQUEST_BYTES, data), (header + STATUS, 1, WRITE)];
        for (number, (at, bytes, flags)) in (slot * 3..).zip(links) {
            let descriptor = (DESCRIPTORS + number * 16) as usize;
            let rest = u64::from(bytes) | flags << 32 | u64::from(number + 1) << 48;
            self.pool.write(descriptor, &(GUEST_POOL.0 + u64::from(at)).to_le_bytes());
            self.pool.write(descriptor + 8, &rest.to_le_bytes());
        }
        self.pool.store_half((AVAILABLE + 4 + self.given % NUMBER * 2) as usize, (slot * 3) as u16);
        self.given = self.given.wrapping_add(1);
        self.pool.store_half(AVAILABLE as usize + 2, self.given as u16);
        self.pool.full_barrier();
        if self.pool.load_half(USED as usize) & 1 == 0 {
            register(QUEUE_NOTIFY, 0);
        }
    }

    /// Takes the oldest request if it has ended: whether it went well, with its words one after the other.
    pub(crate) fn take(&mut self, mut each: impl FnMut(u32, u64)) -> Option<bool> {
        if self.pool.load_half(USED as usize + 2) == self.taken as u16 {
            return None;
        }
        let (data, header) = (Self::data(self.taken), HEADERS + self.taken % DEPTH * HEADER_STEP);
        let mut piece = [0; 512];
        for at in (0..REQUEST_BYTES).step_by(piece.len()) {
            self.pool.read((data + at) as usize, &mut piece);
            let (words, _) = piece.as_chunks();
            (at / WORD_BYTES..).zip(words).for_each(|(word, bytes)| each(word, u64::from_le_bytes(*bytes)));
        }
        self.taken = self.taken.wrapping_add(1);
        Some(self.pool.load_half((header + STATUS) as usize) & 0xff == 0)
    }
}

fn register(offset: u64, value: u32) {
    // SAFETY: a register of the front's frame, which is this guest's own; the monitor answers it.
    unsafe { mmio::write32(REGISTERS + offset, value) };
}
