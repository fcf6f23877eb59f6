//! What schedulers are told: one record of each thread, in the list of one scheduler (`kernel.md` 4; CH-57).
//!
//! Records coalesce, so memory is bounded by threads, and each one that is put in makes older tokens stale. A scheduler that waits is told to its parent, and
//! so on, until one does not wait or there is none.

use crate::thread::event;
use crate::{Objects, ThreadState, World};
use bulkhead_kernel_abi::{Code, MAX_SCHEDULER_DEPTH, NONE};

impl Objects<'_> {
    /// Writes the oldest event into the registers of the scheduler's thread, as the answer of its `events`.
    pub(crate) fn deliver(&mut self, scheduler: u16) -> bool {
        let Some(one) = self.room.schedulers.get_mut(usize::from(scheduler)) else { return false };
        let Some(about) = one.events.first() else { return false };
        self.listed.remove(&mut one.events, about);
        let (token, more, taker) = (one.token, u64::from(one.events.first().is_some()), one.thread);
        let Some(thread) = self.thread_mut(about) else { return false };
        let told = thread.event;
        let deadline_ticks = if thread.is_awake() { crate::NEVER } else { thread.deadline_ticks };
        let label = thread.label;
        thread.event = crate::Event { used_ticks: 0, list: NONE, what: 0 };
        if let Some(taker) = self.thread_mut(taker) {
            let values = [label, u64::from(told.what), told.used_ticks, deadline_ticks, token, more];
            taker.answer(Code::Ok.number(), &values);
        }
        true
    }

    /// Records an event about a thread for a scheduler; if that one waits, its parent is told, and so on (CH-57). A scheduler without
    /// work whose server has nobody becomes `next` there (N5).
    pub(crate) fn note<W: World>(&mut self, world: &mut W, thread: u16, what: u8, scheduler: u16) {
        let (mut about, mut what, mut to) = (thread, what, scheduler);
        for _ in 0..MAX_SCHEDULER_DEPTH {
            if !self.record(about, what, to) {
                return;
            }
            let Some(one) = self.room.schedulers.get(usize::from(to)).copied() else { return };
            if self.thread(one.thread).is_none_or(|one| one.state != ThreadState::WaitingForEvents) {
                return;
            }
            if let Some(server) = self.server_of_scheduler(world, to)
                && self.next_of(server).is_none()
            {
                self.takes_over(world, server, to);
            }
            (about, what, to) = (one.thread, event::ACTIVATED, one.parent);
        }
    }

    /// Puts a thread's record into a scheduler's list; false when there is no such scheduler.
    fn record(&mut self, thread: u16, what: u8, scheduler: u16) -> bool {
        let Some(one) = self.room.schedulers.get(usize::from(scheduler)) else { return false };
        // Nobody schedules itself: it would have work for ever.
        if one.thread == thread {
            return false;
        }
        let Some(before) = self.thread(thread).map(|thread| thread.event) else { return false };
        if before.list != scheduler
            && let Some(other) = self.room.schedulers.get_mut(usize::from(before.list))
        {
            self.listed.remove(&mut other.events, thread);
        }
        let Some(one) = self.room.schedulers.get_mut(usize::from(scheduler)) else { return false };
        one.token = one.token.wrapping_add(1);
        self.listed.push(&mut one.events, thread);
        if let Some(thread) = self.thread_mut(thread) {
            thread.event.list = scheduler;
            // Of the two that contradict each other the newer one is true.
            let over = if what & event::ACTIVATED != 0 { event::BLOCKED } else { 0 };
            let over = over | if what & (event::BLOCKED | event::ENDED) != 0 { event::ACTIVATED } else { 0 };
            thread.event.what = thread.event.what & !over | what;
        }
        true
    }

    /// Takes a thread's record out of the list that it is in: the number is to be another thread's.
    pub(crate) fn forget_event(&mut self, thread: u16) {
        let list = self.thread(thread).map_or(NONE, |one| one.event.list);
        if let Some(one) = self.room.schedulers.get_mut(usize::from(list)) {
            self.listed.remove(&mut one.events, thread);
        }
    }

    /// The deadline of a waiting `events` has passed: its scheduler is `next`, even if somebody was let in meanwhile.
    pub(crate) fn events_time_out<W: World>(&mut self, world: &mut W, scheduler: u16) {
        let Some(one) = self.room.schedulers.get(usize::from(scheduler)).copied() else { return };
        self.end_waiting(world, one.thread);
        // Events that came while somebody else was in the position are the answer; without one it is that the time has passed.
        if !self.deliver(scheduler)
            && let Some(thread) = self.thread_mut(one.thread)
        {
            thread.answer(Code::TimedOut.number(), &[]);
        }
        if let Some(server) = self.server_of_scheduler(world, scheduler) {
            self.takes_over(world, server, scheduler);
        }
        // Its parent knows it as blocked.
        self.note(world, one.thread, event::ACTIVATED, one.parent);
    }
}
