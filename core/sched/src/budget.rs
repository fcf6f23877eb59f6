//! Budget rules: how a server's time is spent and how it comes back (`real-time.md` 1.4 and section 2).
//!
//! Every rule is a pure state machine behind [`BudgetRule`]; the core's scheduler ([`crate::dispatch`]) never looks inside.
//! All of them keep four promises, which `tests/properties.rs` checks on random histories:
//!
//! - R1: charging never increases the time that is usable now or scheduled for later.
//! - R2: without a call in between, the capacity grows only at the instants that `next_event_ticks` reports.
//! - R3: `wake`, `dispatch` and `block`, however often at one instant, create no time.
//! - R4: `next_event_ticks(now) > now`.
//!
//! Times are ticks of one monotonic counter. Every period is at most [`MAX_PERIOD_TICKS`] and every date stays below
//! [`END_OF_TIME_TICKS`], so that no sum on a hot path can wrap; the additions saturate all the same, because code at EL2
//! must not depend on that argument for memory of its own.
//!
//! Rejected: one rule with many parameters. The rules differ in *how* budget returns, and a deferrable server written as
//! a sporadic server with one chunk would inherit the wrong bound (`real-time.md` 2.2, the double hit).

mod deferrable;
mod pibs;
mod sporadic;

pub use bulkhead_words::Anchor;
pub use deferrable::{Deferrable, Polling};
pub use pibs::{Client, MAX_CLIENTS, Pibs, PibsRule, Share};
pub use sporadic::{Chunk, MAX_CHUNKS, Sporadic, SporadicParameters};

#[cfg(feature = "mutants")]
pub use sporadic::Mutant;

/// Longest period that a rule accepts: 2^56 ticks (2.28 years of nanoseconds).
pub const MAX_PERIOD_TICKS: u64 = 1 << 56;

/// No date may reach this: five maximum periods and more remain above it.
pub const END_OF_TIME_TICKS: u64 = u64::MAX - 8 * MAX_PERIOD_TICKS;

/// Capacity of a rule without a limit.
pub const UNBOUNDED_TICKS: u64 = u64::MAX;

/// Why parameters were refused. The host tool turns this into a diagnostic with the place in the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetError {
    /// The budget is zero, or larger than the period.
    BudgetOutsidePeriod,
    /// The period is longer than [`MAX_PERIOD_TICKS`].
    PeriodTooLong,
    /// A sporadic server needs 2 to [`MAX_CHUNKS`] chunks.
    ChunkCount,
    /// The smallest chunk is zero or larger than the budget (or than the grant of a PIBS server).
    SmallestChunk,
    /// A PIBS server's share is not a fraction between 0 and 1 (both excluded).
    Share,
    /// A PIBS server needs 1 to [`MAX_CLIENTS`] clients, shortest period first, priorities in the same order.
    Clients,
}

/// What the scheduler asks of a budget rule. The caller's clock never runs backwards.
pub trait BudgetRule {
    /// Time that is usable at `now`; 0 when there is none.
    fn capacity_ticks(&mut self, now: u64) -> u64;

    /// When the capacity may grow without a call, always later than `now`. `None` when it never does.
    fn next_event_ticks(&mut self, now: u64) -> Option<u64>;

    /// The owner became ready.
    fn wake(&mut self, now: u64);

    /// The owner gets the core through this rule.
    fn dispatch(&mut self, now: u64);

    /// The owner ran for `used_ticks`, until `now`. More than the capacity is a debt, which later budget pays.
    fn charge(&mut self, now: u64, used_ticks: u64);

    /// The owner stopped being ready.
    fn block(&mut self, now: u64);

    /// The owner is charged for `ticks` in which it did not run, what is missing to its least charge (`real-time.md` 1.5): as if
    /// it had gone on so long. More than the capacity is a debt.
    fn charge_unused(&mut self, now: u64, ticks: u64) {
        self.charge(now, ticks);
    }
}

/// The budget rule of one server.
// The sporadic server's ring is the largest by far and also the common case, and there is no allocator to box it with.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
// A tag of its own: one that hides in a field of a rule costs four instructions whenever it is read.
#[repr(u8)]
pub enum Budget {
    /// Always usable: background servers, dedicated cores, the two guests of SPUMONE.
    Unlimited,
    /// Sporadic server: guaranteed guests and capped ones.
    Sporadic(Sporadic),
    /// Deferrable server: keeps its budget until the period ends.
    Deferrable(Deferrable),
    /// Polling server: loses its budget when it has nothing to do.
    Polling(Polling),
    /// Server for work on behalf of others, at a share of the processor.
    Pibs(Pibs),
}

// The two rules on the path that a guest waits for are looked at first; the others are a call away.
impl BudgetRule for Budget {
    #[inline]
    fn capacity_ticks(&mut self, now: u64) -> u64 {
        match self {
            Self::Sporadic(rule) => rule.capacity_ticks(now),
            Self::Unlimited => UNBOUNDED_TICKS,
            _ => self.other_capacity_ticks(now),
        }
    }

    #[inline]
    fn next_event_ticks(&mut self, now: u64) -> Option<u64> {
        match self {
            Self::Sporadic(rule) => rule.next_event_ticks(now),
            Self::Unlimited => None,
            _ => self.other_next_event_ticks(now),
        }
    }

    #[inline]
    fn wake(&mut self, now: u64) {
        match self {
            Self::Sporadic(rule) => rule.wake(now),
            Self::Unlimited => {}
            _ => self.other_wake(now),
        }
    }

    #[inline]
    fn dispatch(&mut self, now: u64) {
        match self {
            Self::Sporadic(rule) => rule.dispatch(now),
            Self::Unlimited => {}
            _ => self.other_dispatch(now),
        }
    }

    #[inline]
    fn charge(&mut self, now: u64, used_ticks: u64) {
        match self {
            Self::Sporadic(rule) => rule.charge(now, used_ticks),
            Self::Unlimited => {}
            _ => self.other_charge(now, used_ticks),
        }
    }

    #[inline]
    fn block(&mut self, now: u64) {
        match self {
            Self::Sporadic(rule) => rule.block(now),
            Self::Unlimited => {}
            _ => self.other_block(now),
        }
    }

    fn charge_unused(&mut self, now: u64, ticks: u64) {
        match self {
            Self::Deferrable(rule) => rule.charge_unused(now, ticks),
            Self::Polling(rule) => rule.charge_unused(now, ticks),
            _ => self.charge(now, ticks),
        }
    }
}

impl Budget {
    #[inline(never)]
    fn other_capacity_ticks(&mut self, now: u64) -> u64 {
        match self {
            Self::Deferrable(rule) => rule.capacity_ticks(now),
            Self::Polling(rule) => rule.capacity_ticks(now),
            Self::Pibs(rule) => rule.capacity_ticks(now),
            Self::Unlimited | Self::Sporadic(_) => UNBOUNDED_TICKS,
        }
    }

    #[inline(never)]
    fn other_next_event_ticks(&mut self, now: u64) -> Option<u64> {
        match self {
            Self::Deferrable(rule) => rule.next_event_ticks(now),
            Self::Polling(rule) => rule.next_event_ticks(now),
            Self::Pibs(rule) => rule.next_event_ticks(now),
            Self::Unlimited | Self::Sporadic(_) => None,
        }
    }

    #[inline(never)]
    fn other_wake(&mut self, now: u64) {
        match self {
            Self::Deferrable(rule) => rule.wake(now),
            Self::Polling(rule) => rule.wake(now),
            Self::Pibs(rule) => rule.wake(now),
            Self::Unlimited | Self::Sporadic(_) => {}
        }
    }

    #[inline(never)]
    fn other_dispatch(&mut self, now: u64) {
        match self {
            Self::Deferrable(rule) => rule.dispatch(now),
            Self::Polling(rule) => rule.dispatch(now),
            Self::Pibs(rule) => rule.dispatch(now),
            Self::Unlimited | Self::Sporadic(_) => {}
        }
    }

    #[inline(never)]
    fn other_charge(&mut self, now: u64, used_ticks: u64) {
        match self {
            Self::Deferrable(rule) => rule.charge(now, used_ticks),
            Self::Polling(rule) => rule.charge(now, used_ticks),
            Self::Pibs(rule) => rule.charge(now, used_ticks),
            Self::Unlimited | Self::Sporadic(_) => {}
        }
    }

    #[inline(never)]
    fn other_block(&mut self, now: u64) {
        match self {
            Self::Deferrable(rule) => rule.block(now),
            Self::Polling(rule) => rule.block(now),
            Self::Pibs(rule) => rule.block(now),
            Self::Unlimited | Self::Sporadic(_) => {}
        }
    }
}

/// Checks what every rule with a budget and a period asks for.
fn check_budget(budget_ticks: u64, period_ticks: u64) -> Result<(), BudgetError> {
    if period_ticks > MAX_PERIOD_TICKS {
        return Err(BudgetError::PeriodTooLong);
    }
    if budget_ticks == 0 || budget_ticks > period_ticks {
        return Err(BudgetError::BudgetOutsidePeriod);
    }
    Ok(())
}
