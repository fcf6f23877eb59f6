//! Positions: what runs on each server, and who says so (`kernel.md` 3; QV-20, CH-63, CH-64).
//!
//! `core/sched` picks a server; what runs on it is one position, `next = (thread, temporal capability)`. A server that its threads hold has
//! a FIFO of those that are awake, and the head is `next`. One that a scheduler holds has no queue here: `next` changes by the rules
//! N1 to N6 alone, and everything else that is awake is known to a scheduler by an event or because it said `switch`.
//!
//! What the rules leave open is decided so:
//! - *Whom an activation is told to*: the thread's own scheduler if that one's time has the same root, else the holder of the server that
//!   pays, since that one dispatches it. Everything else is told to its own scheduler.
//! - *N6 tells the parent* that the scheduler's thread is blocked, before it looks whether the parent has events. Without it a parent
//!   would believe that its child runs, and others that are awake would wait for a time-out.
//! - *A scheduler that waits and has no event is never `next`*: where N3 or N6 would make it so, its parent is asked instead, at most
//!   [`MAX_SCHEDULER_DEPTH`] times; if none has work the position is empty. Nor is one whose thread is awake on the time of another server.
//!
//! Rejected: a queue of awake threads for schedulers too, from which they choose. The kernel would have a policy (in which order is it
//! looked through?), and a scheduler's own data would be true only until the next call.

use crate::thread::event;
use crate::{Objects, Queue, ThreadState, World};
use bulkhead_kernel_abi::boot::{SchedulerRow, ServerRow};
use bulkhead_kernel_abi::{MAX_SCHEDULER_DEPTH, NONE};

/// A thread, and what it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Thread.
    pub thread: u16,
    /// Temporal capability.
    pub tcap: u16,
}

/// The position of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Grant and life of the server.
    pub counters: crate::Counters,
    /// The server's own temporal capability.
    pub tcap: u16,
    /// What runs when the server is picked.
    pub next: Option<Pair>,
    /// Scheduler that holds it, or [`NONE`]: its threads.
    pub holder: u16,
    /// Threads that are awake, where they hold it.
    pub ready: Queue,
    /// Threads that wait with a deadline and would run here, the earliest first.
    pub asleep: Queue,
    /// Own time of a turn; 0 without turns.
    pub quantum_ticks: u64,
    /// What is left of the turn.
    pub turn_ticks: u64,
    /// When the time-out of the latest `switch` passes.
    pub timeout_ticks: u64,
    /// Whose it is.
    pub timeout: Timeout,
    /// Components whose end this server pays for, a bit each: somebody who ran here ended them, and no call waits for it.
    pub work: u64,
}

/// Whose the time-out of a `switch` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// The scheduler that set it, or [`NONE`].
    pub scheduler: u16,
    /// The thread that it was set for.
    pub thread: u16,
    /// That one's life: with another one the number is somebody else's.
    pub life: u32,
}

impl Timeout {
    /// Nobody's.
    pub const NONE: Self = Self { scheduler: NONE, thread: NONE, life: 0 };
}

impl Position {
    /// No server.
    pub const EMPTY: Self = Self {
        counters: crate::Counters { life: 1, grant: 1 },
        tcap: NONE,
        next: None,
        holder: NONE,
        ready: Queue::EMPTY,
        asleep: Queue::EMPTY,
        quantum_ticks: 0,
        turn_ticks: 0,
        timeout_ticks: crate::NEVER,
        timeout: Timeout::NONE,
        work: 0,
    };

    /// The position of a server as the host described it. Where a scheduler says who runs there are no turns: the end of one would make the head of
    /// a FIFO `next` in which nobody is.
    #[must_use]
    pub const fn new(row: &ServerRow) -> Self {
        let quantum_ticks = if row.holder == NONE { row.quantum_ticks } else { 0 };
        Self { tcap: row.tcap, holder: row.holder, quantum_ticks, turn_ticks: quantum_ticks, ..Self::EMPTY }
    }
}

/// A scheduler: a thread that takes events, and a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// Grant and life.
    pub counters: crate::Counters,
    /// Its thread.
    pub thread: u16,
    /// Its parent, or [`NONE`]; its thread's scheduler is the same one.
    pub parent: u16,
    /// Its number in vectors.
    pub id: u16,
    /// Threads with an event that it has not taken.
    pub events: Queue,
    /// Counts events put in.
    pub token: u64,
}

impl Scheduler {
    /// No scheduler.
    pub const EMPTY: Self = Self {
        counters: crate::Counters { life: 1, grant: 1 },
        thread: NONE,
        parent: NONE,
        id: NONE,
        events: Queue::EMPTY,
        token: 0,
    };

    /// A scheduler as the host described it.
    #[must_use]
    pub const fn new(row: &SchedulerRow) -> Self {
        Self { thread: row.thread, parent: row.parent, id: row.id, ..Self::EMPTY }
    }
}

/// What is to be done for a server that was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This thread runs.
    Run(u16),
    /// Something was put right; look for interrupts and ask again.
    Again,
    /// Nobody runs there: the server is blocked.
    Nobody,
}

impl Objects<'_> {
    /// Sets a position, and tells time.
    fn set_next<W: World>(&mut self, world: &mut W, server: u16, next: Option<Pair>) {
        let Some(position) = self.room.servers.get_mut(usize::from(server)) else { return };
        let before = core::mem::replace(&mut position.next, next);
        // Time knows on what a position runs, and not which thread: nothing has changed for it when one takes another's place on the same.
        if before.map(|pair| pair.tcap) != next.map(|pair| pair.tcap) {
            self.tell_time(world, server);
        }
    }

    /// Tells time who is in a position. With nobody there it is filled by the server itself while it has work.
    pub(crate) fn tell_time<W: World>(&mut self, world: &mut W, server: u16) {
        let Some(position) = self.room.servers.get(usize::from(server)) else { return };
        let now = world.now_ticks();
        match position.next {
            Some(pair) => world.filled(server, pair.tcap, now),
            None if position.work != 0 => world.filled(server, position.tcap, now),
            None => world.emptied(server, now),
        }
    }

    /// What runs on a server.
    pub(crate) fn next_of(&self, server: u16) -> Option<Pair> {
        self.room.servers.get(usize::from(server))?.next
    }

    pub(crate) fn holder(&self, server: u16) -> u16 {
        self.room.servers.get(usize::from(server)).map_or(NONE, |position| position.holder)
    }

    /// A thread has become awake and is to run on this (N2).
    pub(crate) fn activate<W: World>(&mut self, world: &mut W, thread: u16, tcap: u16) {
        // Nothing is left of what an end point was given: it continues with its own, or would wait for ever.
        let own = self.thread(thread).map_or(NONE, |one| one.tcap);
        let given = world.root(tcap).map(|server| (server, tcap));
        let Some((server, tcap)) = given.or_else(|| Some((world.root(own)?, own))) else { return };
        let Some(one) = self.thread_mut(thread).filter(|one| one.is_awake()) else { return };
        (one.server, one.runs_on, one.deadline_ticks) = (server, tcap, crate::NEVER);
        let own = one.scheduler;
        if self.holder(server) == NONE {
            self.enqueue(world, server, thread);
            self.note(world, thread, event::ACTIVATED, own);
            return;
        }
        let now = world.now_ticks();
        let preempts = match self.next_of(server) {
            None => true,
            Some(pair) => world.outranks(tcap, pair.tcap, now),
        };
        if preempts {
            self.set_next(world, server, Some(Pair { thread, tcap }));
        }
        let told = self.dispatcher(world, thread, server);
        self.note(world, thread, event::ACTIVATED, told);
    }

    /// Who dispatches a thread on a server: its own scheduler if that one's time has the same root, else the server's holder.
    pub(crate) fn dispatcher<W: World>(&self, world: &W, thread: u16, server: u16) -> u16 {
        let own = self.thread(thread).map_or(NONE, |one| one.scheduler);
        if self.server_of_scheduler(world, own) == Some(server) { own } else { self.holder(server) }
    }

    /// The server that pays for a scheduler's thread.
    pub(crate) fn server_of_scheduler<W: World>(&self, world: &W, scheduler: u16) -> Option<u16> {
        let one = self.room.schedulers.get(usize::from(scheduler))?;
        world.root(self.thread(one.thread)?.tcap)
    }

    /// Puts a thread to the back of a server that its threads hold.
    fn enqueue<W: World>(&mut self, world: &mut W, server: u16, thread: u16) {
        if let Some(position) = self.room.servers.get_mut(usize::from(server)) {
            self.ready.push(&mut position.ready, thread);
        }
        self.follow_head(world, server);
    }

    /// The head of the FIFO is `next`.
    fn follow_head<W: World>(&mut self, world: &mut W, server: u16) {
        let head = self.room.servers.get(usize::from(server)).and_then(|position| position.ready.first());
        let pair = head.map(|thread| Pair { thread, tcap: self.thread(thread).map_or(NONE, |one| one.runs_on) });
        if self.next_of(server).map(|pair| pair.thread) != head
            && let Some(position) = self.room.servers.get_mut(usize::from(server))
        {
            position.turn_ticks = position.quantum_ticks;
        }
        self.set_next(world, server, pair);
    }

    /// A thread that was awake does not run any more: it blocked, ended, faulted or was suspended (N3, N6). Its state says so already.
    pub(crate) fn leave<W: World>(&mut self, world: &mut W, thread: u16, what: u8) {
        let Some(one) = self.thread_mut(thread) else { return };
        let server = core::mem::replace(&mut one.server, NONE);
        let own = one.scheduler;
        if self.running == thread {
            self.running = NONE;
        }
        if server == NONE {
            // It was not awake: there is only something to tell.
            self.note(world, thread, what, own);
            return;
        }
        if self.holder(server) == NONE {
            if let Some(position) = self.room.servers.get_mut(usize::from(server)) {
                self.ready.remove(&mut position.ready, thread);
            }
            self.follow_head(world, server);
            self.note(world, thread, what, own);
            return;
        }
        let was_next = self.next_of(server).is_some_and(|pair| pair.thread == thread);
        let heir = self.dispatcher(world, thread, server);
        self.note(world, thread, what, if own == NONE { heir } else { own });
        if was_next {
            self.hand_to(world, server, heir);
        }
    }

    /// Gives a position to a scheduler that has work, or to the first of its parents that does (N3, N6).
    fn hand_to<W: World>(&mut self, world: &mut W, server: u16, scheduler: u16) {
        let mut one = scheduler;
        for _ in 0..MAX_SCHEDULER_DEPTH {
            let Some(&Scheduler { thread, parent, .. }) = self.room.schedulers.get(usize::from(one)) else { break };
            let pays = self.thread(thread).and_then(|thread| world.root(thread.tcap));
            if pays == Some(server) && self.takes_over(world, server, one) {
                return;
            }
            one = parent;
        }
        self.set_next(world, server, None);
    }

    /// Makes a scheduler `next` if it has work.
    pub(crate) fn takes_over<W: World>(&mut self, world: &mut W, server: u16, scheduler: u16) -> bool {
        let Some(one) = self.room.schedulers.get(usize::from(scheduler)) else { return false };
        let (taker, has_events) = (one.thread, one.events.first().is_some());
        let Some(thread) = self.thread(taker) else { return false };
        let waits = thread.state == ThreadState::WaitingForEvents;
        if thread.is_suspended || !waits && !thread.is_awake() || waits && !has_events {
            return false;
        }
        // Awake on the time of another server, which has it in its position: a thread is in one.
        if thread.server != NONE && thread.server != server {
            return false;
        }
        let tcap = thread.tcap;
        if waits {
            self.end_waiting(world, taker);
            self.deliver(scheduler);
        }
        if let Some(thread) = self.thread_mut(taker) {
            (thread.server, thread.runs_on) = (server, tcap);
        }
        self.set_next(world, server, Some(Pair { thread: taker, tcap }));
        true
    }

    /// The thread that runs when this server is picked, if nothing is to be put right before: [`Self::choose`] would say so.
    #[must_use]
    pub fn ready_next(&self, server: u16) -> Option<u16> {
        let position = self.room.servers.get(usize::from(server)).filter(|position| position.work == 0)?;
        let thread = position.next?.thread;
        let one = self.thread(thread)?;
        (one.seen_ends == self.ends && !one.is_in_exec).then_some(thread)
    }

    /// A thread runs of which [`Self::ready_next`] has said so.
    pub const fn set_running(&mut self, thread: u16) {
        self.running = thread;
    }

    /// Who runs when this server is picked.
    pub fn choose<W: World>(&mut self, world: &mut W, server: u16) -> Choice {
        let work = self.room.servers.get(usize::from(server)).map_or(0, |position| position.work);
        if work != 0 {
            self.slice(world, work.trailing_zeros() as u16);
            return Choice::Again;
        }
        let Some(pair) = self.next_of(server) else { return Choice::Nobody };
        // The usual case: no component has ended since it was looked at, and where it went since was alive.
        let ends = self.ends;
        if self.thread(pair.thread).is_some_and(|one| one.seen_ends == ends && !one.is_in_exec) {
            self.running = pair.thread;
            return Choice::Run(pair.thread);
        }
        // Nobody runs in a component that was ended or reset since.
        if self.unwind(world, pair.thread) {
            return Choice::Again;
        }
        if let Some(one) = self.thread_mut(pair.thread) {
            one.seen_ends = ends;
        }
        if self.thread(pair.thread).is_some_and(|one| one.is_in_exec) {
            self.continue_exec(world, pair.thread);
            return Choice::Again;
        }
        self.running = pair.thread;
        Choice::Run(pair.thread)
    }

    /// The thread that runs has used time; tells whose limit is used up, and returns whether it did. Its turn is over with it, and ended by [`Self::end_turn_if_over`]: not while
    /// the thread makes a call, which would be through behind everybody else's turn.
    pub fn used<W: World>(&mut self, world: &mut W, ticks: u64) -> bool {
        let running = self.running;
        let Some(thread) = self.thread_mut(running) else { return false };
        thread.used_ticks = thread.used_ticks.saturating_add(ticks);
        let (server, end_point) = (thread.server, thread.limit_end_point);
        thread.limit_ticks = thread.limit_ticks.saturating_sub(ticks);
        let is_over = end_point != NONE && thread.limit_ticks == 0;
        if is_over {
            let (grant, bits) = (thread.limit_grant, thread.limit_bits);
            thread.limit_end_point = NONE;
            // The capability that was given with the limit may be void since.
            let told = self.room.end_points.get(usize::from(end_point));
            if told.is_some_and(|told| told.counters.grant == grant) {
                self.send(world, end_point, bits);
            }
        }
        if let Some(position) = self.room.servers.get_mut(usize::from(server)) {
            position.turn_ticks = position.turn_ticks.saturating_sub(ticks);
        }
        is_over
    }

    /// Ends the turn of the thread that runs if its time is used up and it is in no service.
    pub fn end_turn_if_over<W: World>(&mut self, world: &mut W) {
        let running = self.running;
        let server = self.thread(running).map_or(NONE, |thread| thread.server);
        let Some(position) = self.room.servers.get(usize::from(server)) else { return };
        if position.turn_ticks == 0 && position.quantum_ticks != 0 && !self.is_in_service(running) {
            self.end_turn(world, server);
        }
    }

    /// The turn of the thread that runs is used up, and somebody waits for its end.
    #[must_use]
    pub fn is_turn_over(&self) -> bool {
        let server = self.thread(self.running).map_or(NONE, |thread| thread.server);
        let position = self.room.servers.get(usize::from(server));
        position
            .is_some_and(|one| one.turn_ticks == 0 && one.quantum_ticks != 0 && one.ready.first() != one.ready.last())
    }

    /// The thread is inside a component that declares what it needs: its turn is not ended there.
    pub(crate) fn is_in_service(&self, thread: u16) -> bool {
        let component = self.thread(thread).and_then(|thread| self.component(thread.component));
        component.is_some_and(|component| component.needs_ticks != 0)
    }

    /// The head of a server that its threads hold goes to the back.
    pub(crate) fn end_turn<W: World>(&mut self, world: &mut W, server: u16) {
        if let Some(position) = self.room.servers.get_mut(usize::from(server))
            && let Some(head) = position.ready.first()
        {
            position.turn_ticks = position.quantum_ticks;
            self.ready.remove(&mut position.ready, head);
            self.ready.push(&mut position.ready, head);
        }
        self.follow_head(world, server);
    }

    /// Nothing is left of a claim: who is awake on it is brought to something else, from thread `first` on and one at a time. Returns with which thread to continue, and
    /// nothing when all were told.
    pub fn spent<W: World>(&mut self, world: &mut W, tcap: u16, first: u16) -> Option<u16> {
        let thread = self.awake_on(tcap, first)?;
        self.exhausted(world, thread);
        let next = thread.saturating_add(1);
        // Whether there are others is looked for behind an interrupt.
        if world.is_interrupted() { Some(next) } else { self.awake_on(tcap, next) }
    }

    /// The first thread from this one on that is awake on a claim.
    fn awake_on(&self, tcap: u16, first: u16) -> Option<u16> {
        let mut others = self.room.threads.get(usize::from(first)..)?.iter();
        // By its place, which is counted once and not at each of them.
        let place = others.position(|one| one.runs_on == tcap && one.server != NONE)?;
        Some(first.saturating_add(place as u16))
    }

    /// What a thread runs on is used up: its scheduler is told. It continues with its own if that can be used, else its scheduler is `next`. Its own may be
    /// of another server: then it competes there, and waits there for budget.
    pub fn exhausted<W: World>(&mut self, world: &mut W, thread: u16) {
        let Some(one) = self.thread(thread) else { return };
        let (server, own, runs_on, now) = (one.server, one.tcap, one.runs_on, world.now_ticks());
        let heir = self.dispatcher(world, thread, server);
        self.note(world, thread, event::EXHAUSTED, heir);
        if runs_on != own && world.root(own).is_some_and(|root| root != server) {
            self.leave(world, thread, event::EXHAUSTED);
            self.activate(world, thread, own);
            return;
        }
        let has_own = runs_on != own && world.root(own) == Some(server);
        if self.holder(server) == NONE {
            // It keeps its turn, which is on its own time from here on.
            if has_own && let Some(one) = self.thread_mut(thread) {
                one.runs_on = own;
                self.follow_head(world, server);
            }
            return;
        }
        if self.next_of(server).is_none_or(|pair| pair.thread != thread) {
            return;
        }
        if has_own && world.usable_ticks(own, now) != 0 {
            if let Some(one) = self.thread_mut(thread) {
                one.runs_on = own;
            }
            self.set_next(world, server, Some(Pair { thread, tcap: own }));
            return;
        }
        if self.room.schedulers.get(usize::from(heir)).is_some_and(|heir| heir.thread != thread) {
            self.hand_to(world, server, heir);
        }
    }

    /// Sets a server's next pair because its scheduler says so (N1). Everything was checked.
    pub(crate) fn place<W: World>(&mut self, world: &mut W, server: u16, pair: Pair, timeout: (u16, u64)) {
        let life = self.thread(pair.thread).map_or(0, |one| one.counters.life);
        if let Some(position) = self.room.servers.get_mut(usize::from(server)) {
            let before = core::mem::replace(&mut position.timeout_ticks, timeout.1);
            position.timeout = Timeout { scheduler: timeout.0, thread: pair.thread, life };
            if before != timeout.1 {
                self.tell_date(world, server);
            }
        }
        if let Some(thread) = self.thread_mut(pair.thread) {
            (thread.server, thread.runs_on) = (server, pair.tcap);
        }
        self.set_next(world, server, Some(pair));
    }

    /// The time-out of a `switch` has passed (N4).
    pub(crate) fn time_out<W: World>(&mut self, world: &mut W, server: u16) {
        let Some(position) = self.room.servers.get_mut(usize::from(server)) else { return };
        position.timeout_ticks = crate::NEVER;
        let Timeout { scheduler, thread, life } = core::mem::replace(&mut position.timeout, Timeout::NONE);
        self.tell_date(world, server);
        if self.thread(thread).is_some_and(|one| one.counters.life == life) {
            self.note(world, thread, event::TIMEOUT, scheduler);
        }
        self.takes_over(world, server, scheduler);
    }
}
