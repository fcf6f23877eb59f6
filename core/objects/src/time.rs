//! Calls about time: claims on a server's, and servers in a band (`kernel.md` 3 and 4; CH-52, CH-53, QV-20, QV-37).
//!
//! Who may do what is decided here; what comes of it is [`crate::Time`]'s, so rules of amounts and admission are in `core/sched` alone.
//!
//! - To give time away takes `DELEGATE` of the claim that gives. Who has it says the number of the claim's own scheduler as well, and none that is better than the
//!   permanent one (P2: no delegation betters a number). A better one is that scheduler's to give, and takes `PRIORITY`, which a claim has that was made with
//!   a capability to the scheduler; so no task says how important it is.
//! - To be given time takes `BIND`: numbers of the giver stay in the receiver, and somebody who gave one tick with bad numbers would spoil it. An end
//!   point that may be notified may be given time for that.
//! - A claim of the host lasts, since threads and end points are bound to it; one that was made by `create` ends in `merge`, unless a thread is awake on it.
//! - A server of a band ends when no thread is bound to it or runs on it.
//! - What many of one's own can make due at one instant is done one by one, with a look for interrupts between: the call is made again then, and finds less to do.

use crate::calls::{Answer, Reply, values};
use crate::{Counters, Objects, Sliced, ThreadState, WORN, World};
use bulkhead_kernel_abi::call::{Flag, ServerOperation, TcapOperation};
use bulkhead_kernel_abi::capability::{TOKEN_MASK, right};
use bulkhead_kernel_abi::{Capability, Code, Kind, MAX_TCAPS, NONE};

impl Objects<'_> {
    /// `delegate`.
    pub(crate) fn delegate<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Result<(), Code> {
        let [to, from, ticks, priority, flags, ..] = x;
        if flags & !Flag::Notify.number() != 0 || priority > TOKEN_MASK {
            return Err(Code::BadArgument);
        }
        let (tcap, told) = match self.object_of(component, to, Kind::TCap, right::BIND) {
            Err(Code::BadCapability) => {
                let to = self.find_as(component, to, Kind::Send, right::USE)?;
                let end_point = self.room.end_points.get(usize::from(to.object)).ok_or(Code::BadCapability)?;
                if end_point.tcap == NONE {
                    return Err(Code::Denied);
                }
                (end_point.tcap, Some((to.object, to.word)))
            }
            found => (found?, None),
        };
        let slot = from;
        let from = self.object_of(component, slot, Kind::TCap, right::DELEGATE)?;
        let permanent = || world.claim(from).map_or(0, |[.., permanent]| permanent);
        if priority != 0 && priority < permanent() {
            self.object_of(component, slot, Kind::TCap, right::PRIORITY)?;
        }
        world.delegate(tcap, from, ticks, priority, world.now_ticks())?;
        if flags & Flag::Notify.number() != 0
            && let Some((end_point, bits)) = told
        {
            self.send(world, end_point, bits);
        }
        Ok(())
    }

    /// `tcap`.
    pub(crate) fn tcap<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Answer {
        let [operation, x1, x2, x3, ..] = x;
        let now = world.now_ticks();
        let mut claim = |slot: u64, rights: u8| self.object_of(component, slot, Kind::TCap, rights);
        match TcapOperation::from_number(operation).ok_or(Code::BadCall)? {
            TcapOperation::Create => self.create_tcap(world, component, x1, x2)?,
            TcapOperation::Transfer => {
                let (to, from) = (claim(x1, right::BIND)?, claim(x2, right::DELEGATE)?);
                world.transfer(to, from, x3, now)?;
            }
            TcapOperation::Merge => {
                let (to, from) = (claim(x1, right::BIND)?, claim(x2, right::DELEGATE)?);
                let is_awake_on = |one: &crate::Thread| one.server != NONE && one.runs_on == from;
                if from < self.first_tcap || self.room.threads.iter().any(is_awake_on) {
                    return Err(Code::Busy);
                }
                world.merge(to, from, now)?;
                if let Some(counters) = self.room.tcaps.get_mut(usize::from(from)) {
                    counters.revoke();
                }
            }
            TcapOperation::Priority => {
                let (claim, is_own) = (claim(x1, right::DELEGATE)?, claim(x1, right::PRIORITY).is_ok());
                if !is_own && world.claim(claim).is_some_and(|[.., permanent]| x2 < permanent) {
                    return Err(Code::Denied);
                }
                world.set_permanent(claim, x2)?;
            }
            TcapOperation::Read => {
                let claim = claim(x1, right::READ)?;
                return values(world.claim(claim).ok_or(Code::BadCapability)?);
            }
        }
        values([])
    }

    /// Makes a claim without time, a scheduler's own.
    fn create_tcap<W: World>(&mut self, world: &mut W, component: u16, scheduler: u64, to: u64) -> Result<(), Code> {
        let scheduler = self.object_of(component, scheduler, Kind::Scheduler, right::USE)?;
        let id = self.room.schedulers.get(usize::from(scheduler)).ok_or(Code::BadCapability)?.id;
        self.empty(component, to)?;
        let free = world.free_claims();
        let is_free = |number: u16, one: &Counters| {
            number >= self.first_tcap && one.grant != WORN && free.wrapping_shr(number.into()) & 1 != 0
        };
        let mut numbered = (0..MAX_TCAPS as u16).zip(self.room.tcaps.iter());
        let found = numbered.find(|(number, one)| is_free(*number, one));
        let (object, counters) = found.map(|(number, counters)| (number, *counters)).ok_or(Code::Full)?;
        world.create_claim(object, id)?;
        let kind = Kind::TCap;
        let made = Capability { kind: kind.number(), rights: kind.rights(), object, grant: counters.grant, word: 0 };
        self.put(component, to, made)
    }

    /// `server`.
    pub(crate) fn server<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Answer {
        let [operation, slot, x2, x3, to, ..] = x;
        let now = world.now_ticks();
        let operation = ServerOperation::from_number(operation).ok_or(Code::BadCall)?;
        if operation == ServerOperation::Create {
            let band = self.object_of(component, slot, Kind::Band, right::USE)?;
            let place = self.empty(component, to)?;
            if !all_given_back(world) {
                return Ok(Reply::Again(Sliced::NONE));
            }
            let object = world.create_server(band, [x2, x3], now)?;
            let position = self.room.servers.get(usize::from(object)).ok_or(Code::BadCapability)?;
            let (kind, grant) = (Kind::Server, position.counters.grant);
            self.put_at(place, Capability { kind: kind.number(), rights: kind.rights(), object, grant, word: 0 });
            return values([]);
        }
        let rights = match operation {
            ServerOperation::Create | ServerOperation::Set => right::USE,
            ServerOperation::Destroy => right::STOP,
            ServerOperation::Read => right::READ,
        };
        let server = self.object_of(component, slot, Kind::Server, rights)?;
        match operation {
            ServerOperation::Create => return Err(Code::BadCall),
            ServerOperation::Set if !all_given_back(world) => return Ok(Reply::Again(Sliced::NONE)),
            ServerOperation::Set => world.set_server(server, [x2, x3], now)?,
            ServerOperation::Destroy => return self.destroy_server(world, server),
            ServerOperation::Read => return values(world.server(server).ok_or(Code::BadCapability)?),
        }
        values([])
    }

    /// Ends a server of a band that nobody needs; what others have of its time ends first, claim by claim.
    fn destroy_server<W: World>(&mut self, world: &mut W, server: u16) -> Answer {
        // Asked once, and not for each thread whose claim it is.
        let claims = world.claims_on(server);
        let is_on_it = |one: &crate::Thread| one.server == server || claims & bit(one.tcap) != 0;
        let needs_it = |one: &crate::Thread| one.state != ThreadState::Free && is_on_it(one);
        let pays = self.room.servers.get(usize::from(server)).is_some_and(|position| position.work != 0);
        if pays || self.room.threads.iter().any(needs_it) {
            return Err(Code::Busy);
        }
        let own = self.room.servers.get(usize::from(server)).map_or(NONE, |position| position.tcap);
        let has_others = claims & !bit(own) != 0;
        while has_others && world.drop_claim(server) {
            if world.is_interrupted() {
                return Ok(Reply::Again(Sliced::NONE));
            }
        }
        world.destroy_server(server, world.now_ticks())?;
        if let Some(position) = self.room.servers.get_mut(usize::from(server)) {
            position.counters.revoke();
        }
        values([])
    }
}

const fn bit(tcap: u16) -> u64 {
    if tcap < 64 { 1u64.wrapping_shl(tcap as u32) } else { 0 }
}

/// Lets a band have what is its again, server by server; false when an interrupt waits before all is done.
fn all_given_back<W: World>(world: &mut W) -> bool {
    let now = world.now_ticks();
    while world.give_back(now) {
        if world.is_interrupted() {
            return false;
        }
    }
    true
}
