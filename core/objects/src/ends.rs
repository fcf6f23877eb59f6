//! What replaces and ends processes: exec, exit, destroy, reset, and calls that nobody comes back to (`kernel.md` 7; QV-E6, CH-62).

use crate::calls::{Answer, Reply};
use crate::quota::NO_PAGE;
use crate::{ComponentState, Objects, Phase, Process, Sliced, World};
use bulkhead_kernel_abi::accounts::{FaultKind, FaultRecord};
use bulkhead_kernel_abi::image::COMPONENT_STACKS;
use bulkhead_kernel_abi::{Capability, Code, MAX_COMPONENTS, MAX_SERVERS, NONE, PROCESS_SLOTS};

impl Objects<'_> {
    /// `exec`: what can be refused is refused here; the rest is done when the thread is chosen.
    pub(crate) fn exec<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Answer {
        self.single(component)?;
        let one = *self.process(component).ok_or(Code::Denied)?;
        let (number, program) = self.program_of(one.quota, x[1])?;
        let left = self.room.quotas.get(usize::from(one.quota)).map_or(0, |quota| quota.pages);
        // The root stays, other tables and pages that are nobody else's come back first.
        if program.pages > left.saturating_add(one.tables.into()).saturating_add(one.private_pages) {
            return Err(Code::Full);
        }
        world.forget_all(component);
        if let Some(one) = self.process_mut(component) {
            (one.program, one.phase, one.cursor) = (number, Phase::Space, 0);
        }
        let running = self.running;
        if let Some(thread) = self.thread_mut(running) {
            thread.start = [program.entry, COMPONENT_STACKS, x[2]];
            thread.is_in_exec = true;
        }
        Ok(Reply::Waits)
    }

    /// One slice of an `exec` of a thread that was chosen: before the next one it is chosen again, so that dates are looked at.
    pub(crate) fn continue_exec<W: World>(&mut self, world: &mut W, thread: u16) {
        let Some(one) = self.thread(thread) else { return };
        let (component, [.., argument]) = (one.component, one.start);
        match self.exec_slice(world, component) {
            Ok(false) => {}
            Ok(true) => {
                let life = self.component(component).map_or(0, |one| one.counters.life);
                if let Some(one) = self.thread_mut(thread) {
                    one.begin(life, argument);
                }
            }
            // Somebody else took pages from its quota meanwhile: there is no program any more.
            Err(_) => self.exit(world, component, thread, FaultKind::Memory, 0),
        }
    }

    fn exec_slice<W: World>(&mut self, world: &mut W, component: u16) -> Result<bool, Code> {
        let Process { phase, cursor, program, .. } = *self.process(component).ok_or(Code::Gone)?;
        match phase {
            Phase::Space => {
                let next = self.take_apart(world, component, cursor);
                self.advance(component, next, Phase::Program);
            }
            Phase::Program => {
                let (_, row) = self.program(u64::from(program))?;
                let next = self.put_part(world, component, &row, cursor)?;
                self.advance(component, next.then_some(cursor.saturating_add(1)), Phase::Idle);
            }
            _ => return Ok(true),
        }
        Ok(false)
    }

    /// Ends a component from inside: it stops, and its maker is told.
    pub(crate) fn exit<W: World>(&mut self, world: &mut W, component: u16, thread: u16, kind: FaultKind, code: u64) {
        let record = FaultRecord { kind: kind.number(), syndrome: code, ..FaultRecord::default() };
        self.record_fault(world, component, thread, record);
        if let Some(one) = self.thread_mut(thread) {
            one.is_in_exec = false;
        }
        self.end_without_call(world, component, ComponentState::Stopped, thread);
    }

    /// The server of a thread pays for the end of a component, which begins or stays without anybody who waits for it.
    pub(crate) fn pays_for_end<W: World>(&mut self, world: &mut W, thread: u16, component: u16) {
        let Some(one) = self.thread(thread) else { return };
        let server = if one.server == NONE { world.root(one.tcap).unwrap_or(NONE) } else { one.server };
        self.pay_for_end(world, server, component);
    }

    /// This server pays for it.
    pub(crate) fn pay_for_end<W: World>(&mut self, world: &mut W, server: u16, component: u16) {
        if let Some(position) = self.room.servers.get_mut(usize::from(server)) {
            position.work |= 1u64.wrapping_shl(u32::from(component));
            self.tell_time(world, server);
        }
    }

    /// A component has ended.
    pub(crate) fn end_is_over<W: World>(&mut self, world: &mut W, component: u16) {
        let bit = 1u64.wrapping_shl(u32::from(component));
        for server in 0..MAX_SERVERS as u16 {
            let Some(position) = self.room.servers.get_mut(usize::from(server)) else { break };
            if position.work & bit != 0 {
                position.work &= !bit;
                self.tell_time(world, server);
            }
        }
    }

    /// A thread does not come back to its interrupted call: what that was making is destroyed, what it was ending ends at its cost.
    pub(crate) fn abandon<W: World>(&mut self, world: &mut W, thread: u16) {
        let Some(one) = self.thread_mut(thread) else { return };
        one.is_in_exec = false;
        let sliced = core::mem::replace(&mut one.sliced, Sliced::NONE);
        match self.component(sliced.component).filter(|one| one.counters.life == sliced.life).map(|one| one.state) {
            Some(ComponentState::Building) => {
                self.end_without_call(world, sliced.component, ComponentState::Free, thread);
            }
            Some(ComponentState::Unwinding) => self.pays_for_end(world, thread, sliced.component),
            _ => {}
        }
    }

    /// The component whose end comes first: made from the quota of this one, or of one that was, and so on.
    pub(crate) fn deepest(&self, component: u16) -> u16 {
        let mut one = component;
        for _ in 0..MAX_COMPONENTS {
            let children = self.process(one).map_or(0, |process| process.children);
            if children == 0 {
                break;
            }
            one = children.trailing_zeros() as u16;
        }
        one
    }

    /// One slice of taking a process apart, in which no thread is any more. Returns whether it is done.
    pub(crate) fn dismantle<W: World>(&mut self, world: &mut W, component: u16) -> bool {
        let Some(one) = self.process(component).copied().filter(|one| one.is_made) else { return true };
        let (next, after) = match one.phase {
            Phase::Space => (self.take_apart(world, component, one.cursor), Phase::Regions),
            Phase::Regions => (self.end_regions(world, one.quota, one.cursor), Phase::Pages),
            Phase::Pages => (self.pass_pages_up(one.quota, one.cursor), Phase::Idle),
            _ => {
                // Nothing is given back before the core has forgotten where it was.
                world.forget_all(component);
                (None, Phase::Space)
            }
        };
        self.advance(component, next, after);
        if one.phase != Phase::Pages || next.is_some() {
            return false;
        }
        self.clear_process(component);
        true
    }

    /// What is left of a process: its root, its quota, its table.
    fn clear_process(&mut self, component: u16) {
        let Some(one) = self.process_mut(component) else { return };
        let Process { parent, quota, .. } = core::mem::replace(one, Process::EMPTY);
        let root = self.root_of(component).unwrap_or(NO_PAGE);
        self.drop_page(root);
        self.end_quota(quota);
        if let Some(above) = self.process_mut(parent) {
            above.children &= !1u64.wrapping_shl(u32::from(component));
        }
        for slot in 0..PROCESS_SLOTS as u64 {
            if let Some(place) = self.slot_mut(component, slot) {
                *place = Capability::NULL;
            }
        }
    }

    /// One slice of giving a process what its program begins with, and nothing else: what a life before it mapped, unmapped or protected would be what the next
    /// one finds. Returns whether it is done.
    ///
    /// # Errors
    /// `Full` when its quota has been used for something else: there is nothing to begin with.
    pub(crate) fn renew<W: World>(&mut self, world: &mut W, component: u16, is_first: bool) -> Result<bool, Code> {
        if !is_first {
            return self.exec_slice(world, component);
        }
        world.forget_all(component);
        self.advance(component, None, Phase::Space);
        Ok(false)
    }
}
