//! Bringing threads out of calls: faults, ends and resets of components, aborts (`kernel.md` 5 and 7; CH-10).
//!
//! Ending a component raises its life, and with that every level in it is dead at once: nobody continues there, since [`Objects::choose`]
//! looks for dead levels before it lets a thread run. A thread with a dead level is brought to the nearest level below the lowest dead
//! one, with `Gone`; without one it ends. This is done for one thread at a time, and between two the kernel looks for interrupts; how far it
//! is stands in the component, so the call that is made again continues.
//!
//! Everything above the lowest dead level goes, living callees included: a thread whose caller is gone has nothing to return to, and
//! its thread may be needed for the next life. A service must therefore expect that a client's thread does not come back.
//!
//! All registers that the callee could have left are cleared: the caller's stub has its own on its stack, which it finds by sp.
//!
//! Rejected: to let a thread finish in a living callee and to skip the dead level when it returns. It keeps a service whole, but a
//! callee that never returns would keep a destroyed component's thread, and what pays for it, for ever.

use crate::thread::event;
use crate::{Component, ComponentState, NEVER, Objects, OnFault, Phase, ThreadState, World};
use bulkhead_kernel_abi::accounts::{FaultKind, FaultRecord};
use bulkhead_kernel_abi::{Code, MAX_FRAMES, MAX_THREADS, NONE};

impl Objects<'_> {
    /// The lowest dead level of a thread.
    fn dead_level(&self, thread: u16) -> Option<usize> {
        let one = self.thread(thread)?;
        if matches!(one.state, ThreadState::Free | ThreadState::Stopped) {
            return None;
        }
        let is_dead = |component: u16, life: u32| {
            self.component(component).is_none_or(|component| component.counters.life != life)
        };
        // Numbered by a range: `position` would end in a panic for more levels than there can be.
        let mut levels = (0..usize::MAX).zip(one.levels());
        levels.find(|(_, (component, life, _))| is_dead(*component, *life)).map(|(level, _)| level)
    }

    /// Brings a thread out of dead levels; false when it has none.
    pub(crate) fn unwind<W: World>(&mut self, world: &mut W, thread: u16) -> bool {
        let Some(lowest) = self.dead_level(thread) else { return false };
        let Some(below) = lowest.checked_sub(1) else {
            self.end_thread(world, thread, event::ENDED);
            return true;
        };
        for _ in 0..MAX_FRAMES {
            if self.thread(thread).is_none_or(|one| usize::from(one.depth) <= below) {
                break;
            }
            self.pop(thread);
        }
        self.land(world, thread, Code::Gone);
        true
    }

    /// Lets a thread find a code instead of an answer, and wakes it if it waited inside.
    fn land<W: World>(&mut self, world: &mut W, thread: u16, code: Code) {
        let Some(one) = self.thread_mut(thread) else { return };
        one.registers.clear(code);
        let (waited, tcap) = (one.state != ThreadState::Ready, one.tcap);
        self.abandon(world, thread);
        if waited {
            self.end_waiting(world, thread);
            self.activate(world, thread, tcap);
        }
    }

    /// Ends a thread, wherever it is.
    pub(crate) fn end_thread<W: World>(&mut self, world: &mut W, thread: u16, what: u8) {
        for _ in 0..MAX_FRAMES {
            if !self.pop(thread) {
                break;
            }
        }
        self.end_waiting(world, thread);
        self.abandon(world, thread);
        let Some(one) = self.thread_mut(thread) else { return };
        (one.state, one.is_suspended, one.deadline_ticks) = (ThreadState::Stopped, false, NEVER);
        (one.component, one.stack, one.life) = (NONE, NONE, 0);
        (one.limit_end_point, one.limit_ticks) = (NONE, 0);
        one.registers = crate::Registers::default();
        self.silence(world, thread);
        self.leave(world, thread, what);
    }

    /// Ends the innermost call of a thread.
    pub(crate) fn abort<W: World>(&mut self, world: &mut W, thread: u16) -> Result<(), Code> {
        let one = self.thread(thread).ok_or(Code::BadCapability)?;
        let (component, program_counter) = (one.component, one.registers.pc);
        if one.depth == 0 {
            return Err(Code::Busy);
        }
        if !self.component(component).is_some_and(|callee| callee.is_abortable) {
            return Err(Code::Denied);
        }
        let record = FaultRecord { kind: FaultKind::Aborted.number(), program_counter, ..Default::default() };
        self.record_fault(world, component, thread, record);
        self.pop(thread);
        self.land(world, thread, Code::TimedOut);
        Ok(())
    }

    /// Keeps a fault for the supervisor, and tells it.
    pub(crate) fn record_fault<W: World>(&mut self, world: &mut W, component: u16, thread: u16, record: FaultRecord) {
        let Some(one) = self.component_mut(component) else { return };
        one.fault = FaultRecord { thread, number: one.fault.number.wrapping_add(1), ..record };
        let (supervisor, bits) = (one.supervisor, one.supervisor_bits);
        self.send(world, supervisor, bits);
    }

    /// The thread that runs took an exception that is no call. `record` says which; thread and number are set here.
    pub fn fault<W: World>(&mut self, world: &mut W, record: FaultRecord) {
        let running = self.running;
        let Some(component) = self.thread(running).map(|one| one.component) else { return };
        self.record_fault(world, component, running, record);
        let then = match self.component(component).map(|component| component.on_fault) {
            Some(OnFault::Reset) => Some(ComponentState::Living),
            Some(OnFault::Stop) => Some(ComponentState::Stopped),
            _ => None,
        };
        if let Some(then) = then {
            // While the thread still has its server.
            self.end_without_call(world, component, then, running);
        }
        if self.pop(running) {
            self.land(world, running, Code::Faulted);
        } else {
            self.end_thread(world, running, event::FAULTED | event::ENDED);
        }
    }

    /// Begins the end of a component at the cost of the thread that caused it: the slices are made when its server is picked, however many others are
    /// ready.
    pub(crate) fn end_without_call<W: World>(
        &mut self,
        world: &mut W,
        component: u16,
        then: ComponentState,
        thread: u16,
    ) {
        // One that is not there has nothing to end.
        if self.end_component(component, then).is_ok() {
            self.pays_for_end(world, thread, component);
        }
    }

    /// Begins the end of a component: its life is over, its threads are brought out by the call that asked, or by who pays for it
    /// ([`Self::pays_for_end`]) when none asked or the one that did is ended itself meanwhile.
    pub(crate) fn end_component(&mut self, component: u16, then: ComponentState) -> Result<(), Code> {
        let one = self.component_mut(component).ok_or(Code::BadCapability)?;
        match one.state {
            ComponentState::Free => return Err(Code::Gone),
            ComponentState::Unwinding => {
                // The stronger of two ends stays: free, stopped, again. What was done for the weaker one is looked at again.
                if then == ComponentState::Living || one.then == ComponentState::Free || one.then == then {
                    return Ok(());
                }
                (one.then, one.progress) = (then, 0);
            }
            ComponentState::Living | ComponentState::Stopped | ComponentState::Building => {
                // What was never whole has nothing to begin again with.
                let is_whole = one.state != ComponentState::Building;
                let can_live = one.counters.end_life() && is_whole;
                (one.state, one.progress) = (ComponentState::Unwinding, 0);
                one.then = if !can_live && then == ComponentState::Living { ComponentState::Stopped } else { then };
            }
        }
        one.refresh();
        self.ends = self.ends.wrapping_add(1);
        self.ending |= 1u64.wrapping_shl(u32::from(component));
        self.end_making(component, then);
        Ok(())
    }

    /// Nothing more is made of it or from its quota.
    fn end_making(&mut self, component: u16, then: ComponentState) {
        let Some(process) = self.process_mut(component) else { return };
        let quota = process.quota;
        process.phase = Phase::Idle;
        if then == ComponentState::Free
            && let Some(quota) = self.quota_mut(quota)
        {
            quota.counters.revoke();
        }
    }

    /// One slice of a component's end; before a component is destroyed, those that were made from its quota are. Returns whether there is more.
    pub(crate) fn slice<W: World>(&mut self, world: &mut W, component: u16) -> bool {
        let Some(one) = self.component(component) else { return false };
        let is_destroyed = (one.state, one.then) == (ComponentState::Unwinding, ComponentState::Free);
        let first = if is_destroyed { self.deepest(component) } else { component };
        if first == component {
            return self.slice_of(world, component);
        }
        let is_begun = |one: &Component| (one.state, one.then) == (ComponentState::Unwinding, ComponentState::Free);
        if self.component(first).is_some_and(is_begun) {
            self.slice_of(world, first);
        } else {
            let _ = self.end_component(first, ComponentState::Free);
        }
        true
    }

    /// One slice of the end of this component alone: one thread, or one page.
    fn slice_of<W: World>(&mut self, world: &mut W, component: u16) -> bool {
        let Some(one) = self.component(component).filter(|one| one.state == ComponentState::Unwinding) else {
            return false;
        };
        let (mut progress, mut then) = (one.progress, one.then);
        let is_free = |number: u32| {
            let threads = &self.room.threads;
            number < MAX_THREADS as u32
                && threads.get(number as usize).is_some_and(|one| one.state == ThreadState::Free)
        };
        while is_free(progress) {
            progress = progress.wrapping_add(1);
        }
        let is_restored = match progress.checked_sub(MAX_THREADS as u32) {
            None => {
                self.unwind(world, progress as u16);
                if then == ComponentState::Free {
                    self.give_thread_back(progress as u16, component);
                }
                false
            }
            Some(page) => match then {
                ComponentState::Living if self.is_process(component) => {
                    let renewed = self.renew(world, component, page == 0);
                    if renewed.is_err() {
                        then = ComponentState::Stopped;
                    }
                    renewed != Ok(false)
                }
                ComponentState::Living => !world.restore(component, page),
                ComponentState::Free => self.dismantle(world, component),
                _ => true,
            },
        };
        if let Some(one) = self.component_mut(component) {
            one.progress = progress.saturating_add(1);
        }
        if is_restored {
            self.finish(world, component, then);
        }
        !is_restored
    }

    /// Nobody is inside, and its data are as they were.
    fn finish<W: World>(&mut self, world: &mut W, component: u16, then: ComponentState) {
        self.ending &= !1u64.wrapping_shl(u32::from(component));
        self.end_is_over(world, component);
        let Some(one) = self.component_mut(component) else { return };
        one.free_all_stacks();
        (one.state, one.progress) = (then, 0);
        if then == ComponentState::Free {
            // Not before: the call that is made again needs its capability.
            one.counters.revoke();
        }
        one.refresh();
        let first = one.first_thread;
        if then == ComponentState::Living
            && let Some([.., argument]) = self.thread(first).map(|thread| thread.start)
        {
            // A component without threads has only callers.
            let _ = self.start(world, first, argument);
        }
    }

    /// Does one slice of work that nobody else needs the core for: what is left of components that end. Returns whether there was one: with the last slice of a
    /// component that begins again its thread may run, so somebody has to be chosen.
    pub fn work<W: World>(&mut self, world: &mut W) -> bool {
        let component = self.ending.trailing_zeros() as u16;
        if component >= 64 {
            return false;
        }
        self.slice(world, component);
        true
    }

    /// Slices of a component's end until it is done or an interrupt waits. Returns whether it is done. At least one slice is done, so
    /// that a storm of interrupts does not stop it.
    pub(crate) fn end_in_slices<W: World>(&mut self, world: &mut W, component: u16) -> bool {
        while self.slice(world, component) {
            if world.is_interrupted() {
                return false;
            }
        }
        true
    }

    /// Starts a thread that does not run.
    pub(crate) fn start<W: World>(&mut self, world: &mut W, thread: u16, argument: u64) -> Result<(), Code> {
        // What is needed of it, and not the thread, of which a copy takes longer than all this.
        let one = self.thread(thread).ok_or(Code::BadCapability)?;
        let tcap = one.tcap;
        if one.state != ThreadState::Stopped {
            return Err(Code::Busy);
        }
        let home = self.component(one.home).filter(|home| home.state == ComponentState::Living).ok_or(Code::Gone)?;
        let (life, ends) = (home.counters.life, self.ends);
        if let Some(one) = self.thread_mut(thread) {
            one.begin(life, argument);
            // Its only level is alive.
            one.seen_ends = ends;
        }
        self.activate(world, thread, tcap);
        Ok(())
    }
}
