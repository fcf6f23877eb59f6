//! End points: notifications without payload, and who waits for them (`kernel.md` 6; CH-10, CH-11, CH-38).
//!
//! A send sets bits and counts; data went before, in a ring of its own, so nothing is lost when several sends become one. Who may
//! not wait without bound gives a deadline.
//!
//! `receive` without `all` takes the lowest bit that is set; the count is answered with the last one, since it counts sends and not
//! bits.

use crate::{Objects, Pair, ThreadState, WORN, World};
use bulkhead_kernel_abi::boot::EndPointRow;
use bulkhead_kernel_abi::{Code, NONE};

/// An end point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndPoint {
    /// Life and grant.
    pub counters: crate::Counters,
    /// Bits that are pending.
    pub bits: u64,
    /// Sends since it was taken last; it stays at its largest value.
    pub count: u32,
    /// Thread that takes from it, or [`NONE`].
    pub thread: u16,
    /// On what it wakes that thread; [`NONE`] for the thread's own.
    pub tcap: u16,
}

impl EndPoint {
    /// No end point.
    pub const EMPTY: Self =
        Self { counters: crate::Counters { life: 1, grant: 1 }, bits: 0, count: 0, thread: NONE, tcap: NONE };

    /// An end point as the host described it.
    #[must_use]
    pub const fn new(row: &EndPointRow) -> Self {
        Self { thread: row.thread, tcap: row.tcap, ..Self::EMPTY }
    }

    /// Takes what is pending: bits and count.
    fn take(&mut self, all: bool) -> Option<[u64; 2]> {
        if self.count == 0 {
            return None;
        }
        let lowest = self.bits & self.bits.wrapping_neg();
        let taken = if all { self.bits } else { lowest };
        self.bits &= !taken;
        let count = if self.bits == 0 { core::mem::take(&mut self.count) } else { 0 };
        Some([taken, u64::from(count)])
    }
}

/// What a notification came to, in the cases that are usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notified {
    /// Another case: nothing has changed.
    Otherwise,
    /// Nobody waits for it.
    Nobody,
    /// Who waited is behind others of this server, whose threads take turns or do not.
    Behind(u16, bool),
    /// Who waited is the first of this server, which has somebody to run from now on.
    First(u16),
}

impl Objects<'_> {
    /// Notifies in the usual cases: who waits, without a deadline, runs on a server that its threads hold. The caller says which server a claim is on where that is not
    /// known since the wait began, and wakes the one of [`Notified::First`].
    #[inline(always)] // On the way of each signal, which is counted.
    pub fn notify(&mut self, end_point: u16, bits: u64, root: impl Fn(u16) -> Option<u16>) -> Notified {
        let Some(one) = self.room.end_points.get_mut(usize::from(end_point)) else { return Notified::Otherwise };
        let thread = one.thread;
        let waiting = self.room.threads.get_mut(usize::from(thread));
        let Some(waiting) = waiting.filter(|it| it.waits_for(end_point)) else {
            one.bits |= bits;
            one.count = one.count.saturating_add(1);
            return Notified::Nobody;
        };
        let (tcap, mut server) = (waiting.tcap, waiting.waits_on);
        if server == NONE {
            let is_usual = waiting.waits_plainly() && (one.tcap == NONE || one.tcap == tcap);
            server = if is_usual { root(tcap).unwrap_or(NONE) } else { NONE };
        }
        let position = self.room.servers.get_mut(usize::from(server));
        let Some(position) = position.filter(|position| position.holder == NONE) else { return Notified::Otherwise };
        let (all, count) = (core::mem::take(&mut one.bits) | bits, core::mem::take(&mut one.count));
        let [code, first, second, ..] = &mut waiting.registers.x;
        (*code, *first, *second) = (Code::Ok.number(), all, u64::from(count.saturating_add(1)));
        (waiting.state, waiting.server, waiting.runs_on) = (ThreadState::Ready, server, tcap);
        self.ready.push(&mut position.ready, thread);
        if position.next.is_some() {
            return Notified::Behind(server, position.quantum_ticks != 0);
        }
        (position.next, position.turn_ticks) = (Some(Pair { thread, tcap }), position.quantum_ticks);
        Notified::First(server)
    }

    /// Notifies by a capability, in the same cases; [`Notified::Otherwise`] when it is void.
    #[inline(always)] // The same.
    pub fn notify_by(&mut self, end_point: u16, grant: u32, bits: u64, root: impl Fn(u16) -> Option<u16>) -> Notified {
        let one = self.room.end_points.get(usize::from(end_point));
        if one.is_none_or(|one| one.counters.grant != grant) || grant == WORN {
            return Notified::Otherwise;
        }
        self.notify(end_point, bits, root)
    }

    /// A capability of this grant to a wire is not void.
    #[must_use]
    pub fn has_wire(&self, wire: u16, grant: u32) -> bool {
        self.room.wires.get(usize::from(wire)).is_some_and(|one| one.grant == grant) && grant != WORN
    }

    /// Notifies an end point, and wakes the thread that waits for it.
    pub fn send<W: World>(&mut self, world: &mut W, end_point: u16, bits: u64) {
        match self.notify(end_point, bits, |tcap| world.root(tcap)) {
            Notified::Otherwise => self.send_in_full(world, end_point, bits),
            Notified::First(server) => {
                let tcap = self.next_of(server).map_or(NONE, |pair| pair.tcap);
                let now = world.now_ticks();
                world.filled(server, tcap, now);
            }
            Notified::Nobody | Notified::Behind(..) => {}
        }
    }

    /// The same without the short way of the usual cases, which a test compares with it.
    #[inline(never)]
    pub fn send_in_full<W: World>(&mut self, world: &mut W, end_point: u16, bits: u64) {
        let Some(one) = self.room.end_points.get_mut(usize::from(end_point)) else { return };
        one.bits |= bits;
        one.count = one.count.saturating_add(1);
        let (thread, tcap) = (one.thread, one.tcap);
        let Some(waiting) = self.thread(thread).filter(|thread| thread.state == ThreadState::Receiving) else { return };
        // A suspended thread finds it when it is resumed.
        if waiting.end_point != end_point || waiting.is_suspended {
            return;
        }
        let tcap = if tcap == NONE { waiting.tcap } else { tcap };
        self.answer_receive(world, end_point, thread);
        self.activate(world, thread, tcap);
    }

    /// Ends a `receive` with what is pending.
    fn answer_receive<W: World>(&mut self, world: &mut W, end_point: u16, thread: u16) -> bool {
        let Some(all) = self.thread(thread).map(|thread| thread.takes_all) else { return false };
        let taken = self.room.end_points.get_mut(usize::from(end_point)).and_then(|one| one.take(all));
        let Some(values) = taken else { return false };
        self.end_waiting(world, thread);
        if let Some(thread) = self.thread_mut(thread) {
            thread.answer(Code::Ok.number(), &values);
        }
        true
    }

    /// What a thread waits for may be there since it was suspended.
    pub(crate) fn look_again<W: World>(&mut self, world: &mut W, thread: u16) {
        let Some(one) = self.thread(thread) else { return };
        match one.state {
            ThreadState::Receiving => {
                let end_point = one.end_point;
                self.answer_receive(world, end_point, thread);
            }
            ThreadState::WaitingForEvents => self.offer_position(world, thread),
            _ => {}
        }
    }

    /// What came for a scheduler while its thread was suspended is there when it is resumed (N5).
    fn offer_position<W: World>(&mut self, world: &mut W, thread: u16) {
        let scheduler = (0..u16::MAX).zip(self.room.schedulers.iter()).find(|(_, one)| one.thread == thread);
        if let Some((scheduler, _)) = scheduler
            && let Some(server) = self.server_of_scheduler(world, scheduler)
            && self.next_of(server).is_none()
        {
            self.takes_over(world, server, scheduler);
        }
    }

    /// Takes from an end point; `None` when nothing is pending.
    pub(crate) fn take(&mut self, end_point: u16, all: bool) -> Option<[u64; 2]> {
        self.room.end_points.get_mut(usize::from(end_point))?.take(all)
    }
}
