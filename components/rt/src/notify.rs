//! Notifications with a limit, and receivers that poll (CH-30 to CH-38, CH-42; `real-time.md` 3.4).
//!
//! A client that is to be limited holds a Call whose token is the address of a [`Record`]: no look-up, no lock (CH-33). The data is in its ring before
//! it asks. `core/sched` decides by the record's one word: at most `maximum` in each window of an absolute grid; then the real send is made, and the
//! sender is told which it was. What is held back is not lost: the receiver polls ([`Poll`]), or a task sends it when the next window begins
//! ([`release_due`]), and charges it to that window, so that the bound stays as it is.
//!
//! The published limiter keeps window and count in two words, and its window begins with the first late sender; several senders then pass more than the limit
//! (`core/sched`, RATE-04). A maximum of 0 is no limit (CH-37), which a report must say.

use crate::Kernel;
use bulkhead_kernel_abi::Code;
use bulkhead_sched::latch::{Latch, Outcome};
use core::sync::atomic::{AtomicU64, Ordering};

/// Window where nobody says another one (CH-37).
pub const DEFAULT_WINDOW_US: u32 = 1_000;
/// Notifications in a window where nobody says another number (CH-37).
pub const DEFAULT_MAXIMUM: u16 = 64;

/// Most notifications in each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Length of a window; 0 for no limit.
    pub window_ticks: u64,
    /// Notifications in it.
    pub maximum: u16,
}

impl Limit {
    /// A limit as a description says it, in ticks; a maximum of 0 is none.
    #[must_use]
    pub const fn in_ticks(maximum: u16, window_ticks: u64) -> Self {
        Self { window_ticks: if maximum == 0 { 0 } else { window_ticks }, maximum }
    }

    /// A limit as a receiver's creation says it; a maximum of 0 is none. A window is at least one tick: it is rounded up, so that no more pass.
    #[must_use]
    pub fn new(window_us: u32, maximum: u16, counter_hz: u64) -> Self {
        let ticks = u128::from(window_us).saturating_mul(u128::from(counter_hz)).div_ceil(1_000_000).max(1);
        let window_ticks = if maximum == 0 { 0 } else { u64::try_from(ticks).unwrap_or(u64::MAX) };
        Self { window_ticks, maximum }
    }

    /// No limit, which is dangerous: a sender decides how much time its receiver's core spends.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.window_ticks == 0
    }
}

/// What became of a notification that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The receiver has it.
    Now,
    /// It was over the limit: it is sent at this date by who releases, or the receiver's poll finds the data before.
    Limited {
        /// Start of the next window.
        release_at_ticks: u64,
    },
}

/// One limited way to an end point: of all senders together, or one per sender (CH-36).
#[derive(Debug)]
pub struct Record {
    word: AtomicU64,
    latch: Latch,
    limit: Limit,
    slot: u64,
    /// When what is held back is due; `u64::MAX` for nothing.
    due_ticks: AtomicU64,
    sent: AtomicU64,
    limited: AtomicU64,
    released: AtomicU64,
}

impl Record {
    /// A way by this slot, of ChaosRT's table.
    #[must_use]
    pub const fn new(limit: Limit, slot: u64) -> Self {
        Self {
            word: AtomicU64::new(0),
            latch: Latch::new(),
            limit,
            slot,
            due_ticks: AtomicU64::new(u64::MAX),
            sent: AtomicU64::new(0),
            limited: AtomicU64::new(0),
            released: AtomicU64::new(0),
        }
    }

    /// Its limit.
    #[must_use]
    pub const fn limit(&self) -> Limit {
        self.limit
    }

    /// Notifications sent at once, held back, and sent later (CH-42).
    #[must_use]
    pub fn counters(&self) -> [u64; 3] {
        [&self.sent, &self.limited, &self.released].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Notifies, within the limit (CH-31).
    ///
    /// # Errors
    /// What the send answers; the notification counts all the same.
    pub fn notify(&self, kernel: &mut impl Kernel) -> Result<Sent, Code> {
        self.notify_within(kernel, self.limit)
    }

    /// As [`Self::notify`], within another limit, which is the same at each call: one that is known when the program runs.
    ///
    /// # Errors
    /// As [`Self::notify`].
    pub fn notify_within(&self, kernel: &mut impl Kernel, limit: Limit) -> Result<Sent, Code> {
        let now = kernel.now_ticks();
        match self.latch.try_pass(&self.word, now, limit.window_ticks, u32::from(limit.maximum)) {
            Outcome::Latched { release_at_ticks } => {
                self.due_ticks.fetch_min(release_at_ticks, Ordering::Relaxed);
                self.limited.fetch_add(1, Ordering::Relaxed);
                Ok(Sent::Limited { release_at_ticks })
            }
            // Without a limit nothing is latched; with one its maximum is not 0.
            Outcome::Send | Outcome::Limited => {
                kernel.send(self.slot)?;
                self.sent.fetch_add(1, Ordering::Relaxed);
                Ok(Sent::Now)
            }
        }
    }

    fn events(&self) -> u32 {
        u32::from(self.limit.maximum)
    }

    /// Sends what was held back, if its window has come and has room. Returns when there is more to do; `u64::MAX` for never.
    ///
    /// # Errors
    /// What the send answers.
    pub fn release(&self, kernel: &mut impl Kernel) -> Result<u64, Code> {
        let now = kernel.now_ticks();
        if self.due_ticks.load(Ordering::Relaxed) > now {
            return Ok(self.due_ticks.load(Ordering::Relaxed));
        }
        // Before the latch is taken: a sender that is held back behind this sets it again.
        self.due_ticks.store(u64::MAX, Ordering::Relaxed);
        match self.latch.release(&self.word, now, self.limit.window_ticks, self.events()) {
            None | Some(Outcome::Limited) => {}
            Some(Outcome::Send) => {
                kernel.send(self.slot)?;
                self.released.fetch_add(1, Ordering::Relaxed);
            }
            Some(Outcome::Latched { release_at_ticks }) => {
                self.due_ticks.fetch_min(release_at_ticks, Ordering::Relaxed);
            }
        }
        Ok(self.due_ticks.load(Ordering::Relaxed))
    }
}

/// What the task does that releases: all records once. Returns when it has to run again.
pub fn release_due(records: &[Record], kernel: &mut impl Kernel) -> u64 {
    let mut next_ticks = u64::MAX;
    for record in records {
        // A send that is refused has no receiver any more.
        next_ticks = next_ticks.min(record.release(kernel).unwrap_or(u64::MAX));
    }
    next_ticks
}

/// A receiver that polls beside being notified, in the same thread and on the same budget (CH-38).
///
/// Dates are those of an absolute grid, so that a late look does not move the next one. Each time it takes at most what was there when it began:
/// "until it is empty" has no bound while senders refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    period_ticks: u64,
}

impl Poll {
    /// A poll at every multiple of this; at least a tick.
    #[must_use]
    pub const fn new(period_ticks: u64) -> Self {
        Self { period_ticks: if period_ticks == 0 { 1 } else { period_ticks } }
    }

    /// Deadline for the next `receive`.
    #[must_use]
    pub fn deadline_ticks(&self, now_ticks: u64) -> u64 {
        let into = now_ticks.checked_rem(self.period_ticks).unwrap_or(0);
        now_ticks.saturating_sub(into).saturating_add(self.period_ticks)
    }

    /// Takes what was there at the beginning: `present` entries, at most `capacity`. Returns how many were taken.
    pub fn take<T>(
        present: usize,
        capacity: usize,
        mut pop: impl FnMut() -> Option<T>,
        mut handle: impl FnMut(T),
    ) -> usize {
        let most = present.min(capacity);
        for taken in 0..most {
            let Some(one) = pop() else { return taken };
            handle(one);
        }
        most
    }
}
