//! Between nanoseconds and ticks of the counter, and times as people read them.

use bulkhead_plan::ticks;

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    hz: u64,
}

impl Clock {
    pub(crate) fn new(hz: u64) -> Self {
        Self { hz }
    }

    /// Costs: at least so long.
    pub(crate) fn ticks_up(self, ns: u64) -> u64 {
        ticks::round_up(ns, self.hz)
    }

    /// Periods of demands and deadlines: at most so long.
    pub(crate) fn ticks_down(self, ns: u64) -> u64 {
        ticks::round_down(ns, self.hz)
    }

    /// What is taken or waited: rounded up.
    pub(crate) fn ns_up(self, ticks: u64) -> u64 {
        let product = u128::from(ticks) * 1_000_000_000;
        let ns = product.div_ceil(u128::from(self.hz.max(1)));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// What is given: rounded down.
    pub(crate) fn ns_down(self, ticks: u64) -> u64 {
        ticks::to_ns(ticks, self.hz)
    }
}

/// A time with the largest unit that keeps a digit in front of the point and at most three digits behind it, rounded up.
#[must_use]
pub(crate) fn readable(ns: u64) -> String {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000u64)];
    let (unit, factor) = units.into_iter().rev().find(|(_, factor)| ns >= *factor).unwrap_or(("ns", 1));
    let thousandth = (factor / 1_000).max(1);
    let rounded = ns.div_ceil(thousandth).saturating_mul(thousandth);
    let digits = if factor == 1 { String::new() } else { format!("{:03}", rounded % factor / thousandth) };
    match digits.trim_end_matches('0') {
        "" => format!("{} {unit}", rounded / factor),
        digits => format!("{}.{digits} {unit}", rounded / factor),
    }
}

/// A time as the description writes it, a whole number of a unit: rounded down to a microsecond where there are several.
#[must_use]
pub(crate) fn written_down(ns: u64) -> u64 {
    if ns >= 10_000 { ns / 1_000 * 1_000 } else { ns }
}

/// As [`written_down`], rounded up.
#[must_use]
pub(crate) fn written_up(ns: u64) -> u64 {
    if ns >= 10_000 { ns.div_ceil(1_000).saturating_mul(1_000) } else { ns }
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn times_are_short_and_never_too_small() {
        let texts = [0, 999, 1_000, 1_234_567, 1_500_000, 12_000_000, 2_000_000_001].map(readable);
        assert_eq!(texts, ["0 ns", "999 ns", "1 us", "1.235 ms", "1.5 ms", "12 ms", "2.001 s"]);
    }
}
