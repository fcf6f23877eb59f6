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

#[cfg(feature = "mutants")]
use super::Mutant;
use super::{Anchor, BudgetError, BudgetRule, END_OF_TIME_TICKS, check_budget};

/// Most chunks of one server. A power of two, so that the ring's index is a mask.
pub const MAX_CHUNKS: usize = 16;
const INDEX_MASK: usize = MAX_CHUNKS - 1;

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

/// A sporadic server's state.
///
/// The oldest chunk is kept apart from the ring of the others: nearly every question is about it alone, and a place that
/// is known when the program is compiled costs no index.
#[derive(Clone, Debug)]
pub struct Sporadic {
    head: Chunk,
    /// Chunks in the ring, without the head.
    followers: u8,
    /// Where the ring begins.
    first: u8,
    /// How far in the past the head's date may be when the owner gets the core, before the lag clamp acts.
    slack_ticks: u64,
    parameters: SporadicParameters,
    ring: [Chunk; MAX_CHUNKS],
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
        Ok(Self {
            head: Chunk { date_ticks: start_ticks, amount_ticks: parameters.budget_ticks },
            followers: 0,
            first: 0,
            slack_ticks: match (parameters.anchor, parameters.lag_clamp) {
                (Anchor::Eligible, true) => parameters.period_ticks.saturating_sub(parameters.budget_ticks),
                _ => END_OF_TIME_TICKS / 2,
            },
            parameters,
            ring: [Chunk::default(); MAX_CHUNKS],
            #[cfg(feature = "mutants")]
            mutant: Mutant::None,
        })
    }

    /// The same server with one rule broken. What other parameters break needs nothing in the rule itself.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_mutant(mut self, mutant: Mutant) -> Self {
        self.mutant = mutant;
        match (mutant, self.parameters.anchor) {
            (Mutant::WrongAnchor, Anchor::Eligible) => self.parameters.anchor = Anchor::Dispatch,
            (Mutant::WrongAnchor, Anchor::Dispatch) => self.parameters.anchor = Anchor::Eligible,
            (Mutant::NoLagClamp, _) => self.parameters.lag_clamp = false,
            (Mutant::PeriodOneShort, _) => {
                self.parameters.period_ticks = self.parameters.period_ticks.saturating_sub(1)
            }
            _ => {}
        }
        self
    }

    /// The chunks, oldest first.
    #[cfg(not(target_os = "none"))]
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> + '_ {
        core::iter::once(self.head).chain((0..self.followers).map(|position| self.follower(position)))
    }

    /// The parameters it was made with.
    #[must_use]
    pub const fn parameters(&self) -> &SporadicParameters {
        &self.parameters
    }

    /// Stands where no server is.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub(crate) const fn blank() -> Self {
        Self {
            head: Chunk { date_ticks: 0, amount_ticks: 0 },
            followers: 0,
            first: 0,
            slack_ticks: 0,
            parameters: SporadicParameters {
                budget_ticks: 0,
                period_ticks: 0,
                smallest_chunk_ticks: 0,
                chunks: 0,
                anchor: Anchor::Dispatch,
                lag_clamp: false,
            },
            ring: [Chunk { date_ticks: 0, amount_ticks: 0 }; MAX_CHUNKS],
            #[cfg(feature = "mutants")]
            mutant: Mutant::None,
        }
    }

    /// Becomes what [`Self::new`] makes of these parameters, which were checked, dated by use. The ring is not cleared.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub(crate) const fn renew(&mut self, parameters: SporadicParameters, start_ticks: u64) {
        self.head = Chunk { date_ticks: start_ticks, amount_ticks: parameters.budget_ticks };
        (self.followers, self.first, self.slack_ticks) = (0, 0, END_OF_TIME_TICKS / 2);
        self.parameters = SporadicParameters { anchor: Anchor::Dispatch, ..parameters };
    }

    /// Date of the oldest chunk.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub(crate) const fn oldest_ticks(&self) -> u64 {
        self.head.date_ticks
    }

    /// Date of the newest chunk.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub(crate) fn newest_ticks(&self) -> u64 {
        self.last().date_ticks
    }

    /// Gives the server other parameters at `now`, keeping what it has used in mind: a change of criticality modes
    /// (`real-time.md` 4.6). The head keeps its date and at most the new budget; the rest of the new budget comes one new period
    /// later, so no window of the shorter period holds more than the larger budget.
    ///
    /// # Errors
    ///
    /// When the parameters contradict each other ([`BudgetError`]). The server is as before then.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub fn reconfigure(&mut self, parameters: SporadicParameters, now: u64) -> Result<(), BudgetError> {
        // In place: to copy the ring takes longer than all else.
        let slack_ticks = Self::new(parameters, now)?.slack_ticks;
        let date_ticks = self.head.date_ticks;
        let amount_ticks = self.head.amount_ticks.min(parameters.budget_ticks);
        self.head = Chunk { date_ticks, amount_ticks };
        (self.followers, self.first, self.slack_ticks, self.parameters) = (0, 0, slack_ticks, parameters);
        let rest_ticks = parameters.budget_ticks.saturating_sub(amount_ticks);
        if rest_ticks > 0 {
            // From the date at which the head can really be used, not from one long ago.
            self.give_back(date_ticks.max(now).saturating_add(parameters.period_ticks), rest_ticks);
        }
        self.remove_sliver(false);
        Ok(())
    }

    #[inline]
    fn place(&self, position: u8) -> usize {
        usize::from(self.first.wrapping_add(position)) & INDEX_MASK
    }

    #[inline]
    fn follower(&self, position: u8) -> Chunk {
        self.ring.get(self.place(position)).copied().unwrap_or_default()
    }

    #[inline]
    fn put(&mut self, position: u8, chunk: Chunk) {
        if let Some(place) = self.ring.get_mut(usize::from(self.first.wrapping_add(position)) & INDEX_MASK) {
            *place = chunk;
        }
    }

    /// The next chunk becomes the head.
    #[inline]
    fn pop(&mut self) {
        self.head = self.follower(0);
        self.first = self.first.wrapping_add(1);
        self.followers = self.followers.wrapping_sub(1);
    }

    #[inline]
    fn last(&self) -> Chunk {
        if self.followers == 0 { self.head } else { self.follower(self.followers.wrapping_sub(1)) }
    }

    #[inline]
    fn put_last(&mut self, chunk: Chunk) {
        if self.followers == 0 {
            self.head = chunk;
        } else {
            self.put(self.followers.wrapping_sub(1), chunk);
        }
    }

    /// Forfeits the credit for time that nobody asked for: a head that is due is dated now.
    #[inline(always)]
    fn reanchor(&mut self, now: u64) {
        if self.head.date_ticks > now {
            return;
        }
        self.head.date_ticks = now;
        while self.followers > 0 {
            let next = self.follower(0);
            if next.date_ticks > self.head.end_ticks() && !mutated!(self, MergeFutureChunks) {
                break;
            }
            let head = self.head;
            self.pop();
            self.head = Chunk { amount_ticks: head.amount_ticks.saturating_add(next.amount_ticks), ..head };
        }
    }

    /// Dates no chunk earlier than "now + the work up to and including it - the period", so that what replaces it is not
    /// due before it can have run (`real-time.md` 2.1.3).
    ///
    /// The chunks are disjoint, so a chunk begins no earlier than the head and all the work in front of it. Nothing has to
    /// move, then, while the head's date is at most "the period - the budget" ago, which is the case in a system whose
    /// response times hold (P5b).
    #[inline]
    fn lag_clamp(&mut self, now: u64) {
        if self.lags(now) {
            self.clamp_every_chunk(now);
        }
    }

    #[inline(always)]
    const fn lags(&self, now: u64) -> bool {
        self.head.date_ticks.wrapping_add(self.slack_ticks) < now
    }

    #[cold]
    fn clamp_every_chunk(&mut self, now: u64) {
        let clamped = |chunk: Chunk, done_ticks: u64, end_ticks: u64, period_ticks: u64| {
            let earliest = now.saturating_add(done_ticks).saturating_sub(period_ticks);
            Chunk { date_ticks: chunk.date_ticks.max(earliest).max(end_ticks), ..chunk }
        };
        let period_ticks = self.parameters.period_ticks;
        let mut done_ticks = self.head.amount_ticks;
        self.head = clamped(self.head, done_ticks, 0, period_ticks);
        let mut end_ticks = self.head.end_ticks();
        for position in 0..self.followers {
            let chunk = self.follower(position);
            done_ticks = done_ticks.saturating_add(chunk.amount_ticks);
            let chunk = clamped(chunk, done_ticks, end_ticks, period_ticks);
            end_ticks = chunk.end_ticks();
            self.put(position, chunk);
        }
    }

    /// Lets `amount` be used again from `date` on. Nothing moves earlier: a part joins the last chunk only when it is due
    /// by the time that chunk is used up, and when the ring is full the last chunk is delayed to join the part.
    #[inline]
    fn give_back(&mut self, date_ticks: u64, amount_ticks: u64) {
        let mut last = self.last();
        let touches = last.end_ticks() >= date_ticks;
        if touches || mutated!(self, WholeBudgetAtOnce) && last.date_ticks > self.head.date_ticks {
            last.amount_ticks = last.amount_ticks.saturating_add(amount_ticks);
        } else if self.followers.wrapping_add(1) < self.parameters.chunks {
            self.put(self.followers, Chunk { date_ticks, amount_ticks });
            self.followers = self.followers.wrapping_add(1);
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
        self.put_last(last);
    }

    /// The usual charge, and the one on the path of an interrupt: less than the head, what remains is no sliver, and the
    /// part finds room. Returns false, and does nothing, when it is another one.
    #[inline(always)]
    pub(crate) fn charge_within_head(&mut self, used_ticks: u64) -> bool {
        self.charge_head(used_ticks, false)
    }

    /// [`Self::charge_within_head`]; where the ring is full the last chunk may be delayed to join the part.
    #[inline(always)]
    fn charge_head(&mut self, used_ticks: u64, may_delay: bool) -> bool {
        #[cfg(feature = "mutants")]
        if self.mutant != Mutant::None {
            return false;
        }
        let Chunk { date_ticks, amount_ticks } = self.head;
        let rest_ticks = amount_ticks.wrapping_sub(used_ticks);
        if used_ticks >= amount_ticks || rest_ticks < self.parameters.smallest_chunk_ticks {
            return false;
        }
        // Dates stay below the end of time, so that these sums cannot wrap.
        let head = Chunk { date_ticks: date_ticks.wrapping_add(used_ticks), amount_ticks: rest_ticks };
        let again =
            Chunk { date_ticks: date_ticks.wrapping_add(self.parameters.period_ticks), amount_ticks: used_ticks };
        if self.followers > 0 {
            let place = self.place(self.followers.wrapping_sub(1));
            let delays = may_delay && self.followers.wrapping_add(1) >= self.parameters.chunks;
            if let Some(last) = self.ring.get_mut(place)
                && (delays || last.date_ticks.wrapping_add(last.amount_ticks) >= again.date_ticks)
            {
                if delays {
                    last.date_ticks = last.date_ticks.max(again.date_ticks.wrapping_sub(last.amount_ticks));
                }
                last.amount_ticks = last.amount_ticks.wrapping_add(used_ticks);
                self.head = head;
                return true;
            }
        } else if head.date_ticks.wrapping_add(rest_ticks) >= again.date_ticks {
            // Only when the budget is the period.
            return false;
        }
        if self.followers.wrapping_add(1) >= self.parameters.chunks {
            return false;
        }
        self.head = head;
        self.put(self.followers, again);
        self.followers = self.followers.wrapping_add(1);
        true
    }

    /// [`BudgetRule::dispatch`], in the usual case. Returns false, and does nothing, when the lag clamp has to act.
    #[inline(always)]
    pub(crate) fn dispatch_without_lag(&mut self, now: u64) -> bool {
        #[cfg(feature = "mutants")]
        if self.mutant != Mutant::None {
            return false;
        }
        if self.parameters.anchor == Anchor::Dispatch {
            self.reanchor(now);
            return true;
        }
        !self.lags(now)
    }

    /// Something is usable.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    #[inline(always)]
    pub(crate) const fn is_due(&self, now: u64) -> bool {
        self.head.date_ticks <= now
    }

    /// What is usable in one piece, for a caller that knows that it is due.
    #[inline(always)]
    pub(crate) const fn due_ticks(&self) -> u64 {
        self.head.amount_ticks
    }

    /// Takes whole rounds of a long overrun in one step: consuming the complete budget once moves every chunk by one
    /// period. That is exact while the last chunk ends within a period of the head's date, which only the lag clamp can
    /// break; each step of `charge` then merges a chunk into the last one, so it holds again after a ring's length of
    /// steps. So the work of one charge is bounded by the ring, however late the caller was.
    fn skip_rounds(&mut self, used_ticks: u64) -> u64 {
        let budget_ticks = self.parameters.budget_ticks;
        let horizon_ticks = self.head.date_ticks.saturating_add(self.parameters.period_ticks);
        if used_ticks < budget_ticks.saturating_mul(2) || self.last().end_ticks() > horizon_ticks {
            return used_ticks;
        }
        let rounds = used_ticks.checked_div(budget_ticks).unwrap_or(0).saturating_sub(1);
        let shift = rounds.saturating_mul(self.parameters.period_ticks);
        self.head.date_ticks = self.head.date_ticks.saturating_add(shift);
        for position in 0..self.followers {
            let chunk = self.follower(position);
            self.put(position, Chunk { date_ticks: chunk.date_ticks.saturating_add(shift), ..chunk });
        }
        used_ticks.saturating_sub(rounds.saturating_mul(budget_ticks))
    }

    /// Gives a head that is too small to pay for its own kernel passage to the next chunk, earlier by as much. In a full ring also
    /// one that a debt consumes before it is due, if it is smaller than the last chunk, which else waits for the part.
    #[inline]
    fn remove_sliver(&mut self, is_debt: bool) {
        let SporadicParameters { smallest_chunk_ticks, chunks, .. } = self.parameters;
        let waits = |rule: &Self| {
            is_debt && rule.followers.wrapping_add(1) >= chunks && rule.head.amount_ticks < rule.last().amount_ticks
        };
        while self.followers > 0 && (self.head.amount_ticks < smallest_chunk_ticks || waits(self)) {
            let sliver_ticks = self.head.amount_ticks;
            self.pop();
            self.head = Chunk {
                date_ticks: self.head.date_ticks.saturating_sub(sliver_ticks),
                amount_ticks: self.head.amount_ticks.saturating_add(sliver_ticks),
            };
        }
    }
}

impl BudgetRule for Sporadic {
    #[inline]
    fn capacity_ticks(&mut self, now: u64) -> u64 {
        if self.head.date_ticks <= now { self.head.amount_ticks } else { 0 }
    }

    #[inline]
    fn next_event_ticks(&mut self, now: u64) -> Option<u64> {
        if self.head.date_ticks > now {
            return Some(self.head.date_ticks);
        }
        (0..self.followers).map(|position| self.follower(position).date_ticks).find(|date| *date > now)
    }

    #[inline]
    fn wake(&mut self, now: u64) {
        if !mutated!(self, NoReanchorOnWake) {
            self.reanchor(now);
        }
    }

    #[inline]
    fn dispatch(&mut self, now: u64) {
        match self.parameters.anchor {
            Anchor::Dispatch => self.reanchor(now),
            Anchor::Eligible if self.parameters.lag_clamp => self.lag_clamp(now),
            Anchor::Eligible => {}
        }
    }

    fn charge(&mut self, now: u64, used_ticks: u64) {
        // For a head that is not due others may pay. The monitor's text does not move.
        if self.charge_head(used_ticks, cfg!(feature = "kernel") && self.head.date_ticks <= now) {
            return;
        }
        let period_ticks = self.parameters.period_ticks;
        let clamp = mutated!(self, ClampOverrun);
        let mut left_ticks = if clamp { used_ticks.min(self.head.amount_ticks) } else { used_ticks };
        while left_ticks > 0 {
            left_ticks = self.skip_rounds(left_ticks);
            let head = self.head;
            let date_ticks = if mutated!(self, DateAtEndOfRun) { now } else { head.date_ticks };
            let again_ticks = date_ticks.saturating_add(period_ticks);
            if left_ticks < head.amount_ticks {
                self.head = Chunk {
                    date_ticks: head.date_ticks.saturating_add(left_ticks),
                    amount_ticks: head.amount_ticks.saturating_sub(left_ticks),
                };
                // Before the part needs room: else a full ring delays the last chunk, and what joins it, by up to a period.
                self.remove_sliver(head.date_ticks > now);
                self.give_back(again_ticks, left_ticks);
                break;
            }
            left_ticks = left_ticks.saturating_sub(head.amount_ticks);
            if self.followers == 0 {
                self.head = Chunk { date_ticks: again_ticks, ..head };
            } else {
                self.pop();
                self.give_back(again_ticks, head.amount_ticks);
            }
        }
        self.remove_sliver(false);
    }

    /// Nothing to do: the chunk was split when it was charged.
    #[inline]
    fn block(&mut self, _now: u64) {}
}

#[cfg(test)]
mod tests {
    use super::{Anchor, BudgetRule, Chunk, Mutant, Sporadic, SporadicParameters};

    #[test]
    fn a_full_ring_is_charged_the_short_way_as_the_long_one() {
        let mut state = 88_172_645_463_325_252u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut delayed = 0;
        for (chunks, smallest_chunk_ticks) in [(2, 1), (3, 1), (3, 4), (4, 2), (16, 1)] {
            let (anchor, lag_clamp) = (Anchor::Dispatch, false);
            let parameters = SporadicParameters {
                budget_ticks: 60,
                period_ticks: 100,
                smallest_chunk_ticks,
                chunks,
                anchor,
                lag_clamp,
            };
            let (mut rule, mut now) = (Sporadic::new(parameters, 0).expect("valid"), 0);
            for _ in 0..4_000 {
                if random(2) == 0 {
                    now += random(60);
                    rule.dispatch(now);
                }
                // What is more than the head has, or not due, is a debt.
                let used_ticks = 1 + random(20);
                now += used_ticks;
                // One that is broken elsewhere is charged the long way.
                let (mut short, mut long) = (rule.clone(), rule.clone().with_mutant(Mutant::NoReanchorOnWake));
                long.charge(now, used_ticks);
                if rule.head.date_ticks <= now && short.charge_head(used_ticks, true) {
                    assert!(short.chunks().eq(long.chunks()), "{rule:?}, {used_ticks} until {now}");
                    delayed += u32::from(!rule.clone().charge_within_head(used_ticks));
                }
                rule.charge(now, used_ticks);
                assert_eq!(rule.chunks().map(|Chunk { amount_ticks, .. }| amount_ticks).sum::<u64>(), 60);
            }
        }
        assert!(delayed > 1_000, "{delayed}");
    }
}
