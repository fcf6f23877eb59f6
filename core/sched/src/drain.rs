//! How much one doorbell makes a kernel read from the rings of other instances (CH-39, CH-40, CH-41; `kernel.md` 6).
//!
//! Each source has a ring of its own with one writer. A doorbell takes what is there when it is heard: each source's write index is read
//! once, and no more than that is handled, [`ENTRIES`] of a source at most. What comes meanwhile has a doorbell of its own. So the work
//! of a doorbell is bounded whatever the senders do, and it can be done in slices: what is left is here and not on a stack.
//!
//! Rejected: reading until the rings are empty, as published. One sender that writes while its entries are read keeps the receiver there
//! for ever (`tests/drain.rs` shows it).

/// Entries of a ring.
pub const ENTRIES: u32 = 16;

/// Where a kernel is in the rings of its sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain<const SOURCES: usize> {
    /// Next entry of each source, and the end of what the last doorbell takes. Both run on and wrap.
    read: [u32; SOURCES],
    until: [u32; SOURCES],
    /// Source at which the last doorbell began.
    first: usize,
    /// Source that is read, as a distance from the first one; all are done when it is their number.
    at: usize,
    broken: u64,
}

impl<const SOURCES: usize> Default for Drain<SOURCES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SOURCES: usize> Drain<SOURCES> {
    /// Nothing was written, nothing is to be read.
    #[must_use]
    pub const fn new() -> Self {
        Self { read: [0; SOURCES], until: [0; SOURCES], first: 0, at: SOURCES, broken: 0 }
    }

    /// A doorbell was heard: reads every source's write index once. The source after the one that was first the last time is first
    /// now. Returns false, and does nothing, while entries of an earlier doorbell are left; they are to be taken first.
    ///
    /// An index that is further ahead than a ring is long is rubbish. Nothing is taken from that source, and it is counted.
    pub fn begin(&mut self, mut written: impl FnMut(usize) -> u32) -> bool {
        if self.at < SOURCES {
            return false;
        }
        let next = self.first.wrapping_add(1);
        self.first = if next < SOURCES { next } else { 0 };
        self.at = 0;
        for (source, (read, until)) in self.read.iter_mut().zip(&mut self.until).enumerate() {
            *until = written(source);
            if until.wrapping_sub(*read) > ENTRIES {
                self.broken = self.broken.wrapping_add(1);
                *read = *until;
            }
        }
        true
    }

    /// The next entry to handle: its source and its place in that ring. `None` when the doorbell is served.
    pub fn next_entry(&mut self) -> Option<(usize, usize)> {
        while self.at < SOURCES {
            let ahead = self.first.wrapping_add(self.at);
            let source = if ahead < SOURCES { ahead } else { ahead.wrapping_sub(SOURCES) };
            let (Some(read), Some(until)) = (self.read.get_mut(source), self.until.get(source)) else { return None };
            if *read != *until {
                let place = *read % ENTRIES;
                *read = read.wrapping_add(1);
                return Some((source, place as usize));
            }
            self.at = self.at.wrapping_add(1);
        }
        None
    }

    /// The read index of a source, for its writer.
    #[must_use]
    pub fn read_index(&self, source: usize) -> u32 {
        self.read.get(source).copied().unwrap_or(0)
    }

    /// How often a source's write index was rubbish.
    #[must_use]
    pub const fn broken(&self) -> u64 {
        self.broken
    }
}
