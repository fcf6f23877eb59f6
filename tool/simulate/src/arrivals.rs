//! When something arrives: the patterns of a scenario as streams of dates.

use bulkhead_description::scenario::{CheckedArrival, Pattern};

/// Work without end, in ticks: longer than any simulation, and far from the end of the type.
pub const ENDLESS_TICKS: u64 = 1 << 60;

/// Splitmix64: small, fast, and the same everywhere, so that a seed means the same scenario on every machine.
#[derive(Clone, Debug)]
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of `from..=to`.
    fn within(&mut self, from: u64, to: u64) -> u64 {
        match (to - from).checked_add(1) {
            Some(count) => from + self.next() % count,
            None => self.next(),
        }
    }
}

/// The dates of one arrival of a scenario, in order. A date later than the type ends the stream.
#[derive(Clone, Debug)]
pub struct Dates {
    pattern: Pattern,
    generator: Generator,
    burst: u64,
    spacing_ns: u64,
    /// Start of the burst, and how many of it have come.
    burst_ns: Option<u64>,
    come: u64,
    /// Bursts so far.
    bursts: usize,
    offset_ns: u64,
}

impl Dates {
    /// The dates of an arrival.
    #[must_use]
    pub fn new(arrival: &CheckedArrival) -> Self {
        let seed = if let Pattern::Spaced { seed, .. } = arrival.pattern { seed } else { 0 };
        let mut dates = Self {
            pattern: arrival.pattern.clone(),
            generator: Generator(seed),
            burst: arrival.burst.max(1),
            spacing_ns: arrival.spacing_ns,
            burst_ns: None,
            come: 0,
            bursts: 0,
            offset_ns: arrival.offset_ns,
        };
        dates.burst_ns = match &dates.pattern {
            Pattern::At(times) => times.first().and_then(|first| first.checked_add(dates.offset_ns)),
            _ => Some(dates.offset_ns),
        };
        dates
    }

    fn next_burst(&mut self) {
        self.come = 0;
        self.bursts += 1;
        let last_ns = self.burst_ns;
        self.burst_ns = match &self.pattern {
            Pattern::Periodic { period_ns } => last_ns.and_then(|last| last.checked_add(*period_ns)),
            Pattern::At(times) => times.get(self.bursts).and_then(|next| next.checked_add(self.offset_ns)),
            Pattern::Spaced { minimum_ns, maximum_ns, .. } => {
                let distance_ns = self.generator.within(*minimum_ns, *maximum_ns);
                last_ns.and_then(|last| last.checked_add(distance_ns))
            }
            Pattern::Busy => None,
        };
    }
}

impl Iterator for Dates {
    type Item = u64;

    /// Bursts that overlap each other come one after the other: a date never lies before the one in front of it.
    fn next(&mut self) -> Option<u64> {
        let start_ns = self.burst_ns?;
        let date_ns = start_ns.checked_add(self.come.checked_mul(self.spacing_ns)?)?;
        self.come += 1;
        if self.come == self.burst {
            self.next_burst();
            if let Some(next_ns) = &mut self.burst_ns {
                *next_ns = (*next_ns).max(date_ns);
            }
        }
        Some(date_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::Dates;
    use bulkhead_description::scenario::{CheckedArrival, Pattern};

    fn dates(pattern: Pattern, offset_ns: u64, burst: u64, spacing_ns: u64) -> Vec<u64> {
        let (partition, vcpu, is_interrupt, work_ns, client) = (0, 0, false, 1, None);
        let arrival =
            CheckedArrival { partition, vcpu, is_interrupt, work_ns, offset_ns, pattern, burst, spacing_ns, client };
        Dates::new(&arrival).take(6).collect()
    }

    #[test]
    fn each_pattern_gives_its_dates() {
        assert_eq!(dates(Pattern::Periodic { period_ns: 10 }, 3, 1, 0), [3, 13, 23, 33, 43, 53]);
        assert_eq!(dates(Pattern::Periodic { period_ns: 10 }, 0, 3, 2), [0, 2, 4, 10, 12, 14]);
        assert_eq!(dates(Pattern::At(vec![5, 9]), 100, 1, 0), [105, 109]);
        assert_eq!(dates(Pattern::At(vec![5, 6]), 0, 2, 3), [5, 8, 8, 11]);
        assert_eq!(dates(Pattern::Busy, 7, 1, 0), [7]);
        assert!(dates(Pattern::At(Vec::new()), 7, 1, 0).is_empty());
    }

    #[test]
    fn a_seed_gives_the_same_dates_within_the_distances() {
        let sporadic = |seed| dates(Pattern::Spaced { minimum_ns: 5, maximum_ns: 9, seed }, 1, 1, 0);
        assert_eq!(sporadic(7), sporadic(7));
        assert_ne!(sporadic(7), sporadic(8));
        assert!(sporadic(7).windows(2).all(|pair| (5..=9).contains(&(pair[1] - pair[0]))));
    }
}
