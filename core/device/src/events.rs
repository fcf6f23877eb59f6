//! The event queue of the SMMU, as each owner of functions sees it (SMMUv3, IHI 0070, 3.5 and 7).
//!
//! There is one queue, no interrupt and no lock. Each owner looks by itself, keeps a cursor of its own, counts what names its own
//! functions, and gives the queue back by storing as consumer's index the producer's that it read. Any value that the producer's index once
//! had does no harm there: an older one makes the queue only seem fuller. So a look never waits for another one.
//!
//! What several lookers can do to each other is to let entries be overwritten that one of them has not read. That is seen: cursor and
//! producer's index are compared modulo twice the size of the queue, and an entry that may have been overwritten while it was
//! read is not believed. Then `lost` is counted, as it is when the queue was full and the SMMU dropped events.

use bulkhead_abi::devices::{EVENT_ENTRIES, EVENTS_PER_LOOK};

/// The overflow flag in both indices: the producer's, and what the consumer acknowledged.
const OVERFLOW: u32 = 1 << 31;

/// The queue, and the registers of its indices.
///
/// Duties of an implementer: the accesses are made in program order, whatever kind of memory each goes to.
pub trait Queue {
    /// Entries, a power of two.
    const ENTRIES: u32 = EVENT_ENTRIES;
    /// Most entries that one look takes.
    const PER_LOOK: u32 = EVENTS_PER_LOOK;

    /// Reads the producer's index (SMMU_EVENTQ_PROD).
    fn produced(&self) -> u32;
    /// Reads an entry's first 64-bit word, with type and StreamID, and its third, with the address.
    fn entry(&self, index: u32) -> [u64; 2];
    /// Writes the consumer's index (SMMU_EVENTQ_CONS).
    fn consume(&self, produced: u32);
}

/// A DMA that was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event(pub [u64; 2]);

impl Event {
    /// What was wrong with it: an event number of the SMMU.
    #[must_use]
    pub const fn kind(self) -> u8 {
        self.0[0] as u8
    }

    /// Who did it.
    #[must_use]
    pub const fn stream(self) -> u32 {
        (self.0[0] >> 32) as u32
    }

    /// Where to.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0[1]
    }
}

/// Where an owner is in the queue, and what it has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The entry that is next, modulo twice the size, and the overflow flag as it was last.
    seen: u32,
    /// Events of own functions.
    pub events: u64,
    /// Looks before which events may have been lost, own ones among them.
    pub lost: u64,
    /// The latest own one.
    pub last: Event,
}

impl Cursor {
    /// At the beginning of a queue of which nothing was seen.
    #[must_use]
    pub const fn new() -> Self {
        Self { seen: 0, events: 0, lost: 0, last: Event([0, 0]) }
    }

    /// Entries from the own place to a producer's index, modulo twice the size.
    const fn distance<Q: Queue>(&self, produced: u32) -> u32 {
        produced.wrapping_sub(self.seen) & (Q::ENTRIES << 1).wrapping_sub(1)
    }

    /// Takes what is new, at most [`Queue::PER_LOOK`] entries, and returns how many of them are about functions of this owner.
    pub fn look<Q: Queue>(&mut self, queue: &Q, is_own: impl Fn(u32) -> bool) -> u64 {
        let produced = queue.produced();
        if produced == self.seen {
            return 0;
        }
        let before = *self;
        let waiting = self.distance::<Q>(produced);
        let taken = waiting.min(Q::PER_LOOK);
        for place in 0..taken {
            let entry = Event(queue.entry(self.seen.wrapping_add(place) & Q::ENTRIES.wrapping_sub(1)));
            if is_own(entry.stream()) {
                self.events = self.events.wrapping_add(1);
                self.last = entry;
            }
        }
        // The oldest of them, too, were whole all the time only if the producer has not come round to it.
        if waiting >= Q::ENTRIES || taken != 0 && self.distance::<Q>(queue.produced()) >= Q::ENTRIES {
            *self = Self { seen: produced, lost: before.lost.wrapping_add(1), ..before };
        } else {
            let overflowed = (produced ^ before.seen) & OVERFLOW != 0;
            self.lost = before.lost.wrapping_add(u64::from(overflowed));
            let next = before.seen.wrapping_add(taken) & (Q::ENTRIES << 1).wrapping_sub(1);
            self.seen = next | produced & OVERFLOW;
        }
        queue.consume(produced);
        self.events.wrapping_sub(before.events)
    }

    /// Begins again behind all that is in the queue: it is about what was before.
    pub fn skip<Q: Queue>(&mut self, queue: &Q) {
        self.seen = queue.produced();
    }
}
