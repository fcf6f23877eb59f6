//! Dates: who sleeps until when, and what passes by itself (`kernel.md` 3; QV-23, CH-10, CH-38).
//!
//! A thread that waits with a deadline is in the list of the server that it would run on, sorted by deadline. The earliest date of a server, its
//! `switch`'s time-out among them, is told to [`crate::Time::set_date`]; who owns the timer decides which of them it is set to. So nothing here looks
//! at more than one server, and only an insertion looks at others of its list.
//!
//! Rejected: one set of all threads that have a date, searched for the earliest one. It costs the same for all entries of the kernel, and nearly
//! none of them changes a date.

use crate::{NEVER, Objects, ThreadState, World};
use bulkhead_kernel_abi::{Code, MAX_THREADS, NONE};

impl Objects<'_> {
    /// Puts a thread that waits into the list of the server that it would run on, unless it waits without a deadline.
    pub(crate) fn list_date<W: World>(&mut self, world: &mut W, thread: u16) {
        let Some(one) = self.thread(thread) else { return };
        let deadline_ticks = one.deadline_ticks;
        if deadline_ticks == NEVER || one.dated_on != NONE {
            return;
        }
        // Without a root it is nobody's; the most important server's list lets no date pass late.
        let server = world.root(one.tcap).filter(|server| usize::from(*server) < self.room.servers.len()).unwrap_or(0);
        let Some(position) = self.room.servers.get_mut(usize::from(server)) else { return };
        let mut before = position.asleep.last();
        for _ in 0..MAX_THREADS {
            let later = before.and_then(|other| self.room.threads.get(usize::from(other)));
            if later.is_none_or(|later| later.deadline_ticks <= deadline_ticks) {
                break;
            }
            before = before.and_then(|other| self.asleep.before(other));
        }
        self.asleep.insert(&mut position.asleep, thread, before);
        if let Some(one) = self.thread_mut(thread) {
            one.dated_on = server;
        }
        if before.is_none() {
            self.tell_date(world, server);
        }
    }

    /// Takes a thread out of the list that it is in.
    fn unlist_date<W: World>(&mut self, world: &mut W, thread: u16) {
        let Some(one) = self.thread_mut(thread) else { return };
        let server = core::mem::replace(&mut one.dated_on, NONE);
        let Some(position) = self.room.servers.get_mut(usize::from(server)) else { return };
        let was_first = position.asleep.first() == Some(thread);
        self.asleep.remove(&mut position.asleep, thread);
        if was_first {
            self.tell_date(world, server);
        }
    }

    /// A thread that may sleep is another server's from now on.
    pub(crate) fn move_date<W: World>(&mut self, world: &mut W, thread: u16) {
        self.unlist_date(world, thread);
        self.list_date(world, thread);
    }

    /// Tells time the earliest date of a server.
    pub(crate) fn tell_date<W: World>(&mut self, world: &mut W, server: u16) {
        let Some(position) = self.room.servers.get(usize::from(server)) else { return };
        let first = position.asleep.first().and_then(|thread| self.thread(thread));
        let deadline_ticks = first.map_or(NEVER, |thread| thread.deadline_ticks);
        world.set_date(server, deadline_ticks.min(position.timeout_ticks));
    }

    /// Puts the thread that runs to wait.
    pub(crate) fn wait<W: World>(&mut self, world: &mut W, state: ThreadState, deadline_ticks: u64) {
        let running = self.running;
        let Some(thread) = self.thread_mut(running) else { return };
        (thread.state, thread.deadline_ticks) = (state, deadline_ticks);
        self.list_date(world, running);
        self.leave(world, running, crate::thread::event::BLOCKED);
    }

    /// A thread waits no more; it is ready.
    pub(crate) fn end_waiting<W: World>(&mut self, world: &mut W, thread: u16) {
        self.unlist_date(world, thread);
        let Some(one) = self.thread_mut(thread) else { return };
        (one.state, one.deadline_ticks) = (ThreadState::Ready, NEVER);
    }

    /// Lets a date pass that is due, of the most important server that has one. The rest stays due: who wakes by this one runs before. Returns the server.
    pub fn pass_date<W: World>(&mut self, world: &mut W) -> Option<u16> {
        let now = world.now_ticks();
        let server = world.due(now)?;
        let position = self.room.servers.get(usize::from(server))?;
        if position.timeout_ticks <= now {
            self.time_out(world, server);
        } else if let Some(thread) = position.asleep.first() {
            self.wake_by_date(world, thread);
        } else {
            // It cannot be: what was told is the date of somebody.
            self.tell_date(world, server);
        }
        Some(server)
    }

    fn wake_by_date<W: World>(&mut self, world: &mut W, thread: u16) {
        let Some((state, tcap)) = self.thread(thread).map(|one| (one.state, one.tcap)) else { return };
        if state == ThreadState::WaitingForEvents {
            let scheduler =
                (0..u16::MAX).zip(self.room.schedulers.iter()).find(|(_, scheduler)| scheduler.thread == thread);
            if let Some((scheduler, _)) = scheduler {
                self.events_time_out(world, scheduler);
                return;
            }
        }
        self.end_waiting(world, thread);
        if let Some(one) = self.thread_mut(thread) {
            one.answer(Code::TimedOut.number(), &[]);
        }
        self.activate(world, thread, tcap);
    }

    /// How long the thread that runs may go on, as far as its limit and the turn of its server say; all ones for ever. Neither counts
    /// while somebody else runs, so this is from the last [`Self::used`] on.
    #[must_use]
    pub fn left_ticks(&self) -> u64 {
        let Some(one) = self.thread(self.running) else { return NEVER };
        let limit_ticks = one.own_ticks();
        let Some(position) = self.room.servers.get(usize::from(one.server)) else { return limit_ticks };
        // Nobody waits for the end of the only one's turn.
        if position.quantum_ticks == 0 || position.ready.first() == position.ready.last() {
            return limit_ticks;
        }
        let needs_ticks = self.component(one.component).map_or(0, |component| component.needs_ticks);
        // A turn that is over inside a service ends behind it: it is looked for when the service should be through.
        let turn_ticks = if position.turn_ticks == 0 { needs_ticks } else { position.turn_ticks };
        limit_ticks.min(turn_ticks)
    }
}
