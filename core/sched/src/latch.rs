//! A latch beside the grid limiter: a notification that is held back is sent at the next window, once.
//!
//! Without it the last message before a silence waits for the receiver's poll (`real-time.md` 3.4, RATE-02). With it the
//! wait ends at the next window boundary, and the released notification is charged to that window, so the bound of the
//! limiter stays as it is. The price is a timer at the boundary on a core that can take it, which a core with a `direct`
//! partition cannot; that is why the latch is beside the limiter ([`crate::limiter`]) and not in its word.
//!
//! Who is told to hold back gets the instant at which [`Latch::release`] is to be called. If that call comes before the
//! latch was set, the sender's own instant has passed and its caller releases at once, so no latch is left behind.

use crate::limiter::{self, Verdict};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
        match limiter::try_pass(word, now_ticks, period_ticks, events) {
            Verdict::Send => Outcome::Send,
            Verdict::Limited if events == 0 => Outcome::Limited,
            Verdict::Limited => {
                self.0.store(true, Ordering::Relaxed);
                let into_window = now_ticks.checked_rem(period_ticks).unwrap_or(0);
                let release_at_ticks = now_ticks.saturating_sub(into_window).saturating_add(period_ticks);
                Outcome::Latched { release_at_ticks }
            }
        }
    }

    /// Releases what is latched, if the window of `now_ticks` has room. `None` when nothing is latched.
    #[must_use]
    pub fn release(&self, word: &AtomicU64, now_ticks: u64, period_ticks: u64, events: u32) -> Option<Outcome> {
        let latched = self.0.swap(false, Ordering::Relaxed);
        latched.then(|| self.try_pass(word, now_ticks, period_ticks, events))
    }
}
