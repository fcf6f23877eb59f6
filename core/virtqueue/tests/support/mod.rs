//! What the tests and the fuzz target of this crate share: memory that watches the back end, a front, a disk, a network.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod front;
pub(crate) mod hostile;
pub(crate) mod parts;

use bulkhead_abi::virtio::{COPYING, DEVICE_PAGE_BYTES};
use bulkhead_virtqueue::{COPY_BYTES, Memory};
use std::cell::{Cell, RefCell};

/// Where the front's device sees the pool.
pub(crate) const POOL: u64 = 0x3000_0000;
/// Bytes of the pool of most tests.
pub(crate) const POOL_BYTES: u32 = 0x4_0000;

/// What happens before an access of the back end: its number, and the memory.
type Hook = Box<dyn FnMut(u32, &mut [u8])>;

/// A window that panics when the back end breaks a rule: an access outside or unaligned, a store to the device page, a store to the pool
/// without an announcement, more bytes under one announcement than may be.
pub(crate) struct Watched {
    bytes: RefCell<Vec<u8>>,
    /// Accesses so far.
    pub(crate) accesses: Cell<u32>,
    /// Bytes stored to the pool under this announcement.
    announced: Cell<Option<usize>>,
    /// Reads by `read`: offset and length.
    pub(crate) reads: RefCell<Vec<(u32, usize)>>,
    hook: RefCell<Option<Hook>>,
}

impl Watched {
    pub(crate) fn new() -> Self {
        Self {
            bytes: RefCell::new(vec![0; (DEVICE_PAGE_BYTES + POOL_BYTES) as usize]),
            accesses: Cell::new(0),
            announced: Cell::new(None),
            reads: RefCell::default(),
            hook: RefCell::default(),
        }
    }

    /// Calls a function before each access of the back end from now on.
    pub(crate) fn before_each(&self, hook: impl FnMut(u32, &mut [u8]) + 'static) {
        self.accesses.set(0);
        *self.hook.borrow_mut() = Some(Box::new(hook));
    }

    pub(crate) fn leave_alone(&self) {
        *self.hook.borrow_mut() = None;
    }

    /// All bytes, as the front or the monitor sees them.
    pub(crate) fn with<R>(&self, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        use_it(&mut self.bytes.borrow_mut())
    }

    pub(crate) fn peek(&self, at: u32, into: &mut [u8]) {
        into.copy_from_slice(&self.bytes.borrow()[at as usize..][..into.len()]);
    }

    pub(crate) fn poke(&self, at: u32, from: &[u8]) {
        self.bytes.borrow_mut()[at as usize..][..from.len()].copy_from_slice(from);
    }

    fn access<const BYTES: usize>(&self, at: u32) -> [u8; BYTES] {
        self.seen(at, BYTES);
        assert!(at.is_multiple_of(BYTES as u32), "an access of {BYTES} bytes at {at:#x}");
        let mut bytes = [0; BYTES];
        self.peek(at, &mut bytes);
        bytes
    }

    /// Lets the others act, then checks the place.
    fn seen(&self, at: u32, bytes: usize) {
        let number = self.accesses.get();
        self.accesses.set(number + 1);
        if let Some(hook) = self.hook.borrow_mut().as_mut() {
            hook(number, &mut self.bytes.borrow_mut());
        }
        assert!(at as usize + bytes <= self.bytes.borrow().len(), "{bytes} bytes at {at:#x} are outside the window");
    }

    /// Checks a store and makes it.
    fn stored(&self, at: u32, from: &[u8]) {
        assert!(at >= DEVICE_PAGE_BYTES, "a store to the device page at {at:#x}");
        let before = self.announced.get().expect("a store without an announcement");
        // Besides the data at most a status, an entry of the used ring and its index.
        assert!(before + from.len() <= COPY_BYTES + 1 + 8 + 2, "{} bytes in one announcement", before + from.len());
        self.announced.set(Some(before + from.len()));
        self.poke(at, from);
    }
}

impl Memory for Watched {
    fn bytes(&self) -> u32 {
        self.bytes.borrow().len() as u32
    }

    fn load_half(&self, at: u32) -> u16 {
        u16::from_le_bytes(self.access(at))
    }

    fn load_word(&self, at: u32) -> u32 {
        u32::from_le_bytes(self.access(at))
    }

    fn store_half(&self, at: u32, value: u16) {
        let _: [u8; 2] = self.access(at);
        self.stored(at, &value.to_le_bytes());
    }

    fn store_word(&self, at: u32, value: u32) {
        let _: [u8; 4] = self.access(at);
        assert_eq!(at, COPYING, "the one word that a back end stores");
        self.announced.set((value != 0).then_some(0));
        self.poke(at, &value.to_le_bytes());
    }

    fn read(&self, at: u32, into: &mut [u8]) {
        self.seen(at, into.len());
        self.reads.borrow_mut().push((at, into.len()));
        self.peek(at, into);
    }

    fn write(&self, at: u32, from: &[u8]) {
        self.seen(at, from.len());
        self.stored(at, from);
    }

    fn full_barrier(&self) {}
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}
