//! Ready queues: one FIFO per priority and a bitmap of the priorities that have somebody waiting.
//!
//! Every operation is a constant number of steps, however many servers there are. The queues are linked through arrays
//! of the owner, so there is nothing to allocate. Priority 0 is the most important.
//!
//! A priority that only one server can ever have is *exclusive*: its queue's ends are set once, and the bitmap says whether
//! the server waits. That is the usual configuration and less than half the work.
//!
//! Indices are reduced to the size of their array, which costs one instruction where the size is a power of two and
//! spares the test for a number that is too large; callers pass numbers that fit.

/// Number of priorities.
pub(crate) const LEVELS: usize = 64;
/// No slot, or no level.
const NONE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(align(4))]
struct Link {
    previous: u8,
    next: u8,
    level: u8,
}

const UNLINKED: Link = Link { previous: NONE, next: NONE, level: NONE };

/// First and last of a queue.
#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u8,
    tail: u8,
}

const EMPTY: Ends = Ends { head: NONE, tail: NONE };

/// FIFO queues of slots `0..SLOTS`; each slot is in one queue at most.
#[derive(Clone, Debug)]
pub(crate) struct ReadySet<const SLOTS: usize> {
    bitmap: u64,
    exclusive: u64,
    ends: [Ends; LEVELS],
    links: [Link; SLOTS],
}

impl<const SLOTS: usize> ReadySet<SLOTS> {
    pub(crate) const fn new() -> Self {
        Self { bitmap: 0, exclusive: 0, ends: [EMPTY; LEVELS], links: [UNLINKED; SLOTS] }
    }

    /// Says that nobody but `slot` will ever wait at this level.
    pub(crate) fn set_exclusive(&mut self, level: u8, slot: u8) {
        if let Some(ends) = self.ends_mut(level) {
            *ends = Ends { head: slot, tail: slot };
            self.exclusive |= 1u64.wrapping_shl(u32::from(level));
        }
    }

    #[inline]
    fn link_mut(&mut self, slot: u8) -> Option<&mut Link> {
        self.links.get_mut(crate::within::<SLOTS>(usize::from(slot)))
    }

    #[inline]
    fn ends(&self, level: u8) -> Ends {
        self.ends.get(usize::from(level) % LEVELS).copied().unwrap_or(EMPTY)
    }

    #[inline]
    fn ends_mut(&mut self, level: u8) -> Option<&mut Ends> {
        self.ends.get_mut(usize::from(level) % LEVELS)
    }

    /// The level that the slot waits at.
    #[inline]
    pub(crate) fn level(&self, slot: u8) -> Option<u8> {
        let level = self.links.get(crate::within::<SLOTS>(usize::from(slot))).map_or(NONE, |link| link.level);
        (level != NONE).then_some(level)
    }

    /// The best level and the slot at its head.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u8, u8)> {
        if self.bitmap == 0 {
            return None;
        }
        let level = self.bitmap.trailing_zeros() as u8;
        Some((level, self.ends(level).head))
    }

    /// Whether anybody waits behind the head of a level.
    #[inline]
    pub(crate) fn has_peers(&self, level: u8) -> bool {
        let Ends { head, tail } = self.ends(level);
        head != tail
    }

    /// Puts a slot at the tail of a level. It must not be queued.
    #[inline(always)]
    pub(crate) fn push(&mut self, slot: u8, level: u8) {
        let bit = 1u64.wrapping_shl(u32::from(level));
        if self.exclusive & bit != 0 {
            self.bitmap |= bit;
            if let Some(link) = self.link_mut(slot) {
                link.level = level;
            }
        } else {
            self.push_shared(slot, level);
        }
    }

    fn push_shared(&mut self, slot: u8, level: u8) {
        let Some(ends) = self.ends_mut(level) else {
            return;
        };
        let previous = ends.tail;
        ends.tail = slot;
        if previous == NONE {
            ends.head = slot;
            self.bitmap |= 1u64.wrapping_shl(u32::from(level));
        } else if let Some(link) = self.link_mut(previous) {
            link.next = slot;
        }
        if let Some(link) = self.link_mut(slot) {
            *link = Link { previous, next: NONE, level };
        }
    }

    /// Takes a slot out of its queue, wherever it stands. Nothing happens when it is in none.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u8) {
        let Some(link) = self.link_mut(slot) else {
            return;
        };
        let Link { previous, next, level } = *link;
        if level == NONE {
            return;
        }
        link.level = NONE;
        let bit = 1u64.wrapping_shl(u32::from(level));
        if self.exclusive & bit != 0 {
            self.bitmap &= !bit;
            return;
        }
        if previous == NONE && next == NONE {
            self.bitmap &= !bit;
            if let Some(ends) = self.ends_mut(level) {
                *ends = EMPTY;
            }
            return;
        }
        if previous == NONE {
            if let Some(ends) = self.ends_mut(level) {
                ends.head = next;
            }
        } else if let Some(link) = self.link_mut(previous) {
            link.next = next;
        }
        if next == NONE {
            if let Some(ends) = self.ends_mut(level) {
                ends.tail = previous;
            }
        } else if let Some(link) = self.link_mut(next) {
            link.previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReadySet;

    #[test]
    fn the_best_level_is_first_and_each_level_is_a_fifo() {
        let mut ready = ReadySet::<4>::new();
        assert_eq!(ready.first(), None);
        ready.push(2, 63);
        ready.push(1, 5);
        ready.push(3, 5);
        assert_eq!(ready.first(), Some((5, 1)));
        assert!(ready.has_peers(5) && !ready.has_peers(63));
        ready.remove(1);
        ready.push(1, 5);
        assert_eq!(ready.first(), Some((5, 3)), "who comes back queues up");
        ready.remove(3);
        ready.remove(3);
        ready.remove(1);
        assert_eq!(ready.first(), Some((63, 2)), "an empty level leaves the bitmap; removing twice is harmless");
        assert_eq!((ready.level(2), ready.level(1)), (Some(63), None));
    }

    #[test]
    fn a_slot_leaves_from_the_middle() {
        let mut ready = ReadySet::<4>::new();
        for slot in 0..4 {
            ready.push(slot, 0);
        }
        ready.remove(2);
        for expected in [0, 1, 3] {
            assert_eq!(ready.first(), Some((0, expected)));
            ready.remove(expected);
        }
        assert_eq!(ready.first(), None);
    }
}
