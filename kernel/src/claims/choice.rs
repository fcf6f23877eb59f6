//! The choice of an instance with schedulers: what is told before, who has a word in it, how many it may find without time, and until when it stands (CH-23, CH-60).

use super::{NOBODY, Servers, ShareRoom, byte};
use crate::late::Late;
use bulkhead_kernel_abi::boot::ServerRow;
use bulkhead_objects::NEVER;
use bulkhead_sched::Members;
use bulkhead_sched::kernel::{Next, Stint};

/// Most servers that one choice finds without time: a component can reserve that of all behind it, before they are chosen.
const DRY_UP_AT_ONCE: usize = 1;

impl Servers<'_> {
    /// There is work that is not less important than who was chosen: schedulers are to be told of something, or somebody asked again. That is first; what is of others does not
    /// delay who is more important.
    #[inline]
    pub(crate) fn has_late_before(&self, chosen: Stint) -> bool {
        let state = &self.room.shares.state;
        self.divides
            && (state.is_unfinished || state.untold.is_before(chosen) || self.first_dry_before(chosen).is_some())
    }

    /// The most important dry server that is to be asked before this one runs.
    #[inline]
    fn first_dry_before(&self, chosen: Stint) -> Option<u8> {
        let dry = &self.room.shares.state.dry;
        if dry.has_unasked() { dry.first_before(self.place_of(chosen)) } else { None }
    }

    /// Servers are numbered by their best levels. One that works for clients may be less important than its number says: then everybody is asked before.
    fn place_of(&self, chosen: Stint) -> Stint {
        let works_for_others = |row: &ServerRow| row.clients != 0;
        let is_so = self.rows.get(usize::from(chosen.server())).is_some_and(works_for_others);
        if is_so { Stint::IDLE } else { chosen }
    }

    /// The last choice stopped behind as many as it may find without time: that was work.
    pub(crate) const fn is_unfinished(&self) -> bool {
        self.room.shares.state.is_unfinished
    }

    /// What is done next, and the server that pays for it.
    pub(crate) fn next_late(&mut self, chosen: Stint) -> Option<(Late, u8)> {
        let state = &mut self.room.shares.state;
        // Who comes next is not known: there may be somebody more important.
        if core::mem::replace(&mut state.is_unfinished, false) {
            return None;
        }
        if state.untold.is_before(chosen) {
            return state.untold.next();
        }
        self.first_dry_before(chosen).map(|slot| (Late::Dry(slot), slot))
    }

    /// It was told; of a claim up to this thread, if there are others.
    pub(crate) fn told(&mut self, what: Late, continues_with: Option<u16>) {
        self.room.shares.state.untold.told(what, continues_with);
    }

    /// A claim has time of this server.
    pub(crate) fn has_time(&self, claim: u8, server: u8) -> bool {
        self.room.shares.claims.claim(claim).is_some_and(|one| one.root() == Some(server))
    }

    /// Who was chosen last may go on as far as claims say: time can be used through its own.
    pub(crate) fn claim_stands(&mut self, stint: Stint) -> bool {
        self.nobody_has_a_word() && self.charge_through(self.room.shares.state.position(stint.server()))
    }

    /// Nobody is passed over, or waits for what a claim may have, or is to be told.
    #[inline(always)] // The same.
    fn nobody_has_a_word(&self) -> bool {
        let state = &self.room.shares.state;
        state.dry.all() | self.room.core.vetoed() == 0 && state.untold.is_empty()
    }

    /// The server that runs is charged through a claim on everything, which has no end as nothing is reserved of its time; nobody has a word in which one that is, and none of any
    /// server expires before `now`. [`Self::exchange`] and [`Self::hand_over`] are right behind this alone.
    #[inline(always)] // On a way that is counted.
    pub(crate) fn is_whole_and_alone(&self, now: u64) -> bool {
        let expires_ticks = self.room.shares.claims.next_expiry_ticks();
        let is_whole = self.room.shares.state.charged_end_ticks == NEVER;
        self.divides && is_whole && self.nobody_has_a_word() && now < expires_ticks
    }

    /// Another claim may take the place of that one: it is on the same server, and then on everything as well.
    #[inline(always)] // The same.
    fn may_exchange(&self, slot: u8, [from, to]: [u8; 2]) -> bool {
        let (claims, state) = (&*self.room.shares.claims, &*self.room.shares.state);
        let is_its = claims.claim(to).is_some_and(|one| one.root() == Some(slot));
        self.chosen().server() == slot && state.charged == from && is_its
    }

    /// Another claim takes the place of the one through which the server is charged that runs. Up to now that was the first one, and the core charges the server itself with its
    /// next report.
    #[inline(always)] // The same.
    fn take_place(&mut self, slot: u8, [from, to]: [u8; 2], now: u64) {
        let ticks = now.saturating_sub(self.now_ticks());
        let used_ticks = if self.chosen().is_background() { 0 } else { ticks };
        let ShareRoom { claims, state, .. } = &mut self.room.shares;
        if let Some(position) = state.positions.get_mut(usize::from(slot)) {
            (*position, state.charged) = (to, to);
        }
        let _ = claims.use_all(from, used_ticks);
        self.accounts_are_right_until(now);
    }

    /// A `switch` with this number of a scheduler, if all is as usual.
    pub(crate) fn exchange(
        &mut self,
        server: u16,
        pair: [u16; 2],
        (scheduler, priority): (u16, u64),
        now: u64,
    ) -> bool {
        let (slot, to, pair) = (byte(server), pair[1], pair.map(byte));
        let is_usual = self.may_exchange(slot, pair) && self.set_number(to, scheduler, priority).is_ok();
        if is_usual {
            self.take_place(slot, pair, now);
        }
        is_usual
    }

    /// A notification to somebody on the second claim, if all is as usual: whether it takes the core.
    #[inline(never)] // Not on the way of instances without schedulers.
    pub(crate) fn hand_over(&mut self, server: u16, pair: [u16; 2], now: u64) -> Option<bool> {
        let (slot, pair) = (byte(server), pair.map(byte));
        if !self.may_exchange(slot, pair) || self.chosen().is_background() {
            return None;
        }
        let [from, to] = pair;
        let takes = to == from || self.room.shares.claims.agree(to, from);
        if takes {
            if to != from {
                self.end_number(slot, to);
            }
            self.take_place(slot, pair, now);
        }
        Some(takes)
    }

    /// Who was chosen is charged through this claim from here on; false, with nothing changed, when it does not ask.
    #[inline(always)] // At each entry of an instance with schedulers, which is counted.
    fn charge_through(&mut self, claim: u8) -> bool {
        let end_ticks = if self.is_whole(claim) { Some(NEVER) } else { self.some_end_ticks(claim) };
        let Some(end_ticks) = end_ticks else { return false };
        (self.room.shares.state.charged, self.room.shares.state.charged_end_ticks) = (claim, end_ticks);
        true
    }

    /// When nothing is left of what can be used through a claim now, if it asks.
    #[inline(never)] // Not on the usual way.
    pub(super) fn some_end_ticks(&mut self, claim: u8) -> Option<u64> {
        let (root, now) = (self.root_of(claim), self.now_ticks());
        let (Some(root), claims) = (&root, &self.room.shares.claims) else { return None };
        let usable_ticks = claims.usable_if_it_asks(claim, root, now)?;
        let expires_ticks = claims.claim(claim).map_or(NEVER, |one| one.expires_ticks());
        Some(now.saturating_add(usable_ticks).min(expires_ticks))
    }

    /// Chooses which server runs, by the numbers of schedulers as well (CH-23).
    #[inline(never)] // Not on the way of instances without schedulers.
    pub(crate) fn choose_by_claims(&mut self) -> Next {
        match self.room.core.standing() {
            Some(next) if self.claim_stands(next.stint) => next,
            _ => self.choose_by_all_claims(),
        }
    }

    /// The same in all other cases.
    #[inline(never)] // Not on the usual way.
    fn choose_by_all_claims(&mut self) -> Next {
        self.room.shares.state.is_unfinished = false;
        let now = self.now_ticks();
        self.room.shares.state.dry.pass(now);
        for _ in 0..DRY_UP_AT_ONCE {
            let (now, positions) = (self.now_ticks(), &self.room.shares.state.positions);
            let position = |slot: u8| positions.get(usize::from(slot)).copied();
            let (core, claims) = (&mut *self.room.core, &*self.room.shares.claims);
            let (best, running) = (core.best(), core.running());
            let agree = || {
                let of = |stint: Stint| position(stint.server()).unwrap_or(NOBODY);
                best.server() == running.server() || claims.agree(of(best), of(running))
            };
            // The usual case: nobody has a word in it.
            let mut is_unfinished = false;
            let next = if core.vetoed() == 0 && agree() {
                core.next(now)
            } else {
                let before = core.vetoed();
                let agreement = &mut self.room.shares.state.agreement;
                let next = agreement.next(core, claims, position, now);
                is_unfinished = agreement.is_unfinished();
                self.count_vetoes(before);
                next
            };
            let slot = next.stint.server();
            if next.stint == Stint::IDLE {
                return next;
            }
            let claim = self.room.shares.state.position(slot);
            if self.charge_through(claim) {
                self.room.shares.state.is_unfinished = is_unfinished;
                return next;
            }
            self.dry_up(slot);
        }
        self.room.shares.state.is_unfinished = true;
        Next { stint: Stint::IDLE, deadline_ticks: self.now_ticks() }
    }

    /// Counts who may not run against the word of a scheduler since the last choice.
    fn count_vetoes(&mut self, before: u64) {
        for slot in Members(self.room.core.vetoed() & !before) {
            if let Some(account) = self.room.accounts.servers.get_mut(usize::from(slot)) {
                account.vetoes = account.vetoes.wrapping_add(1);
            }
        }
    }

    /// When claims say something else: the end of the one that runs, and when somebody who is dry may ask.
    #[inline]
    pub(crate) fn claims_end_ticks(&mut self, stint: Stint) -> u64 {
        let state = &self.room.shares.state;
        let is_charged = stint != Stint::IDLE && !stint.is_background();
        let end_ticks = if is_charged { state.charged_end_ticks } else { NEVER };
        if state.dry.all() == 0 { end_ticks } else { self.some_claims_end_ticks(stint, end_ticks) }
    }

    #[inline(never)] // Not on the usual way.
    fn some_claims_end_ticks(&mut self, stint: Stint, end_ticks: u64) -> u64 {
        // Who is less important than the one that runs would wait anyway, and is looked at when the core is given away.
        match self.room.shares.state.dry.earliest_before(self.place_of(stint)) {
            Some(grows_ticks) => end_ticks.min(grows_ticks).min(self.room.shares.claims.next_expiry_ticks()),
            None => end_ticks,
        }
    }
}
