//! Grid limiter: at most `events` notifications in each window of an absolute grid (CH-30..CH-36, `real-time.md` 3.4).
//!
//! The state is one 64-bit word, the window's number in bits 63:24 and the notifications it has let through in bits 23:0
//! (`DoorbellPlan::words` of `core/abi`). It is the only word in the system that several cores write, so it
//! is changed by compare-and-swap alone, and a call makes a bounded number of attempts. The order of memory accesses is
//! relaxed: the word counts and guards nothing. The sender's data was published with release order before the limiter
//! was asked, and the interrupt carries its own barrier.
//!
//! Bound: in any half-open interval of length d at most `events * (ceil(d / period) + 1)` notifications pass ([`bound`]).
//!
//! Latency: a notification that was held back is not sent later. Its data waits for the receiver's poll or for the next
//! notification that passes, so the bound is the poll's (`real-time.md` 3.4, the case "suppressed, receiver polls").
//!
//! Rejected alternatives:
//!
//! - *A latch* that releases one notification at the next boundary bounds the latency by the period, and needs a timer on
//!   the receiver's core, which a `direct` partition does not have.
//! - *Window and count in two words.* Two first senders of a fresh window both pass with `events` = 1, three senders all
//!   pass (RATE-04). `tests/interleavings.rs` keeps that rule alive as a counterexample.
//! - *Testing the window for equality only*, as `real-time.md` 3.4 writes the rule. A sender that read the clock just
//!   before a boundary and is overtaken there would set the word back to the old window, and the new window would be
//!   counted from zero once more. A word that is at most [`LATE_WINDOWS`] ahead of the caller's clock is therefore
//!   charged as it stands. Whenever clock readings reach the word in order, both rules give the same answers.
//! - *A log of time stamps* (a sliding window) halves the worst burst at a boundary and needs `events` words and a lock.

use core::sync::atomic::{AtomicU64, Ordering};

/// Bits of the word that hold the count; the window's number is above them.
const USED_BITS: u32 = 24;
/// Mask of the count.
const USED_MASK: u64 = (1 << USED_BITS) - 1;
/// Mask of a window's number after shifting down.
const WINDOW_MASK: u64 = u64::MAX >> USED_BITS;

/// How many windows a caller's clock reading may lie behind the word and still be taken for a late sender.
///
/// Beyond that the word is taken for an old one whose number has wrapped. The price of the tolerance: a doorbell that is
/// rung for the first time after 2^40 - 256 or more windows of silence (35 years of 1 ms windows) can be held back for at
/// most 256 windows.
pub const LATE_WINDOWS: u64 = 256;

/// Most attempts of one call, however many events a window has: the call runs at EL2 and its time is bounded.
///
/// A failed attempt means that another sender of the same doorbell passed meanwhile, so a call that fails this often is
/// one of many rings at the same instant, and the receiver is being told anyway.
pub const MAX_ATTEMPTS: u32 = 16;

/// What happens to a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Raise the interrupt.
    Send,
    /// Do not; the data stays in the channel and the receiver's poll finds it.
    Limited,
}

/// The limiter's word. A trait, so that the interleaving tests run the very same code on the model checker's atomics.
pub trait Word {
    /// Loads the word, relaxed.
    fn load(&self) -> u64;

    /// Replaces `current` by `new`; returns false when the word had another value (or, as LL/SC may, for no reason).
    fn compare_exchange_weak(&self, current: u64, new: u64) -> bool;
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        Self::load(self, Ordering::Relaxed)
    }

    #[inline]
    fn compare_exchange_weak(&self, current: u64, new: u64) -> bool {
        Self::compare_exchange_weak(self, current, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Asks whether a notification at `now_ticks` may pass, and counts it if it may.
///
/// `period_ticks` and `events` come from the plan (`DoorbellPlan` of `core/abi`). A period of 0 means "no
/// limiter": everything passes and the word is not touched. More than 2^24 - 1 events per window are counted as that many.
///
/// At most `events + 1` attempts, and never more than [`MAX_ATTEMPTS`]; when they run out the answer is
/// [`Verdict::Limited`], which errs on the side of the receiver.
#[inline]
#[must_use]
pub fn try_pass(word: &AtomicU64, now_ticks: u64, period_ticks: u64, events: u32) -> Verdict {
    try_pass_on(word, now_ticks, period_ticks, events)
}

/// As [`try_pass`], on any [`Word`].
#[inline]
#[must_use]
pub fn try_pass_on<W: Word>(word: &W, now_ticks: u64, period_ticks: u64, events: u32) -> Verdict {
    let Some(quotient) = now_ticks.checked_div(period_ticks) else {
        return Verdict::Send;
    };
    let now_window = quotient & WINDOW_MASK;
    let limit = u64::from(events).min(USED_MASK);
    let mut attempts = MAX_ATTEMPTS.min(events.saturating_add(1));
    while attempts > 0 {
        let seen = word.load();
        let window = seen >> USED_BITS;
        let ahead = window.wrapping_sub(now_window) & WINDOW_MASK;
        let (charged, used) = if ahead <= LATE_WINDOWS { (window, seen & USED_MASK) } else { (now_window, 0) };
        if used >= limit {
            return Verdict::Limited;
        }
        if word.compare_exchange_weak(seen, (charged << USED_BITS) | used.wrapping_add(1)) {
            return Verdict::Send;
        }
        attempts = attempts.wrapping_sub(1);
    }
    Verdict::Limited
}

/// Returns the most notifications that can pass in any half-open interval of `interval_ticks`.
///
/// This is the figure that an analysis charges to the receiver: `events * (ceil(interval / period) + 1)`, saturating.
/// `None` when `period_ticks` is 0, because then there is no bound.
#[cfg(not(target_os = "none"))]
#[must_use]
pub const fn bound(interval_ticks: u64, period_ticks: u64, events: u32) -> Option<u64> {
    if period_ticks == 0 {
        return None;
    }
    if interval_ticks == 0 {
        return Some(0);
    }
    let windows = interval_ticks.div_ceil(period_ticks).saturating_add(1);
    Some(windows.saturating_mul(events as u64))
}
