//! Sets of stretches of time, and how much of one lies in any window of a given length.
//!
//! The most and the least of a set in a window that slides over time are reached where a window begins or ends at an end
//! of a stretch: between such places the amount changes linearly. So looking at those places is exact, and with sums from
//! the left each look costs one search. The rejected alternative, windows on a grid, misses worst cases by up to a window.

/// A stretch of time, `from_ns` included, `to_ns` not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// From.
    pub from_ns: u64,
    /// To.
    pub to_ns: u64,
}

impl Interval {
    /// Returns its length.
    #[must_use]
    pub fn length_ns(self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// Stretches in order, apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    list: Vec<Interval>,
    /// Time in all stretches before the one at the same place.
    before: Vec<u64>,
    total_ns: u64,
}

impl Intervals {
    /// Adds a stretch that begins no earlier than the last one ended; what overlaps is left out, what touches is joined.
    pub fn push(&mut self, from_ns: u64, to_ns: u64) {
        let last_end = self.list.last().map_or(0, |last| last.to_ns);
        let from_ns = from_ns.max(last_end);
        if to_ns <= from_ns {
            return;
        }
        match self.list.last_mut() {
            Some(last) if last.to_ns == from_ns => last.to_ns = to_ns,
            _ => {
                self.before.push(self.total_ns);
                self.list.push(Interval { from_ns, to_ns });
            }
        }
        self.total_ns += to_ns - from_ns;
    }

    /// Returns the stretches.
    #[must_use]
    pub fn as_slice(&self) -> &[Interval] {
        &self.list
    }

    /// Returns the time in all of them.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// Returns the longest one's length.
    #[must_use]
    pub fn longest_ns(&self) -> Option<u64> {
        self.list.iter().map(|interval| interval.length_ns()).max()
    }

    /// Returns the time in them up to `time_ns`.
    #[must_use]
    pub fn until(&self, time_ns: u64) -> u64 {
        let count = self.list.partition_point(|interval| interval.from_ns < time_ns);
        let Some(last) = count.checked_sub(1) else { return 0 };
        let (Some(interval), Some(before)) = (self.list.get(last), self.before.get(last)) else { return 0 };
        before + time_ns.min(interval.to_ns) - interval.from_ns
    }

    /// Returns the time in them between two times.
    #[must_use]
    pub fn within(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.until(to_ns).saturating_sub(self.until(from_ns))
    }

    /// Returns the most time in them in any window of this length.
    #[must_use]
    pub fn most_in(&self, window_ns: u64) -> u64 {
        let starts = self.list.iter().map(|interval| interval.from_ns);
        starts.map(|start| self.within(start, start.saturating_add(window_ns))).max().unwrap_or(0)
    }

    /// Returns the least time in them in any window of this length that lies inside one stretch of `inside`, or none if
    /// no stretch of `inside` is that long.
    #[must_use]
    pub fn least_in(&self, window_ns: u64, inside: &Intervals) -> Option<u64> {
        let mut least: Option<u64> = None;
        for room in inside.as_slice().iter().filter(|room| room.length_ns() >= window_ns) {
            let last_start = room.to_ns - window_ns;
            let first = self.list.partition_point(|interval| interval.to_ns < room.from_ns);
            let ours = self.list.iter().skip(first).take_while(|interval| interval.from_ns <= room.to_ns);
            // A window with the least begins where a stretch ends, or ends where one begins.
            let places = ours.flat_map(|interval| [interval.to_ns, interval.from_ns.saturating_sub(window_ns)]);
            let inner = places.filter(|start| (room.from_ns..=last_start).contains(start));
            for start in inner.chain([room.from_ns, last_start]) {
                let amount = self.within(start, start + window_ns);
                least = Some(least.map_or(amount, |known| known.min(amount)));
            }
        }
        least
    }

    /// Returns what of `self` is not in `other`.
    #[must_use]
    pub fn without(&self, other: &Intervals) -> Intervals {
        let mut rest = Intervals::default();
        let mut others = other.list.iter().peekable();
        for interval in &self.list {
            let mut from_ns = interval.from_ns;
            while let Some(taken) = others.peek() {
                if taken.from_ns >= interval.to_ns {
                    break;
                }
                rest.push(from_ns, taken.from_ns.min(interval.to_ns));
                from_ns = from_ns.max(taken.to_ns);
                if taken.to_ns > interval.to_ns {
                    break;
                }
                others.next();
            }
            rest.push(from_ns, interval.to_ns);
        }
        rest
    }
}
