//! Dates of replenishments: a tournament tree over the servers in the order of their priorities.
//!
//! Setting, clearing and finding the earliest date take a logarithmic number of steps, and so does the question that a
//! heap cannot answer without visiting everybody: which is the earliest date among the servers that outrank the running
//! one? Only those may set the timer (`real-time.md` 1.3); with a heap each replenishment of anybody would cost a timer
//! interrupt of the guest that runs. The storage is two arrays, fixed when the program is compiled.
//!
//! Four take part in each match: a group of four is read by two instructions, and the tree has half the levels. So the
//! number of slots is a power of four.

/// No date.
pub(crate) const NEVER: u64 = u64::MAX;
/// Who take part in a match.
const GROUP: usize = 4;

/// The earliest date of `0..SLOTS`, and of every prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dates<const SLOTS: usize> {
    /// Date of each slot.
    leaves: [u64; SLOTS],
    /// Node k holds the earliest date below it; its children are 4k to 4k + 3, and position SLOTS + s is leaf s. The root
    /// is node 1.
    nodes: [u64; SLOTS],
}

#[inline]
fn earliest_in(groups: &[u64], group: usize) -> u64 {
    match groups.as_chunks::<GROUP>().0.get(group) {
        Some([a, b, c, d]) => (*a).min(*b).min((*c).min(*d)),
        None => NEVER,
    }
}

impl<const SLOTS: usize> Dates<SLOTS> {
    pub(crate) const fn new() -> Self {
        const {
            assert!(
                SLOTS <= 64 && SLOTS.is_power_of_two() && SLOTS.trailing_zeros().is_multiple_of(2),
                "four take part in each match"
            )
        };
        Self { leaves: [NEVER; SLOTS], nodes: [NEVER; SLOTS] }
    }

    /// The earliest date of all.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        let root = if SLOTS == 1 { self.leaves.first() } else { self.nodes.get(1) };
        root.copied().unwrap_or(NEVER)
    }

    /// Whether the slot has a date.
    pub(crate) fn has(&self, slot: u8) -> bool {
        self.leaves.get(usize::from(slot)).is_some_and(|date| *date != NEVER)
    }

    /// The slot's date; [`NEVER`] without one.
    #[cfg(any(not(target_os = "none"), feature = "kernel"))]
    pub(crate) fn get(&self, slot: u8) -> u64 {
        self.leaves.get(usize::from(slot)).copied().unwrap_or(NEVER)
    }

    /// Sets the slot's date; [`NEVER`] clears it.
    #[inline]
    pub(crate) fn set(&mut self, slot: u8, date_ticks: u64) {
        let place = crate::within::<SLOTS>(usize::from(slot));
        if let Some(leaf) = self.leaves.get_mut(place)
            && *leaf != date_ticks
        {
            *leaf = date_ticks;
            self.play(place);
        }
    }

    /// Plays the matches above a leaf again, up to the first whose result stays.
    #[inline]
    fn play(&mut self, place: usize) {
        let earliest = earliest_in(&self.leaves, place / GROUP);
        let mut position = SLOTS.wrapping_add(place) / GROUP;
        let mut changed = self.decide(position, earliest);
        if SLOTS >= 16 && changed {
            position /= GROUP;
            changed = self.decide(position, earliest_in(&self.nodes, position));
        }
        if SLOTS >= 64 && changed {
            position /= GROUP;
            self.decide(position, earliest_in(&self.nodes, position));
        }
    }

    /// Notes the result of a match; returns whether it is another one than before.
    #[inline]
    fn decide(&mut self, position: usize, earliest: u64) -> bool {
        match self.nodes.get_mut(crate::within::<SLOTS>(position)) {
            Some(node) if *node != earliest => {
                *node = earliest;
                true
            }
            _ => false,
        }
    }

    /// The earliest date of slots `0..count`.
    #[inline]
    pub(crate) fn earliest_of_first(&self, count: usize) -> u64 {
        let mut earliest = NEVER;
        let mut take = |list: &[u64; SLOTS], end: usize| {
            for place in end & !(GROUP - 1)..end {
                earliest = earliest.min(list.get(crate::within::<SLOTS>(place)).copied().unwrap_or(NEVER));
            }
        };
        let count = count.min(SLOTS);
        take(&self.leaves, count);
        let mut position = SLOTS.wrapping_add(count) / GROUP;
        while position > 0 {
            take(&self.nodes, position);
            position /= GROUP;
        }
        earliest
    }

    /// The first slot whose date is not after `now`.
    #[inline]
    pub(crate) fn due(&self, now: u64) -> Option<u8> {
        if self.earliest() > now {
            return None;
        }
        if SLOTS == 1 {
            return Some(0);
        }
        // Node 1's children are group 1, and those of position p group p, among the nodes and then among the leaves.
        let mut group = 1usize;
        if SLOTS >= 64 {
            group = group.wrapping_mul(GROUP).wrapping_add(first_due(&self.nodes, group, now)?);
        }
        if SLOTS >= 16 {
            group = group.wrapping_mul(GROUP).wrapping_add(first_due(&self.nodes, group, now)?);
        }
        group = group.wrapping_sub(SLOTS / GROUP);
        // At most 64 slots.
        Some(group.wrapping_mul(GROUP).wrapping_add(first_due(&self.leaves, group, now)?) as u8)
    }
}

#[inline]
fn first_due(groups: &[u64], group: usize, now: u64) -> Option<usize> {
    let [a, b, c, d] = groups.as_chunks::<GROUP>().0.get(group)?;
    if *a <= now {
        Some(0)
    } else if *b <= now {
        Some(1)
    } else if *c <= now {
        Some(2)
    } else if *d <= now {
        Some(3)
    } else {
        None
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
            assert_eq!(due, list.iter().position(|date| *date <= now).map(|slot| slot as u8), "the first");
        }
    }

    #[test]
    fn a_tree_of_any_size_agrees_with_a_list() {
        agrees_with_a_list::<1>();
        agrees_with_a_list::<4>();
        agrees_with_a_list::<16>();
        agrees_with_a_list::<64>();
    }
}
