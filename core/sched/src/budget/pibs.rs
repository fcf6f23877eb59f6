//! Server for work on behalf of others (PIBS; `real-time.md` 2.3; QV-32..QV-35).
//!
//! A driver serves clients with different periods at a share U of the processor. It gets grants; when a grant is used up
//! or nothing is left to do, the next one is dated `used / U` after this one. Its priority is that of the waiting client
//! with the shortest period.
//!
//! The corrected rule ([`PibsRule::Corrected`]) grants `floor(U * shortest client period)` to any client, and settles
//! what was used before a more urgent client raises the priority. It consumes at most `U * d + G * (1 - U)` in a window
//! d, and interferes with less important work by `min(t, G + ceil((t - G) / U'))`, U' = 1 / U.
//!
//! The published rule ([`PibsRule::Published`]) exists for the experiments alone: its grant grows with the client's
//! period and survives a raise (PIBS-03), a long client starves a short one (PIBS-04), and it rounds in its own favour
//! (PIBS-05). The host tool offers it in experiments only.
//!
//! The requests themselves are in the driver's queue. This state knows how many of each client wait.

use super::{BudgetError, BudgetRule, MAX_PERIOD_TICKS};

/// Most clients of one server.
pub const MAX_CLIENTS: usize = 8;

/// A share of the processor as an exact fraction; floating point would round, and rounding leaks (PIBS-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Numerator, at least 1 and less than the denominator.
    pub numerator: u32,
    /// Denominator.
    pub denominator: u32,
}

impl Share {
    /// `floor(self * ticks)`, without a product that is wider than 64 bits.
    fn of(self, ticks: u64) -> u64 {
        scale(ticks, self.numerator, self.denominator, 0).0
    }

    /// `ticks / self` plus `carry / numerator`: whole ticks and the new carry.
    fn stretch(self, ticks: u64, carry: u64) -> (u64, u64) {
        scale(ticks, self.denominator, self.numerator, carry)
    }
}

/// `(ticks * multiplier + carry) / divisor` as quotient and remainder.
fn scale(ticks: u64, multiplier: u32, divisor: u32, carry: u64) -> (u64, u64) {
    let divisor = u64::from(divisor);
    let multiplier = u64::from(multiplier);
    let quotient = ticks.checked_div(divisor).unwrap_or(0);
    let remainder = ticks.checked_rem(divisor).unwrap_or(0);
    let small = remainder.saturating_mul(multiplier).saturating_add(carry);
    let whole = quotient.saturating_mul(multiplier).saturating_add(small.checked_div(divisor).unwrap_or(0));
    (whole, small.checked_rem(divisor).unwrap_or(0))
}

/// Whom the server works for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Period of the client's own server.
    pub period_ticks: u64,
    /// Priority at which the work of this client is done.
    pub priority: u8,
}

/// Which rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PibsRule {
    /// Constant grant, settled on a raise, exact remainders. The only one that systems may use.
    Corrected,
    /// As the Quest sources do it: for experiments.
    Published,
}

/// State of a PIBS server.
#[derive(Clone, Debug)]
pub struct Pibs {
    share: Share,
    rule: PibsRule,
    /// Grant of the corrected rule.
    grant_ticks: u64,
    /// When the next grant is due: whole ticks, and numerators of a tick (`carry / share.numerator`).
    eligible_ticks: u64,
    carry: u64,
    /// Used since the last settlement.
    used_ticks: u64,
    /// The grant in hand, usable from `ready_at_ticks`.
    hand_ticks: u64,
    ready_at_ticks: u64,
    clients: [Client; MAX_CLIENTS],
    waiting: [u32; MAX_CLIENTS],
    client_count: usize,
    /// The client that rules priority (and, published, the grant): an index into `clients`.
    leading: usize,
}

impl Pibs {
    /// A server whose first grant is due at `start_ticks`. `clients` are sorted, the shortest period first.
    ///
    /// # Errors
    ///
    /// When share, clients and `smallest_chunk_ticks` contradict each other ([`BudgetError`]).
    pub fn new(
        share: Share,
        rule: PibsRule,
        clients: &[Client],
        smallest_chunk_ticks: u64,
        start_ticks: u64,
    ) -> Result<Self, BudgetError> {
        if share.numerator == 0 || share.numerator >= share.denominator {
            return Err(BudgetError::Share);
        }
        let mut table = [Client::default(); MAX_CLIENTS];
        let sorted = clients.is_sorted_by(|a, b| a.period_ticks < b.period_ticks && a.priority <= b.priority);
        if clients.is_empty() || clients.len() > MAX_CLIENTS || !sorted {
            return Err(BudgetError::Clients);
        }
        for (place, client) in table.iter_mut().zip(clients) {
            *place = *client;
        }
        if clients.iter().any(|client| client.period_ticks > MAX_PERIOD_TICKS) {
            return Err(BudgetError::PeriodTooLong);
        }
        let grant_ticks = clients.first().map_or(0, |client| share.of(client.period_ticks));
        if smallest_chunk_ticks == 0 || grant_ticks < smallest_chunk_ticks {
            return Err(BudgetError::SmallestChunk);
        }
        Ok(Self {
            share,
            rule,
            grant_ticks,
            eligible_ticks: start_ticks,
            carry: 0,
            used_ticks: 0,
            hand_ticks: grant_ticks,
            ready_at_ticks: start_ticks,
            clients: table,
            waiting: [0; MAX_CLIENTS],
            client_count: clients.len(),
            leading: 0,
        })
    }

    /// The corrected rule's grant.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub const fn grant_ticks(&self) -> u64 {
        self.grant_ticks
    }

    /// When the next grant may be used, rounded up: never early.
    #[must_use]
    pub const fn eligible_at_ticks(&self) -> u64 {
        self.eligible_ticks.saturating_add((self.carry > 0) as u64)
    }

    /// The waiting client that is served next: the shortest period first. `None` when nobody waits.
    #[must_use]
    pub fn next_client(&self) -> Option<usize> {
        let mut clients = (0..self.client_count).zip(&self.waiting);
        clients.find(|(_, count)| **count > 0).map(|(client, _)| client)
    }

    /// Priority at which the server runs now.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.clients.get(self.leading).map_or(u8::MAX, |client| client.priority)
    }

    /// Every priority that the server can have.
    pub(crate) fn priorities(&self) -> impl Iterator<Item = u8> + '_ {
        self.clients.iter().take(self.client_count).map(|client| client.priority)
    }

    /// The most important priority that the server can ever have.
    #[must_use]
    pub fn best_priority(&self) -> u8 {
        self.clients.first().map_or(u8::MAX, |client| client.priority)
    }

    /// The least important priority that the server can ever have.
    #[must_use]
    pub fn lowest_priority(&self) -> u8 {
        let last = self.client_count.saturating_sub(1);
        self.clients.get(last).map_or(u8::MAX, |client| client.priority)
    }

    /// A request of client number `client` arrived. Returns false when there is no such client.
    pub fn request(&mut self, now: u64, client: usize) -> bool {
        if client >= self.client_count {
            return false;
        }
        let idle = self.next_client().is_none();
        let raises = client < self.leading;
        if let Some(count) = self.waiting.get_mut(client) {
            *count = count.saturating_add(1);
        }
        if !idle && !raises {
            return true;
        }
        self.leading = client;
        match self.rule {
            PibsRule::Corrected => {
                self.settle();
                self.forfeit_idle_time(now);
                self.grant();
            }
            PibsRule::Published if idle => {
                self.forfeit_idle_time(now);
                self.grant();
            }
            // A grant in hand is kept; one that is still due is resized for the new client.
            PibsRule::Published if self.ready_at_ticks > now => self.grant(),
            PibsRule::Published => {}
        }
        true
    }

    /// A request of client number `client` is done. The priority falls to the next waiting client's (corrected rule), or
    /// stays until the server is idle (published rule). Returns false when none of its requests waited.
    pub fn complete(&mut self, client: usize) -> bool {
        let Some(count) = self.waiting.get_mut(client).filter(|count| **count > 0) else {
            return false;
        };
        *count = count.saturating_sub(1);
        if let (PibsRule::Corrected, Some(next)) = (self.rule, self.next_client()) {
            self.leading = next;
        }
        true
    }

    /// No credit for time that passed while nobody asked.
    fn forfeit_idle_time(&mut self, now: u64) {
        if self.eligible_ticks < now {
            self.eligible_ticks = now;
            self.carry = 0;
        }
    }

    /// Pays for what was used by moving the date of the next grant.
    fn settle(&mut self) {
        let carry = if self.rule == PibsRule::Corrected { self.carry } else { 0 };
        let (ticks, carry) = self.share.stretch(self.used_ticks, carry);
        self.eligible_ticks = self.eligible_ticks.saturating_add(ticks);
        self.carry = if self.rule == PibsRule::Corrected { carry } else { 0 };
        self.used_ticks = 0;
        self.hand_ticks = 0;
    }

    /// Puts the next grant in hand, to be used from its date on.
    fn grant(&mut self) {
        self.hand_ticks = match self.rule {
            PibsRule::Corrected => self.grant_ticks,
            PibsRule::Published => {
                let period_ticks = self.clients.get(self.leading).map_or(0, |client| client.period_ticks);
                self.share.of(period_ticks)
            }
        };
        self.ready_at_ticks = self.eligible_at_ticks();
    }
}

impl BudgetRule for Pibs {
    #[inline]
    fn capacity_ticks(&mut self, now: u64) -> u64 {
        if self.ready_at_ticks <= now { self.hand_ticks } else { 0 }
    }

    #[inline]
    fn next_event_ticks(&mut self, now: u64) -> Option<u64> {
        (self.ready_at_ticks > now).then_some(self.ready_at_ticks)
    }

    /// A request says more, namely whose work it is ([`Pibs::request`]). Work that nobody requested, such as a restart by a watchdog,
    /// gets no credit for the time before it either.
    #[inline]
    fn wake(&mut self, now: u64) {
        if self.eligible_ticks < now {
            self.settle();
            self.forfeit_idle_time(now);
            self.grant();
        }
    }

    #[inline]
    fn dispatch(&mut self, _now: u64) {}

    fn charge(&mut self, _now: u64, used_ticks: u64) {
        self.used_ticks = self.used_ticks.saturating_add(used_ticks);
        self.hand_ticks = self.hand_ticks.saturating_sub(used_ticks);
        if self.hand_ticks == 0 {
            self.settle();
            self.grant();
        }
    }

    fn block(&mut self, _now: u64) {
        self.settle();
        self.grant();
    }
}
