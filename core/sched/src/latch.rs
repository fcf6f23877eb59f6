//! A latch beside the grid limiter: a notification that is held back is sent at the next window, once.
//!
//! Without it the last message before a silence waits for the receiver's poll (`real-time.md` 3.4, RATE-02). With it the
//! wait ends at the next window boundary, and the released notification is charged to that window, so the bound of the
//! limiter stays as it is. The price is a timer at the boundary on a core that can take it, which a core with a `direct`
//! partition cannot; that is why the latch is beside the limiter ([`crate::limiter`]) and not in its word.
//!
//! Who is told to hold back gets the instant at which [`Latch::release`] is to be called. If that call comes before the
//! latch was set, the sender's own instant has passed and its caller releases at once, so no latch is left behind.

use crate::limiter::{self, Verdict, Word};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The latch's bit. A trait, so that the interleaving tests run the very same code on the model checker's atomics.
pub trait Flag {
    /// Sets it, relaxed.
    fn set(&self);

    /// Clears it and returns whether it was set.
    fn take(&self) -> bool;
}

impl Flag for AtomicBool {
    /// An exchange like its counterpart: of two exchanges of one bit each sees the other or comes first, in every model.
    #[inline]
    fn set(&self) {
        self.swap(true, Ordering::Relaxed);
    }

    #[inline]
    fn take(&self) -> bool {
        self.swap(false, Ordering::Relaxed)
    }
}

/// What happens to a notification with a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Raise the interrupt.
    Send,
    /// It is latched; call [`Latch::release`] at this instant or later.
    Latched {
        /// Start of the next window.
        release_at_ticks: u64,
    },
    /// The limiter lets nothing pass, ever (no events per window), so nothing is latched.
    Limited,
}

/// One bit per doorbell. Several held-back notifications become one: the receiver looks at all of its data anyway.
#[derive(Debug, Default)]
pub struct Latch(AtomicBool);

impl Latch {
    /// An empty latch.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// As [`limiter::try_pass`], and a notification that does not pass is latched.
    #[must_use]
    pub fn try_pass(&self, word: &AtomicU64, now_ticks: u64, period_ticks: u64, events: u32) -> Outcome {
        try_pass_on(&self.0, word, now_ticks, period_ticks, events)
    }

    /// Releases what is latched, if the window of `now_ticks` has room. `None` when nothing is latched.
    #[must_use]
    pub fn release(&self, word: &AtomicU64, now_ticks: u64, period_ticks: u64, events: u32) -> Option<Outcome> {
        release_on(&self.0, word, now_ticks, period_ticks, events)
    }
}

/// As [`Latch::try_pass`], on any [`Flag`] and [`Word`].
#[must_use]
pub fn try_pass_on<F: Flag, W: Word>(flag: &F, word: &W, now_ticks: u64, period_ticks: u64, events: u32) -> Outcome {
    match limiter::try_pass_on(word, now_ticks, period_ticks, events) {
        Verdict::Send => Outcome::Send,
        Verdict::Limited if events == 0 => Outcome::Limited,
        Verdict::Limited => {
            flag.set();
            let into_window = now_ticks.checked_rem(period_ticks).unwrap_or(0);
            let release_at_ticks = now_ticks.saturating_sub(into_window).saturating_add(period_ticks);
            Outcome::Latched { release_at_ticks }
        }
    }
}

/// As [`Latch::release`], on any [`Flag`] and [`Word`].
#[must_use]
pub fn release_on<F: Flag, W: Word>(
    flag: &F,
    word: &W,
    now_ticks: u64,
    period_ticks: u64,
    events: u32,
) -> Option<Outcome> {
    flag.take().then(|| try_pass_on(flag, word, now_ticks, period_ticks, events))
}
