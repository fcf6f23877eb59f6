//! A device page, and what is stored to it.

use bulkhead_abi::virtio::{
    CONFIGURATION, COPYING, DEVICE_PAGE_BYTES, GENERATION, QUEUE_DESCRIPTORS, QueueRecord, record_offset,
};
use bulkhead_emulation::virtio::DevicePage;
use std::cell::{Cell, RefCell};
use std::mem::offset_of;

/// Panics when the monitor touches what it does not have to.
pub(crate) struct Page {
    words: Vec<Cell<u32>>,
    /// Offsets that were stored to.
    pub(crate) stored: RefCell<Vec<u32>>,
}

impl Page {
    pub(crate) fn new() -> Self {
        Self { words: vec![Cell::new(0); DEVICE_PAGE_BYTES as usize / 4], stored: RefCell::default() }
    }

    /// A word, as a partition reads it.
    pub(crate) fn word(&self, offset: u32) -> u32 {
        self.words[offset as usize / 4].get()
    }

    /// A partition writes.
    pub(crate) fn poke(&self, offset: u32, value: u32) {
        self.words[offset as usize / 4].set(value);
    }

    /// The record of a queue.
    pub(crate) fn record(&self, queue: u32) -> QueueRecord {
        let word = |field: usize| self.word(record_offset(queue) + field as u32);
        let wide = |field| u64::from(word(field)) | u64::from(word(field + 4)) << 32;
        QueueRecord {
            sequence: word(offset_of!(QueueRecord, sequence)),
            number: word(offset_of!(QueueRecord, number)),
            descriptors: wide(offset_of!(QueueRecord, descriptors)),
            available: wide(offset_of!(QueueRecord, available)),
            used: wide(offset_of!(QueueRecord, used)),
            padding: [0; 4],
        }
    }
}

impl DevicePage for Page {
    fn load(&self, offset: u32) -> u32 {
        let is_address = (QUEUE_DESCRIPTORS..CONFIGURATION).contains(&offset);
        assert!(offset.is_multiple_of(4) && (is_address || offset == COPYING), "load of {offset:#x}");
        self.word(offset)
    }

    fn store(&self, offset: u32, value: u32) {
        let is_record = (record_offset(0)..record_offset(2)).contains(&offset);
        assert!(offset.is_multiple_of(4) && (is_record || offset == GENERATION), "store to {offset:#x}");
        self.stored.borrow_mut().push(offset);
        self.poke(offset, value);
    }

    fn full_barrier(&self) {}
}
