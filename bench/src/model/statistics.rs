//! Statistics of samples, as the seeds publish them.

/// What the tables of the seeds give of a set of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Samples.
    pub count: usize,
    /// Smallest.
    pub minimum: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the samples.
    pub deviation: f64,
    /// Median.
    pub median: f64,
    /// 95th percentile.
    pub percentile_95: f64,
    /// 99th percentile.
    pub percentile_99: f64,
    /// Largest.
    pub maximum: f64,
}

impl Summary {
    /// Summarises samples; all zero when there are none.
    #[must_use]
    pub fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(first), Some(last)) = (sorted.first().copied(), sorted.last().copied()) else {
            return Self::default();
        };
        let count = sorted.len();
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let variance = sorted.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count as f64;
        // The smallest sample that has at least this share of all at or below it.
        let rank = |share: f64| sorted[((share * count as f64).ceil() as usize).clamp(1, count) - 1];
        Self {
            count,
            minimum: first,
            mean,
            deviation: variance.sqrt(),
            median: rank(0.5),
            percentile_95: rank(0.95),
            percentile_99: rank(0.99),
            maximum: last,
        }
    }
}

/// Samples per class of equal width, as points (middle of the class, samples), empty classes at the ends left out.
#[must_use]
pub fn histogram(samples: &[f64], width: f64) -> Vec<(f64, f64)> {
    let mut classes = std::collections::BTreeMap::new();
    for sample in samples {
        *classes.entry((sample / width).floor() as i64).or_insert(0.0) += 1.0;
    }
    let (Some((first, _)), Some((last, _))) = (classes.first_key_value(), classes.last_key_value()) else {
        return Vec::new();
    };
    (*first..=*last).map(|class| ((class as f64 + 0.5) * width, classes.get(&class).copied().unwrap_or(0.0))).collect()
}

/// How far apart two sets of samples are as distributions: the largest share of one that lies up to some x beyond what the other has
/// up to x + `shift`. 0 when each sample of one has a partner in the other that is no further than `shift` away, 1 when none has.
///
/// It is the distance of Kolmogorov and Smirnov, but a small shift of a peak, as by a path of some instructions, counts for nothing.
#[must_use]
pub fn distance(first: &[f64], second: &[f64], shift: f64) -> f64 {
    let sorted = |samples: &[f64]| {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let (first, second) = (sorted(first), sorted(second));
    excess(&first, &second, shift).max(excess(&second, &first, shift))
}

fn excess(first: &[f64], second: &[f64], shift: f64) -> f64 {
    let share = |samples: &[f64], most: f64| {
        samples.partition_point(|sample| *sample <= most) as f64 / samples.len().max(1) as f64
    };
    first.iter().map(|value| share(first, *value) - share(second, value + shift)).fold(0.0, f64::max)
}

/// A small generator of random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(bound)) >> 64) as u64
    }
}

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// Distance of requests, or of bursts.
    pub spacing_ns: u64,
    /// Uniform, plus or minus.
    pub dither_ns: u64,
    /// Requests that come together, 1 or more.
    pub burst: u64,
    /// Their distance.
    pub burst_gap_ns: u64,
    /// The spacing counts from the answer rather than from the request before.
    pub closed: bool,
}

impl Arrivals {
    /// Single requests at a dithered distance.
    #[must_use]
    pub const fn open(spacing_ns: u64, dither_ns: u64) -> Self {
        Self { spacing_ns, dither_ns, burst: 1, burst_gap_ns: 0, closed: false }
    }

    /// A request at a dithered time after each answer.
    #[must_use]
    pub const fn closed(spacing_ns: u64, dither_ns: u64) -> Self {
        Self { spacing_ns, dither_ns, burst: 1, burst_gap_ns: 0, closed: true }
    }

    /// The request after number `served`, from the one before and its answer.
    pub fn next(&self, served: u64, request_ns: u64, answer_ns: u64, random: &mut Random) -> u64 {
        let base = if self.closed { answer_ns } else { request_ns };
        if served.is_multiple_of(self.burst.max(1)) {
            (base + self.spacing_ns + random.below(2 * self.dither_ns + 1)).saturating_sub(self.dither_ns)
        } else {
            base + self.burst_gap_ns
        }
    }
}

/// Where the requests of a run come from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A pattern, this many requests.
    Pattern(Arrivals, usize),
    /// These times.
    Times(&'a [u64]),
    /// The first one at this time, each further one so long after the answer to the one before.
    Pauses(u64, &'a [u64]),
}

impl Source<'_> {
    /// Requests in all.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Pattern(_, count) => *count,
            Self::Times(times) => times.len(),
            Self::Pauses(_, pauses) => pauses.len() + 1,
        }
    }

    /// The first request.
    pub fn first(&self, random: &mut Random) -> u64 {
        match self {
            Self::Pattern(arrivals, _) => random.below(arrivals.spacing_ns.max(1)),
            Self::Times(times) => times.first().copied().unwrap_or(0),
            Self::Pauses(first, _) => *first,
        }
    }

    /// The request after `served` of them; never after the last one.
    pub fn next(&self, served: usize, request_ns: u64, answer_ns: u64, random: &mut Random) -> u64 {
        match self {
            Self::Pattern(arrivals, _) => arrivals.next(served as u64, request_ns, answer_ns, random),
            Self::Times(times) => times.get(served).copied().unwrap_or(u64::MAX),
            Self::Pauses(_, pauses) => {
                pauses.get(served.wrapping_sub(1)).map_or(u64::MAX, |pause| answer_ns.saturating_add(*pause))
            }
        }
    }
}

/// A request and how it was served, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// When it came.
    pub request_ns: u64,
    /// First instruction of its handler.
    pub entered_ns: u64,
    /// End of its handler.
    pub done_ns: u64,
}

impl Served {
    /// Request to first instruction, in milliseconds.
    #[must_use]
    pub fn entry_ms(&self) -> f64 {
        self.entered_ns.saturating_sub(self.request_ns) as f64 / 1e6
    }

    /// Request to end of the handler, in milliseconds.
    #[must_use]
    pub fn answer_ms(&self) -> f64 {
        self.done_ns.saturating_sub(self.request_ns) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_what_a_table_gives() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!((summary.minimum, summary.median, summary.percentile_95, summary.maximum), (1.0, 2.0, 4.0, 4.0));
        assert!((summary.mean - 2.5).abs() < 1e-12);
        assert!((summary.deviation - 1.25_f64.sqrt()).abs() < 1e-12);
        assert_eq!(Summary::of(&[]), Summary::default());
    }

    #[test]
    fn a_histogram_keeps_inner_gaps() {
        assert_eq!(histogram(&[0.1, 0.2, 2.5], 1.0), [(0.5, 2.0), (1.5, 0.0), (2.5, 1.0)]);
        assert!(histogram(&[], 1.0).is_empty());
    }

    /// MZ-E3: a shifted peak is the same peak, and mass elsewhere counts by its share, on either side.
    #[test]
    fn a_distance_is_the_share_that_lies_elsewhere() {
        let peak = [1.0; 100];
        let shifted = [1.04; 100];
        assert!(distance(&peak, &shifted, 0.05) < 1e-12 && distance(&peak, &shifted, 0.03) > 0.99);
        let mut with_tail = peak;
        with_tail[..3].fill(30.0);
        for (first, second) in [(&peak, &with_tail), (&with_tail, &peak)] {
            assert!((distance(first, second, 0.05) - 0.03).abs() < 1e-12);
        }
        assert_eq!((distance(&peak, &[], 0.05), distance(&[], &[], 0.05)), (1.0, 0.0));
    }

    #[test]
    fn random_numbers_stay_below_their_bound_and_spread() {
        let mut random = Random::new(1);
        let numbers: Vec<u64> = (0..1000).map(|_| random.below(10)).collect();
        assert!((0..10).all(|wanted| numbers.iter().filter(|number| **number == wanted).count() > 50));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn requests_of_a_burst_stand_together() {
        let arrivals = Arrivals { spacing_ns: 100, dither_ns: 0, burst: 2, burst_gap_ns: 3, closed: false };
        let mut random = Random::new(1);
        assert_eq!(arrivals.next(1, 10, 50, &mut random), 13);
        assert_eq!(arrivals.next(2, 13, 50, &mut random), 113);
        assert_eq!(Arrivals::closed(100, 0).next(1, 10, 50, &mut random), 150);
    }
}
