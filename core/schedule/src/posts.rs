//! Software-generated interrupts to a vCPU that shares its core: posted in a word, with one physical interrupt for each absence.
//!
//! A physical software-generated interrupt cannot say for which vCPU of the core it is. So its sender sets a bit in a word of the
//! receiving vCPU, and wakes that core only if the word was empty: the one that filled it has done so.
//! The core looks at the words of its vCPUs *after* it has acknowledged that interrupt. It leaves the word of a vCPU that is not
//! loaded alone and reports that it is to wake; so posts that come meanwhile find the word filled and cost that core nothing. The
//! word is emptied when the vCPU is loaded, or at once if it is.
//!
//! One that is off or whose start waits takes nothing when it is loaded: a start after it would forget that.
//!
//! `tests/posts.rs` tries every order of senders, receiver, sleep, parking, off and start.

use core::sync::atomic::{AtomicU32, Ordering};

/// The word: bit k is the software-generated interrupt k. A trait, so that the searches run this code on words of their own.
pub trait Word {
    /// Sets bits, with release order: what the sender wrote comes before them. Returns what was set before.
    fn fill(&self, bits: u32) -> u32;
    /// Empties the word, with acquire order: what the senders wrote comes before what follows. Returns what was set.
    fn empty(&self) -> u32;
    /// Reads it. No order is needed: nothing is read by it.
    fn peek(&self) -> u32;
}

/// The sender's side; returns whether it is to wake the receiver's core, after this.
#[inline]
#[must_use]
pub fn post(word: &impl Word, bits: u32) -> bool {
    word.fill(bits) == 0
}

/// The receiver's side, for a vCPU that is loaded: what has become pending for it.
#[inline]
#[must_use]
pub fn take(word: &impl Word) -> u32 {
    word.empty()
}

/// The receiver's side, for a vCPU that is not loaded: whether it is to wake.
#[inline]
#[must_use]
pub fn is_posted(word: &impl Word) -> bool {
    word.peek() != 0
}

impl Word for AtomicU32 {
    #[inline]
    fn fill(&self, bits: u32) -> u32 {
        self.fetch_or(bits, Ordering::Release)
    }

    #[inline]
    fn empty(&self) -> u32 {
        self.swap(0, Ordering::Acquire)
    }

    #[inline]
    fn peek(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }
}
