//! Calls about claims and about servers of a band: the objects' side of [`super`] (CH-50 to CH-57, QV-37).

use super::{Servers, bit, byte, code};
use crate::outside::Outside;
use bulkhead_arch::kernel::KernelMachine;
use bulkhead_kernel_abi::{Code, MAX_SERVERS, MAX_TCAPS, NONE};
use bulkhead_objects::{Claims as ClaimCalls, NEVER};
use bulkhead_sched::band::BandError;
use bulkhead_sched::budget::Budget;
use bulkhead_sched::tcap::{Claims, Root, TcapError};

fn band_code(error: BandError) -> Code {
    match error {
        BandError::Number => Code::Denied,
        BandError::NotAdmitted | BandError::Core(_) => Code::NotAdmitted,
        BandError::Full => Code::Full,
    }
}

impl Servers<'_> {
    /// A claim that is due expires at once, since somebody uses it; others are before it perhaps.
    #[inline]
    fn expire_one(&mut self, claim: u16) {
        let (claim, now) = (byte(claim), self.now_ticks());
        if self.room.shares.claims.claim(claim).is_some_and(|one| one.expires_ticks() <= now) {
            self.expire_now(claim);
        }
    }

    #[inline(never)] // Rare.
    fn expire_now(&mut self, claim: u8) {
        let now = self.now_ticks();
        let claims = &mut self.room.shares.claims;
        let server = claims.claim(claim).and_then(|one| one.root());
        if claims.expire_one(claim, now) {
            self.end(claim, server);
        }
    }

    /// A claim gives time to another one: who is awake on one that has nothing left is told.
    fn give(
        &mut self,
        [to, from]: [u16; 2],
        what: impl FnOnce(&mut Claims<MAX_TCAPS, MAX_SERVERS>, &Root, u64) -> Result<u64, TcapError>,
    ) -> Result<(), Code> {
        let (from, now) = (byte(from), self.now_ticks());
        // Where it lies: an answer that is taken apart is copied by a call.
        let server = self.room.shares.claims.claim(from).and_then(|one| one.root());
        let root = server.and_then(|server| self.room.core.root(server, now));
        let Some(root) = &root else { return Err(Code::NoTime) };
        what(self.room.shares.claims, root, now).map_err(code)?;
        if self.room.shares.claims.claim(from).is_some_and(|one| one.root().is_none()) {
            self.room.shares.state.untold.end(from, Some(root.server));
        }
        self.time_changed(root.server);
        self.was_given(byte(to));
        Ok(())
    }
}

impl<M: KernelMachine> ClaimCalls for Outside<'_, M> {
    fn tell_parent_later(&mut self, scheduler: u16, server: Option<u16>) {
        self.servers.room.shares.state.untold.wake(byte(scheduler), server.map(byte));
    }

    fn delegate(&mut self, to: u16, from: u16, ticks: u64, priority: u64, _now: u64) -> Result<(), Code> {
        self.servers.expire_one(to);
        self.servers
            .give([to, from], |claims, root, now| claims.delegate(byte(to), byte(from), ticks, priority, root, now))
    }

    fn transfer(&mut self, to: u16, from: u16, ticks: u64, _now: u64) -> Result<(), Code> {
        self.servers.expire_one(to);
        self.servers.give([to, from], |claims, root, now| claims.transfer(byte(to), byte(from), ticks, root, now))
    }

    fn merge(&mut self, to: u16, from: u16, _now: u64) -> Result<(), Code> {
        self.servers.expire_one(to);
        self.servers.expire_one(from);
        let claims = &mut self.servers.room.shares.claims;
        if claims.claim(byte(from)).is_some_and(|one| one.root().is_none()) {
            return claims.delete(byte(from)).map_err(code);
        }
        self.servers.give([to, from], |claims, root, now| claims.merge(byte(to), byte(from), root, now))
    }

    fn create_claim(&mut self, tcap: u16, scheduler: u16) -> Result<(), Code> {
        let shares = &self.servers.room.shares.state;
        let claims = &mut self.servers.room.shares.claims;
        let its = |number: u8| claims.claim(number).is_some_and(|one| one.own() == scheduler);
        let made =
            (shares.first_made..MAX_TCAPS as u8).fold(0u8, |count, number| count.wrapping_add(its(number).into()));
        if made >= shares.most_made {
            return Err(Code::Full);
        }
        claims.create(byte(tcap), scheduler, 1).map_err(code)
    }

    fn free_claims(&self) -> u64 {
        self.servers.room.shares.claims.free()
    }

    fn set_permanent(&mut self, tcap: u16, priority: u64) -> Result<(), Code> {
        self.servers.room.shares.claims.set_permanent(byte(tcap), priority).map_err(code)
    }

    fn claim(&self, tcap: u16) -> Option<[u64; 3]> {
        let claim = self.servers.room.shares.claims.claim(byte(tcap))?;
        // One that is due has nothing, though it did not expire yet.
        let is_due = claim.expires_ticks() <= self.servers.now_ticks();
        let [left_ticks, expires_ticks] = if is_due { [0, NEVER] } else { [claim.left_ticks(), claim.expires_ticks()] };
        Some([left_ticks, expires_ticks, claim.permanent()])
    }

    fn create_server(&mut self, band: u16, budget_and_period: [u64; 2], now: u64) -> Result<u16, Code> {
        let ([budget_ticks, period_ticks], servers) = (budget_and_period, &mut self.servers);
        let (bands, core) = (&mut servers.room.shares.bands, &mut servers.room.core);
        let slot = bands.create(core, now, byte(band), budget_ticks, period_ticks).map_err(band_code)?;
        let claim = servers.rows.get(usize::from(slot)).map_or(NONE, |row| row.tcap);
        // The number is the server's own, which had none before.
        let _ = servers.room.shares.claims.make_own(byte(claim), slot, 0, 1);
        Ok(slot.into())
    }

    fn set_server(&mut self, server: u16, budget_and_period: [u64; 2], now: u64) -> Result<(), Code> {
        let ([budget_ticks, period_ticks], servers) = (budget_and_period, &mut self.servers);
        let (bands, core) = (&mut servers.room.shares.bands, &mut servers.room.core);
        let changed = bands.set(core, now, byte(server), budget_ticks, period_ticks).map_err(band_code);
        servers.time_changed(byte(server));
        changed
    }

    fn give_back(&mut self, now: u64) -> bool {
        self.servers.room.shares.bands.give_back(now)
    }

    fn claims_on(&self, server: u16) -> u64 {
        let servers = &self.servers;
        if servers.divides {
            return servers.room.shares.claims.on(byte(server));
        }
        // There is one claim for each server, and nothing was made of them.
        servers.rows.get(usize::from(server)).map_or(0, |row| bit(byte(row.tcap)))
    }

    fn drop_claim(&mut self, server: u16) -> bool {
        self.servers.time_changed(byte(server));
        let shares = &mut self.servers.room.shares;
        shares.bands.is_server(byte(server)) && shares.claims.drop_one(byte(server))
    }

    fn destroy_server(&mut self, server: u16, now: u64) -> Result<(), Code> {
        let servers = &mut self.servers;
        servers.room.shares.bands.destroy(servers.room.core, now, byte(server)).map_err(band_code)?;
        // What others had of its time was taken away before ([`Self::drop_claim`]).
        let own = servers.rows.get(usize::from(server)).map_or(NONE, |row| row.tcap);
        servers.room.shares.claims.drop_own(byte(own));
        Ok(())
    }

    fn server(&self, server: u16) -> Option<[u64; 3]> {
        let (row, slot) = (self.servers.rows.get(usize::from(server))?, byte(server));
        let [budget_ticks, period_ticks] = match self.servers.room.core.budget(slot)? {
            Budget::Sporadic(rule) => [rule.parameters().budget_ticks, rule.parameters().period_ticks],
            _ => [row.budget_ticks, row.period_ticks],
        };
        Some([budget_ticks, period_ticks, self.servers.room.core.usage(slot).budgeted_ticks])
    }
}
