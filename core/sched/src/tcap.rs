//! Temporal capabilities: claims on the time of a server, with the numbers that schedulers gave to them (CH-50..CH-57).
//!
//! A [`Claim`] is no purse. The time stays in its *root*, a server, and is charged there when it is used; the claim says how much of
//! it may be used, until when, and how important that is. So no history of delegations lets anybody use more than the root's own
//! envelope, however long time is hoarded (`real-time.md` 3.5, TCAP-02), and an overrun is a debt of the root.
//!
//! A claim is on everything that is not reserved ([`ALL`]), or *finite*: a number of ticks, which are reserved for it until it
//! expires. A server's own claim is on everything and is made with the server.
//!
//! | question | answer |
//! | --- | --- |
//! | how much is usable, on everything | the root's capacity, without what is reserved |
//! | finite | the smaller of what is left and the root's capacity, until it expires |
//! | less than the root's smallest chunk | counts as nothing |
//!
//! What belongs to a claim beside its time (the end point to which it is bound, who may use it) is kept by its owner under the same
//! number.
//!
//! Rejected: time that moves from account to account, as published. It forgets overruns, it can be hoarded past every window of the
//! server that it came from, and moving the amount of who runs left a timer wrong. Rejected too: a second clock of expiries that is
//! asked by each look-up; [`Claims::expire`] is asked once per instant instead, and what has not been looked at stays reserved.
//!
//! Where the words of the published rule leave a choice, delegation takes the one that can improve nobody's number: the number that
//! the giver's own scheduler hands over does not replace a worse one either, and of two expiries the earlier one stays. A claim on
//! everything gains nothing by a delegation from its own root, so its numbers stay as well: a neighbour that gave it one tick with
//! bad numbers would else spoil it for ever.

mod give;
mod vector;

pub use vector::{KERNEL, MAX_NUMBER, MAX_WORDS, NO_SCHEDULER, Vector};

use crate::Members;
use crate::dates::{Dates, NEVER};
use crate::kernel::bit;

/// A claim on everything that its root has, without what is reserved for others.
pub const ALL: u64 = u64::MAX;
/// No server.
const NO_ROOT: u8 = u8::MAX;

/// Why a claim was not changed. Nothing has happened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcapError {
    /// There is no claim with this number, or there is one already.
    Number,
    /// The giver has nothing that is usable now.
    NoTime,
    /// The receiver would have more than [`MAX_WORDS`] words.
    Full,
    /// The receiver has time of another server, or expired time that [`Claims::expire`] has not named; or the claim goes with its
    /// server and cannot be taken away.
    Busy,
    /// Everything can be given by a claim on everything alone, and of a root without a budget of its own nothing else.
    Amount,
    /// A number above [`MAX_NUMBER`], or a scheduler that cannot be.
    Priority,
    /// The two claims belong to different schedulers.
    Scheduler,
}

/// What a claim must know of its root at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The server's number.
    pub server: u8,
    /// The level at which it would run now: the kernel's own number of every claim on it.
    pub level: u8,
    /// What it could use at once.
    pub capacity_ticks: u64,
    /// A smaller amount counts as nothing.
    pub smallest_ticks: u64,
    /// When a finite claim that is made now ends: a period after the date of its oldest chunk, or at the end of its grid's period.
    /// `None` when it has no budget that could be divided (unlimited, or for clients).
    pub expires_ticks: Option<u64>,
}

/// A claim on time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    vector: Vector,
    left_ticks: u64,
    expires_ticks: u64,
    used_ticks: u64,
    /// The number that its own scheduler gives unless it says otherwise.
    permanent: u64,
    own: u16,
    root: u8,
    exists: bool,
    goes_with_server: bool,
}

const NO_CLAIM: Claim = Claim {
    vector: Vector::of(KERNEL, 0),
    left_ticks: 0,
    expires_ticks: NEVER,
    used_ticks: 0,
    permanent: 1,
    own: KERNEL,
    root: NO_ROOT,
    exists: false,
    goes_with_server: false,
};

impl Claim {
    /// The numbers of its schedulers.
    #[inline]
    #[must_use]
    pub const fn vector(&self) -> &Vector {
        &self.vector
    }

    /// Ticks that it may use, or [`ALL`].
    #[inline]
    #[must_use]
    pub const fn left_ticks(&self) -> u64 {
        self.left_ticks
    }

    /// From when on it may not be used; `u64::MAX` of a claim on everything.
    #[must_use]
    pub const fn expires_ticks(&self) -> u64 {
        self.expires_ticks
    }

    /// What was used through it since it was made.
    #[must_use]
    pub const fn used_ticks(&self) -> u64 {
        self.used_ticks
    }

    /// Its own scheduler.
    #[must_use]
    pub const fn own(&self) -> u16 {
        self.own
    }

    /// The number that its own scheduler gives it unless it says otherwise.
    #[must_use]
    pub const fn permanent(&self) -> u64 {
        self.permanent
    }

    /// The server that pays. `None` when it has no time.
    #[inline]
    #[must_use]
    pub fn root(&self) -> Option<u8> {
        (self.root != NO_ROOT).then_some(self.root)
    }

    const fn is_finite(&self) -> bool {
        self.left_ticks != ALL
    }

    /// What is usable through it, when so much is reserved for finite claims on its root.
    #[inline]
    fn usable_ticks(&self, reserved_ticks: u64, root: &Root, now: u64) -> u64 {
        let usable_ticks = if self.root != root.server {
            0
        } else if !self.is_finite() {
            root.capacity_ticks.saturating_sub(reserved_ticks)
        } else if now < self.expires_ticks {
            self.left_ticks.min(root.capacity_ticks)
        } else {
            0
        };
        if usable_ticks < root.smallest_ticks { 0 } else { usable_ticks }
    }

    /// Without time a claim keeps nothing of those who gave it some.
    fn shrink(&mut self) {
        self.vector.begin(self.own, self.permanent);
        (self.left_ticks, self.expires_ticks, self.root) = (0, NEVER, NO_ROOT);
    }
}

/// The claims of an instance. `CLAIMS` is 1, 4, 16 or 64; `SERVERS` a power of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims<const CLAIMS: usize, const SERVERS: usize> {
    claims: [Claim; CLAIMS],
    /// Numbers that have one, a bit each.
    taken: u64,
    /// What finite claims may still use, by root.
    reserved: [u64; SERVERS],
    /// When finite claims end.
    expiries: Dates<CLAIMS>,
}

impl<const CLAIMS: usize, const SERVERS: usize> Default for Claims<CLAIMS, SERVERS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const CLAIMS: usize, const SERVERS: usize> Claims<CLAIMS, SERVERS> {
    /// No claims.
    #[must_use]
    pub const fn new() -> Self {
        Self { claims: [NO_CLAIM; CLAIMS], taken: 0, reserved: [0; SERVERS], expiries: Dates::new() }
    }

    /// Makes it what [`Self::new`] is, field by field where it lies: the value of the whole is larger than a kernel's stack. Bytes that are all zero are
    /// claims that can be cleared.
    pub fn clear(&mut self) {
        for claim in &mut self.claims {
            *claim = NO_CLAIM;
        }
        (self.taken, self.reserved) = (0, [0; SERVERS]);
        self.expiries = Dates::new();
    }

    /// The claim with this number.
    #[inline]
    #[must_use]
    pub fn claim(&self, number: u8) -> Option<&Claim> {
        self.claims.get(usize::from(number)).filter(|claim| claim.exists)
    }

    #[inline]
    fn claim_mut(&mut self, number: u8) -> Option<&mut Claim> {
        self.claims.get_mut(usize::from(number)).filter(|claim| claim.exists)
    }

    fn known(&self, number: u8) -> Result<&Claim, TcapError> {
        self.claim(number).ok_or(TcapError::Number)
    }

    /// What finite claims on a server may still use.
    #[inline]
    #[must_use]
    pub fn reserved_ticks(&self, server: u8) -> u64 {
        self.reserved.get(crate::within::<SERVERS>(usize::from(server))).copied().unwrap_or(0)
    }

    fn reserve(&mut self, server: u8, more_ticks: u64, less_ticks: u64) {
        if let Some(reserved) = self.reserved.get_mut(crate::within::<SERVERS>(usize::from(server))) {
            *reserved = reserved.saturating_add(more_ticks).saturating_sub(less_ticks);
        }
    }

    /// A claim without time, made where it lies.
    fn add(&mut self, number: u8, own: u16, permanent: u64) -> Result<&mut Claim, TcapError> {
        if own == NO_SCHEDULER || permanent == 0 || permanent > MAX_NUMBER {
            return Err(TcapError::Priority);
        }
        let place = self.claims.get_mut(usize::from(number)).filter(|place| !place.exists);
        let claim = place.ok_or(TcapError::Number)?;
        (claim.own, claim.permanent, claim.used_ticks) = (own, permanent, 0);
        (claim.exists, claim.goes_with_server) = (true, false);
        claim.shrink();
        self.taken |= bit(number);
        Ok(claim)
    }

    /// Makes the claim that goes with a server: on everything, for ever.
    ///
    /// # Errors
    ///
    /// The number is taken, or scheduler or priority cannot be.
    pub fn make_own(&mut self, number: u8, server: u8, own: u16, permanent: u64) -> Result<(), TcapError> {
        if usize::from(server) >= SERVERS {
            return Err(TcapError::Number);
        }
        let claim = self.add(number, own, permanent)?;
        (claim.root, claim.left_ticks, claim.goes_with_server) = (server, ALL, true);
        Ok(())
    }

    /// Makes a claim without time.
    ///
    /// # Errors
    ///
    /// The number is taken, or scheduler or priority cannot be.
    pub fn create(&mut self, number: u8, own: u16, permanent: u64) -> Result<(), TcapError> {
        self.add(number, own, permanent).map(|_| ())
    }

    /// Ends a claim; what was reserved for it is its root's again.
    ///
    /// # Errors
    ///
    /// There is none, or it goes with its server.
    pub fn delete(&mut self, number: u8) -> Result<(), TcapError> {
        if self.known(number)?.goes_with_server {
            return Err(TcapError::Busy);
        }
        self.empty(number);
        self.forget(number);
        Ok(())
    }

    /// Numbers without a claim, a bit each.
    #[must_use]
    pub fn free(&self) -> u64 {
        let all = if CLAIMS < 64 { bit(CLAIMS as u8).wrapping_sub(1) } else { u64::MAX };
        all & !self.taken
    }

    /// Claims that have time of a server, a bit each.
    #[must_use]
    pub fn on(&self, server: u8) -> u64 {
        let bit_of = |(number, claim): (u8, &Claim)| if claim.root == server { bit(number) } else { 0 };
        (0u8..).zip(&self.claims).fold(0, |set, one| set | bit_of(one))
    }

    /// Takes away the time of one claim on a server that does not go with it; false when there is none. For who ends a server in slices.
    pub fn drop_one(&mut self, server: u8) -> bool {
        let can_be_dropped = |number: &u8| self.claim(*number).is_some_and(|claim| !claim.goes_with_server);
        let found = Members(self.on(server)).find(can_be_dropped);
        found.inspect(|number| self.empty(*number)).is_some()
    }

    /// A server is no more, of which nobody else has anything ([`Self::drop_one`]): the claim that went with it ends.
    pub fn drop_own(&mut self, number: u8) {
        if self.claim(number).is_some_and(|claim| claim.goes_with_server) {
            self.forget(number);
        }
    }

    fn forget(&mut self, number: u8) {
        if let Some(claim) = self.claim_mut(number) {
            *claim = NO_CLAIM;
            self.taken &= !bit(number);
        }
    }

    /// Takes a claim's time away; what was reserved is its root's again.
    fn empty(&mut self, number: u8) {
        let Some(claim) = self.claim_mut(number) else { return };
        let (root, left_ticks) = (claim.root, claim.left_ticks);
        let finite = claim.is_finite();
        claim.shrink();
        self.expiries.set(number, NEVER);
        if finite && root != NO_ROOT {
            self.reserve(root, 0, left_ticks);
        }
    }

    /// The next claim whose time has expired by `now`, and the server whose time it was: it has none any more. To be asked until the answer is `None` before
    /// anything else of an instant, or in slices: what has not expired here stays reserved, and cannot be used.
    pub fn expire(&mut self, now: u64) -> Option<(u8, u8)> {
        let number = self.expiries.due(now)?;
        let server = self.claim(number).map_or(NO_ROOT, |claim| claim.root);
        self.empty(number);
        Some((number, server))
    }

    /// A claim whose time has expired by `now` has none any more, whatever others have; false when it is not one.
    pub fn expire_one(&mut self, number: u8, now: u64) -> bool {
        let is_due = self.claim(number).is_some_and(|claim| claim.is_finite() && claim.expires_ticks <= now);
        if is_due {
            self.empty(number);
        }
        is_due
    }

    /// When the next finite claim expires; `u64::MAX` for never.
    #[inline]
    #[must_use]
    pub fn next_expiry_ticks(&self) -> u64 {
        self.expiries.earliest()
    }

    /// Time that is usable through a claim at `now`. `root` is that of the claim.
    #[inline]
    #[must_use]
    pub fn usable_ticks(&self, number: u8, root: &Root, now: u64) -> u64 {
        self.claim(number).map_or(0, |claim| claim.usable_ticks(self.reserved_ticks(root.server), root, now))
    }

    /// What is usable through a claim at `now`, if a server with it in its position asks for the core: time is usable; or the claim is on everything and the
    /// root has nothing in hand, so that it waits for its budget or continues in the background, which a finite claim never does.
    #[must_use]
    pub fn usable_if_it_asks(&self, number: u8, root: &Root, now: u64) -> Option<u64> {
        let claim = self.claim(number)?;
        let usable_ticks = claim.usable_ticks(self.reserved_ticks(root.server), root, now);
        let waits = !claim.is_finite() && claim.root == root.server && root.capacity_ticks == 0;
        (usable_ticks > 0 || waits).then_some(usable_ticks)
    }

    /// Uses time through a claim, which its root has been charged for. Returns true when the claim has no time left by that: its
    /// scheduler is to be told.
    pub fn charge(&mut self, number: u8, ticks: u64) -> bool {
        let Some(claim) = self.claim_mut(number) else { return false };
        claim.used_ticks = claim.used_ticks.wrapping_add(ticks);
        if !claim.is_finite() || claim.root == NO_ROOT {
            return false;
        }
        // What is used beyond it is a debt of the root.
        let paid_ticks = ticks.min(claim.left_ticks);
        let (root, left_ticks) = (claim.root, claim.left_ticks.saturating_sub(paid_ticks));
        claim.left_ticks = left_ticks;
        self.reserve(root, 0, paid_ticks);
        if left_ticks == 0 {
            self.empty(number);
        }
        left_ticks == 0
    }

    /// As [`Self::charge`] through a claim on everything, which has time left whatever was used; false, with nothing changed, for any other.
    #[inline]
    pub fn use_all(&mut self, number: u8, ticks: u64) -> bool {
        let Some(claim) = self.claim_mut(number).filter(|claim| !claim.is_finite()) else { return false };
        claim.used_ticks = claim.used_ticks.wrapping_add(ticks);
        true
    }

    /// As [`Self::charge`]; what remains and is less than its root's smallest chunk goes back to the root, since nobody could use it.
    pub fn spend(&mut self, number: u8, ticks: u64, smallest_ticks: u64) -> bool {
        if self.charge(number, ticks) {
            return true;
        }
        let is_rest = |claim: &Claim| claim.is_finite() && claim.root != NO_ROOT && claim.left_ticks < smallest_ticks;
        let is_over = self.claim(number).is_some_and(is_rest);
        if is_over {
            self.empty(number);
        }
        is_over
    }

    /// The number that a scheduler gives to a claim that it lets run; 0 is the permanent one of the claim's own scheduler, and of
    /// another one what it gave before.
    ///
    /// # Errors
    ///
    /// There is no such claim, the number cannot be, or the claim has not passed through this scheduler.
    #[inline(never)] // Twice in each `switch`.
    pub fn set_number(&mut self, number: u8, scheduler: u16, priority: u64) -> Result<(), TcapError> {
        if priority > MAX_NUMBER {
            return Err(TcapError::Priority);
        }
        let claim = self.claim_mut(number).ok_or(TcapError::Number)?;
        let priority = match priority {
            0 if scheduler == claim.own => claim.permanent,
            0 => claim.vector.number(scheduler).ok_or(TcapError::Scheduler)?,
            priority => priority,
        };
        if claim.vector.set_number(scheduler, priority) { Ok(()) } else { Err(TcapError::Scheduler) }
    }

    /// States whether [`Self::set_number`] would change nothing: the claim's own scheduler has given it this number, or none and it has its permanent one.
    #[inline]
    #[must_use]
    pub fn has_number(&self, number: u8, scheduler: u16, priority: u64) -> bool {
        self.claim(number).is_some_and(|claim| {
            let wanted = if priority == 0 { claim.permanent } else { priority };
            claim.own == scheduler && claim.vector.has_second(scheduler, wanted)
        })
    }

    /// The number by which a scheduler above knows a claim: what the host says of schedulers that are below another one. Where that scheduler has given one
    /// already, the worse number stays.
    ///
    /// # Errors
    ///
    /// There is no such claim, the number cannot be, or there is no room for the word.
    pub fn pass_through(&mut self, number: u8, scheduler: u16, priority: u64) -> Result<(), TcapError> {
        if priority == 0 || priority > MAX_NUMBER {
            return Err(TcapError::Priority);
        }
        let claim = self.claim_mut(number).ok_or(TcapError::Number)?;
        let word = Vector::of(scheduler, priority);
        if claim.vector.join(&word, scheduler, priority) { Ok(()) } else { Err(TcapError::Full) }
    }

    /// Changes the permanent number of a claim's own scheduler.
    ///
    /// # Errors
    ///
    /// There is no such claim, or the number cannot be.
    pub fn set_permanent(&mut self, number: u8, priority: u64) -> Result<(), TcapError> {
        if priority == 0 || priority > MAX_NUMBER {
            return Err(TcapError::Priority);
        }
        let claim = self.claim_mut(number).ok_or(TcapError::Number)?;
        claim.permanent = priority;
        claim.vector.set_number(claim.own, priority);
        Ok(())
    }

    /// CH-51: may `candidate` take the core from `current`? Not without time; a claim may follow itself; and no scheduler that both
    /// have, the kernel's own included, may have given the candidate a worse number.
    #[must_use]
    pub fn outranks(&self, candidate: (u8, &Root), current: (u8, &Root), now: u64) -> bool {
        if self.usable_ticks(candidate.0, candidate.1, now) == 0 {
            return false;
        }
        candidate.0 == current.0 || candidate.1.level <= current.1.level && self.agree(candidate.0, current.0)
    }

    /// No scheduler but the kernel's that both claims have gave the first one a worse number.
    #[inline]
    #[must_use]
    pub fn agree(&self, candidate: u8, current: u8) -> bool {
        let (Some(candidate), Some(current)) = (self.claim(candidate), self.claim(current)) else { return true };
        // The usual case: nothing is in common but the kernel.
        candidate.vector.is_of_the_kernel_alone()
            || current.vector.is_of_the_kernel_alone()
            || candidate.vector.is_not_worse_than(&current.vector)
    }
}
