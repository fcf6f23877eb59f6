//! Building a process, in slices of one page or a few slots (`kernel.md` 7; QV-E6).

use crate::calls::{Answer, values};
use crate::copy::Passage;
use crate::process::Part;
use crate::space::page_word;
use crate::{ComponentState, Objects, Phase, Process, World};
use bulkhead_kernel_abi::boot::ProgramRow;
use bulkhead_kernel_abi::call::ComponentOperation;
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Code, Kind, NONE, PROCESS_QUOTA_SLOT, PROCESS_SLOTS};

/// Slots that one slice fills.
const SLOTS_AT_ONCE: u32 = 8;
/// Number of the operation.
const FORK: u64 = ComponentOperation::Fork.number();

/// What a slice comes to, if nothing is refused.
enum Built {
    /// A part of a process.
    Part,
    /// The same, and an interrupt waits.
    Interrupted,
    /// All of it: it lives.
    Process,
}

impl Objects<'_> {
    /// Builds until it is done or an interrupt waits; what cannot be finished is destroyed.
    pub(crate) fn build<W: World>(
        &mut self,
        world: &mut W,
        component: u16,
        child: u16,
        x: [u64; 8],
        to: u64,
    ) -> Answer {
        loop {
            match self.build_slice(world, component, child, x, to) {
                Ok(Built::Process) => break,
                Ok(Built::Part) if !world.is_interrupted() => {}
                Ok(_) => return Ok(self.continues_to_build(child)),
                Err(code) => {
                    self.end_without_call(world, child, ComponentState::Free, self.running);
                    return Err(code);
                }
            }
        }
        let bits = 1u64.wrapping_shl(u32::from(child));
        let is_fork = x.first().is_some_and(|operation| *operation == FORK);
        if is_fork { values([1, bits]) } else { values([bits]) }
    }

    /// One slice, or pages up to an interrupt.
    fn build_slice<W: World>(
        &mut self,
        world: &mut W,
        component: u16,
        child: u16,
        x: [u64; 8],
        to: u64,
    ) -> Result<Built, Code> {
        let Process { phase, cursor, program, .. } = *self.process(child).ok_or(Code::Gone)?;
        match phase {
            Phase::Program => {
                let (_, row) = self.program(u64::from(program))?;
                let next =
                    if self.put_part(world, child, &row, cursor)? { Some(cursor.saturating_add(1)) } else { None };
                self.advance(child, next, Phase::Slots);
                Ok(Built::Part)
            }
            Phase::Copy => match self.copy_pages(world, component, child)? {
                Passage::Over => Ok(Built::Part),
                Passage::Interrupted => Ok(Built::Interrupted),
            },
            Phase::Slots => {
                let next = self.give_slots(component, child, cursor, x);
                self.advance(child, next, Phase::Idle);
                if next.is_none() {
                    self.finish_process(world, component, child, x, to)?;
                    return Ok(Built::Process);
                }
                Ok(Built::Part)
            }
            _ => {
                self.finish_process(world, component, child, x, to)?;
                Ok(Built::Process)
            }
        }
    }

    /// Notes how far a phase is; at its end the next one begins.
    pub(crate) fn advance(&mut self, component: u16, next: Option<u32>, after: Phase) {
        let Some(one) = self.process_mut(component) else { return };
        match next {
            Some(cursor) => one.cursor = cursor,
            None => (one.phase, one.cursor) = (after, 0),
        }
    }

    /// Puts a page of a program into a process; false when there is none of this number.
    pub(crate) fn put_part<W: World>(
        &mut self,
        world: &mut W,
        component: u16,
        program: &ProgramRow,
        number: u32,
    ) -> Result<bool, Code> {
        let Some(Part { address, physical, rights }) = self.part(program, number) else { return Ok(false) };
        match physical {
            Some(physical) if rights & right::WRITE == 0 => {
                self.set_entry(world, component, address, page_word(physical, rights))?;
            }
            _ => {
                let page = self.take_page(self.process(component).map_or(NONE, |one| one.quota))?;
                match physical {
                    Some(physical) => world.copy_image(page, physical),
                    None => world.clear(page),
                }
                self.set_private(world, component, address, page, rights)?;
            }
        }
        Ok(true)
    }

    /// Maps a page that was taken for this; it goes back when it cannot be.
    fn set_private<W: World>(
        &mut self,
        world: &mut W,
        component: u16,
        address: u64,
        page: u32,
        rights: u8,
    ) -> Result<(), Code> {
        let done = self.set_entry(world, component, address, page_word(self.physical(page), rights));
        if done.is_err() {
            self.drop_page(page);
        }
        done
    }

    /// Fills slots of a new process from one on; returns where to continue, and nothing behind the last one. Slots that get nothing are passed.
    fn give_slots(&mut self, component: u16, child: u16, from: u32, x: [u64; 8]) -> Option<u32> {
        let mut slot = from;
        for _ in 0..SLOTS_AT_ONCE {
            slot = self.next_given(component, slot, x)?;
            self.give_slot(component, child, u64::from(slot), x);
            slot = slot.saturating_add(1);
        }
        Some(slot)
    }

    /// The first slot from one on that may get something: of a fork where the parent has something or its quota is to be, of a spawn one of those that are listed.
    fn next_given(&self, component: u16, from: u32, x: [u64; 8]) -> Option<u32> {
        let [operation, quota, _, _, _, count, ..] = x;
        if operation != FORK {
            let end = count.saturating_add(PROCESS_QUOTA_SLOT).saturating_add(1).min(PROCESS_SLOTS as u64);
            return (u64::from(from) < end).then_some(from);
        }
        let first = self.component(component)?.first_slot as usize;
        let mut left = self.room.slots.get(first..first.checked_add(PROCESS_SLOTS)?)?.get(from as usize..)?;
        // Most slots are empty, and are passed six at a time.
        while let [a, b, c, d, e, f, rest @ ..] = left
            && (a.kind | b.kind | c.kind | d.kind | e.kind | f.kind) == Kind::Null.number()
        {
            left = rest;
        }
        let empty = left.split(|one| one.kind != Kind::Null.number()).next().map_or(0, <[_]>::len);
        let filled = (PROCESS_SLOTS as u64).wrapping_sub(left.len() as u64).wrapping_add(empty as u64);
        let given = if quota >= u64::from(from) { filled.min(quota) } else { filled };
        (given < PROCESS_SLOTS as u64).then_some(given as u32)
    }

    /// Fills a slot of a new process: of a fork with what the parent has there and may be copied, of a spawn with what was listed.
    fn give_slot(&mut self, component: u16, child: u16, slot: u64, x: [u64; 8]) {
        let [operation, _, _, _, first, count, ..] = x;
        let is_fork = operation == FORK;
        let own_slot = if is_fork { x[1] } else { PROCESS_QUOTA_SLOT };
        let parents = self.process(component).map_or(NONE, |one| one.quota);
        let listed = slot.checked_sub(PROCESS_QUOTA_SLOT).and_then(|behind| behind.checked_sub(1));
        let source = match listed {
            _ if is_fork => slot,
            Some(number) if number < count => first.wrapping_add(number),
            _ => 0,
        };
        let found = self.find(component, source).ok();
        let is_read_only = |one: &Capability| one.kind() != Some(Kind::Memory) || !one.has(right::WRITE);
        let is_given =
            |one: &Capability| !is_fork || one.kind().is_some_and(Kind::is_copied_by_fork) && is_read_only(one);
        let is_own = is_fork && found.is_some_and(|one| one.kind() == Some(Kind::Quota) && one.object == parents)
            || slot == own_slot && slot != 0;
        let given = if is_own { self.own_quota(child) } else { found.filter(is_given) };
        if let (Some(given), Some(place)) = (given, self.slot_mut(child, slot)) {
            *place = given;
        }
    }

    /// A capability to the quota of a process.
    fn own_quota(&self, component: u16) -> Option<Capability> {
        let object = self.process(component)?.quota;
        let grant = self.room.quotas.get(usize::from(object))?.counters.grant;
        let kind = Kind::Quota;
        Some(Capability { kind: kind.number(), rights: kind.rights() & !right::REVOKE, object, grant, word: 0 })
    }

    /// The process lives, and its maker gets a capability to it.
    fn finish_process<W: World>(
        &mut self,
        world: &mut W,
        component: u16,
        child: u16,
        x: [u64; 8],
        to: u64,
    ) -> Result<(), Code> {
        let one = *self.component(child).ok_or(Code::Gone)?;
        let kind = Kind::Component;
        let grant = one.counters.grant;
        let made = Capability { kind: kind.number(), rights: kind.rights(), object: child, grant, word: 0 };
        self.put(component, to, made)?;
        if let Some(one) = self.component_mut(child) {
            one.state = ComponentState::Living;
            one.refresh();
        }
        let argument = self.thread(one.first_thread).map_or(0, |thread| thread.start[2]);
        let _ = self.start(world, one.first_thread, argument);
        let pair = [self.running, one.first_thread].map(usize::from);
        if x.first() == Some(&FORK)
            && let Ok([parent, thread]) = self.room.threads.get_disjoint_mut(pair)
        {
            // From place to place: by way of the stack they would be copied twice.
            thread.registers.clone_from(&parent.registers);
            thread.answer(Code::Ok.number(), &[0]);
        }
        Ok(())
    }
}
