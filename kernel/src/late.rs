//! What schedulers are told behind the entry that it comes from: that a claim's time is over, and that a scheduler below them is awake (`kernel.md` 4; CH-52, CH-57, CH-60).
//!
//! How much of it comes at one instant is bounded by a component's own numbers alone: all its claims may end at once, and each scheduler above may wait on a server of its own. Told
//! in one passage that was 57,357 instructions with 56 claims, and 684 for each scheduler. So an entry leaves a bit, and the kernel tells one at a time, as work of the server whose
//! time it is, with a look for interrupts between them, and before anybody runs who is not more important than that server.
//!
//! Rejected: to queue it in the position of the server that pays, as ends of components are. A server without budget would not be chosen, and a scheduler above, which may lend it
//! some, would never hear of it.

use crate::rows::bit;
use bulkhead_kernel_abi::{MAX_SCHEDULERS, MAX_TCAPS};
use bulkhead_sched::Members;
use bulkhead_sched::kernel::Stint;

/// No server.
const NOBODY: u8 = u8::MAX;

/// What is to be told next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Late {
    /// The time of this claim is over: those are told of it that are awake on it, from this thread on.
    Spent(u8, u16),
    /// This scheduler is awake: its parent is told.
    Awake(u8),
    /// This server is asked whether it has time again ([`crate::dry`]).
    Dry(u8),
}

/// All that is to be told.
#[derive(Debug)]
pub(crate) struct Untold {
    /// Claims whose time is over.
    spent: u64,
    /// Whose time that of each was.
    spent_of: [u8; MAX_TCAPS],
    /// Schedulers that are awake.
    awake: u64,
    /// On whose time the parent of each is told.
    awake_of: [u8; MAX_SCHEDULERS],
    /// The most important server of these; [`NOBODY`] for none.
    first: u8,
    /// The thread from which on one claim is told of.
    told: (u8, u16),
}

fn of(servers: &[u8], number: u8) -> u8 {
    servers.get(usize::from(number)).copied().unwrap_or(NOBODY)
}

impl Untold {
    /// Nothing is.
    pub(crate) const NOTHING: Self = Self {
        spent: 0,
        spent_of: [NOBODY; MAX_TCAPS],
        awake: 0,
        awake_of: [NOBODY; MAX_SCHEDULERS],
        first: NOBODY,
        told: (NOBODY, 0),
    };

    /// Nothing is to be told.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.spent | self.awake == 0
    }

    /// The time of a claim is over, which was this server's.
    pub(crate) fn end(&mut self, claim: u8, server: Option<u8>) {
        let Some(of) = self.spent_of.get_mut(usize::from(claim)) else { return };
        // It may have had the time of another server since, of whose end nothing was told either: `first` is the least of all.
        let waits = self.spent & bit(claim) != 0;
        *of = server.unwrap_or(0).min(if waits { *of } else { NOBODY });
        self.spent |= bit(claim);
        self.first = self.first.min(*of);
    }

    /// A scheduler is awake; its parent is told of it on the time of this server, or when nobody runs with budget if there is none.
    pub(crate) fn wake(&mut self, scheduler: u8, server: Option<u8>) {
        let Some(of) = self.awake_of.get_mut(usize::from(scheduler)) else { return };
        let waits = self.awake & bit(scheduler) != 0;
        *of = server.unwrap_or(NOBODY).min(if waits { *of } else { NOBODY });
        self.awake |= bit(scheduler);
        self.first = self.first.min(*of);
    }

    /// Something is to be told whose server is not less important than who was chosen.
    #[inline]
    pub(crate) fn is_before(&self, chosen: Stint) -> bool {
        let waits = || chosen == Stint::IDLE || chosen.is_background() || chosen.server() >= self.first;
        !self.is_empty() && waits()
    }

    /// What is told next, and the server that pays.
    pub(crate) fn next(&self) -> Option<(Late, u8)> {
        if let Some(scheduler) = Members(self.awake).find(|one| of(&self.awake_of, *one) == self.first) {
            return Some((Late::Awake(scheduler), self.first));
        }
        let claim = Members(self.spent).find(|claim| of(&self.spent_of, *claim) == self.first)?;
        let first = if self.told.0 == claim { self.told.1 } else { 0 };
        Some((Late::Spent(claim, first), self.first))
    }

    /// It is told; of a claim up to this thread, if there are others.
    pub(crate) fn told(&mut self, what: Late, continues_with: Option<u16>) {
        match what {
            Late::Dry(_) => return,
            Late::Awake(scheduler) => self.awake &= !bit(scheduler),
            Late::Spent(claim, _) => {
                self.told = continues_with.map_or((NOBODY, 0), |thread| (claim, thread));
                if continues_with.is_some() {
                    return;
                }
                self.spent &= !bit(claim);
            }
        }
        let spent = Members(self.spent).map(|claim| of(&self.spent_of, claim));
        let awake = Members(self.awake).map(|scheduler| of(&self.awake_of, scheduler));
        self.first = spent.chain(awake).min().unwrap_or(NOBODY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_again_before_it_is_told_is_told_once() {
        for servers in [[1, 2], [2, 1]] {
            let mut untold = Untold::NOTHING;
            for server in servers {
                untold.end(5, Some(server));
                untold.wake(3, Some(server + 2));
            }
            for expected in [(Late::Spent(5, 0), 1), (Late::Awake(3), 3)] {
                assert_eq!(untold.next(), Some(expected));
                untold.told(expected.0, None);
            }
            assert!(untold.is_empty() && untold.next().is_none());
        }
    }

    /// The most important server's comes first, of one server's the scheduler, and each once.
    #[test]
    fn each_is_told_once_and_by_importance() {
        let mut untold = Untold::NOTHING;
        assert!(untold.is_empty() && untold.next().is_none() && !untold.is_before(Stint::IDLE));
        untold.end(5, Some(3));
        untold.end(40, Some(2));
        untold.wake(7, Some(3));
        untold.wake(1, None);
        for expected in [
            (Late::Spent(40, 0), 2),
            (Late::Spent(40, 9), 2),
            (Late::Awake(7), 3),
            (Late::Spent(5, 0), 3),
            (Late::Awake(1), NOBODY),
        ] {
            assert_eq!(untold.next(), Some(expected));
            let continues_with = (expected.0 == Late::Spent(40, 0)).then_some(9);
            untold.told(expected.0, continues_with);
        }
        assert!(untold.is_empty());
    }
}
