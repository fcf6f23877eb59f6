//! The choice when schedulers have a word in it (CH-23): nobody is preempted against the word of a scheduler that both have in common.
//!
//! Servers are ordered totally by their levels, claims only partly by the numbers of their schedulers. When the choice would take the core
//! from a pair that could go on (the server that runs, with the claim it runs on) for a server with a better level, and a scheduler
//! that both claims have gave that one a worse number, then that server is *vetoed*: passed over, without that it blocks. It is looked at
//! again at the first choice after the pair lost the core, by blocking, by the end of its budget, or to somebody who may.
//!
//! Who takes the core in the end was compared with whom it took it from, so when a third server takes it those who were passed over
//! for the first one are looked at at once.

use super::{KernelCore, Next, Stint};
use crate::tcap::Claims;

/// Most servers that are passed over at once. The host counts who can share a scheduler and refuses more.
pub const MAX_VETOED: u32 = 8;
/// Most that one choice lets take the core one from the other, while others are passed over: each of them has its own word in who is.
const HOLDERS_AT_ONCE: u32 = 1;
/// Each round passes one over or lets a better one take the core.
const MAX_ROUNDS: u32 = (MAX_VETOED + 1) * (MAX_VETOED + 2) / 2;

/// The pair for which servers are passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    protected: Option<(Stint, u8)>,
    is_unfinished: bool,
}

impl Agreement {
    /// Nobody is passed over.
    #[must_use]
    pub const fn new() -> Self {
        Self { protected: None, is_unfinished: false }
    }

    /// The server and the claim for which others are passed over.
    #[must_use]
    pub const fn protected(&self) -> Option<(Stint, u8)> {
        self.protected
    }

    /// Who was chosen may take the core, but may have to give it away at this instant: the choice is to be made again, as if that one had run. Who looks for interrupts between the
    /// two does not look away for as long as all take.
    #[must_use]
    pub const fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Chooses who runs from `now` on. `position` says on which claim a server runs, or would run.
    pub fn next<const SERVERS: usize, const CLAIMS: usize>(
        &mut self,
        core: &mut KernelCore<SERVERS>,
        claims: &Claims<CLAIMS, SERVERS>,
        position: impl Fn(u8) -> Option<u8>,
        now: u64,
    ) -> Next {
        core.advance(now);
        let mut holder = core.goes_on().and_then(|stint| protects(core, claims, &position, stint, now));
        if core.vetoed() != 0 && holder != self.protected {
            review(core, claims, &position, holder, now);
        }
        let mut holders = 0;
        self.is_unfinished = false;
        for _ in 0..MAX_ROUNDS {
            let best = core.best();
            let Some((stint, claim)) = holder else { break };
            if best.server() == stint.server() || best.level() >= stint.level() {
                break;
            }
            let may = position(best.server()).is_none_or(|candidate| claims.agree(candidate, claim));
            if !may && core.vetoed().count_ones() < MAX_VETOED {
                core.veto(best.server());
                continue;
            }
            if core.vetoed() == 0 {
                break;
            }
            if holders == HOLDERS_AT_ONCE {
                self.is_unfinished = true;
                break;
            }
            holders = holders.saturating_add(1);
            holder = protects(core, claims, &position, best, now);
            review(core, claims, &position, holder, now);
        }
        self.protected = holder.filter(|_| core.vetoed() != 0);
        core.choose(now)
    }

    /// A server asks at `now`, the instant of entry, and the core chooses: the short way of [`KernelCore::signal`] where nobody has a
    /// word in it.
    #[inline]
    pub fn signal<const SERVERS: usize, const CLAIMS: usize>(
        &mut self,
        core: &mut KernelCore<SERVERS>,
        claims: &Claims<CLAIMS, SERVERS>,
        position: impl Fn(u8) -> Option<u8>,
        now: u64,
        slot: u8,
    ) -> Next {
        let alone = |server: u8| {
            let claim = position(server).and_then(|number| claims.claim(number));
            claim.is_none_or(|claim| claim.vector().is_of_the_kernel_alone())
        };
        // All others that wait were compared with who runs when that one was chosen.
        let usual =
            core.vetoed() == 0 && core.best() == core.running() && (alone(slot) || alone(core.running().server()));
        if usual {
            self.is_unfinished = false;
            return core.signal(now, slot);
        }
        core.wake(now, slot);
        self.next(core, claims, position, now)
    }
}

/// Passes nobody over any more but who may not take the core from the new holder either.
#[inline(never)] // Not on the usual way, and called twice.
fn review<const SERVERS: usize, const CLAIMS: usize>(
    core: &mut KernelCore<SERVERS>,
    claims: &Claims<CLAIMS, SERVERS>,
    position: &impl Fn(u8) -> Option<u8>,
    holder: Option<(Stint, u8)>,
    now: u64,
) {
    let may = |slot: u8, claim: u8| position(slot).is_none_or(|candidate| claims.agree(candidate, claim));
    core.lift_others(now, |slot, level| {
        holder.is_some_and(|(stint, claim)| level < stint.level() && !may(slot, claim))
    });
}

/// The claim by which a server keeps others away. One in the background or without a limit keeps away nobody, nor does one on which no
/// scheduler but the kernel's has a word, or that has no time.
fn protects<const SERVERS: usize, const CLAIMS: usize>(
    core: &mut KernelCore<SERVERS>,
    claims: &Claims<CLAIMS, SERVERS>,
    position: &impl Fn(u8) -> Option<u8>,
    stint: Stint,
    now: u64,
) -> Option<(Stint, u8)> {
    if stint.is_background() {
        return None;
    }
    let number = position(stint.server())?;
    let claim = claims.claim(number)?;
    if claim.vector().is_of_the_kernel_alone() || core.budget(stint.server())?.is_unlimited() {
        return None;
    }
    let root = core.root(claim.root()?, now)?;
    (claims.usable_ticks(number, &root, now) > 0).then_some((stint, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Anchor, Budget, Sporadic, SporadicParameters};

    /// CH-23, CH-60: of those that take the core one from the other while somebody is passed over, one choice looks at one, and the next one continues with who took it.
    #[test]
    fn who_takes_the_core_from_who_took_it_is_found_by_the_next_choice() {
        let (mut core, mut claims) = (KernelCore::<4>::empty(), Claims::<4, 4>::new());
        assert!(core.configure(0, (0..4).map(|level| 1 << level)));
        for (slot, (scheduler, number)) in (0..).zip([(7, 2), (7, 2), (8, 1), (7, 1)]) {
            let parameters = SporadicParameters {
                budget_ticks: 10,
                period_ticks: 100,
                smallest_chunk_ticks: 1,
                chunks: 4,
                anchor: Anchor::Dispatch,
                lag_clamp: false,
            };
            let budget = Budget::Sporadic(Sporadic::new(parameters, 0).expect("valid"));
            core.activate(0, slot, budget, false).expect("free");
            claims.make_own(slot, slot, scheduler, number).expect("free");
        }
        // It may not take the core from two of the others, and may from the one between them.
        claims.pass_through(0, 8, 3).expect("room");
        let mut agreement = Agreement::new();
        assert_eq!(agreement.signal(&mut core, &claims, Some, 0, 3).stint.server(), 3);
        (0..3).for_each(|server| core.wake(2, server));
        let mut next = || {
            let server = agreement.next(&mut core, &claims, Some, 2).stint.server();
            (server, core.vetoed(), agreement.is_unfinished())
        };
        assert_eq!(next(), (1, 0b1, true), "2 took it from 3, and 1 from 2, from which 0 may not take it");
        assert_eq!(next(), (0, 0, false), "from 1 it may");
        assert_eq!(next(), (0, 0, false));
        let dates = [1, 2].map(|slot| core.all_back_ticks(slot));
        assert_eq!(dates, [Some((2, 100)); 2], "who had it for no time paid nothing");
    }
}
