//! From a message to its handling on another core (`real-time.md` 3.4; CH-38).

/// A doorbell and the one who receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// From the sender's call to the interrupt at the receiver's core.
    pub delivery_ticks: u64,
    /// Window of the limiter; `None` without a limiter.
    pub limiter_period_ticks: Option<u64>,
    /// A notification that is held back is sent at the next window (`bulkhead_sched::latch`). The monitor drops it and tells the sender, as
    /// the seed does.
    pub latched: bool,
    /// The receiver polls with this period and this jitter.
    pub polling_ticks: Option<(u64, u64)>,
    /// Response of the receiver for everything that may wait: the ring's capacity, not one message.
    pub receiver_response_ticks: u64,
}

/// Bounds of a [`Notification`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotificationBound {
    /// Within the limit.
    pub within_limit_ticks: u64,
    /// Held back by the limiter; the same as within the limit when there is none, `None` when it may never be seen.
    pub held_back_ticks: Option<u64>,
}

impl Notification {
    /// Computes the bounds.
    #[must_use]
    pub fn bound(&self) -> NotificationBound {
        let response = self.receiver_response_ticks;
        let within_limit_ticks = self.delivery_ticks.saturating_add(response);
        let Some(window) = self.limiter_period_ticks else {
            return NotificationBound { within_limit_ticks, held_back_ticks: Some(within_limit_ticks) };
        };
        let latch = self.latched.then(|| window.saturating_add(self.delivery_ticks));
        let poll = self.polling_ticks.map(|(period, jitter)| period.saturating_add(jitter));
        let noticed = match (latch, poll) {
            (Some(latch), Some(poll)) => Some(latch.min(poll)),
            (latch, poll) => latch.or(poll),
        };
        NotificationBound { within_limit_ticks, held_back_ticks: noticed.map(|ticks| ticks.saturating_add(response)) }
    }
}
