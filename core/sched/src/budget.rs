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
#[cfg(feature = "mutants")]
mod mutant;
mod pibs;
mod sporadic;

pub use bulkhead_words::Anchor;
pub use deferrable::{Deferrable, Filled, Polling};
pub use pibs::{Client, MAX_CLIENTS, Pibs, PibsRule, Share};
pub use sporadic::{Chunk, MAX_CHUNKS, Sporadic, SporadicParameters};

#[cfg(feature = "mutants")]
pub use mutant::Mutant;

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

/// Hands each question to the rule that a budget is, and says what one without a limit answers.
macro_rules! rules {
    ($($question:ident($($argument:ident),+) $(-> $answer:ty)? = $unlimited:expr;)+) => {
        impl BudgetRule for Budget {
            // The two rules on the path that a guest waits for are looked at first; the others are a call away.
            $(#[inline]
            fn $question(&mut self, $($argument: u64),+) $(-> $answer)? {
                #[inline(never)]
                fn of_other(budget: &mut Budget, $($argument: u64),+) $(-> $answer)? {
                    match budget {
                        Budget::Deferrable(rule) => rule.$question($($argument),+),
                        Budget::Polling(rule) => rule.$question($($argument),+),
                        Budget::Pibs(rule) => rule.$question($($argument),+),
                        Budget::Unlimited | Budget::Sporadic(_) => $unlimited,
                    }
                }
                match self {
                    Self::Sporadic(rule) => rule.$question($($argument),+),
                    Self::Unlimited => $unlimited,
                    _ => of_other(self, $($argument),+),
                }
            })+
        }
    };
}

rules! {
    capacity_ticks(now) -> u64 = UNBOUNDED_TICKS;
    next_event_ticks(now) -> Option<u64> = None;
    wake(now) = ();
    dispatch(now) = ();
    charge(now, used_ticks) = ();
    block(now) = ();
    charge_unused(now, ticks) = ();
}

/// The rule whose time belongs to clients, for code that need not know which one that is.
pub(crate) type WithClients = Pibs;

/// What the scheduler asks beyond [`BudgetRule`]: the short ways of the plain rules, and what only some rules have.
///
/// The rules on the path that a guest waits for are *plain*: the usual event changes nothing but the chunk at their head. The
/// scheduler then takes a way without calls, in which it is told when that was not the case, and goes the long one.
impl Budget {
    /// States whether the short ways serve the rule.
    #[inline]
    pub(crate) const fn is_plain(&self) -> bool {
        matches!(self, Self::Unlimited | Self::Sporadic(_))
    }

    /// [`BudgetRule::wake`] of a plain rule; returns whether it can be used then.
    #[inline(always)]
    pub(crate) fn wake_plain(&mut self, now: u64) -> bool {
        if let Self::Sporadic(rule) = self {
            rule.wake(now);
            return rule.capacity_ticks(now) != 0;
        }
        true
    }

    /// [`BudgetRule::dispatch`] of a plain rule with budget in the queue, if it starts again; returns until when it may run, and
    /// nothing when that takes the long way.
    #[inline(always)]
    pub(crate) fn dispatch_plain(&mut self, starts: bool, now: u64) -> Option<u64> {
        match self {
            // It is in the queue, so it has something that is due.
            Self::Sporadic(rule) => {
                (!starts || rule.dispatch_without_lag(now)).then(|| now.wrapping_add(rule.due_ticks()))
            }
            Self::Unlimited => Some(u64::MAX),
            _ => None,
        }
    }

    /// A plain rule has something to use.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    #[inline(always)]
    pub(crate) const fn is_back_plain(&self, now: u64) -> bool {
        match self {
            Self::Sporadic(rule) => rule.is_due(now),
            _ => true,
        }
    }

    /// [`BudgetRule::charge`] of a plain rule; returns false, and charges nothing, when that takes the long way.
    #[inline(always)]
    pub(crate) fn charge_plain(&mut self, used_ticks: u64) -> bool {
        match self {
            Self::Sporadic(rule) => rule.charge_within_head(used_ticks),
            Self::Unlimited => true,
            _ => false,
        }
    }

    /// A plain rule woke at `from`, ran for `used_ticks` and is done; returns false, with nothing charged, when that takes the
    /// long way.
    #[inline(always)]
    pub(crate) fn visit_plain(&mut self, from: u64, used_ticks: u64) -> bool {
        if let Self::Sporadic(rule) = self {
            // It may be told again, at the same instant. After it no lag is left to clamp.
            rule.wake(from);
            return used_ticks == 0 || rule.charge_within_head(used_ticks);
        }
        true
    }

    /// The smallest remainder that a plain rule keeps.
    #[inline]
    pub(crate) const fn smallest_ticks(&self) -> u64 {
        match self {
            Self::Sporadic(rule) => rule.parameters().smallest_chunk_ticks,
            _ => 1,
        }
    }

    /// The rule with its clients, if its time belongs to some.
    #[inline]
    pub(crate) const fn clients(&self) -> Option<&WithClients> {
        match self {
            Self::Pibs(rule) => Some(rule),
            _ => None,
        }
    }

    /// The same, for what its clients ask.
    #[inline]
    pub(crate) const fn of_clients(&mut self) -> Option<&mut WithClients> {
        match self {
            Self::Pibs(rule) => Some(rule),
            _ => None,
        }
    }

    /// Stands where no server is.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub(crate) const BLANK: Self = Self::Sporadic(Sporadic::blank());

    /// Becomes a rule with such parameters, which the caller has checked, whose chunks are dated by their use and whose whole budget may
    /// be used from `start_ticks` on. In place.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub(crate) fn renew(&mut self, parameters: SporadicParameters, start_ticks: u64) {
        if !matches!(self, Self::Sporadic(_)) {
            *self = Self::BLANK;
        }
        if let Self::Sporadic(rule) = self {
            rule.renew(parameters, start_ticks);
        }
    }

    /// [`BudgetRule::wake`] of a plain rule; returns what it can use then, 0 for nothing.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    #[inline(always)]
    pub(crate) fn wake_plain_with(&mut self, now: u64) -> u64 {
        if let Self::Sporadic(rule) = self {
            rule.wake(now);
            return rule.capacity_ticks(now);
        }
        UNBOUNDED_TICKS
    }

    /// When a part of the budget that is handed on at `now` is no longer good: a period after the date of the oldest chunk, or at the
    /// end of the period. A server that sleeps would date its budget `now`. `None` when there is no budget to divide.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub(crate) fn claim_end_ticks(&mut self, sleeps: bool, now: u64) -> Option<u64> {
        match self {
            Self::Sporadic(rule) => {
                let date_ticks = if sleeps { rule.oldest_ticks().max(now) } else { rule.oldest_ticks() };
                Some(date_ticks.saturating_add(rule.parameters().period_ticks))
            }
            Self::Deferrable(rule) => rule.next_event_ticks(now),
            Self::Polling(rule) => rule.next_event_ticks(now),
            Self::Unlimited | Self::Pibs(_) => None,
        }
    }

    /// When everything that was used is back, debts included, if nothing more is used; and the period. `None` for a rule that has
    /// no chunks.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub(crate) fn all_back_ticks(&self) -> Option<(u64, u64)> {
        match self {
            Self::Sporadic(rule) => Some((rule.newest_ticks(), rule.parameters().period_ticks)),
            _ => None,
        }
    }

    /// Nothing bounds it.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub(crate) const fn is_unlimited(&self) -> bool {
        matches!(self, Self::Unlimited)
    }

    /// Gives the rule another budget ([`Sporadic::reconfigure`]); `None` for a rule that cannot be changed.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub(crate) fn reconfigure(&mut self, parameters: SporadicParameters, now: u64) -> Option<Result<(), BudgetError>> {
        match self {
            Self::Sporadic(rule) => Some(rule.reconfigure(parameters, now)),
            _ => None,
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
