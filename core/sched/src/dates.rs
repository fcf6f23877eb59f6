//! Dates of replenishments: a tournament tree over the servers in the order of their priorities.
//!
//! Setting, clearing and finding the earliest date take a logarithmic number of steps, and so does the question that a
//! heap cannot answer without visiting everybody: which is the earliest date among the servers that outrank the running
//! one? Only those may set the timer (`real-time.md` 1.3); with a heap each replenishment of anybody would cost a timer
//! interrupt of the guest that runs. The storage is two arrays, fixed when the program is compiled.

/// No date.
pub(crate) const NEVER: u64 = u64::MAX;

/// The earliest date of `0..SLOTS`, and of every prefix.
#[derive(Clone, Debug)]
pub(crate) struct Dates<const SLOTS: usize> {
    /// Date of each slot.
    leaves: [u64; SLOTS],
    /// Node k holds the earliest date below it; its children are 2k and 2k + 1, and position SLOTS + s is leaf s.
    nodes: [u64; SLOTS],
}

impl<const SLOTS: usize> Dates<SLOTS> {
    pub(crate) const fn new() -> Self {
        Self { leaves: [NEVER; SLOTS], nodes: [NEVER; SLOTS] }
    }

    fn at(&self, position: usize) -> u64 {
        let place = match position.checked_sub(SLOTS) {
            Some(slot) => self.leaves.get(slot),
            None => self.nodes.get(position),
        };
        place.copied().unwrap_or(NEVER)
    }

    /// Sets the slot's date; [`NEVER`] clears it.
    pub(crate) fn set(&mut self, slot: u8, date_ticks: u64) {
        let Some(leaf) = self.leaves.get_mut(usize::from(slot)) else {
            return;
        };
        if *leaf == date_ticks {
            return;
        }
        *leaf = date_ticks;
        let mut position = SLOTS.saturating_add(usize::from(slot)) / 2;
        while position > 0 {
            let earliest =
                self.at(position.saturating_mul(2)).min(self.at(position.saturating_mul(2).saturating_add(1)));
            if let Some(node) = self.nodes.get_mut(position) {
                *node = earliest;
            }
            position /= 2;
        }
    }

    /// The earliest date of slots `0..count`.
    pub(crate) fn earliest_of_first(&self, count: usize) -> u64 {
        let mut from = SLOTS;
        let mut to = SLOTS.saturating_add(count.min(SLOTS));
        let mut earliest = NEVER;
        while from < to {
            if from % 2 == 1 {
                earliest = earliest.min(self.at(from));
                from = from.saturating_add(1);
            }
            if to % 2 == 1 {
                to = to.saturating_sub(1);
                earliest = earliest.min(self.at(to));
            }
            from /= 2;
            to /= 2;
        }
        earliest
    }

    /// A slot whose date is not after `now`; the lowest-numbered one among those the search meets.
    pub(crate) fn due(&self, now: u64) -> Option<u8> {
        let mut position = 1;
        if self.at(position) > now {
            return None;
        }
        while position < SLOTS {
            let left = position.saturating_mul(2);
            position = if self.at(left) <= now { left } else { left.saturating_add(1) };
        }
        u8::try_from(position.saturating_sub(SLOTS)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Dates, NEVER};

    fn agrees_with_a_list<const SLOTS: usize>() {
        let mut dates = Dates::<SLOTS>::new();
        let mut list = [NEVER; SLOTS];
        let mut state = 88_172_645_463_325_252u64;
        for _ in 0..2_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let slot = (state % SLOTS as u64) as usize;
            let date = if state & 64 == 0 { NEVER } else { (state >> 8) % 100 };
            list[slot] = date;
            dates.set(slot as u8, date);
            for count in 0..=SLOTS {
                let expected = list.iter().take(count).min().copied().unwrap_or(NEVER);
                assert_eq!(dates.earliest_of_first(count), expected, "{SLOTS} slots, first {count}");
            }
            let now = (state >> 20) % 120;
            let due = dates.due(now);
            assert_eq!(due.is_some(), list.iter().any(|date| *date <= now));
            assert!(due.is_none_or(|slot| list[usize::from(slot)] <= now));
        }
    }

    #[test]
    fn a_tree_of_any_size_agrees_with_a_list() {
        agrees_with_a_list::<1>();
        agrees_with_a_list::<2>();
        agrees_with_a_list::<5>();
        agrees_with_a_list::<16>();
    }
}
