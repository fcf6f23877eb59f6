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
/// Each round passes one over or lets a better one take the core.
const MAX_ROUNDS: u32 = (MAX_VETOED + 1) * (MAX_VETOED + 2) / 2;

/// The pair for which servers are passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    protected: Option<(Stint, u8)>,
}

impl Agreement {
    /// Nobody is passed over.
    #[must_use]
    pub const fn new() -> Self {
        Self { protected: None }
    }

    /// The server and the claim for which others are passed over.
    #[must_use]
    pub const fn protected(&self) -> Option<(Stint, u8)> {
        self.protected
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
        let running = core.running();
        let mut holder = if core.can_go_on() { protects(core, claims, &position, running, now) } else { None };
        if core.vetoed() != 0 && holder != self.protected {
            core.lift(now);
        }
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
            core.lift(now);
            holder = protects(core, claims, &position, best, now);
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
            return core.signal(now, slot);
        }
        core.wake(now, slot);
        self.next(core, claims, position, now)
    }
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
