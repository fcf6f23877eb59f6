//! Records in this guest's memory, which the host reads from the machine's RAM after the run.
//!
//! A console ring holds the latest few thousand characters and loses what a reader was too slow for; a run of the experiments
//! has tens of thousands of samples in little host time. So records stay in memory and the console says where.

use crate::work::Record;
use bulkhead_sdk::println;

/// 64-bit words of the log.
const WORDS: usize = 400_000;

static mut STORE: [u64; WORDS] = [0; WORDS];

/// A log of records with a fixed number of words each.
pub(crate) struct Log {
    words_per_record: usize,
    used: usize,
    lost: u64,
}

impl Log {
    /// The log; there is one.
    pub(crate) fn new(words_per_record: usize) -> Self {
        Self { words_per_record: words_per_record.max(1), used: 0, lost: 0 }
    }

    /// Adds a record; counted as lost when there is no room.
    pub(crate) fn add(&mut self, record: &[u64]) {
        if record.len() != self.words_per_record || self.used + record.len() > WORDS {
            self.lost += 1;
            return;
        }
        for word in record {
            let at = (&raw mut STORE).cast::<u64>().wrapping_add(self.used);
            // SAFETY: `used` is below WORDS (checked above), this is the only user of the array on the only vCPU, and the write
            // is volatile because the reader is outside this program.
            unsafe { at.write_volatile(*word) };
            self.used += 1;
        }
    }

    /// Most records of this many words.
    pub(crate) const fn room(words_per_record: usize) -> usize {
        WORDS / words_per_record
    }

    /// The log as a slice of records of three words, which the caller fills; `count` of them are announced.
    pub(crate) fn requests() -> &'static mut [Record] {
        // SAFETY: a wire calls this once and makes no other log, so there is no other reference; the array is aligned to a
        // word, long enough, and any bytes are a record.
        unsafe { core::slice::from_raw_parts_mut((&raw mut STORE).cast::<Record>(), Self::room(3)) }
    }

    /// Prints where this many records of a wire are.
    pub(crate) fn announce_requests(count: usize) {
        Self { words_per_record: 3, used: 3 * count, lost: 0 }.announce();
    }

    /// Prints where the log is.
    pub(crate) fn announce(&self) {
        println!(
            "log address={:#x} words={} records={} lost={}",
            (&raw const STORE) as u64,
            self.words_per_record,
            self.used / self.words_per_record,
            self.lost,
        );
    }
}
