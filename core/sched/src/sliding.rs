//! Sliding limiter: at most `EVENTS` notifications in any window of a period, for a doorbell with one sender.
//!
//! It keeps the instants of the last `EVENTS` notifications in a ring and lets another one pass when the oldest is a
//! period ago. At most `EVENTS * ceil(d / period)` pass in any interval d: no double hit at a window boundary, unlike the
//! grid form ([`crate::limiter`]). The price is a word per event and a single sender, because the ring is not atomic.

/// State of the limiter.
#[derive(Clone, Debug)]
pub struct SlidingLimiter<const EVENTS: usize> {
    /// Instants of the last notifications; the oldest is at `next` once the ring is full.
    stamps: [u64; EVENTS],
    next: usize,
    /// Notifications so far, at most `EVENTS`.
    known: usize,
}

impl<const EVENTS: usize> Default for SlidingLimiter<EVENTS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const EVENTS: usize> SlidingLimiter<EVENTS> {
    /// A limiter that has let nothing through yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { stamps: [0; EVENTS], next: 0, known: 0 }
    }

    /// Asks whether a notification at `now_ticks` may pass, and remembers it if it may. The clock never runs backwards.
    #[must_use]
    pub fn try_pass(&mut self, now_ticks: u64, period_ticks: u64) -> bool {
        let full = self.known >= EVENTS;
        let Some(oldest) = self.stamps.get_mut(self.next) else {
            return false;
        };
        if full && now_ticks < oldest.saturating_add(period_ticks) {
            return false;
        }
        *oldest = now_ticks;
        self.known = self.known.saturating_add(1).min(EVENTS);
        let next = self.next.saturating_add(1);
        self.next = if next < EVENTS { next } else { 0 };
        true
    }
}
