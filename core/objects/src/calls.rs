//! Which call is what (`kernel.md` 2; CH-60). Each arm is one row of the table in `bulkhead_kernel_abi::call`.

use crate::thread::event;
use crate::{ComponentState, NEVER, Objects, Pair, Sliced, ThreadState, World};
use bulkhead_kernel_abi::accounts::FaultKind;
use bulkhead_kernel_abi::call::{
    Call, CapabilityOperation, ComponentOperation, Flag, InterruptOperation, ThreadOperation,
};
use bulkhead_kernel_abi::capability::{TOKEN_MASK, right};
use bulkhead_kernel_abi::{Code, KERNEL_ABI_VERSION, Kind, NONE, PRINT_BYTES};

/// What a call came to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is over, or its thread waits.
    Done,
    /// An interrupt came between two slices: the call is made again when its thread runs again (its pc was set back).
    Again,
}

/// What an operation answers.
pub(crate) enum Reply {
    /// `Ok` with these values in x1 and the following.
    Values([u64; 6], usize),
    /// The thread waits; who wakes it answers.
    Waits,
    /// It was interrupted between two slices.
    Again(Sliced),
}

/// Bytes of an SVC instruction.
pub(crate) const INSTRUCTION_BYTES: u64 = 4;

pub(crate) type Answer = Result<Reply, Code>;

pub(crate) fn values<const COUNT: usize>(some: [u64; COUNT]) -> Answer {
    let mut all = [0; 6];
    for (to, from) in all.iter_mut().zip(some) {
        *to = from;
    }
    Ok(Reply::Values(all, COUNT))
}

fn nothing(done: Result<(), Code>) -> Answer {
    done.and_then(|()| values([]))
}

impl Objects<'_> {
    /// The thread that runs makes its call when it runs again, and not now.
    pub fn repeat_call(&mut self) {
        let running = self.running;
        if let Some(thread) = self.thread_mut(running) {
            thread.registers.pc = thread.registers.pc.wrapping_sub(INSTRUCTION_BYTES);
        }
    }

    /// Obeys `svc #number` of the thread that runs, whose registers are in its [`crate::Thread`].
    pub fn call<W: World>(&mut self, world: &mut W, number: u16) -> Outcome {
        let running = self.running;
        let Some(thread) = self.thread(running) else { return Outcome::Done };
        let place = (thread.component, thread.life, thread.depth);
        let [x0, x1, x2, x3, x4, x5, x6, x7, ..] = thread.registers.x;
        let x = [x0, x1, x2, x3, x4, x5, x6, x7];
        let this_call = number | (x0 as u16 & 0xff).wrapping_shl(8);
        if thread.sliced.call != NONE && thread.sliced.call != this_call {
            self.abandon(world, running);
        }
        let answer = match Call::from_number(u64::from(number)) {
            Some(Call::Invoke) => {
                self.invoke(world);
                return Outcome::Done;
            }
            Some(Call::Return) => {
                self.return_(world);
                return Outcome::Done;
            }
            Some(call) => self.obey(world, call, place.0, x),
            None => Err(Code::BadCall),
        };
        // It may have ended itself, or the call that it made this from.
        let Some(thread) = self.thread_mut(running) else { return Outcome::Done };
        let stayed = (thread.component, thread.life, thread.depth) == place;
        // By reference: its values would be copied once more.
        match &answer {
            _ if !stayed => Outcome::Done,
            Err(code) => {
                thread.sliced = Sliced::NONE;
                thread.answer(code.number(), &[]);
                Outcome::Done
            }
            Ok(Reply::Values(all, count)) => {
                thread.sliced = Sliced::NONE;
                thread.answer(Code::Ok.number(), all.get(..*count).unwrap_or(&[]));
                Outcome::Done
            }
            Ok(Reply::Waits) => Outcome::Done,
            Ok(Reply::Again(sliced)) => {
                thread.sliced = Sliced { call: this_call, ..*sliced };
                thread.registers.pc = thread.registers.pc.wrapping_sub(INSTRUCTION_BYTES);
                Outcome::Again
            }
        }
    }

    fn obey<W: World>(&mut self, world: &mut W, call: Call, component: u16, x: [u64; 8]) -> Answer {
        match call {
            Call::Receive => self.receive(world, component, x),
            Call::Events => self.events(world, component, x),
            Call::Switch => nothing(self.switch(world, component, x)),
            Call::Yield => nothing(self.yield_(world)),
            Call::Interrupt => self.interrupt(world, component, x),
            Call::Thread => self.thread_operation(world, component, x),
            Call::Capability => self.capability(component, x),
            Call::Component => self.component_operation(world, component, x),
            Call::Print => nothing(print(world, component, x)),
            Call::Version => {
                let (build, frequency) = world.build_and_frequency();
                values([u64::from(KERNEL_ABI_VERSION), build, frequency])
            }
            Call::Memory => self.memory(world, component, x),
            Call::Delegate => nothing(self.delegate(world, component, x)),
            Call::Tcap => self.tcap(world, component, x),
            Call::Server => self.server(world, component, x),
            Call::Invoke | Call::Return => Err(Code::BadCall),
        }
    }

    fn receive<W: World>(&mut self, world: &mut W, component: u16, [slot, flags, deadline, ..]: [u64; 8]) -> Answer {
        let (no_wait, all) = (Flag::NoWait.number(), Flag::All.number());
        let deadline_ticks = if deadline == 0 { NEVER } else { deadline };
        if flags & !(no_wait | all) != 0 || slot == 0 && deadline_ticks == NEVER {
            return Err(Code::BadArgument);
        }
        let running = self.running;
        let mut state = ThreadState::Sleeping;
        if slot != 0 {
            let end_point = self.object_of(component, slot, Kind::Receive, right::USE)?;
            let one = self.room.end_points.get(usize::from(end_point)).filter(|one| one.thread == running);
            let wakes_on = one.ok_or(Code::Denied)?.tcap;
            if let Some(taken) = self.take(end_point, flags & all != 0) {
                return values(taken);
            }
            may_wait(world, flags, deadline_ticks)?;
            state = ThreadState::Receiving;
            if let Some(thread) = self.thread_mut(running) {
                (thread.end_point, thread.takes_all) = (end_point, flags & all != 0);
                let is_usual = deadline_ticks == NEVER && thread.takes_all && thread.scheduler == NONE;
                let is_own = wakes_on == NONE || wakes_on == thread.tcap;
                let known = world.fixed_root(thread.tcap).filter(|_| is_usual && is_own);
                thread.waits_on = known.unwrap_or(NONE);
            }
        }
        may_wait(world, flags, deadline_ticks)?;
        self.wait(world, state, deadline_ticks);
        Ok(Reply::Waits)
    }

    fn events<W: World>(&mut self, world: &mut W, component: u16, [slot, flags, deadline, ..]: [u64; 8]) -> Answer {
        if flags & !Flag::NoWait.number() != 0 {
            return Err(Code::BadArgument);
        }
        let scheduler = self.object_of(component, slot, Kind::Scheduler, right::USE)?;
        let one = self.room.schedulers.get(usize::from(scheduler)).ok_or(Code::BadCapability)?;
        if one.thread != self.running {
            return Err(Code::Denied);
        }
        if self.deliver(scheduler) {
            return Ok(Reply::Waits);
        }
        let no_wait = flags & Flag::NoWait.number() != 0;
        if no_wait {
            return Err(Code::WouldBlock);
        }
        // Nobody who was let in (N2) may keep a scheduler out that has several threads.
        let mut own = self.room.threads.iter().filter(|thread| thread.scheduler == scheduler);
        if deadline == 0 && own.nth(1).is_some() {
            return Err(Code::BadArgument);
        }
        let deadline_ticks = if deadline == 0 { NEVER } else { deadline };
        may_wait(world, flags, deadline_ticks)?;
        self.wait(world, ThreadState::WaitingForEvents, deadline_ticks);
        Ok(Reply::Waits)
    }

    /// N1.
    fn switch<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Result<(), Code> {
        let [scheduler, thread, tcap, priority, timeout, token, ..] = x;
        let scheduler = self.object_of(component, scheduler, Kind::Scheduler, right::USE)?;
        let one = self.room.schedulers.get(usize::from(scheduler)).ok_or(Code::BadCapability)?;
        let (taker, id, latest) = (one.thread, one.id, one.token);
        // What is needed of the threads, and not the threads: a copy of one takes longer than all else here.
        let caller = self.thread(self.running).ok_or(Code::BadCapability)?;
        let (server, callers) = (caller.server, caller.scheduler);
        if taker != self.running && callers != scheduler {
            return Err(Code::Denied);
        }
        let thread = self.object_of(component, thread, Kind::Thread, right::USE)?;
        let tcap = if tcap == 0 { None } else { Some(self.object_of(component, tcap, Kind::TCap, right::USE)?) };
        if priority > TOKEN_MASK {
            return Err(Code::BadArgument);
        }
        // To give the core to the one who takes events is right whatever they are.
        if token != latest && taker != thread {
            return Err(Code::Stale);
        }
        let target = self.thread(thread).ok_or(Code::BadCapability)?;
        let is_here = target.server == server;
        let is_own = target.scheduler == scheduler || taker == thread;
        let waits = target.state == ThreadState::WaitingForEvents;
        let tcap = tcap.unwrap_or(if is_here { target.runs_on } else { target.tcap });
        let uses_its_time = || is_here && self.dispatcher(world, thread, server) == scheduler;
        if self.holder(server) == NONE || !is_own && !uses_its_time() || world.root(tcap) != Some(server) {
            return Err(Code::Denied);
        }
        let timeout = (scheduler, if timeout == 0 { NEVER } else { timeout });
        self.may_go_on(thread, server)?;
        // Without budget it may wait for it, or go on in the background.
        if !world.asks(tcap, world.now_ticks()) {
            return Err(Code::NoTime);
        }
        world.set_priority(tcap, id, priority)?;
        if waits {
            self.wake_with_event(world, thread);
        }
        self.place(world, server, Pair { thread, tcap }, timeout);
        Ok(())
    }

    /// States whether a thread can be made the next one of a server: it is awake, or a scheduler that has events, and nowhere else.
    fn may_go_on(&self, thread: u16, server: u16) -> Result<(), Code> {
        let target = self.thread(thread).ok_or(Code::BadCapability)?;
        let has_events = || self.room.schedulers.iter().any(|one| one.thread == thread && one.events.first().is_some());
        let waits = target.state == ThreadState::WaitingForEvents && !target.is_suspended;
        let can_go_on = target.is_awake() || waits && has_events();
        if !can_go_on {
            return Err(Code::Busy);
        }
        if target.server != server && target.server != NONE {
            if self.holder(target.server) == NONE {
                return Err(Code::Denied);
            }
            if self.next_of(target.server).is_some_and(|pair| pair.thread == thread) {
                return Err(Code::Busy);
            }
        }
        Ok(())
    }

    fn wake_with_event<W: World>(&mut self, world: &mut W, thread: u16) {
        let scheduler = (0..u16::MAX).zip(self.room.schedulers.iter()).find(|(_, one)| one.thread == thread);
        if let Some((scheduler, _)) = scheduler {
            self.end_waiting(world, thread);
            self.deliver(scheduler);
        }
    }

    fn yield_<W: World>(&mut self, world: &mut W) -> Result<(), Code> {
        let server = self.thread(self.running).map_or(NONE, |thread| thread.server);
        if self.holder(server) != NONE || self.next_of(server).is_none() {
            return Err(Code::Denied);
        }
        self.end_turn(world, server);
        Ok(())
    }

    fn interrupt<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Answer {
        let [operation, slot, client, ..] = x;
        let operation = InterruptOperation::from_number(operation).ok_or(Code::BadCall)?;
        let is_clients = matches!(operation, InterruptOperation::Expect | InterruptOperation::Cancel);
        let rights = if is_clients { right::EXPECT } else { right::USE };
        let binding = self.object_of(component, slot, Kind::Interrupt, rights)?;
        let own = self.thread(self.running).map_or(NONE, |thread| thread.server);
        nothing(match operation {
            InterruptOperation::Done => self.interrupt_done(world, binding, own),
            InterruptOperation::Expect => self.expect(binding, own, true),
            InterruptOperation::Cancel => self.expect(binding, own, false),
            InterruptOperation::Serve => self.serve(world, binding, client, false),
            InterruptOperation::Finish => self.serve(world, binding, client, true),
        })
    }

    fn thread_operation<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Answer {
        let operation = ThreadOperation::from_number(x[0]).ok_or(Code::BadCall)?;
        let rights = match operation {
            ThreadOperation::Create => return self.create_thread(component, x),
            ThreadOperation::Start | ThreadOperation::Suspend | ThreadOperation::Resume => right::USE,
            ThreadOperation::Stop | ThreadOperation::Abort => right::STOP,
            ThreadOperation::Bind => right::BIND,
            ThreadOperation::Limit | ThreadOperation::Unlimit => right::LIMIT,
            ThreadOperation::Read => right::READ,
        };
        let thread = self.object_of(component, x[1], Kind::Thread, rights)?;
        let one = self.thread(thread).ok_or(Code::BadCapability)?;
        match operation {
            ThreadOperation::Create => Err(Code::BadCall),
            ThreadOperation::Start => nothing(self.start(world, thread, x[2])),
            ThreadOperation::Suspend => nothing(self.suspend(world, thread)),
            ThreadOperation::Resume => nothing(self.resume(world, thread)),
            ThreadOperation::Stop => {
                if one.state != ThreadState::Stopped {
                    self.end_thread(world, thread, event::ENDED);
                }
                values([])
            }
            ThreadOperation::Abort => nothing(self.abort(world, thread)),
            ThreadOperation::Bind => nothing(self.bind(world, component, thread, x[2])),
            ThreadOperation::Limit => {
                let told = self.find_as(component, x[3], Kind::Send, right::USE)?;
                if x[2] == 0 {
                    return Err(Code::BadArgument);
                }
                if let Some(one) = self.thread_mut(thread) {
                    (one.limit_ticks, one.limit_bits) = (x[2], told.word);
                    (one.limit_end_point, one.limit_grant) = (told.object, told.grant);
                }
                values([])
            }
            ThreadOperation::Unlimit => {
                if let Some(one) = self.thread_mut(thread) {
                    (one.limit_ticks, one.limit_end_point) = (0, NONE);
                }
                values([])
            }
            ThreadOperation::Read => values([one.state as u64, u64::from(one.depth), one.limit_ticks]),
        }
    }

    fn suspend<W: World>(&mut self, world: &mut W, thread: u16) -> Result<(), Code> {
        let Some(one) = self.thread_mut(thread) else { return Err(Code::BadCapability) };
        if one.is_suspended || matches!(one.state, ThreadState::Free | ThreadState::Stopped) {
            return Err(Code::Busy);
        }
        one.is_suspended = true;
        self.leave(world, thread, event::BLOCKED);
        Ok(())
    }

    fn resume<W: World>(&mut self, world: &mut W, thread: u16) -> Result<(), Code> {
        let Some(one) = self.thread_mut(thread).filter(|one| one.is_suspended) else { return Err(Code::Busy) };
        one.is_suspended = false;
        let tcap = one.tcap;
        self.look_again(world, thread);
        self.activate(world, thread, tcap);
        Ok(())
    }

    /// Binds a thread to a server that its threads hold, or to a scheduler. A scheduler's own thread keeps its place in the tree.
    fn bind<W: World>(&mut self, world: &mut W, component: u16, thread: u16, slot: u64) -> Result<(), Code> {
        let (scheduler, tcap) = self.payer(component, slot)?;
        if self.thread(thread).is_none_or(|one| one.is_schedulers) {
            return Err(Code::Busy);
        }
        self.leave(world, thread, event::BLOCKED);
        if let Some(one) = self.thread_mut(thread) {
            (one.scheduler, one.tcap, one.runs_on, one.waits_on) = (scheduler, tcap, tcap, NONE);
        }
        self.move_date(world, thread);
        self.activate(world, thread, tcap);
        Ok(())
    }

    /// Scheduler and temporal capability of a thread that a server or a scheduler is to pay for.
    pub(crate) fn payer(&mut self, component: u16, slot: u64) -> Result<(u16, u16), Code> {
        let to = self.find(component, slot)?;
        match to.kind() {
            Some(Kind::Server) if to.has(right::BIND) => {
                let server = self.room.servers.get(usize::from(to.object)).ok_or(Code::BadCapability)?;
                Ok((server.holder, server.tcap))
            }
            Some(Kind::Scheduler) if to.has(right::USE) => {
                let one = self.room.schedulers.get(usize::from(to.object)).ok_or(Code::BadCapability)?;
                Ok((to.object, self.thread(one.thread).map_or(NONE, |one| one.tcap)))
            }
            Some(Kind::Server | Kind::Scheduler) => Err(Code::Denied),
            _ => Err(Code::BadCapability),
        }
    }

    fn capability(&mut self, component: u16, x: [u64; 8]) -> Answer {
        let [operation, x1, x2, x3, x4, x5, ..] = x;
        match CapabilityOperation::from_number(operation).ok_or(Code::BadCall)? {
            CapabilityOperation::Copy => nothing(self.copy(component, [x1, x2, x3, x4, x5], false)),
            CapabilityOperation::Move => nothing(self.copy(component, [x1, x2, x3, x4, x5], true)),
            CapabilityOperation::Delete => nothing(self.delete(component, x1, x2)),
            CapabilityOperation::Revoke => nothing(self.revoke(component, x1)),
            CapabilityOperation::Read => values(self.read_slot(component, x1, x2)?),
        }
    }

    fn component_operation<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Answer {
        let operation = ComponentOperation::from_number(x[0]).ok_or(Code::BadCall)?;
        let (rights, then) = match operation {
            ComponentOperation::Destroy => (right::STOP, Some(ComponentState::Free)),
            ComponentOperation::Reset => (right::USE, Some(ComponentState::Living)),
            ComponentOperation::Fault | ComponentOperation::Read => (right::READ, None),
            ComponentOperation::Spawn => return self.spawn(world, component, x),
            ComponentOperation::Fork => return self.fork(world, component, x),
            ComponentOperation::Exec => return self.exec(world, component, x),
            ComponentOperation::Exit => {
                self.exit(world, component, self.running, FaultKind::Exited, x[1]);
                return values([]);
            }
        };
        if then.is_some() && self.has_ended_meanwhile() {
            return values([]);
        }
        let number = self.object_of(component, x[1], Kind::Component, rights)?;
        if let Some(then) = then {
            return self.end_by_call(world, number, then);
        }
        let one = self.component(number).ok_or(Code::BadCapability)?;
        if operation == ComponentOperation::Read {
            let life = u64::from(one.counters.life);
            return values([one.state as u64, life, u64::from(one.free_stacks.count_ones())]);
        }
        if one.state == ComponentState::Free {
            return Err(Code::Gone);
        }
        let fault = one.fault;
        let first = [u64::from(fault.kind), u64::from(fault.thread), u64::from(fault.number)];
        let [kind, thread, faults] = first;
        values([kind, thread, faults, fault.syndrome, fault.address, fault.program_counter])
    }
}

impl Objects<'_> {
    /// States whether what the interrupted call of the thread that runs was ending has ended meanwhile, at the cost of somebody else: there is nothing to
    /// begin again, and after a destruction no capability that is not void.
    fn has_ended_meanwhile(&self) -> bool {
        let sliced = self.thread(self.running).map_or(Sliced::NONE, |caller| caller.sliced);
        let is_it = |one: &crate::Component| one.counters.life == sliced.life && one.state == ComponentState::Unwinding;
        sliced.component != NONE && !self.component(sliced.component).is_some_and(is_it)
    }

    /// Ends a component in slices.
    fn end_by_call<W: World>(&mut self, world: &mut W, component: u16, then: ComponentState) -> Answer {
        let running = self.running;
        let life = self.component(component).ok_or(Code::BadCapability)?.counters.life;
        let sliced = self.thread(running).map_or(Sliced::NONE, |caller| caller.sliced);
        let is_under_way = (sliced.component, sliced.life) == (component, life);
        if !is_under_way {
            self.end_component(component, then)?;
        }
        let life = self.component(component).map_or(0, |one| one.counters.life);
        let of = |one: &crate::Thread| (one.server, (one.component, one.life, one.depth));
        let Some((server, place)) = self.thread(running).map(of) else { return Err(Code::BadCapability) };
        if self.end_in_slices(world, component) {
            return values([]);
        }
        // Who was inside what it ends does not come back to its call, and nobody would pay for the rest.
        if self.thread(running).map(of).is_none_or(|(_, is)| is != place) {
            self.pay_for_end(world, server, component);
        }
        Ok(Reply::Again(Sliced { component, life, ..Sliced::NONE }))
    }
}

/// States whether there is something to wait for: the caller wants to, and its deadline has not passed.
fn may_wait<W: World>(world: &W, flags: u64, deadline_ticks: u64) -> Result<(), Code> {
    if flags & Flag::NoWait.number() != 0 {
        return Err(Code::WouldBlock);
    }
    if deadline_ticks <= world.now_ticks() { Err(Code::TimedOut) } else { Ok(()) }
}

fn print<W: World>(world: &mut W, component: u16, [length, registers @ ..]: [u64; 8]) -> Result<(), Code> {
    const { assert!(PRINT_BYTES == 7 * size_of::<u64>()) };
    let bytes = registers.map(u64::to_le_bytes);
    let length = usize::try_from(length).map_err(|_| Code::BadArgument)?;
    let text = bytes.as_flattened().get(..length).ok_or(Code::BadArgument)?;
    if world.print(component, text) { Ok(()) } else { Err(Code::Busy) }
}
