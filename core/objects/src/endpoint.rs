//! End points and dates: notifications without payload, and what waits for them (`kernel.md` 6; CH-10, CH-11, CH-38).
//!
//! A send sets bits and counts; data went before, in a ring of its own, so nothing is lost when several sends become one. Who may
//! not wait without bound gives a deadline.
//!
//! `receive` without `all` takes the lowest bit that is set; the count is answered with the last one, since it counts sends and not
//! bits. Dates are looked for in the set of those that have one: a word, at most four passed at a time.

use crate::{NEVER, Objects, ThreadState, World};
use bulkhead_kernel_abi::boot::EndPointRow;
use bulkhead_kernel_abi::{Code, MAX_THREADS, NONE};

/// Most dates that pass in one piece of work; the rest stays due.
pub const DATES_AT_ONCE: usize = 4;

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

impl Objects<'_> {
    /// Notifies an end point, and wakes the thread that waits for it.
    pub fn send<W: World>(&mut self, world: &mut W, end_point: u16, bits: u64) {
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
        self.answer_receive(end_point, thread);
        self.activate(world, thread, tcap);
    }

    /// Ends a `receive` with what is pending.
    fn answer_receive(&mut self, end_point: u16, thread: u16) -> bool {
        let Some(all) = self.thread(thread).map(|thread| thread.takes_all) else { return false };
        let taken = self.room.end_points.get_mut(usize::from(end_point)).and_then(|one| one.take(all));
        let Some(values) = taken else { return false };
        self.end_waiting(thread);
        if let Some(thread) = self.thread_mut(thread) {
            thread.answer(Code::Ok.number(), &values);
        }
        true
    }

    /// What a thread waits for may be there since it was suspended.
    pub(crate) fn look_again(&mut self, thread: u16) {
        if let Some(one) = self.thread(thread)
            && one.state == ThreadState::Receiving
        {
            self.answer_receive(one.end_point, thread);
        }
    }

    /// Takes from an end point; `None` when nothing is pending.
    pub(crate) fn take(&mut self, end_point: u16, all: bool) -> Option<[u64; 2]> {
        self.room.end_points.get_mut(usize::from(end_point))?.take(all)
    }

    /// Puts the thread that runs to wait.
    pub(crate) fn wait<W: World>(&mut self, world: &mut W, state: ThreadState, deadline_ticks: u64) {
        let running = self.running;
        let Some(thread) = self.thread_mut(running) else { return };
        (thread.state, thread.deadline_ticks) = (state, deadline_ticks);
        if deadline_ticks != NEVER {
            self.dated |= 1u64.wrapping_shl(u32::from(running));
        }
        self.leave(world, running, crate::thread::event::BLOCKED);
    }

    /// A thread waits no more; it is ready.
    pub(crate) fn end_waiting(&mut self, thread: u16) {
        let Some(one) = self.thread_mut(thread) else { return };
        (one.state, one.deadline_ticks) = (ThreadState::Ready, NEVER);
        self.dated &= !1u64.wrapping_shl(u32::from(thread));
    }

    /// The earliest date: of a thread that waits, or of a `switch`. What of it the timer is set to is for its owner to decide.
    #[must_use]
    pub fn earliest_ticks(&self) -> u64 {
        let dates = self.dated().map(|(_, date)| date);
        let timeouts = self.room.servers.iter().map(|position| position.timeout_ticks);
        dates.chain(timeouts).min().unwrap_or(NEVER)
    }

    fn dated(&self) -> impl Iterator<Item = (u16, u64)> {
        let is_dated = |thread: &u16| self.dated & 1u64.wrapping_shl(u32::from(*thread)) != 0;
        let threads = (0..MAX_THREADS as u16).filter(is_dated);
        threads.map(|thread| (thread, self.thread(thread).map_or(NEVER, |thread| thread.deadline_ticks)))
    }

    /// Lets dates pass that are due, at most [`DATES_AT_ONCE`]. Returns whether more are due.
    pub fn pass_dates<W: World>(&mut self, world: &mut W) -> bool {
        let now = world.now_ticks();
        for _ in 0..DATES_AT_ONCE {
            let due = (0..u16::MAX).zip(self.room.servers.iter()).find(|(_, position)| position.timeout_ticks <= now);
            if let Some((server, _)) = due {
                self.time_out(world, server);
                continue;
            }
            let Some((thread, _)) = self.dated().find(|(_, date)| *date <= now) else { return false };
            self.pass_date(world, thread);
        }
        self.earliest_ticks() <= now
    }

    fn pass_date<W: World>(&mut self, world: &mut W, thread: u16) {
        let Some((state, tcap)) = self.thread(thread).map(|one| (one.state, one.tcap)) else { return };
        if state == ThreadState::WaitingForEvents {
            let scheduler =
                (0..u16::MAX).zip(self.room.schedulers.iter()).find(|(_, scheduler)| scheduler.thread == thread);
            if let Some((scheduler, _)) = scheduler {
                self.events_time_out(world, scheduler);
                return;
            }
        }
        self.end_waiting(thread);
        if let Some(one) = self.thread_mut(thread) {
            one.answer(Code::TimedOut.number(), &[]);
        }
        self.activate(world, thread, tcap);
    }
}
