//! The fake of time: claims are numbers of ticks, and a band has room for two servers.

use super::{Bench, Fake, Rows, SLOTS, capability};
use bulkhead_kernel_abi::boot::ServerRow;
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Code, Kind, NONE};
use bulkhead_objects::{Claims, NEVER, Time};

impl Time for Fake {
    fn root(&self, tcap: u16) -> Option<u16> {
        self.roots.get(usize::from(tcap)).copied().filter(|root| *root != NONE)
    }
    fn fixed_root(&self, tcap: u16) -> Option<u16> {
        self.root(tcap).filter(|root| *root < BAND_SERVER)
    }
    fn usable_ticks(&mut self, tcap: u16, _: u64) -> u64 {
        self.root(tcap).and_then(|_| self.usable.get(usize::from(tcap)).copied()).unwrap_or(0)
    }
    fn outranks(&mut self, tcap: u16, other: u16, _: u64) -> bool {
        let rank = |tcap: u16| self.ranks.get(usize::from(tcap)).copied().unwrap_or(u64::MAX);
        self.root(tcap).is_some()
            && self.usable.get(usize::from(tcap)).is_some_and(|left| *left != 0)
            && (tcap == other || rank(tcap) <= rank(other))
    }
    fn filled(&mut self, server: u16, tcap: u16, _: u64) {
        assert_eq!(self.root(tcap), Some(server), "the time of a position is its server's");
        self.filled[usize::from(server)] = Some(tcap);
    }
    fn emptied(&mut self, server: u16, _: u64) {
        self.filled[usize::from(server)] = None;
    }
    fn asks(&mut self, tcap: u16, now: u64) -> bool {
        let goes_on = self.root(tcap).is_some_and(|root| self.goes_on >> root & 1 == 1);
        goes_on || self.usable_ticks(tcap, now) != 0
    }
    fn set_priority(&mut self, tcap: u16, scheduler: u16, priority: u64) -> Result<(), Code> {
        if self.foreign >> tcap & 1 == 1 {
            return Err(Code::Denied);
        }
        self.priorities.push((tcap, scheduler, priority));
        Ok(())
    }
    fn exchange(&mut self, server: u16, [from, to]: [u16; 2], (scheduler, priority): (u16, u64), now: u64) -> bool {
        let is_usual = [from, to].iter().all(|tcap| self.root(*tcap) == Some(server)) && self.asks(to, now);
        if !is_usual || self.set_priority(to, scheduler, priority).is_err() {
            return false;
        }
        if from != to {
            self.filled(server, to, now);
        }
        true
    }
    fn hand_over(&mut self, server: u16, [from, to]: [u16; 2], now: u64) -> Option<bool> {
        if [from, to].iter().any(|tcap| self.root(*tcap) != Some(server)) {
            return None;
        }
        let takes = self.outranks(to, from, now);
        if takes && from != to {
            self.filled(server, to, now);
        }
        Some(takes)
    }
    fn set_date(&mut self, server: u16, date_ticks: u64) {
        self.dates[usize::from(server)] = date_ticks;
    }
    fn due(&self, now: u64) -> Option<u16> {
        (0..).zip(&self.dates).find(|(_, date)| **date <= now).map(|(server, _)| server)
    }
    fn has_budget(&mut self, _: u16, _: u64) -> bool {
        self.has_budget
    }
    fn request(&mut self, server: u16, client: u16, _: u64) -> bool {
        self.requests.push((server, client, true));
        true
    }
    fn complete(&mut self, server: u16, client: u16, _: u64) -> bool {
        let is_under_way = self.requests.contains(&(server, client, true));
        self.requests.retain(|request| *request != (server, client, true));
        is_under_way
    }
}

/// Claims of the band's servers.
const BAND_TCAPS: u16 = 8;
/// The first of its servers.
pub(crate) const BAND_SERVER: u16 = 3;
/// What it admits.
pub(crate) const BAND_BUDGET: u64 = 50;

impl Fake {
    fn left(&mut self, tcap: u16) -> &mut u64 {
        &mut self.usable[usize::from(tcap)]
    }

    /// Takes ticks of a claim; those that another scheduler made worse than 9 are full.
    fn take(&mut self, to: u16, from: u16, ticks: u64) -> Result<u64, Code> {
        let (root, has) = (self.root(from), *self.left(from));
        if has == 0 || root.is_none() {
            return Err(Code::NoTime);
        }
        if self.root(to).is_some() && self.root(to) != root {
            return Err(Code::Busy);
        }
        if self.ranks[usize::from(to)] > 9 {
            return Err(Code::Full);
        }
        let given = if ticks == 0 { has } else { ticks.min(has) };
        if self.root(to).is_none() {
            *self.left(to) = 0;
        }
        *self.left(from) -= given;
        *self.left(to) += given;
        self.roots[usize::from(to)] = root.expect("it has time");
        Ok(given)
    }
}

impl Claims for Fake {
    fn tell_parent_later(&mut self, scheduler: u16, server: Option<u16>) {
        // Remembered once, and by who was said last to pay.
        self.told_later.retain(|(one, _)| *one != scheduler);
        self.told_later.push((scheduler, server));
    }
    fn delegate(&mut self, to: u16, from: u16, ticks: u64, priority: u64, _: u64) -> Result<(), Code> {
        if to != from {
            self.take(to, from, ticks)?;
        }
        self.ranks[usize::from(to)] = self.ranks[usize::from(to)].max(priority);
        Ok(())
    }
    fn transfer(&mut self, to: u16, from: u16, ticks: u64, _: u64) -> Result<(), Code> {
        if self.foreign >> from & 1 != self.foreign >> to & 1 {
            return Err(Code::Denied);
        }
        self.take(to, from, ticks).map(|_| ())
    }
    fn merge(&mut self, to: u16, from: u16, _: u64) -> Result<(), Code> {
        if self.usable_ticks(from, 0) != 0 {
            self.take(to, from, 0)?;
        }
        (self.roots[usize::from(from)], self.has_made) = (NONE, false);
        Ok(())
    }
    fn create_claim(&mut self, tcap: u16, scheduler: u16) -> Result<(), Code> {
        assert!(tcap == BAND_TCAPS - 1 && !self.has_made, "the one that is free");
        if self.is_full {
            return Err(Code::Full);
        }
        self.has_made = true;
        (self.ranks[usize::from(tcap)], self.permanent[usize::from(tcap)]) = (5, u64::from(scheduler));
        Ok(())
    }
    fn free_claims(&self) -> u64 {
        (0..64).filter(|tcap| Claims::claim(self, *tcap).is_none()).fold(0, |set, tcap| set | 1 << tcap)
    }
    fn set_permanent(&mut self, tcap: u16, priority: u64) -> Result<(), Code> {
        if priority == 0 {
            return Err(Code::BadArgument);
        }
        self.permanent[usize::from(tcap)] = priority;
        Ok(())
    }
    fn claim(&self, tcap: u16) -> Option<[u64; 3]> {
        let permanent = *self.permanent.get(usize::from(tcap))?;
        let left = if self.root(tcap).is_some() { self.usable[usize::from(tcap)] } else { 0 };
        (tcap < BAND_TCAPS - 1 || self.has_made).then_some([left, NEVER, permanent])
    }
    fn create_server(&mut self, band: u16, [budget, period]: [u64; 2], _: u64) -> Result<u16, Code> {
        assert_eq!(band, 0);
        let free = self.made.iter().position(Option::is_none).ok_or(Code::Full)?;
        if budget > BAND_BUDGET {
            return Err(Code::NotAdmitted);
        }
        self.made[free] = Some([budget, period]);
        let tcap = usize::from(BAND_TCAPS) + free;
        (self.roots[tcap], self.usable[tcap], self.ranks[tcap]) = (BAND_SERVER + free as u16, 1_000, 5);
        Ok(BAND_SERVER + free as u16)
    }
    fn set_server(&mut self, server: u16, [budget, period]: [u64; 2], _: u64) -> Result<(), Code> {
        let place = server.checked_sub(BAND_SERVER).ok_or(Code::Denied)?;
        if budget > BAND_BUDGET {
            return Err(Code::NotAdmitted);
        }
        self.made[usize::from(place)] = Some([budget, period]);
        Ok(())
    }
    fn give_back(&mut self, _: u64) -> bool {
        let has_more = self.to_give_back != 0;
        self.to_give_back = self.to_give_back.saturating_sub(1);
        has_more
    }
    fn claims_on(&self, server: u16) -> u64 {
        let of = |(number, root): (u32, &u16)| u64::from(*root == server) << number;
        (0..).zip(&self.roots).fold(0, |set, one| set | of(one))
    }
    fn drop_claim(&mut self, server: u16) -> bool {
        let found = (0..BAND_TCAPS).find(|tcap| server >= BAND_SERVER && self.roots[usize::from(*tcap)] == server);
        found.inspect(|tcap| self.roots[usize::from(*tcap)] = NONE).is_some()
    }
    fn destroy_server(&mut self, server: u16, _: u64) -> Result<(), Code> {
        let place = server.checked_sub(BAND_SERVER).ok_or(Code::Denied)?;
        self.made[usize::from(place)] = None;
        self.roots.iter_mut().filter(|root| **root == server).for_each(|root| *root = NONE);
        Ok(())
    }
    fn server(&self, server: u16) -> Option<[u64; 3]> {
        let Some(place) = server.checked_sub(BAND_SERVER) else { return Some([1, 2, 3]) };
        self.made[usize::from(place)].map(|[budget, period]| [budget, period, 0])
    }
}

/// Slots of the application in an instance with a band: the band, and claims.
pub(crate) const BAND: u64 = super::CALL_NOWHERE;
/// Of the end point's, which can be given time, and of the scheduler's.
pub(crate) const TCAP_GUEST: u64 = 27;
pub(crate) const TCAP_ROOT: u64 = 40;
/// One that can only be read.
pub(crate) const TCAP_READ: u64 = super::WEAK_CALL;

impl Rows {
    /// The usual instance with a band of two servers, whose end point 4 was given no time yet.
    pub(crate) fn with_band() -> Self {
        let mut rows = Self::new();
        let server = |tcap: u16| ServerRow { holder: NONE, band: 0, tcap, ..ServerRow::default() };
        rows.servers.extend([server(BAND_TCAPS), server(BAND_TCAPS + 1)]);
        let mut table = rows.tables().capabilities[..SLOTS as usize].to_vec();
        table[BAND as usize] = capability(Kind::Band, 0, 0);
        table[TCAP_GUEST as usize] = capability(Kind::TCap, 6, 0);
        table[TCAP_ROOT as usize] = capability(Kind::TCap, 2, 0);
        table[TCAP_READ as usize] = Capability { rights: right::READ, ..capability(Kind::TCap, 2, 0) };
        rows.set_capabilities(table.iter().copied().cycle().take(SLOTS as usize * 5).collect());
        rows
    }
}

impl Bench<'_> {
    /// What the fake knows of an instance with a band.
    pub(crate) fn with_band(&mut self) -> &mut Self {
        self.world.filled.resize(5, None);
        self.world.dates.resize(5, NEVER);
        self.world.roots[6] = NONE;
        self
    }
}
