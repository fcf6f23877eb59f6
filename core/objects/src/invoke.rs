//! Calls by thread migration: `invoke` and `return` (`kernel.md` 5; CH-6, CH-8).
//!
//! The same thread, on the same server and temporal capability, continues in the callee: there is no scheduling decision, no timer and no
//! memory of EL0. The kernel checks that the callee lives, takes one of its free stacks, pushes a frame, and sets pc, sp and the token.
//! What can be refused is checked before anything is changed.
//!
//! A send by `invoke` answers as a callee that returned zeros, so a caller cannot tell which it was.

use crate::calls::INSTRUCTION_BYTES;
use crate::{ComponentState, Frame, Level, Objects, Registers, World};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Code, Kind, MAX_FRAMES, NONE};

impl Objects<'_> {
    /// `invoke` of the thread that runs.
    pub(crate) fn invoke<W: World>(&mut self, world: &mut W) {
        let running = self.running;
        let Some((component, slot)) = self.thread(running).map(|one| (one.component, one.registers.x[8])) else {
            return;
        };
        let done = self.find(component, slot).and_then(|found| self.use_capability(world, running, found));
        // A call has x8 for its token; a refusal has changed nothing else. The fast path has used what arrives as zero before it came here, so it is
        // cleared in each case.
        match (done, self.thread_mut(running)) {
            (Err(code), Some(thread)) => thread.registers.clear_scratch(code),
            (Ok(Some(code)), Some(thread)) => {
                thread.registers.x[..8].fill(0);
                thread.registers.clear_scratch(code);
            }
            _ => {}
        }
    }

    /// Uses it; returns a code when the thread stays where it is.
    fn use_capability<W: World>(
        &mut self,
        world: &mut W,
        thread: u16,
        found: Capability,
    ) -> Result<Option<Code>, Code> {
        let kind = found.kind().ok_or(Code::BadCapability)?;
        if !matches!(kind, Kind::Call | Kind::Send | Kind::RemoteSend) {
            return Err(Code::BadCapability);
        }
        if !found.has(right::USE) {
            return Err(Code::Denied);
        }
        match kind {
            Kind::Call => self.enter(world, thread, found).map(|()| None),
            Kind::Send => {
                self.send(world, found.object, found.word);
                Ok(Some(Code::Ok))
            }
            _ => world.remote_send(found.object, found.entry(), found.token()).map(|()| Some(Code::Ok)),
        }
    }

    /// Goes into the callee.
    fn enter<W: World>(&mut self, world: &mut W, thread: u16, call: Capability) -> Result<(), Code> {
        let now = world.now_ticks();
        let one = self.thread(thread).ok_or(Code::BadCapability)?;
        let (depth, runs_on) = (one.depth, one.runs_on);
        let callee = *self.component(call.object).ok_or(Code::BadCapability)?;
        if callee.state != ComponentState::Living {
            return Err(Code::Gone);
        }
        if usize::from(depth) >= MAX_FRAMES {
            return Err(Code::TooDeep);
        }
        if callee.needs_ticks != 0 {
            if world.usable_ticks(runs_on, now) < callee.needs_ticks {
                return Err(Code::NoTime);
            }
            if self.ends_turn_before_service(world, thread) {
                return Ok(());
            }
        }
        if call.entry() >= callee.entries {
            return Err(Code::BadCapability);
        }
        let entry = (callee.first_entry as usize).wrapping_add(usize::from(call.entry()));
        let pc = self.room.entries.get(entry).ok_or(Code::BadCapability)?.address;
        let stack = self.component_mut(call.object).and_then(crate::Component::take_stack).ok_or(Code::NoStack)?;
        let place = (callee.first_stack as usize).wrapping_add(usize::from(stack));
        let sp = self.room.stacks.get(place).map_or(0, |stack| stack.top);
        let Some(one) = self.thread_mut(thread) else { return Ok(()) };
        let (component, life) = (one.component, one.life);
        let Registers { pc: back, sp: own, tpidr, .. } = one.registers;
        let depth = usize::from(one.depth);
        if let (Some(frame), Some(level)) = (one.frames.get_mut(depth), one.below.get_mut(depth)) {
            *frame = Frame { pc: back, sp: own };
            *level = Level { tpidr, component, stack: one.stack, life };
        }
        one.depth = one.depth.wrapping_add(1);
        (one.component, one.stack, one.life) = (call.object, stack, callee.counters.life);
        (one.registers.pc, one.registers.sp, one.registers.tpidr) = (pc, sp, 0);
        one.registers.clear_scratch(Code::Ok);
        one.registers.x[8] = call.token();
        Ok(())
    }

    /// A turn that is over is not ended inside a service, and who calls one again and again would be inside whenever somebody looks. So it ends before the
    /// next call, which is made when the next turn comes.
    fn ends_turn_before_service<W: World>(&mut self, world: &mut W, thread: u16) -> bool {
        if !self.is_turn_over() || self.is_in_service(thread) {
            return false;
        }
        let server = self.thread(thread).map_or(NONE, |one| one.server);
        self.end_turn(world, server);
        if let Some(one) = self.thread_mut(thread) {
            one.registers.pc = one.registers.pc.wrapping_sub(INSTRUCTION_BYTES);
            one.registers.empty_scratch();
        }
        true
    }

    /// `return` of the thread that runs: to the level below; from the home component it ends the thread.
    pub(crate) fn return_<W: World>(&mut self, world: &mut W) {
        let running = self.running;
        // The thread that runs was chosen, so no level is dead; a caller that ends itself by its callee is unwound before it runs again.
        if self.pop(running) {
            if let Some(thread) = self.thread_mut(running) {
                thread.registers.clear_scratch(Code::Ok);
            }
        } else {
            self.end_thread(world, running, crate::thread::event::ENDED);
        }
    }

    /// Leaves the innermost level; false in the home component. The stack is free again, unless the component has another life.
    pub(crate) fn pop(&mut self, thread: u16) -> bool {
        let Some(one) = self.thread(thread) else { return false };
        let Some(depth) = one.depth.checked_sub(1) else { return false };
        let (component, stack, life) = (one.component, one.stack, one.life);
        if let Some(component) = self.component_mut(component).filter(|component| component.counters.life == life) {
            component.give_stack(stack);
        }
        let Some(one) = self.thread_mut(thread) else { return false };
        let Some(Frame { pc, sp }) = one.frames.get(usize::from(depth)).copied() else { return false };
        let Some(Level { tpidr, component, stack, life }) = one.below.get(usize::from(depth)).copied() else {
            return false;
        };
        one.depth = depth;
        (one.component, one.stack, one.life) = (component, stack, life);
        (one.registers.pc, one.registers.sp, one.registers.tpidr) = (pc, sp, tpidr);
        true
    }
}

impl Registers {
    /// The code in x8; x9 to x18 and the flags as zero.
    pub(crate) fn clear_scratch(&mut self, code: Code) {
        self.x[8] = code.number();
        self.empty_scratch();
        self.pstate = 0;
    }

    /// What arrives as zero on either side, by stores of pairs: a function that fills memory takes longer, and so does a pattern of ten references.
    fn empty_scratch(&mut self) {
        (self.x[9], self.x[10], self.x[11], self.x[12], self.x[13]) = (0, 0, 0, 0, 0);
        (self.x[14], self.x[15], self.x[16], self.x[17], self.x[18]) = (0, 0, 0, 0, 0);
    }

    /// What a thread finds that was brought out of a call: a code, and nothing of what the callee left.
    pub(crate) fn clear(&mut self, code: Code) {
        self.x = [0; 31];
        self.x[8] = code.number();
        self.pstate = 0;
    }
}
