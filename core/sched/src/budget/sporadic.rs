//! Sporadic server (`real-time.md` 2.1; QV-24..QV-31).
//!
//! The budget is a ring of chunks `(date, amount)`, sorted, disjoint, and always summing to the budget. Running consumes
//! the oldest chunk, and what was consumed comes back one period after the date of the chunk it came from. An overrun
//! consumes the next chunks as well, so it is a debt and never a gift.
//!
//! The date of a chunk is moved forward when time passes that nobody asked for. [`Anchor`] says when:
//!
//! | anchor | most in a window d, J = response - budget | least supplied |
//! | --- | --- | --- |
//! | eligible | `stair(d + J)`: up to twice the budget per period | the budget in every period |
//! | dispatch | `stair(d)`: the budget, exactly | `budget * floor(d / (period + J))` |
//!
//! Below either one the interference in a busy window t is `ceil(t / period) * budget`.
//!
//! Rejected: the published POSIX rule (one activation time, overrun forgiven), which lets the budget grow without end
//! (SS-06) and returns budget early (SS-05); a list that drops what does not fit (SS-08), instead of delaying it.

use super::{BudgetError, BudgetRule, check_budget};

/// Most chunks of one server. A power of two, so that the ring's index is a mask.
pub const MAX_CHUNKS: usize = 16;
const INDEX_MASK: usize = MAX_CHUNKS - 1;

/// Which event dates the chunk that is about to be consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The owner became ready. For guaranteed guests: the supply matters.
    Eligible,
    /// The owner really got the core. For caps on untrusted or interrupt-driven servers: isolation matters.
    Dispatch,
}

/// A part of the budget: `amount_ticks` may be used from `date_ticks` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// First instant of use.
    pub date_ticks: u64,
    /// How much.
    pub amount_ticks: u64,
}

impl Chunk {
    /// The instant at which the chunk is used up if its use begins at its date.
    const fn end_ticks(self) -> u64 {
        self.date_ticks.saturating_add(self.amount_ticks)
    }
}

/// Parameters of a [`Sporadic`] server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SporadicParameters {
    /// Budget per period.
    pub budget_ticks: u64,
    /// Period.
    pub period_ticks: u64,
    /// A smaller remainder is given to the next chunk. At least twice the cost of an entry and exit of the monitor.
    pub smallest_chunk_ticks: u64,
    /// Chunks in the ring, 2 to [`MAX_CHUNKS`]. `ceil(budget / shortest run) + 1` never delays anything.
    pub chunks: u8,
    /// When chunks are dated.
    pub anchor: Anchor,
    /// Bounds what a starved server may catch up with (eligible anchor only): twice the budget per period. It changes
    /// nothing in a system whose response times hold.
    pub lag_clamp: bool,
}

/// A way to be wrong, for the tests that show that each of them is noticed.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutant {
    /// The rule as it should be.
    #[default]
    None,
    /// Waking leaves the date in the past: idle time becomes credit.
    NoReanchorOnWake,
    /// Consumed time comes back one period after the end of the run.
    DateAtEndOfRun,
    /// A part that finds the ring full is lost.
    DropWhenFull,
    /// A part that finds the ring full joins the last chunk at that chunk's date.
    MergeEarlyWhenFull,
    /// An overrun is forgiven.
    ClampOverrun,
    /// Moving the date merges chunks that are not due yet.
    MergeFutureChunks,
    /// Time comes back one tick early.
    PeriodOneShort,
    /// The lag clamp does nothing.
    NoLagClamp,
    /// Eligible and dispatch anchors are exchanged.
    WrongAnchor,
    /// Everything consumed comes back with its first part.
    WholeBudgetAtOnce,
}

/// A sporadic server's state.
#[derive(Clone, Debug)]
pub struct Sporadic {
    parameters: SporadicParameters,
    ring: [Chunk; MAX_CHUNKS],
    head: usize,
    length: usize,
    #[cfg(feature = "mutants")]
    mutant: Mutant,
}

/// True when the named mutant is compiled in and selected. Constant false in every product build.
macro_rules! mutated {
    ($server:expr, $mutant:ident) => {{
        #[cfg(feature = "mutants")]
        let selected = $server.mutant == Mutant::$mutant;
        #[cfg(not(feature = "mutants"))]
        let selected = false;
        selected
    }};
}

impl Sporadic {
    /// A server whose whole budget may be used from `start_ticks` on.
    ///
    /// # Errors
    ///
    /// When the parameters contradict each other ([`BudgetError`]).
    pub fn new(parameters: SporadicParameters, start_ticks: u64) -> Result<Self, BudgetError> {
        check_budget(parameters.budget_ticks, parameters.period_ticks)?;
        if parameters.chunks < 2 || usize::from(parameters.chunks) > MAX_CHUNKS {
            return Err(BudgetError::ChunkCount);
        }
        if parameters.smallest_chunk_ticks == 0 || parameters.smallest_chunk_ticks > parameters.budget_ticks {
            return Err(BudgetError::SmallestChunk);
        }
        let mut ring = [Chunk::default(); MAX_CHUNKS];
        if let Some(first) = ring.first_mut() {
            *first = Chunk { date_ticks: start_ticks, amount_ticks: parameters.budget_ticks };
        }
        Ok(Self {
            parameters,
            ring,
            head: 0,
            length: 1,
            #[cfg(feature = "mutants")]
            mutant: Mutant::None,
        })
    }

    /// The same server with one rule broken.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_mutant(mut self, mutant: Mutant) -> Self {
        self.mutant = mutant;
        self
    }

    /// The chunks, oldest first.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> + '_ {
        (0..self.length).map(|position| self.at(position))
    }

    /// The parameters it was made with.
    #[must_use]
    pub const fn parameters(&self) -> &SporadicParameters {
        &self.parameters
    }

    #[inline]
    fn at(&self, position: usize) -> Chunk {
        self.ring.get(self.head.wrapping_add(position) & INDEX_MASK).copied().unwrap_or_default()
    }

    #[inline]
    fn put(&mut self, position: usize, chunk: Chunk) {
        if let Some(place) = self.ring.get_mut(self.head.wrapping_add(position) & INDEX_MASK) {
            *place = chunk;
        }
    }

    #[inline]
    fn pop(&mut self) {
        self.head = self.head.wrapping_add(1) & INDEX_MASK;
        self.length = self.length.saturating_sub(1);
    }

    #[inline]
    fn last(&self) -> usize {
        self.length.saturating_sub(1)
    }

    /// Forfeits the credit for time that nobody asked for: a head that is due is dated now.
    fn reanchor(&mut self, now: u64) {
        let mut first = self.at(0);
        if first.date_ticks > now {
            return;
        }
        first.date_ticks = now;
        while self.length > 1 {
            let next = self.at(1);
            if next.date_ticks > first.end_ticks() && !mutated!(self, MergeFutureChunks) {
                break;
            }
            first.amount_ticks = first.amount_ticks.saturating_add(next.amount_ticks);
            self.pop();
        }
        self.put(0, first);
    }

    /// Dates no chunk earlier than "now + the work up to and including it - the period", so that what replaces it is not
    /// due before it can have run (`real-time.md` 2.1.3).
    fn lag_clamp(&mut self, now: u64) {
        let mut done_ticks = 0u64;
        let mut end_ticks = None;
        for position in 0..self.length {
            let mut chunk = self.at(position);
            if end_ticks.is_none() && chunk.date_ticks > now {
                return;
            }
            done_ticks = done_ticks.saturating_add(chunk.amount_ticks);
            let earliest = now.saturating_add(done_ticks).saturating_sub(self.parameters.period_ticks);
            chunk.date_ticks = chunk.date_ticks.max(earliest).max(end_ticks.unwrap_or(0));
            end_ticks = Some(chunk.end_ticks());
            self.put(position, chunk);
        }
    }

    /// Lets `amount` be used again from `date` on. Nothing moves earlier: a part joins the last chunk only when it is due
    /// by the time that chunk is used up, and when the ring is full the last chunk is delayed to join the part.
    fn give_back(&mut self, date_ticks: u64, amount_ticks: u64) {
        let date_ticks = if mutated!(self, PeriodOneShort) { date_ticks.saturating_sub(1) } else { date_ticks };
        let mut last = self.at(self.last());
        let touches = last.end_ticks() >= date_ticks;
        if touches || mutated!(self, WholeBudgetAtOnce) && last.date_ticks > self.at(0).date_ticks {
            last.amount_ticks = last.amount_ticks.saturating_add(amount_ticks);
        } else if self.length < usize::from(self.parameters.chunks) {
            self.put(self.length, Chunk { date_ticks, amount_ticks });
            self.length = self.length.saturating_add(1);
            return;
        } else {
            if mutated!(self, DropWhenFull) {
                return;
            }
            if !mutated!(self, MergeEarlyWhenFull) {
                last.date_ticks = date_ticks.saturating_sub(last.amount_ticks);
            }
            last.amount_ticks = last.amount_ticks.saturating_add(amount_ticks);
        }
        self.put(self.last(), last);
    }

    /// Takes whole rounds of a long overrun in one step: consuming the complete budget once moves every chunk by one
    /// period. That is exact while the last chunk ends within a period of the head's date, which only the lag clamp can
    /// break; each step of `charge` then merges a chunk into the last one, so it holds again after a ring's length of
    /// steps. So the work of one charge is bounded by the ring, however late the caller was.
    fn skip_rounds(&mut self, used_ticks: u64) -> u64 {
        let budget_ticks = self.parameters.budget_ticks;
        let horizon_ticks = self.at(0).date_ticks.saturating_add(self.parameters.period_ticks);
        if used_ticks < budget_ticks.saturating_mul(2) || self.at(self.last()).end_ticks() > horizon_ticks {
            return used_ticks;
        }
        let rounds = used_ticks.checked_div(budget_ticks).unwrap_or(0).saturating_sub(1);
        let shift = rounds.saturating_mul(self.parameters.period_ticks);
        for position in 0..self.length {
            let chunk = self.at(position);
            self.put(position, Chunk { date_ticks: chunk.date_ticks.saturating_add(shift), ..chunk });
        }
        used_ticks.saturating_sub(rounds.saturating_mul(budget_ticks))
    }

    /// Gives a head that is too small to pay for its own kernel passage to the next chunk, earlier by as much.
    fn remove_sliver(&mut self) {
        while self.length > 1 {
            let sliver = self.at(0);
            if sliver.amount_ticks >= self.parameters.smallest_chunk_ticks {
                return;
            }
            let next = self.at(1);
            self.pop();
            self.put(
                0,
                Chunk {
                    date_ticks: next.date_ticks.saturating_sub(sliver.amount_ticks),
                    amount_ticks: next.amount_ticks.saturating_add(sliver.amount_ticks),
                },
            );
        }
    }
}

impl BudgetRule for Sporadic {
    #[inline]
    fn capacity_ticks(&mut self, now: u64) -> u64 {
        let head = self.at(0);
        if head.date_ticks <= now { head.amount_ticks } else { 0 }
    }

    #[inline]
    fn next_event_ticks(&mut self, now: u64) -> Option<u64> {
        self.chunks().map(|chunk| chunk.date_ticks).find(|date| *date > now)
    }

    #[inline]
    fn wake(&mut self, now: u64) {
        if !mutated!(self, NoReanchorOnWake) {
            self.reanchor(now);
        }
    }

    #[inline]
    fn dispatch(&mut self, now: u64) {
        let anchor = match (self.parameters.anchor, mutated!(self, WrongAnchor)) {
            (Anchor::Eligible, true) => Anchor::Dispatch,
            (Anchor::Dispatch, true) => Anchor::Eligible,
            (anchor, false) => anchor,
        };
        match anchor {
            Anchor::Dispatch => self.reanchor(now),
            Anchor::Eligible if self.parameters.lag_clamp && !mutated!(self, NoLagClamp) => self.lag_clamp(now),
            Anchor::Eligible => {}
        }
    }

    #[cfg_attr(not(feature = "mutants"), allow(unused_variables))]
    fn charge(&mut self, now: u64, used_ticks: u64) {
        let period_ticks = self.parameters.period_ticks;
        let clamp = mutated!(self, ClampOverrun);
        let mut left_ticks = if clamp { used_ticks.min(self.at(0).amount_ticks) } else { used_ticks };
        while left_ticks > 0 {
            left_ticks = self.skip_rounds(left_ticks);
            let head = self.at(0);
            let date_ticks = if mutated!(self, DateAtEndOfRun) { now } else { head.date_ticks };
            let again_ticks = date_ticks.saturating_add(period_ticks);
            if left_ticks < head.amount_ticks {
                let rest = Chunk {
                    date_ticks: head.date_ticks.saturating_add(left_ticks),
                    amount_ticks: head.amount_ticks.saturating_sub(left_ticks),
                };
                self.put(0, rest);
                self.give_back(again_ticks, left_ticks);
                break;
            }
            left_ticks = left_ticks.saturating_sub(head.amount_ticks);
            if self.length == 1 {
                let early = u64::from(mutated!(self, PeriodOneShort));
                self.put(0, Chunk { date_ticks: again_ticks.saturating_sub(early), ..head });
            } else {
                self.pop();
                self.give_back(again_ticks, head.amount_ticks);
            }
        }
        self.remove_sliver();
    }

    /// Nothing to do: the chunk was split when it was charged.
    #[inline]
    fn block(&mut self, _now: u64) {}
}
