//! Time passes from claim to claim. Everything is computed first and stored then, so a refusal changes nothing.

use super::{ALL, Claim, Claims, MAX_NUMBER, NO_ROOT, Root, TcapError};
use crate::dates::NEVER;

impl<const CLAIMS: usize, const SERVERS: usize> Claims<CLAIMS, SERVERS> {
    /// Gives time of `from` to `to`: `ticks` of it or what is usable if that is less, 0 for all that is usable now, [`ALL`] for a claim
    /// on everything. The receiver gets the giver's schedulers, and `priority` of the giver's own one (0: the permanent one); where
    /// both have a number, the worse one stays. To itself only the priority changes. `root` is that of `from`.
    ///
    /// Returns what was given.
    ///
    /// # Errors
    ///
    /// [`TcapError`]; nothing is changed then.
    pub fn delegate(
        &mut self,
        to: u8,
        from: u8,
        ticks: u64,
        priority: u64,
        root: &Root,
        now: u64,
    ) -> Result<u64, TcapError> {
        if priority > MAX_NUMBER {
            return Err(TcapError::Priority);
        }
        let giver = self.known(from)?;
        let (own, number) = (giver.own, if priority == 0 { giver.permanent } else { priority });
        if to == from {
            return self.set_number(to, own, priority).map(|()| 0);
        }
        self.give(to, from, ticks, number, root, now)
    }

    /// Gives time of `from` to `to` when both belong to one scheduler, whose number of the receiver stays what it is. The numbers of
    /// others are treated as by [`Self::delegate`], because time that leaves a claim takes its restrictions along.
    ///
    /// Returns what was given.
    ///
    /// # Errors
    ///
    /// [`TcapError`]; nothing is changed then.
    pub fn transfer(&mut self, to: u8, from: u8, ticks: u64, root: &Root, now: u64) -> Result<u64, TcapError> {
        let (giver, receiver) = (self.known(from)?, self.known(to)?);
        if giver.own != receiver.own {
            return Err(TcapError::Scheduler);
        }
        if to == from {
            return Ok(0);
        }
        let number = receiver.vector.number(receiver.own).unwrap_or(receiver.permanent);
        self.give(to, from, ticks, number, root, now)
    }

    /// Gives everything of `from` to `to` and ends `from`. That nothing else refers to it is for the caller to know.
    ///
    /// # Errors
    ///
    /// [`TcapError`]; nothing is changed then.
    pub fn merge(&mut self, to: u8, from: u8, root: &Root, now: u64) -> Result<u64, TcapError> {
        let giver = self.known(from)?;
        if to == from || giver.goes_with_server {
            return Err(TcapError::Busy);
        }
        let ticks = if giver.is_finite() { giver.left_ticks } else { ALL };
        let given = self.delegate(to, from, ticks, 0, root, now)?;
        self.delete(from).map(|()| given)
    }

    /// `number` is that of the giver's own scheduler.
    fn give(&mut self, to: u8, from: u8, ticks: u64, number: u64, root: &Root, now: u64) -> Result<u64, TcapError> {
        let reserved_ticks = self.reserved_ticks(root.server);
        let pair = self.claims.get_disjoint_mut([usize::from(to), usize::from(from)]);
        let Ok([receiver, giver]) = pair else { return Err(TcapError::Number) };
        if !receiver.exists || !giver.exists {
            return Err(TcapError::Number);
        }
        let given_ticks = amount(giver, ticks, reserved_ticks, root, now)?;
        // Expired time that nobody has been told of is not mixed with other time.
        if receiver.is_finite() && receiver.expires_ticks <= now {
            return Err(TcapError::Busy);
        }
        if receiver.root != NO_ROOT && receiver.root != root.server {
            return Err(TcapError::Busy);
        }
        // One on everything gains nothing, so its numbers stay.
        if receiver.is_finite() {
            if !receiver.vector.join(&giver.vector, giver.own, number) {
                return Err(TcapError::Full);
            }
            let fresh_ticks = root.expires_ticks.unwrap_or(NEVER).min(giver.expires_ticks);
            receiver.expires_ticks = if given_ticks == ALL { NEVER } else { fresh_ticks.min(receiver.expires_ticks) };
        }
        let before_ticks = reserved(receiver).saturating_add(reserved(giver));
        receiver.root = root.server;
        receiver.left_ticks = receiver.left_ticks.saturating_add(given_ticks);
        if giver.is_finite() {
            giver.left_ticks = giver.left_ticks.saturating_sub(given_ticks);
        }
        let after_ticks = reserved(receiver).saturating_add(reserved(giver));
        let (expires_ticks, gave_all) = (receiver.expires_ticks, giver.left_ticks == 0);
        self.reserve(root.server, after_ticks, before_ticks);
        self.expiries.set(to, expires_ticks);
        if gave_all {
            self.empty(from);
        }
        Ok(given_ticks)
    }
}

/// What is reserved for a claim.
#[inline]
fn reserved(claim: &Claim) -> u64 {
    if claim.is_finite() { claim.left_ticks } else { 0 }
}

/// The amount that a giver can give of what was asked for.
#[inline]
fn amount(giver: &Claim, ticks: u64, reserved_ticks: u64, root: &Root, now: u64) -> Result<u64, TcapError> {
    let usable_ticks = giver.usable_ticks(reserved_ticks, root, now);
    if usable_ticks == 0 {
        return Err(TcapError::NoTime);
    }
    match ticks {
        ALL if giver.is_finite() => Err(TcapError::Amount),
        ALL => Ok(ALL),
        _ if root.expires_ticks.is_none() => Err(TcapError::Amount),
        0 => Ok(usable_ticks),
        // What is left of a finite claim can be given though the root has less in hand.
        _ if giver.is_finite() => Ok(ticks.min(giver.left_ticks)),
        _ => Ok(ticks.min(usable_ticks)),
    }
}
