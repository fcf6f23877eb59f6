//! Servers whose position is filled and that do not ask: what they have is reserved for claims of others, or used up (`kernel.md` 4; CH-52, CH-60).
//!
//! Such a server is asked again when its answer may be another one: its budget grows, a reservation on it ends, or something else was done to its time. Then it is asked before anybody
//! runs who is less important, one in a passage, since a component can have 31 of them and let all come back at one instant.
//!
//! Rejected: to ask all at each choice, which needs no notes. With 31 servers that took 4,375 instructions, and each choice paid for it.

use crate::rows::bit;
use bulkhead_kernel_abi::MAX_SERVERS;
use bulkhead_objects::NEVER;
use bulkhead_sched::Members;
use bulkhead_sched::kernel::Stint;

/// The servers, a bit each.
#[derive(Debug)]
pub(crate) struct Dry {
    all: u64,
    /// Those of them whose answer may be another one now.
    unasked: u64,
    /// When the budget of each grows.
    grows_ticks: [u64; MAX_SERVERS],
    /// Not after the earliest of these.
    next_ticks: u64,
}

/// Servers that are more important than who was chosen.
const fn before(chosen: Stint) -> u64 {
    let runs = !chosen.is_background() && chosen.server() < 64;
    if runs { bit(chosen.server()).wrapping_sub(1) } else { u64::MAX }
}

impl Dry {
    /// None is.
    pub(crate) const NONE: Self = Self { all: 0, unasked: 0, grows_ticks: [NEVER; MAX_SERVERS], next_ticks: NEVER };

    /// All of them.
    #[inline]
    pub(crate) const fn all(&self) -> u64 {
        self.all
    }

    /// One does not ask, and its budget grows then.
    pub(crate) fn add(&mut self, slot: u8, grows_ticks: u64) {
        let Some(place) = self.grows_ticks.get_mut(usize::from(slot)) else { return };
        *place = grows_ticks;
        self.all |= bit(slot);
        self.unasked &= !bit(slot);
        self.next_ticks = self.next_ticks.min(grows_ticks);
    }

    /// One asks, or its position is empty.
    #[inline]
    pub(crate) const fn remove(&mut self, slot: u8) {
        self.all &= !bit(slot);
        self.unasked &= !bit(slot);
    }

    /// Something was done to the time of a server.
    #[inline]
    pub(crate) const fn changed(&mut self, slot: u8) {
        self.unasked |= self.all & bit(slot);
    }

    /// Who is to be asked.
    pub(crate) const fn unasked(&self) -> u64 {
        self.unasked
    }

    /// Those are to be asked, as far as they are dry.
    pub(crate) const fn set_unasked(&mut self, unasked: u64) {
        self.unasked = self.all & unasked;
    }

    /// Something may have been done to that of each.
    pub(crate) const fn all_changed(&mut self) {
        self.unasked = self.all;
    }

    /// Time has passed.
    pub(crate) fn pass(&mut self, now: u64) {
        if now < self.next_ticks {
            return;
        }
        self.next_ticks = NEVER;
        for slot in Members(self.all) {
            let grows_ticks = self.grows_ticks(slot);
            if grows_ticks <= now {
                self.unasked |= bit(slot);
            } else {
                self.next_ticks = self.next_ticks.min(grows_ticks);
            }
        }
    }

    fn grows_ticks(&self, slot: u8) -> u64 {
        self.grows_ticks.get(usize::from(slot)).copied().unwrap_or(NEVER)
    }

    /// One is to be asked, perhaps behind who runs.
    #[inline]
    pub(crate) const fn has_unasked(&self) -> bool {
        self.unasked != 0
    }

    /// The most important one that is to be asked before this one runs.
    pub(crate) fn first_before(&self, chosen: Stint) -> Option<u8> {
        Members(self.unasked & before(chosen)).next()
    }

    /// When the budget of one grows that is more important; nothing when there is none.
    pub(crate) fn earliest_before(&self, chosen: Stint) -> Option<u64> {
        Members(self.all & before(chosen)).map(|slot| self.grows_ticks(slot)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_asked_when_its_answer_may_be_another_one() {
        let mut dry = Dry::NONE;
        for (slot, grows_ticks) in [(3, 50), (9, 20), (63, NEVER)] {
            dry.add(slot, grows_ticks);
        }
        assert_eq!((dry.first_before(Stint::IDLE), dry.earliest_before(Stint::IDLE)), (None, Some(20)));
        dry.pass(19);
        assert_eq!(dry.first_before(Stint::IDLE), None);
        dry.pass(20);
        assert_eq!(dry.first_before(Stint::IDLE), Some(9));
        dry.changed(63);
        dry.changed(4);
        // Asked, and it has nothing until then.
        dry.add(9, 80);
        assert_eq!(dry.first_before(Stint::IDLE), Some(63));
        dry.remove(63);
        assert_eq!((dry.first_before(Stint::IDLE), dry.all()), (None, 1 << 3 | 1 << 9));
        dry.pass(50);
        assert_eq!((dry.first_before(Stint::IDLE), dry.earliest_before(Stint::IDLE)), (Some(3), Some(50)));
        dry.add(3, 90);
        dry.pass(80);
        assert_eq!(dry.first_before(Stint::IDLE), Some(9));
        dry.all_changed();
        assert_eq!(dry.first_before(Stint::IDLE), Some(3));
    }

    #[test]
    fn who_is_less_important_is_not_asked() {
        let mut dry = Dry::NONE;
        dry.add(3, 50);
        dry.pass(60);
        let chosen = |slot, is_background| Stint::new(slot, slot, 0, is_background);
        assert_eq!(dry.first_before(chosen(3, false)), None);
        assert_eq!(dry.first_before(chosen(0, false)), None);
        assert_eq!(dry.first_before(chosen(4, false)), Some(3));
        assert_eq!(dry.first_before(chosen(1, true)), Some(3));
        assert_eq!(dry.earliest_before(chosen(3, false)), None);
        assert_eq!(dry.earliest_before(chosen(63, false)), Some(50));
    }
}
