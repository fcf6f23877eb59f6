//! Claims on the time of servers, and servers made at run time: the kernel's side of `core/sched` (`kernel.md` 3 and 4; CH-23, CH-50 to CH-57, QV-20, QV-37).
//!
//! An instance without schedulers has one claim for each server, on all that this one has. Then nothing here is looked at (`divides`): who may run
//! is what `core/sched` says. In any other one each server has the claim of its position, and
//!
//! - it asks in `core/sched` while its claim does; otherwise it is *dry* until its budget grows, or a reservation ends ([`crate::dry`]);
//! - what it uses is charged to its claim as well;
//! - who takes the core from whom is compared by the numbers of common schedulers ([`Agreement`]).
//!
//! The number that `switch` gives a claim is for as long as that is in the position.

mod calls;
mod choice;

use crate::rows::{band, bit, quick};
use crate::servers::Servers;
use bulkhead_kernel_abi::boot::{Tables, TcapRow};
use bulkhead_kernel_abi::capability::TOKEN_MASK;
use bulkhead_kernel_abi::{ALL_TICKS, Code, MAX_SERVERS, MAX_TCAPS, NONE};
use bulkhead_objects::NEVER;
use bulkhead_sched::Members;
use bulkhead_sched::band::Bands;
use bulkhead_sched::budget::Budget;
use bulkhead_sched::kernel::{Agreement, Stint};
use bulkhead_sched::tcap::{ALL, Claims, Root, TcapError};

use crate::dry::Dry;
use crate::late::Untold;

/// No claim.
const NOBODY: u8 = u8::MAX;

/// Memory for claims and bands.
#[derive(Debug)]
pub struct ShareRoom<'a> {
    /// The claims.
    pub claims: &'a mut Claims<MAX_TCAPS, MAX_SERVERS>,
    /// The bands.
    pub bands: &'a mut Bands<MAX_SERVERS>,
    /// The rest.
    pub state: &'a mut Shares,
}

/// What is known of claims beside themselves.
#[derive(Debug)]
pub struct Shares {
    /// There are schedulers, or more claims than servers.
    is_used: bool,
    agreement: Agreement,
    /// The claim of each server's position.
    positions: [u8; MAX_SERVERS],
    /// The claim that has a number of `switch` there, and whose number it is.
    numbered: [(u8, u16); MAX_SERVERS],
    /// Servers whose position is filled and does not ask.
    dry: Dry,
    /// The last choice ended with somebody who does not ask, after as many as one passage may find: nobody was chosen.
    is_unfinished: bool,
    /// Through which claim the server is charged that was chosen last.
    charged: u8,
    /// When nothing is left of what could be used through it when it was chosen; never of one on all that its server has, of which nothing is reserved.
    charged_end_ticks: u64,
    /// And the one that gave the core away.
    left: u8,
    /// What the objects are told behind the entry that it comes from.
    untold: Untold,
    /// First claim that the host left free, and how many each scheduler may make.
    first_made: u8,
    most_made: u8,
}

/// A number of the objects as one here; those are never as large.
fn byte(number: u16) -> u8 {
    u8::try_from(number).unwrap_or(NOBODY)
}

fn code(error: TcapError) -> Code {
    match error {
        TcapError::Number => Code::BadCapability,
        TcapError::NoTime => Code::NoTime,
        TcapError::Full => Code::Full,
        TcapError::Busy => Code::Busy,
        TcapError::Amount | TcapError::Priority => Code::BadArgument,
        TcapError::Scheduler => Code::Denied,
    }
}

impl Shares {
    /// Nobody has any.
    pub const NONE: Self = Self {
        is_used: false,
        agreement: Agreement::new(),
        positions: [NOBODY; MAX_SERVERS],
        numbered: [(NOBODY, 0); MAX_SERVERS],
        dry: Dry::NONE,
        is_unfinished: false,
        charged: NOBODY,
        charged_end_ticks: NEVER,
        left: NOBODY,
        untold: Untold::NOTHING,
        first_made: NOBODY,
        most_made: 0,
    };

    fn configure(&mut self, tables: &Tables<'_>) {
        let schedulers = u8::try_from(tables.schedulers.len()).unwrap_or(NOBODY);
        self.first_made = u8::try_from(tables.tcaps.len()).unwrap_or(NOBODY);
        let free = (MAX_TCAPS as u8).saturating_sub(self.first_made);
        self.most_made = free.checked_div(schedulers).unwrap_or(0);
        self.is_used = schedulers != 0 || tables.tcaps.len() > tables.servers.len();
    }

    fn position(&self, slot: u8) -> u8 {
        self.positions.get(usize::from(slot)).copied().unwrap_or(NOBODY)
    }
}

impl ShareRoom<'_> {
    pub(crate) fn is_used(&self) -> bool {
        self.state.is_used
    }

    /// Makes the bands of the boot tables; false when they contradict each other.
    #[inline(never)] // What it makes on its way is off the stack before the kernel itself is made.
    pub(crate) fn make_bands(&mut self, tables: &Tables<'_>) -> bool {
        self.state.configure(tables);
        // Without schedulers as well: calls find that there are none.
        self.claims.clear();
        let with_test = tables.bands.iter().any(|band| band.admission != 0);
        self.bands.clear(with_test.then(|| quick(tables.servers)));
        tables.bands.iter().all(|row| self.bands.add(band(row, tables.servers)))
    }
}

impl Servers<'_> {
    /// Makes the claims of the boot tables; `None` when they contradict each other.
    #[inline(never)] // The same.
    pub(crate) fn make_claims(&mut self, tcaps: &[TcapRow]) -> Option<()> {
        let shares = &mut self.room.shares;
        let own_of = |number: u8, row: &TcapRow| {
            let server = self.rows.get(usize::from(row.server))?;
            (server.tcap == u16::from(number)).then_some(*server)
        };
        for (claim, row) in (0..NOBODY).zip(tcaps) {
            let permanent = row.priority.max(1);
            match own_of(claim, row) {
                Some(server) if server.band != NONE => {}
                Some(_) => shares.claims.make_own(claim, byte(row.server), row.scheduler, permanent).ok()?,
                None => shares.claims.create(claim, row.scheduler, permanent).ok()?,
            }
        }
        for (claim, row) in (0..NOBODY).zip(tcaps).filter(|(_, row)| row.left_ticks == ALL_TICKS) {
            if let (None, Some(server)) = (own_of(claim, row), self.rows.get(usize::from(row.server))) {
                let (own, now) = (byte(server.tcap), self.now_ticks());
                let root = self.room.core.root(byte(row.server), now)?;
                self.room.shares.claims.delegate(claim, own, ALL, 0, &root, now).ok()?;
            }
            for word in row.vector.iter().take(usize::from(row.words)) {
                let (scheduler, number) = (word.wrapping_shr(48) as u16, *word & TOKEN_MASK);
                self.room.shares.claims.pass_through(claim, scheduler, number).ok()?;
            }
        }
        Some(())
    }

    /// A claim on everything of a server of which nothing is reserved: the server itself says what it has.
    #[inline]
    fn is_whole(&self, claim: u8) -> bool {
        let claims = &self.room.shares.claims;
        let is_on_all = |root: u8| claims.reserved_ticks(root) == 0;
        claims.claim(claim).is_some_and(|one| one.left_ticks() == ALL && one.root().is_some_and(is_on_all))
    }

    /// The root of a claim, without when a part of it would end that is handed on.
    fn root_of(&mut self, claim: u8) -> Option<Root> {
        let server = self.room.shares.claims.claim(claim)?.root()?;
        self.room.core.root_in_hand(server, self.now_ticks())
    }

    /// What can be used through a claim now.
    #[inline(never)] // Not on the way of instances without schedulers.
    pub(crate) fn claim_usable_ticks(&mut self, claim: u16) -> u64 {
        let (claim, now) = (byte(claim), self.now_ticks());
        self.root_of(claim).map_or(0, |root| self.room.shares.claims.usable_ticks(claim, &root, now))
    }

    #[inline]
    pub(crate) fn claim_asks(&mut self, claim: u8) -> bool {
        // With budget it can be used; without, it waits for that or continues in the background.
        self.is_whole(claim) || self.some_end_ticks(claim).is_some()
    }

    /// CH-51. Who has lost its time keeps nobody out.
    #[inline(never)] // Not on the way of instances without schedulers.
    pub(crate) fn claim_outranks(&mut self, claim: u16, other: u16) -> bool {
        let (claim, other, now) = (byte(claim), byte(other), self.now_ticks());
        // Where they lie: an answer that is taken apart is copied by a call.
        let root = self.root_of(claim);
        let Some(root) = &root else { return false };
        // The usual case: of one server.
        let claims = &self.room.shares.claims;
        if claims.claim(other).is_some_and(|one| one.root() == Some(root.server)) {
            return claims.outranks((claim, root), (other, root), now);
        }
        match &self.root_of(other) {
            Some(others) => self.room.shares.claims.outranks((claim, root), (other, others), now),
            None => self.room.shares.claims.usable_ticks(claim, root, now) != 0,
        }
    }

    /// The position of a server is filled.
    #[inline(never)] // Not on the way of instances without schedulers.
    pub(crate) fn fill(&mut self, server: u16, claim: u16) {
        let (slot, claim) = (byte(server), byte(claim));
        self.end_number(slot, claim);
        if let Some(place) = self.room.shares.state.positions.get_mut(usize::from(slot)) {
            *place = claim;
        }
        self.room.core.runs_on_another(self.now_ticks(), slot);
        if self.claim_asks(claim) {
            self.room.shares.state.dry.remove(slot);
            // Somebody else is in the position of a server that asks already.
            if self.room.core.asking() & bit(slot) == 0 {
                self.wake(server);
            }
        } else if self.room.core.asking() & bit(slot) != 0 {
            self.dry_up(slot);
        } else {
            self.stays_dry(slot);
        }
    }

    /// It is empty.
    #[inline(never)] // Not on the way of instances without schedulers.
    pub(crate) fn empty(&mut self, server: u16) {
        let slot = byte(server);
        self.end_number(slot, NOBODY);
        self.room.shares.state.left = self.room.shares.state.position(slot);
        if let Some(place) = self.room.shares.state.positions.get_mut(usize::from(slot)) {
            *place = NOBODY;
        }
        self.room.shares.state.dry.remove(slot);
        self.block(server);
    }

    /// It does not ask, though somebody is there. A polling server has lost its budget by that, and one without any may wait for the next one, or continue in the background: it is
    /// asked again, in a passage of its own.
    fn dry_up(&mut self, slot: u8) {
        self.room.core.block(self.now_ticks(), slot);
        self.room.shares.state.dry.add(slot, NEVER);
        self.time_changed(slot);
    }

    /// Who was dry asks if its claim does now.
    pub(crate) fn ask_again(&mut self, slot: u8) {
        let now = self.now_ticks();
        if self.claim_asks(self.room.shares.state.position(slot)) {
            self.room.shares.state.dry.remove(slot);
            self.room.core.wake(now, slot);
        } else {
            self.stays_dry(slot);
        }
    }

    fn stays_dry(&mut self, slot: u8) {
        // Its claim may have time of another server by now.
        let claim = self.room.shares.claims.claim(self.room.shares.state.position(slot));
        let root = claim.and_then(|one| one.root()).unwrap_or(slot);
        let grows_ticks = self.room.core.grows_ticks(root, self.now_ticks());
        self.room.shares.state.dry.add(slot, grows_ticks);
    }

    /// Something was done to the time of a server: who has none on it is asked again.
    #[inline]
    pub(crate) const fn time_changed(&mut self, server: u8) {
        self.room.shares.state.dry.changed(server);
    }

    /// A claim was given time: who is in a position with it, and had none, is asked again. It may be that of another server than before.
    #[inline]
    fn was_given(&mut self, claim: u8) {
        let state = &mut self.room.shares.state;
        for slot in Members(state.dry.all()) {
            if state.position(slot) == claim {
                state.dry.changed(slot);
            }
        }
    }

    /// Who is to be asked, and all who may be: for who compares choices.
    pub(crate) const fn unasked(&self) -> (u64, u64) {
        (self.room.shares.state.dry.unasked(), self.room.shares.state.dry.all())
    }

    /// The same.
    pub(crate) const fn set_unasked(&mut self, unasked: u64) {
        self.room.shares.state.dry.set_unasked(unasked);
    }

    /// Asks everybody again.
    pub(crate) const fn forget_answers(&mut self) {
        self.room.shares.state.dry.all_changed();
    }

    /// The number that `switch` gave is over, unless this claim has it.
    pub(super) fn end_number(&mut self, slot: u8, claim: u8) {
        let Some(place) = self.room.shares.state.numbered.get_mut(usize::from(slot)) else { return };
        let (numbered, scheduler) = *place;
        if numbered == NOBODY || numbered == claim {
            return;
        }
        *place = (NOBODY, 0);
        let claims = &mut self.room.shares.claims;
        if !claims.has_number(numbered, scheduler, 0) {
            // One that ended since has no number.
            let _ = claims.set_number(numbered, scheduler, 0);
        }
    }

    /// A scheduler gives a claim a number.
    pub(crate) fn set_number(&mut self, claim: u16, scheduler: u16, priority: u64) -> Result<(), Code> {
        let claim = byte(claim);
        let claims = &*self.room.shares.claims;
        let server = claims.claim(claim).and_then(|one| one.root());
        // The usual case: it has this one there already.
        let numbered = self.room.shares.state.numbered.get(usize::from(server.unwrap_or(NOBODY)));
        let has_number = claims.has_number(claim, scheduler, priority);
        if has_number && numbered == Some(&(claim, scheduler)) {
            return Ok(());
        }
        if !has_number {
            self.room.shares.claims.set_number(claim, scheduler, priority).map_err(code)?;
        }
        let slot = server.unwrap_or(NOBODY);
        self.end_number(slot, claim);
        if let Some(place) = self.room.shares.state.numbered.get_mut(usize::from(slot)) {
            *place = (claim, scheduler);
        }
        Ok(())
    }

    /// Time has passed: charges it to the claim of who ran, and lets claims expire.
    #[inline] // The usual case needs no stack: something is used of everything, and no claim is due.
    pub(crate) fn use_claims(&mut self, stint: Stint, ticks: u64) {
        let now = self.now_ticks();
        let ShareRoom { claims, state, .. } = &mut self.room.shares;
        let is_free = stint == Stint::IDLE || stint.is_background();
        let is_used = is_free || claims.use_all(state.charged, ticks);
        if !is_used || claims.next_expiry_ticks() <= now {
            self.use_some_claims(is_used, ticks);
        }
    }

    #[inline(never)] // Not on the usual way.
    fn use_some_claims(&mut self, is_used: bool, ticks: u64) {
        if !is_used {
            self.spend(self.room.shares.state.charged, ticks);
        }
        // One at an entry: as many as there are may be due at one instant. The others stay reserved until the next ones, and nobody can use them.
        self.expire_next();
    }

    /// Lets one claim expire, if one is due.
    #[inline]
    fn expire_next(&mut self) {
        let now = self.now_ticks();
        if self.room.shares.claims.next_expiry_ticks() > now {
            return;
        }
        let ShareRoom { claims, state, .. } = &mut self.room.shares;
        let Some((claim, server)) = claims.expire(now) else { return };
        state.untold.end(claim, Some(server));
        self.time_changed(server);
    }

    /// Who gave the core away has paid for loading its successor.
    #[inline(never)] // Not on the way of instances without schedulers.
    pub(crate) fn use_leavers_claim(&mut self, leaver: Stint, ticks: u64) {
        if !leaver.is_background() {
            self.spend(self.room.shares.state.left, ticks);
        }
    }

    /// The time of a claim is over, which was this server's.
    fn end(&mut self, claim: u8, server: Option<u8>) {
        self.room.shares.state.untold.end(claim, server);
        if let Some(server) = server {
            self.time_changed(server);
        }
    }

    fn spend(&mut self, claim: u8, ticks: u64) {
        // The usual case: on everything, of which nothing is used up by that.
        if self.room.shares.claims.use_all(claim, ticks) {
            return;
        }
        let root = self.room.shares.claims.claim(claim).and_then(|one| one.root());
        let smallest_ticks = root.and_then(|root| self.room.core.budget(root)).map_or(1, smallest_ticks);
        if self.room.shares.claims.spend(claim, ticks, smallest_ticks) {
            self.end(claim, root);
        }
    }
}

fn smallest_ticks(budget: &Budget) -> u64 {
    match budget {
        Budget::Sporadic(rule) => rule.parameters().smallest_chunk_ticks,
        _ => 1,
    }
}
