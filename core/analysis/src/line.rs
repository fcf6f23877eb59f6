//! Straight lines below what is taken and above what is given: they tell where a search may begin, and how far it may jump.
//!
//! A line below never says more than the exact amount, at any time, and a line above never less. So a time that the lines
//! exclude is no answer, and a search that leaves it out finds the same one. Fractions have 48 binary digits behind the point; those
//! of lines below are rounded down, of lines above up.

const ONE: i128 = 1 << FRACTION_BITS;
const FRACTION_BITS: u32 = 48;

/// `at_zero + slope * time`, in ticks with a binary fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    slope: i128,
    at_zero: i128,
}

impl Line {
    /// Everything.
    pub(crate) const WHOLE: Self = Self { slope: ONE, at_zero: 0 };
    /// Nothing.
    pub(crate) const NOTHING: Self = Self { slope: 0, at_zero: 0 };

    /// An amount at any time.
    pub(crate) fn constant(ticks: u64) -> Self {
        Self { slope: 0, at_zero: whole(ticks) }
    }

    /// `amount` in every `period`, rounded down; nothing without a period.
    pub(crate) fn below(amount: u64, period: u64) -> Self {
        Self { slope: whole(amount).checked_div(i128::from(period)).unwrap_or(0), at_zero: 0 }
    }

    /// `amount` in every `period`, rounded up; everything without a period.
    pub(crate) fn above(amount: u64, period: u64) -> Self {
        let up = whole(amount).saturating_add(i128::from(period).saturating_sub(1));
        Self { slope: up.checked_div(i128::from(period)).unwrap_or(ONE), at_zero: 0 }
    }

    /// The same line, so much earlier: what it says after `ticks` more.
    pub(crate) fn earlier(self, ticks: u64) -> Self {
        Self { at_zero: self.at_zero.saturating_add(self.slope.saturating_mul(i128::from(ticks))), ..self }
    }

    /// The line with this slope that has `ticks` at the time `ticks`.
    pub(crate) fn through(self, ticks: u64) -> Self {
        Self { at_zero: whole(ticks).saturating_sub(self.slope.saturating_mul(i128::from(ticks))), ..self }
    }

    /// The sum of two lines.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { slope: self.slope.saturating_add(other.slope), at_zero: self.at_zero.saturating_add(other.at_zero) }
    }

    /// The line, multiplied.
    pub(crate) fn times(self, count: u64) -> Self {
        let count = i128::from(count);
        Self { slope: self.slope.saturating_mul(count), at_zero: self.at_zero.saturating_mul(count) }
    }

    /// A line below the least of this line and all of time.
    pub(crate) fn at_most_time(self) -> Self {
        Self { slope: self.slope.min(ONE), at_zero: 0 }
    }

    /// A part of a line below, for amounts of `unit` each; rounded down.
    pub(crate) fn part_below(self, unit: u64) -> Self {
        let unit = i128::from(unit.max(1));
        Self { slope: self.slope.div_euclid(unit), at_zero: self.at_zero.div_euclid(unit) }
    }

    /// A line above what is left of this one, a line above, over another one, a line below, in the best of all windows that
    /// end by then.
    pub(crate) fn left_over(self, taken: Self) -> Self {
        Self {
            slope: self.slope.saturating_sub(taken.slope).max(0),
            at_zero: self.at_zero.saturating_sub(taken.at_zero).max(0),
        }
    }

    /// What a line above allows at a time, rounded up and never below zero.
    pub(crate) fn most_at(self, ticks: u64) -> u64 {
        let value = self.at_zero.saturating_add(self.slope.saturating_mul(i128::from(ticks)));
        let up = value.saturating_add(ONE - 1) >> FRACTION_BITS;
        u64::try_from(up.max(0)).unwrap_or(u64::MAX)
    }

    fn at(self, ticks: u64) -> i128 {
        self.at_zero.saturating_add(self.slope.saturating_mul(i128::from(ticks)))
    }
}

fn whole(ticks: u64) -> i128 {
    i128::from(ticks) << FRACTION_BITS
}

/// What one source takes: so much by now, and never less than its line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// The exact amount at the time at which a search stands.
    pub(crate) ticks: u64,
    /// A line below the amount at any time.
    pub(crate) line: Line,
}

/// The first time from `from` on at which `given`, a line above what is given, can reach the work and what all items take;
/// `None` when it never does. No earlier time is an answer.
///
/// What is given less what is taken is a concave function, so that a tangent's root is never behind the function's (Newton).
pub(crate) fn earliest(given: Line, work_ticks: u64, items: &[Item], from: u64) -> Option<u64> {
    let mut time = from;
    for _ in 0..MAX_TANGENTS {
        let mut wanted = Line::constant(work_ticks);
        for item in items {
            let constant = Line::constant(item.ticks);
            wanted = wanted.plus(if item.line.at(time) > constant.at_zero { item.line } else { constant });
        }
        let missing = wanted.at(time).saturating_sub(given.at(time));
        if missing <= 0 {
            break;
        }
        let gained = given.slope.saturating_sub(wanted.slope);
        if gained <= 0 {
            return None;
        }
        let further = u64::try_from(missing / gained).unwrap_or(u64::MAX);
        if further == 0 {
            break;
        }
        time = time.saturating_add(further);
    }
    Some(time)
}

/// Tangents of one jump; the next step of the search starts from there.
const MAX_TANGENTS: usize = 8;
