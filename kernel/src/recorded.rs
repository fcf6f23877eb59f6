//! What a kernel that records tells of itself (`kernel.md` 10; QV-41): who runs and on what, who becomes awake or waits, budgets that end and come back, servers that are passed over,
//! calls between components, sends, faults, top halves.
//!
//! A kernel that does not record has a machine whose `seen` is a constant `None`, so nothing of this is in its text; there is no flag that it would have to look at. The rejected alternative, one
//! kernel with a flag in its boot tables, costs each way through it a load and a branch, and the fast path of calls would have to be counted again. A kernel that records has no fast path:
//! its times are longer, and its order of events is that of the rules.

use crate::Kernel;
use bulkhead_abi::observe::{TRACE_BLOCK, TRACE_BUDGET, TRACE_SWITCH, TRACE_WAKE};
use bulkhead_arch::kernel::{KernelMachine, Seen};
use bulkhead_arm::Intid;
use bulkhead_kernel_abi::accounts::FaultRecord;
use bulkhead_kernel_abi::call::Call;
use bulkhead_kernel_abi::trace::{
    TRACE_COMPONENT_CALL, TRACE_COMPONENT_FAULT, TRACE_COMPONENT_RETURN, TRACE_SEND, TRACE_TOP_HALF, TRACE_VETO,
};
use bulkhead_kernel_abi::{Code, Kind};
use bulkhead_sched::Members;
use bulkhead_sched::kernel::{Next as Chosen, Stint};

/// No budget is known, and no date.
const ENDLESS: u64 = u64::MAX;
/// In the place of who runs: nobody.
const NOBODY: u32 = u32::MAX;

/// Where a thread is before its call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    thread: u16,
    component: u16,
    depth: u8,
    /// End point and bits of a Send that `invoke` would use.
    send: Option<(u16, u64)>,
}

impl<M: KernelMachine> Kernel<'_, M> {
    /// Where the thread that runs is, if that is recorded.
    #[inline(always)] // Nothing at all in a kernel that does not record; so are the next ones.
    pub(crate) fn before_call(&mut self, number: u16) -> Option<Before> {
        self.outside.machine.seen()?;
        self.place(number)
    }

    /// The call is done: it may have gone into a component, or out of one, or have sent something.
    #[inline(always)]
    pub(crate) fn after_call(&mut self, before: Option<Before>) {
        if let Some(before) = before {
            self.tell_call(before);
        }
    }

    /// Who is awake, who has budget, who is passed over: what has changed.
    #[inline(always)]
    pub(crate) fn record_changes(&mut self) {
        if self.outside.machine.seen().is_some() {
            self.tell_changes();
        }
    }

    /// Who runs from now on.
    #[inline(always)]
    pub(crate) fn record_switch(&mut self, thread: u16, chosen: Chosen) {
        if self.outside.machine.seen().is_some() {
            self.tell_switch(Some(thread), chosen);
        }
    }

    /// Nobody runs.
    #[inline(always)]
    pub(crate) fn record_idle(&mut self, chosen: Chosen) {
        if self.outside.machine.seen().is_some() {
            self.tell_switch(None, chosen);
        }
    }

    /// A thread is stopped where it was.
    #[inline(always)]
    pub(crate) fn record_fault(&mut self, component: u16, record: &FaultRecord) {
        if self.outside.machine.seen().is_some() {
            let thread = u64::from(self.objects.running().unwrap_or(u16::MAX));
            let first = thread | u64::from(component).wrapping_shl(16);
            self.outside.machine.record(TRACE_COMPONENT_FAULT, record.kind, first, record.program_counter);
        }
    }

    /// An interrupt is signalled to its driver.
    #[inline(always)]
    pub(crate) fn record_top_half(&mut self, intid: Intid, server: u16) {
        self.outside.machine.record(TRACE_TOP_HALF, intid.0, server.into(), 0);
    }

    fn place(&self, number: u16) -> Option<Before> {
        let (thread, room) = (self.objects.running()?, self.objects.room());
        let one = room.threads.get(usize::from(thread))?;
        let component = room.components.get(usize::from(one.component))?;
        let slot = one.registers.x[8];
        let place = usize::try_from(slot).ok().filter(|_| slot < u64::from(component.slots));
        let place = place.and_then(|slot| (component.first_slot as usize).checked_add(slot));
        let found = place.and_then(|place| room.slots.get(place)).filter(|_| number == Call::Invoke.number());
        let send = found.filter(|one| one.kind() == Some(Kind::Send)).map(|one| (one.object, one.word));
        Some(Before { thread, component: one.component, depth: one.depth, send })
    }

    #[inline(never)]
    fn tell_call(&mut self, before: Before) {
        let Some(one) = self.objects.room().threads.get(usize::from(before.thread)) else { return };
        let (thread, from, to) = (u32::from(before.thread), u64::from(before.component), u64::from(one.component));
        let is_done = one.registers.x[8] == Code::Ok.number();
        let depth = one.depth;
        match before.send {
            Some((end_point, bits)) if is_done => {
                self.outside.machine.record(TRACE_SEND, thread, end_point.into(), bits);
            }
            _ if depth > before.depth => self.outside.machine.record(TRACE_COMPONENT_CALL, thread, from, to),
            _ if depth < before.depth => self.outside.machine.record(TRACE_COMPONENT_RETURN, thread, from, to),
            _ => {}
        }
    }

    #[inline(never)]
    fn tell_changes(&mut self) {
        let awake = (0..u8::MAX).zip(self.objects.room().threads.iter()).fold(0, |set, (number, thread)| {
            if thread.is_awake() { set | 1u64.wrapping_shl(number.into()) } else { set }
        });
        let core = &self.outside.servers.room.core;
        let (waiting, vetoed, exhausted) = (core.waiting(), core.vetoed(), core.exhausted());
        let machine = &mut self.outside.machine;
        let Some(seen) = machine.seen() else { return };
        let before = core::mem::replace(seen, Seen { awake, waiting, vetoed, ..*seen });
        for server in Members(exhausted) {
            machine.record(TRACE_BUDGET, server.into(), 1, 0);
        }
        for server in Members(before.waiting & !waiting) {
            machine.record(TRACE_BUDGET, server.into(), 2, ENDLESS);
        }
        for thread in Members(before.awake & !awake) {
            machine.record(TRACE_BLOCK, thread.into(), 0, 0);
        }
        for thread in Members(awake & !before.awake) {
            machine.record(TRACE_WAKE, 0, thread.into(), 0);
        }
        for server in Members(vetoed & !before.vetoed) {
            machine.record(TRACE_VETO, server.into(), 0, 0);
        }
    }

    #[inline(never)]
    fn tell_switch(&mut self, thread: Option<u16>, chosen: Chosen) {
        let stint = chosen.stint;
        let is_idle = thread.is_none() || stint == Stint::IDLE;
        let background = u32::from(stint.is_background()).wrapping_shl(16);
        let small = match thread {
            Some(thread) if !is_idle => u32::from(thread) | u32::from(stint.server()).wrapping_shl(8) | background,
            _ => NOBODY,
        };
        let Some(seen) = self.outside.machine.seen() else { return };
        let running = u64::from(small).wrapping_add(1);
        if core::mem::replace(&mut seen.running, running) != running {
            self.outside.machine.record(TRACE_SWITCH, small, ENDLESS, chosen.deadline_ticks);
        }
    }
}
