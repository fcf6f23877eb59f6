//! Processes: components made at run time, from a quota (`kernel.md` 7; QV-E6, CH-60, CH-62).
//!
//! A process is made in slices of one page or a few slots; how far it is stands in it, and the call that is made again after an interrupt continues. A
//! thread that does not come back to its call abandons it, and what was built is destroyed.
//!
//! What `kernel.md` leaves open is decided so:
//! - The number of a process is its component's, which the host left free; so are its capability slots, [`PROCESS_SLOTS`] each.
//! - Its quota is split from the one that the call names, and everything that it has is paid from that. The component itself and its first thread
//!   are of the quota above. `spawn` puts a capability to the new quota into slot [`PROCESS_QUOTA_SLOT`], `fork` where the parent has that of its own.
//! - Which programs it can be is for the quota to say: who gives somebody a quota gives that with it, and no number of a program gives access to its constants.
//! - *The parent's end point* is that of the thread that calls, if it is at home; a bit for each number of a component says whose end it is.
//! - `exit` stops the component with its code as the record of its fault. Its memory is there until somebody with a capability to it says `destroy`, which is what
//!   "wait" is; so the exit is short, and the parent pays for taking apart what it made.
//! - `exec` continues in the kernel whenever its thread is chosen: its text, with the call that would be made again, is gone.
//!
//! Rejected: copying at the first store. A store would have a price that nobody sees at the call, and could fail.

use crate::boot::ASID_SHIFT;
use crate::calls::{Answer, Reply, values};
use crate::quota::Share;
use crate::space::PAGE;
use crate::{Component, ComponentState, Counters, Objects, Sliced, Thread, ThreadState, WORN, World};
use bulkhead_kernel_abi::boot::{ProgramRow, SegmentRow};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::image::COMPONENT_STACKS;
use bulkhead_kernel_abi::{
    Capability, Code, Kind, MAX_COMPONENTS, MAX_PROGRAMS, MAX_SEGMENTS, NONE, PROCESS_QUOTA_SLOT, PROCESS_SLOTS,
};

/// Most slots that a process is given: all but the null one and that of its quota.
const MOST_GIVEN: u64 = PROCESS_SLOTS as u64 - PROCESS_QUOTA_SLOT - 1;

/// Bits of the program's number in the word of `spawn`; above them is the argument.
const PROGRAM_BITS: u32 = 16;
const PROGRAM_MASK: u64 = (1 << PROGRAM_BITS) - 1;

/// What is being done with the memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Nothing.
    #[default]
    Idle,
    /// Pages of a program are put into it.
    Program,
    /// Pages of another process are.
    Copy,
    /// Capabilities are.
    Slots,
    /// Pages are taken out.
    Space,
    /// Regions that its quota pays for are ended.
    Regions,
    /// Pages that outlive it are charged to the quota above.
    Pages,
}

/// What a component has beside [`Component`], because no fast path looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Components that were made from its quota, a bit each.
    pub children: u64,
    /// It was made at run time.
    pub is_made: bool,
    /// Whose quota it was made from, or [`NONE`].
    pub parent: u16,
    /// Its own quota, or [`NONE`].
    pub quota: u16,
    /// Program of which it was made.
    pub program: u16,
    /// What is being done.
    pub phase: Phase,
    /// How far that is.
    pub cursor: u32,
    /// Its translation tables, the root among them: 514 at most.
    pub tables: u16,
    /// Threads that were made for it and are not back.
    pub threads: u16,
    /// Mapped pages that its own quota pays for.
    pub own_pages: u32,
    /// Those of them that are in no region.
    pub private_pages: u32,
}

impl Process {
    /// Nothing of a process.
    pub const EMPTY: Self = Self {
        children: 0,
        is_made: false,
        parent: NONE,
        quota: NONE,
        program: NONE,
        phase: Phase::Idle,
        cursor: 0,
        tables: 0,
        threads: 0,
        own_pages: 0,
        private_pages: 0,
    };
}

/// A page of a program.
pub(crate) struct Part {
    pub(crate) address: u64,
    /// Where its bytes are in the image; none for a page of zeros.
    pub(crate) physical: Option<u64>,
    pub(crate) rights: u8,
}

impl Objects<'_> {
    pub(crate) fn process(&self, number: u16) -> Option<&Process> {
        self.room.processes.get(usize::from(number))
    }

    pub(crate) fn is_process(&self, number: u16) -> bool {
        self.process(number).is_some_and(|one| one.is_made)
    }

    pub(crate) fn process_mut(&mut self, number: u16) -> Option<&mut Process> {
        self.room.processes.get_mut(usize::from(number))
    }

    /// Gives numbers without a row slots of their own, as far as there are some, and says whose the host's quotas are.
    pub(crate) fn prepare_processes(&mut self, first: usize, first_slot: usize) {
        self.first_process = first.min(usize::from(u16::MAX)) as u16;
        self.room.processes.fill(Process::EMPTY);
        for (number, quota) in (0..u16::MAX).zip(self.room.quotas.iter()).filter(|(_, quota)| quota.is_used) {
            if let Some(one) = self.room.processes.get_mut(usize::from(quota.component)) {
                one.quota = number;
            }
        }
        let mut from = first_slot;
        for one in self.room.components.iter_mut().skip(first) {
            let end = from.saturating_add(PROCESS_SLOTS);
            let slots = if end <= self.room.slots.len() { PROCESS_SLOTS as u32 } else { 0 };
            let counters = Counters { life: 1, grant: 1 };
            *one = Component { first_slot: from as u32, slots, counters, ..Component::default() };
            one.refresh();
            from = end;
        }
    }

    pub(crate) fn program(&self, number: u64) -> Result<(u16, ProgramRow), Code> {
        let number = u16::try_from(number).map_err(|_| Code::BadArgument)?;
        Ok((number, *self.room.programs.get(usize::from(number)).ok_or(Code::BadArgument)?))
    }

    /// A program of which processes may be made from a quota.
    pub(crate) fn program_of(&self, quota: u16, number: u64) -> Result<(u16, ProgramRow), Code> {
        let found = self.program(number)?;
        let may = self.room.quotas.get(usize::from(quota)).map_or(0, |one| one.programs);
        if may.wrapping_shr(found.0.into()) & 1 == 0 || found.0 >= MAX_PROGRAMS as u16 {
            return Err(Code::Denied);
        }
        Ok(found)
    }

    /// A page of a program by its number: those of segments, then those of the stack.
    pub(crate) fn part(&self, program: &ProgramRow, number: u32) -> Option<Part> {
        let mut number = number;
        let segments = self.room.segments.iter().skip(program.first_segment as usize);
        for segment in segments.take((program.segments as usize).min(MAX_SEGMENTS)) {
            let SegmentRow { address, physical, pages, rights } = *segment;
            let offset = u64::from(number).wrapping_mul(PAGE);
            match number.checked_sub(pages) {
                Some(left) => number = left,
                None => {
                    let (address, physical) = (address.wrapping_add(offset), physical.wrapping_add(offset));
                    return Some(Part { address, physical: Some(physical), rights: rights as u8 });
                }
            }
        }
        let below = program.stack_pages.checked_sub(number).filter(|below| *below != 0)?;
        let address = COMPONENT_STACKS.wrapping_sub(u64::from(below).wrapping_mul(PAGE));
        Some(Part { address, physical: None, rights: right::READ | right::WRITE })
    }

    fn free_component(&self) -> Result<u16, Code> {
        let numbers = self.first_process..MAX_COMPONENTS as u16;
        let mut numbered = numbers.zip(self.room.components.iter().skip(usize::from(self.first_process)));
        let is_free = |one: &Component| {
            let Counters { life, grant } = one.counters;
            one.state == ComponentState::Free && one.slots != 0 && life < WORN.wrapping_sub(1) && grant != WORN
        };
        numbered.find(|(_, one)| is_free(one)).map(|(number, _)| number).ok_or(Code::Full)
    }

    fn free_thread(&mut self) -> Result<u16, Code> {
        loop {
            let number = self.free_threads.trailing_zeros() as u16;
            let one = self.thread(number).ok_or(Code::Full)?;
            if one.state == ThreadState::Free && one.counters.grant != WORN && one.counters.life != WORN {
                return Ok(number);
            }
            // It was taken since, or is not used again.
            self.free_threads &= self.free_threads.wrapping_sub(1);
        }
    }

    /// Makes a thread that does not run yet.
    fn make_thread(&mut self, number: u16, home: u16, payer: (u16, u16), label: u64, start: [u64; 3], quota: u16) {
        self.forget_event(number);
        let (scheduler, tcap) = payer;
        let Some(one) = self.thread_mut(number) else { return };
        let counters = one.counters;
        let state = ThreadState::Stopped;
        *one =
            Thread { counters, state, home, scheduler, tcap, runs_on: tcap, label, start, quota, ..Thread::default() };
        if let Some(process) = self.process_mut(home) {
            process.threads = process.threads.saturating_add(1);
        }
    }

    /// A thread of a component that is destroyed is one that can be made again. What its scheduler was not told stays for it until then.
    pub(crate) fn give_thread_back(&mut self, number: u16, component: u16) {
        let is_made = self.process(component).is_some_and(|one| one.is_made);
        let Some(one) = self.thread_mut(number) else { return };
        if one.home != component || one.state != ThreadState::Stopped || !is_made && one.quota == NONE {
            return;
        }
        one.counters.revoke();
        one.counters.end_life();
        let quota = one.quota;
        *one = Thread { counters: one.counters, event: one.event, label: one.label, ..Thread::default() };
        self.free_threads |= 1u64.wrapping_shl(number.into());
        if let Some(paid) = self.quota_mut(quota) {
            paid.threads = paid.threads.saturating_add(1);
        }
        if let Some(process) = self.process_mut(component) {
            process.threads = process.threads.saturating_sub(1);
        }
    }

    /// `thread create`: another thread of the caller's component.
    pub(crate) fn create_thread(&mut self, component: u16, x: [u64; 8]) -> Answer {
        let [_, quota, payer, entry, stack, to, ..] = x;
        let quota = self.object_of(component, quota, Kind::Quota, right::USE)?;
        // A thread lasts as long as its component; what pays for it must.
        if self.process(component).is_none_or(|one| one.quota != quota) {
            return Err(Code::Denied);
        }
        let payer = self.payer(component, payer)?;
        self.empty(component, to)?;
        let number = self.free_thread()?;
        let one = self.quota_mut(quota).ok_or(Code::BadCapability)?;
        one.threads = one.threads.checked_sub(1).ok_or(Code::Full)?;
        self.make_thread(number, component, payer, to, [entry, stack, 0], quota);
        let grant = self.thread(number).map_or(0, |one| one.counters.grant);
        let kind = Kind::Thread;
        self.put(
            component,
            to,
            Capability { kind: kind.number(), rights: kind.rights(), object: number, grant, word: 0 },
        )?;
        values([])
    }

    /// The only thread of a component, which is in no call, if that is the one that runs.
    pub(crate) fn single(&self, component: u16) -> Result<(), Code> {
        let caller = self.thread(self.running).ok_or(Code::Denied)?;
        let made = self.process(component).filter(|one| one.is_made).ok_or(Code::Denied)?;
        if caller.depth != 0 || caller.home != component {
            return Err(Code::Denied);
        }
        if made.threads == 1 { Ok(()) } else { Err(Code::Busy) }
    }

    /// `spawn`.
    pub(crate) fn spawn<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Answer {
        let [_, program, quota, payer, first, count, to, share] = x;
        let child = match self.under_way()? {
            Some(child) => child,
            None => {
                let from = self.object_of(component, quota, Kind::Quota, right::USE)?;
                let (number, program) = self.program_of(from, program & PROGRAM_MASK)?;
                let table = self.component(component).map_or(0, |one| u64::from(one.slots));
                if count > MOST_GIVEN || first.checked_add(count).is_none_or(|end| end > table) {
                    return Err(Code::BadArgument);
                }
                let child = self.begin_process(world, component, [quota, payer, to, share], program.pages)?;
                let start = [program.entry, COMPONENT_STACKS, x[1].wrapping_shr(PROGRAM_BITS)];
                self.prepare(child, number, Phase::Program, start);
                if world.is_interrupted() {
                    return Ok(self.continues_to_build(child));
                }
                child
            }
        };
        self.build(world, component, child, x, to)
    }

    /// `fork`.
    pub(crate) fn fork<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Answer {
        let [_, quota, payer, to, share, ..] = x;
        let child = match self.under_way()? {
            Some(child) => child,
            None => {
                self.single(component)?;
                let parent = *self.process(component).ok_or(Code::Denied)?;
                let need = u32::from(parent.tables).saturating_add(parent.own_pages);
                let start = self.thread(self.running).map_or([0; 3], |one| one.start);
                let child = self.begin_process(world, component, [quota, payer, to, share], need)?;
                self.prepare(child, parent.program, Phase::Copy, start);
                if world.is_interrupted() {
                    return Ok(self.continues_to_build(child));
                }
                child
            }
        };
        self.build(world, component, child, x, to)
    }

    /// An interrupt waits: the call is made again, and continues with this process.
    pub(crate) fn continues_to_build(&self, child: u16) -> Reply {
        let life = self.component(child).map_or(0, |one| one.counters.life);
        Reply::Again(Sliced { component: child, life, ..Sliced::NONE })
    }

    /// The process that the interrupted call of the thread that runs was making.
    fn under_way(&self) -> Result<Option<u16>, Code> {
        let sliced = self.thread(self.running).map_or(Sliced::NONE, |one| one.sliced);
        if sliced.component == NONE {
            return Ok(None);
        }
        let is_it = |one: &&Component| one.state == ComponentState::Building && one.counters.life == sliced.life;
        self.component(sliced.component).filter(is_it).map(|_| Some(sliced.component)).ok_or(Code::Gone)
    }

    /// Takes everything that a process needs; what can be refused is refused here, before anything is changed.
    fn begin_process<W: World>(
        &mut self,
        world: &mut W,
        component: u16,
        [quota, payer, to, share]: [u64; 4],
        need: u32,
    ) -> Result<u16, Code> {
        let quota = self.object_of(component, quota, Kind::Quota, right::USE)?;
        let share = Share::of(share)?;
        let payer = self.payer(component, payer)?;
        self.empty(component, to)?;
        if share.pages < need.max(1) {
            return Err(Code::Full);
        }
        let (child, thread) = (self.free_component()?, self.free_thread()?);
        let parent = self.room.quotas.get(usize::from(quota)).map_or(NONE, |one| one.component);
        let own = self.split(quota, share, child)?;
        let Ok(root) = self.take_table(world, own) else {
            self.end_quota(own);
            return Err(Code::Full);
        };
        if let Some(one) = self.process_mut(parent) {
            one.children |= 1u64.wrapping_shl(u32::from(child));
        }
        if let Some(one) = self.process_mut(child) {
            *one = Process { is_made: true, parent, quota: own, tables: 1, ..Process::EMPTY };
        }
        self.make_thread(thread, child, payer, to, [0; 3], NONE);
        // A thread is its home's: what a callee makes on its caller's thread tells the caller's end point nothing, to which the callee may have no capability.
        let at_home = self.thread(self.running).filter(|one| one.component == one.home);
        let supervisor = at_home.map_or(NONE, |one| one.end_point);
        let space = self.physical(root) | u64::from(child).wrapping_add(1).wrapping_shl(ASID_SHIFT);
        if let Some(one) = self.component_mut(child) {
            *one = Component {
                space,
                counters: one.counters,
                first_slot: one.first_slot,
                slots: one.slots,
                state: ComponentState::Building,
                supervisor,
                supervisor_bits: 1u64.wrapping_shl(u32::from(child)),
                first_thread: thread,
                ..Component::default()
            };
            one.refresh();
        }
        Ok(child)
    }

    fn prepare(&mut self, child: u16, program: u16, phase: Phase, start: [u64; 3]) {
        if let Some(one) = self.process_mut(child) {
            (one.program, one.phase, one.cursor) = (program, phase, 0);
        }
        let thread = self.component(child).map_or(NONE, |one| one.first_thread);
        if let Some(one) = self.thread_mut(thread) {
            one.start = start;
        }
    }
}
