//! `switch` and notifications in their usual case where a scheduler says who runs: two threads of one server, each on a claim on everything of it.
//!
//! The server runs on, and no date changes but that of the time-out. So nothing is charged and nobody is chosen but by the next entry: who leaves is told here what it
//! has used, and the rest is for who comes. All is looked at before anything changes; what is not usual is left to the call itself.
//!
//! Rejected: to charge the server here as well, as every other entry does. That is more than half of what they take, and nobody reads it before the next entry.

use crate::position::{Pair, Timeout};
use crate::thread::event;
use crate::{NEVER, Objects, Thread, ThreadState, WORN, World};
use bulkhead_kernel_abi::capability::{Kind, TOKEN_MASK, right};
use bulkhead_kernel_abi::{Capability, Code, NONE};

/// What a capability that may be used is for: object and grant.
#[inline(always)] // Three times in one call, each with a constant.
fn object(slots: &[Capability], slot: u64, kind: Kind) -> Option<(usize, u32)> {
    let found = slots.get(usize::try_from(slot).ok()?)?;
    let is_usable = found.kind == kind.number() && found.has(right::USE) && found.grant != WORN;
    is_usable.then_some((found.object.into(), found.grant))
}

impl Objects<'_> {
    /// Obeys the `switch` of the thread that runs, which has used `ticks` since it was charged last, up to `now`. Returns the other thread and what it may use itself, or `None`, with nothing changed, where it is not
    /// the usual case: [`Self::call`] does all others.
    #[must_use]
    pub fn exchange<W: World>(&mut self, world: &mut W, now: u64, ticks: u64) -> Option<(u16, u64)> {
        let (running, ends, caller) = (self.running, self.ends, self.caller(ticks)?);
        let [scheduler, thread, tcap, priority, timeout, token, ..] = caller.registers.x;
        let (server, callers, component) = (caller.server, caller.scheduler, caller.component);
        if priority > TOKEN_MASK {
            return None;
        }
        let room = &mut self.room;
        let component = room.components.get(usize::from(component))?;
        let slots = room.slots.get(component.first_slot as usize..)?.get(..component.slots as usize)?;
        let (scheduler, grant) = object(slots, scheduler, Kind::Scheduler)?;
        let one = room.schedulers.get(scheduler).filter(|one| one.counters.grant == grant)?;
        let (taker, id, scheduler) = (one.thread, one.id, scheduler as u16);
        let (thread, grant) = object(slots, thread, Kind::Thread)?;
        let target = room.threads.get(thread).filter(|one| one.counters.grant == grant)?;
        let (thread, is_taker) = (thread as u16, usize::from(taker) == thread);
        let may = taker == running || callers == scheduler;
        let is_its = is_taker || one.token == token && target.scheduler == scheduler;
        // It is awake, or would be on no server.
        let can_run = target.seen_ends == ends && !target.is_in_exec;
        if !may || !is_its || !can_run || target.server != server {
            return None;
        }
        let tcap = match tcap {
            0 => target.runs_on,
            slot => {
                let (tcap, grant) = object(slots, slot, Kind::TCap)?;
                room.tcaps.get(tcap).filter(|one| one.grant == grant)?;
                tcap as u16
            }
        };
        let life = target.counters.life;
        let position = room.servers.get_mut(usize::from(server))?;
        let is_held = position.holder != NONE && position.work == 0;
        let timeout = if timeout == 0 { NEVER } else { timeout };
        let before = position.next.filter(|_| is_held)?;
        if !world.exchange(server, [before.tcap, tcap], (id, priority), now) {
            return None;
        }
        position.timeout = Timeout { scheduler, thread, life };
        if core::mem::replace(&mut position.timeout_ticks, timeout) != timeout {
            self.tell_date(world, server);
        }
        self.take_place(server, Pair { thread, tcap }, ticks)
    }

    /// Notifies a thread of the server that runs by a capability of this grant. The sender has used `ticks` since it was charged last, up to `now`. Returns who runs instead of it, with what
    /// that one may use itself, or that the sender continues; or `None`, with nothing changed, where it is not the usual case: [`Self::send`] does all others.
    #[must_use]
    pub fn notify_held<W: World>(
        &mut self,
        world: &mut W,
        (end_point, grant, bits): (u16, u32, u64),
        now: u64,
        ticks: u64,
    ) -> Option<Option<(u16, u64)>> {
        let (ends, server) = (self.ends, self.caller(ticks)?.server);
        let one = self.room.end_points.get(usize::from(end_point)).filter(|one| one.counters.grant == grant)?;
        let (thread, tcap) = (one.thread, one.tcap);
        let waiting = self.thread(thread).filter(|it| it.waits_for(end_point) && it.takes_all)?;
        let is_usual = waiting.deadline_ticks == NEVER && waiting.seen_ends == ends && !waiting.is_in_exec;
        let (own, tcap) = (waiting.scheduler, if tcap == NONE { waiting.tcap } else { tcap });
        let position = self.room.servers.get(usize::from(server)).filter(|position| position.holder != NONE)?;
        let (holder, before) = (position.holder, position.next.filter(|_| is_usual && position.work == 0)?);
        let told = if own == holder { own } else { self.dispatcher(world, thread, server) };
        if grant == WORN || !self.can_be_told(world, told, server) {
            return None;
        }
        let takes = world.hand_over(server, [before.tcap, tcap], now)?;
        let one = self.room.end_points.get_mut(usize::from(end_point))?;
        let (all, count) = (core::mem::take(&mut one.bits) | bits, core::mem::take(&mut one.count));
        if let Some(waiting) = self.thread_mut(thread) {
            waiting.answer(Code::Ok.number(), &[all, u64::from(count.saturating_add(1))]);
            (waiting.state, waiting.server, waiting.runs_on) = (ThreadState::Ready, server, tcap);
        }
        self.record(thread, event::ACTIVATED, told);
        Some(if takes { self.take_place(server, Pair { thread, tcap }, ticks) } else { None })
    }

    /// An event changes nothing but the list of this scheduler: its thread does not wait, or it waits where somebody is in the position, and there is nobody above it.
    fn can_be_told<W: World>(&self, world: &W, scheduler: u16, server: u16) -> bool {
        let Some(one) = self.room.schedulers.get(usize::from(scheduler)) else { return false };
        let Some(taker) = self.thread(one.thread) else { return false };
        taker.state != ThreadState::WaitingForEvents || one.parent == NONE && world.root(taker.tcap) == Some(server)
    }

    /// The thread that runs, if nothing of it ends by what it has used and no call of its was interrupted.
    #[inline(always)] // On a way that is counted.
    fn caller(&self, ticks: u64) -> Option<&Thread> {
        self.thread(self.running).filter(|caller| caller.own_ticks() > ticks && caller.sliced.call == NONE)
    }

    /// Another thread is in the position of the one that runs, which is charged for what it used and finds that its call is done. Returns the other one, and what it may use itself.
    #[inline(always)] // The same.
    fn take_place(&mut self, server: u16, pair: Pair, ticks: u64) -> Option<(u16, u64)> {
        if let Some(leaver) = self.room.threads.get_mut(usize::from(self.running)) {
            leaver.used_ticks = leaver.used_ticks.saturating_add(ticks);
            leaver.limit_ticks = leaver.limit_ticks.saturating_sub(ticks);
            leaver.registers.x[0] = Code::Ok.number();
        }
        if let Some(position) = self.room.servers.get_mut(usize::from(server)) {
            position.next = Some(pair);
        }
        self.running = pair.thread;
        let one = self.room.threads.get_mut(usize::from(pair.thread))?;
        one.runs_on = pair.tcap;
        // Where a scheduler says who runs there are no turns.
        Some((pair.thread, one.own_ticks()))
    }
}
