//! The window of a pair: device page, pool, and how a back end stays out of a restart's way.

use crate::Memory;
use bulkhead_abi::virtio::{COPYING, DEVICE_PAGE_BYTES, GENERATION, QueueRecord, record_offset};
use core::mem::offset_of;

/// A queue of an incarnation of the front. Who finds the same one before and after an access knows whose memory it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    /// 0 = the front was never started.
    pub(crate) generation: u32,
    sequence: u32,
}

impl Incarnation {
    /// None; no other one equals it, as long as its front was started.
    pub(crate) const NONE: Self = Self { generation: 0, sequence: 0 };
}

/// The memory of a pair: the front's device page, then the pool up to the end.
#[derive(Debug)]
pub struct Window<M> {
    memory: M,
    /// Address of the pool, as the front's device sees it.
    pool_address: u64,
    pool_bytes: u32,
}

impl<M: Memory> Window<M> {
    /// Takes the window of a pair whose pool the front finds at `pool_address`; `None` when the window has no pool, or the pool
    /// would reach beyond the last address. Both come from the plan, never from the window.
    ///
    /// An announcement that an earlier back end left behind when it died is withdrawn. One back end at a time has a window.
    #[must_use]
    pub fn new(memory: M, pool_address: u64) -> Option<Self> {
        let pool_bytes = memory.bytes().checked_sub(DEVICE_PAGE_BYTES).filter(|bytes| *bytes != 0)?;
        pool_address.checked_add(u64::from(pool_bytes))?;
        let window = Self { memory, pool_address, pool_bytes };
        window.withdraw();
        Some(window)
    }

    /// Announces nothing. A front can write there too, and would hold up its own restart, so a back end says it again when it finds that
    /// the front is another one.
    pub(crate) fn withdraw(&self) {
        self.memory.store_word(COPYING, 0);
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// Where in the window bytes of the pool are; `None` when not all of them are in the pool.
    pub(crate) fn place(&self, address: u64, bytes: u32) -> Option<u32> {
        let offset = address.checked_sub(self.pool_address)?;
        let end = offset.checked_add(u64::from(bytes))?;
        if end > u64::from(self.pool_bytes) {
            return None;
        }
        u32::try_from(offset).ok()?.checked_add(DEVICE_PAGE_BYTES)
    }

    /// The queue that the front has now.
    pub(crate) fn incarnation(&self, queue: u32) -> Incarnation {
        let generation = self.memory.load_word(GENERATION);
        let sequence = self.memory.load_word(field(queue, offset_of!(QueueRecord, sequence)));
        Incarnation { generation, sequence }
    }

    /// The record of a queue, as it was written whole for this incarnation; `None` while it changes or when it has changed.
    pub(crate) fn record(&self, queue: u32, incarnation: Incarnation) -> Option<QueueRecord> {
        let word = |at: usize| self.memory.load_word(field(queue, at));
        let wide = |at: usize| u64::from(word(at)) | u64::from(word(at.wrapping_add(4))) << 32;
        let record = QueueRecord {
            sequence: incarnation.sequence,
            number: word(offset_of!(QueueRecord, number)),
            descriptors: wide(offset_of!(QueueRecord, descriptors)),
            available: wide(offset_of!(QueueRecord, available)),
            used: wide(offset_of!(QueueRecord, used)),
            padding: [0; 4],
        };
        let is_whole = incarnation.sequence & 1 == 0 && self.is_current(queue, incarnation);
        is_whole.then_some(record)
    }

    /// States whether what was loaded before belongs to this incarnation.
    pub(crate) fn is_current(&self, queue: u32, incarnation: Incarnation) -> bool {
        // A restart withdraws the generation before it clears anything. A load of what is cleared is followed by one of another generation here.
        self.memory.full_barrier();
        self.incarnation(queue) == incarnation
    }

    /// Announces a store of at most [`crate::COPY_BYTES`] to the memory of an incarnation, and makes it if that incarnation still is; returns
    /// whether it was made.
    pub(crate) fn announce(&self, queue: u32, incarnation: Incarnation, store: impl FnOnce(&M)) -> bool {
        self.memory.store_word(COPYING, incarnation.generation);
        // Between this store and the load of the generation. The restart has one between its store of the generation and its
        // load of the announcement: one of the two sees the other.
        let is_current = self.is_current(queue, incarnation);
        if is_current {
            store(&self.memory);
        }
        // Release order: the stores are before the withdrawal.
        self.withdraw();
        is_current
    }
}

/// A field of a record.
const fn field(queue: u32, offset: usize) -> u32 {
    record_offset(queue).wrapping_add(offset as u32)
}
