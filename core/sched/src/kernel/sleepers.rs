//! When somebody who sleeps is to be woken (QV-23).

use super::{KernelCore, Stint};
use crate::dates::{Dates, NEVER};

/// The date of the earliest sleeper of each server. Who sleeps, and who comes after the earliest one, the kernel knows.
#[derive(Clone, Debug)]
pub struct Sleepers<const SERVERS: usize> {
    dates: Dates<SERVERS>,
}

impl<const SERVERS: usize> Default for Sleepers<SERVERS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SERVERS: usize> Sleepers<SERVERS> {
    /// Nobody sleeps.
    #[must_use]
    pub const fn new() -> Self {
        Self { dates: Dates::new() }
    }

    /// The earliest sleeper of a server is to be woken then; `u64::MAX` when it has none. Logarithmic.
    pub fn set(&mut self, slot: u8, date_ticks: u64) {
        self.dates.set(slot, date_ticks);
    }

    /// A server with a sleeper that is due by `now`; the first one in the order of the slots.
    #[must_use]
    pub fn due(&self, now: u64) -> Option<u8> {
        self.dates.due(now)
    }

    /// The earliest date that matters while who was chosen last runs: that of a server at its level or above. Who is less important
    /// would wait anyway, and is looked at when the core is free. Without budget, and while nobody runs, all matter.
    #[must_use]
    pub fn next_ticks(&self, core: &KernelCore<SERVERS>) -> u64 {
        let running = core.running();
        if running == Stint::IDLE || running.is_background() {
            return self.dates.earliest();
        }
        let below = usize::from(running.level()).saturating_add(1);
        let count = core.above.get(below).map_or(SERVERS, |count| usize::from(*count));
        if self.dates.earliest() == NEVER { NEVER } else { self.dates.earliest_of_first(count) }
    }
}
