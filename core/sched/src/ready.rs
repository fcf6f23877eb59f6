//! Ready queues: one FIFO per priority and a bitmap of the priorities that have somebody waiting.
//!
//! Every operation is a constant number of steps, however many servers there are. The queues are linked through arrays
//! of the owner, so there is nothing to allocate. Priority 0 is the most important.

/// Number of priorities.
pub(crate) const LEVELS: usize = 64;
/// No slot, or no level.
const NONE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u8,
    next: u8,
    level: u8,
}

const UNLINKED: Link = Link { previous: NONE, next: NONE, level: NONE };

/// FIFO queues of slots `0..SLOTS`; each slot is in one queue at most.
#[derive(Clone, Debug)]
pub(crate) struct ReadySet<const SLOTS: usize> {
    bitmap: u64,
    heads: [u8; LEVELS],
    tails: [u8; LEVELS],
    links: [Link; SLOTS],
}

impl<const SLOTS: usize> ReadySet<SLOTS> {
    pub(crate) const fn new() -> Self {
        Self { bitmap: 0, heads: [NONE; LEVELS], tails: [NONE; LEVELS], links: [UNLINKED; SLOTS] }
    }

    fn link(&self, slot: u8) -> Link {
        self.links.get(usize::from(slot)).copied().unwrap_or(UNLINKED)
    }

    fn edit(&mut self, slot: u8, change: impl FnOnce(&mut Link)) {
        if let Some(link) = self.links.get_mut(usize::from(slot)) {
            change(link);
        }
    }

    fn set(ends: &mut [u8; LEVELS], level: u8, slot: u8) {
        if let Some(end) = ends.get_mut(usize::from(level)) {
            *end = slot;
        }
    }

    fn end(ends: &[u8; LEVELS], level: u8) -> u8 {
        ends.get(usize::from(level)).copied().unwrap_or(NONE)
    }

    /// The level that the slot waits at.
    pub(crate) fn level(&self, slot: u8) -> Option<u8> {
        let level = self.link(slot).level;
        (level != NONE).then_some(level)
    }

    /// The best level and the slot at its head.
    pub(crate) fn first(&self) -> Option<(u8, u8)> {
        let level = u8::try_from(self.bitmap.trailing_zeros()).ok().filter(|level| usize::from(*level) < LEVELS)?;
        Some((level, Self::end(&self.heads, level)))
    }

    /// Whether anybody waits behind the head of a level.
    pub(crate) fn has_peers(&self, level: u8) -> bool {
        Self::end(&self.heads, level) != Self::end(&self.tails, level)
    }

    /// Puts a slot at the tail of a level. It must not be queued.
    pub(crate) fn push(&mut self, slot: u8, level: u8) {
        let tail = Self::end(&self.tails, level);
        self.edit(slot, |link| *link = Link { previous: tail, next: NONE, level });
        if tail == NONE {
            Self::set(&mut self.heads, level, slot);
            self.bitmap |= 1u64.wrapping_shl(u32::from(level));
        } else {
            self.edit(tail, |link| link.next = slot);
        }
        Self::set(&mut self.tails, level, slot);
    }

    /// Takes a slot out of its queue, wherever it stands. Nothing happens when it is in none.
    pub(crate) fn remove(&mut self, slot: u8) {
        let Link { previous, next, level } = self.link(slot);
        if level == NONE {
            return;
        }
        if previous == NONE {
            Self::set(&mut self.heads, level, next);
        } else {
            self.edit(previous, |link| link.next = next);
        }
        if next == NONE {
            Self::set(&mut self.tails, level, previous);
        } else {
            self.edit(next, |link| link.previous = previous);
        }
        if Self::end(&self.heads, level) == NONE {
            self.bitmap &= !1u64.wrapping_shl(u32::from(level));
        }
        self.edit(slot, |link| *link = UNLINKED);
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
