//! How long the analysis may search: a number of steps, which is the same on every host, and no time.
//!
//! A step is one look at one source of work: a server above, a task, a window, a request. Responses are found by searches whose
//! length depends on the numbers of a description and not only on how many there are (the problem is weakly NP-hard), so each
//! bound and the analysis as a whole have an allowance. Where it ends, the answer is "no bound was found", which is a refusal
//! where somebody relies on that bound, and never a wrong number.

use core::cell::Cell;

/// Steps of one bound. A search that needs more belongs to a core that is full within a few millionths.
pub const STEPS_OF_A_BOUND: u64 = 2_000_000;

/// Steps of all bounds of a system. A step takes up to 23 ns on a machine of 2026 (2.1 GHz), so that this is below a second.
pub const STEPS_OF_A_SYSTEM: u64 = 40_000_000;

/// Steps of each kind of advice about a system: which budget would fit where one does not, and which least charges help.
pub const STEPS_OF_ADVICE: u64 = 10_000_000;

/// Steps of the search for budgets that make a system pass, which somebody asks for.
pub const STEPS_OF_A_SUGGESTION: u64 = 20_000_000;

/// An allowance of steps.
#[derive(Clone, Debug)]
pub struct Steps {
    left: Cell<u64>,
    each: u64,
    left_of_bound: Cell<u64>,
    taken: Cell<u64>,
}

impl Default for Steps {
    fn default() -> Self {
        Self::new(STEPS_OF_A_SYSTEM, STEPS_OF_A_BOUND)
    }
}

impl Steps {
    /// Those of a kind of advice: what is not found is not said.
    #[must_use]
    pub const fn of_advice() -> Self {
        Self::new(STEPS_OF_ADVICE, STEPS_OF_A_BOUND)
    }

    /// Those of a suggestion.
    #[must_use]
    pub const fn of_a_suggestion() -> Self {
        Self::new(STEPS_OF_A_SUGGESTION, STEPS_OF_A_BOUND)
    }

    /// `whole` steps for everything, `each` of them for one bound at most.
    #[must_use]
    pub const fn new(whole: u64, each: u64) -> Self {
        Self { left: Cell::new(whole), each, left_of_bound: Cell::new(each), taken: Cell::new(0) }
    }

    /// Searches for one bound. The second value is false when the allowance ended before: the first one is then the careful
    /// answer, no bound or nothing.
    pub fn bound<T>(&self, search: impl FnOnce(&Self) -> T) -> (T, bool) {
        self.bounds(1, search)
    }

    /// Searches for several bounds at once, which have the allowance of each together.
    pub fn bounds<T>(&self, count: usize, search: impl FnOnce(&Self) -> T) -> (T, bool) {
        let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
        self.left_of_bound.set(self.each.saturating_mul(count));
        let found = search(self);
        (found, !self.is_used_up())
    }

    /// Steps that were taken so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.get()
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.left_of_bound.get() == 0 || self.left.get() == 0
    }

    /// Takes some steps; false when they are not left.
    pub(crate) fn take(&self, count: usize) -> bool {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        if count > self.left_of_bound.get() || count > self.left.get() {
            self.left_of_bound.set(0);
            return false;
        }
        self.left_of_bound.set(self.left_of_bound.get() - count);
        self.left.set(self.left.get() - count);
        self.taken.set(self.taken.get().saturating_add(count));
        true
    }
}
