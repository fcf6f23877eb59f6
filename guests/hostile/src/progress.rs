//! Where the list of attacks stands, kept over restarts.
//!
//! A restart scrubs this guest's RAM. The console ring is memory of its own and lives on, and its header has a word that
//! readers ignore: the number of the attack under way and the count of verdicts so far go there. The rejected alternative, the
//! partition's generation alone, cannot tell an attack that was stopped as stated from one that was not.

use crate::attack::Verdict;
use bulkhead_sdk::{abi::console::ConsoleHeader, information};
use core::{
    mem::offset_of,
    sync::atomic::{AtomicU64, Ordering},
};

/// Marks the word as written by this guest.
const MARK: u64 = 0xa7;
const MARK_SHIFT: u32 = 56;
/// Fields of 11 bits: attack, contained, unexpected, escaped, skipped.
const FIELD_BITS: u32 = 11;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;
const VERDICTS: [Verdict; 4] = [Verdict::Contained, Verdict::Unexpected, Verdict::Escaped, Verdict::Skipped];

/// Number of the attack under way (0: none yet) and verdicts so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) attack: u64,
    counts: [u64; 4],
}

fn word() -> Option<&'static AtomicU64> {
    let page = information::information().filter(|page| page.console.0 != 0)?;
    let address = page.console.0 + offset_of!(ConsoleHeader, reserved) as u64;
    // SAFETY: a header word of the own console ring, mapped while the guest runs and aligned; the ring's writer leaves it
    // alone.
    Some(unsafe { AtomicU64::from_ptr(address as *mut u64) })
}

impl Progress {
    /// States whether progress outlives a restart here.
    pub(crate) fn is_kept() -> bool {
        word().is_some()
    }

    /// Reads what a run before this one left; `None` at the first start.
    pub(crate) fn load() -> Option<Self> {
        let value = word()?.load(Ordering::Relaxed);
        let field = |index: u32| (value >> (index * FIELD_BITS)) & FIELD_MASK;
        (value >> MARK_SHIFT == MARK)
            .then(|| Self { attack: field(0), counts: [field(1), field(2), field(3), field(4)] })
    }

    /// Keeps it.
    pub(crate) fn save(&self) {
        let Some(word) = word() else {
            return;
        };
        let fields = core::iter::once(self.attack).chain(self.counts);
        let value = fields
            .zip(0..)
            .fold(MARK << MARK_SHIFT, |value, (field, index)| value | ((field & FIELD_MASK) << (index * FIELD_BITS)));
        word.store(value, Ordering::Release);
    }

    /// Counts a verdict.
    pub(crate) fn count(&mut self, verdict: Verdict) {
        for (known, count) in VERDICTS.iter().zip(&mut self.counts) {
            *count += u64::from(*known == verdict);
        }
    }

    /// Returns how often a verdict was counted.
    pub(crate) fn counted(&self, verdict: Verdict) -> u64 {
        VERDICTS.iter().zip(self.counts).find(|(known, _)| **known == verdict).map_or(0, |(_, count)| count)
    }
}
