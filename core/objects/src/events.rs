//! What schedulers are told: one record of each thread, in the list of one scheduler (`kernel.md` 4; CH-57).
//!
//! Records coalesce, so memory is bounded by threads, and each one that is put in makes older tokens stale. A scheduler that waits is told to its parent, and
//! so on, until one does not wait or there is none. Each above is told later, in a passage of its own ([`Objects::tell_parent`]), since a component decides how many there are.

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
        thread.event = crate::Event { list: NONE, what: 0 };
        let used_ticks = core::mem::take(&mut thread.used_ticks);
        if let Some(taker) = self.thread_mut(taker) {
            let values = [label, u64::from(told.what), used_ticks, deadline_ticks, token, more];
            taker.answer(Code::Ok.number(), &values);
        }
        true
    }

    /// Records an event about a thread for a scheduler; if that one waited it is awake by that, and its parent is told later (CH-57). A scheduler without work whose server has
    /// nobody becomes `next` there (N5).
    pub(crate) fn note<W: World>(&mut self, world: &mut W, thread: u16, what: u8, scheduler: u16) {
        if !self.record(thread, what, scheduler) {
            return;
        }
        let Some(one) = self.room.schedulers.get(usize::from(scheduler)) else { return };
        let (own, parent) = (one.thread, one.parent);
        if self.thread(own).is_none_or(|one| one.state != ThreadState::WaitingForEvents) {
            return;
        }
        if let Some(server) = self.server_of_scheduler(world, scheduler)
            && self.next_of(server).is_none()
        {
            self.takes_over(world, server, scheduler);
        }
        if parent != NONE {
            self.tell_above(world, scheduler, parent);
        }
    }

    /// Tells the parent of a scheduler that this one is awake, if it still is: it may have run since, and wait again.
    pub fn tell_parent<W: World>(&mut self, world: &mut W, scheduler: u16) {
        let Some(one) = self.room.schedulers.get(usize::from(scheduler)) else { return };
        let (own, parent, has_events) = (one.thread, one.parent, one.events.first().is_some());
        let Some(thread) = self.thread(own) else { return };
        if thread.is_awake() || thread.state == ThreadState::WaitingForEvents && has_events {
            self.note(world, own, event::ACTIVATED, parent);
        }
    }

    /// Asks for [`Self::tell_parent`] of a scheduler, on the time of the first above it that has any.
    #[inline(never)] // Rare.
    fn tell_above<W: World>(&self, world: &mut W, scheduler: u16, parent: u16) {
        let (mut above, mut server) = (parent, None);
        for _ in 0..MAX_SCHEDULER_DEPTH {
            server = self.server_of_scheduler(world, above);
            if server.is_some() {
                break;
            }
            above = self.room.schedulers.get(usize::from(above)).map_or(NONE, |one| one.parent);
        }
        world.tell_parent_later(scheduler, server);
    }

    /// Puts a thread's record into a scheduler's list; false when there is no such scheduler.
    pub(crate) fn record(&mut self, thread: u16, what: u8, scheduler: u16) -> bool {
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
