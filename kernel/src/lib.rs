//! The real-time kernel's own logic: what an entry from EL0 comes to, which thread runs next, and when the timer rings.
//!
//! Objects and calls are `core/objects`; this crate joins them to the machine. One instance, one core, one stack, no lock, interrupts masked: an entry
//! runs to its end and keeps nothing on the stack (`kernel.md` 0). The kernel never touches memory through an address of EL0.
//!
//! `core/sched` says which server runs and until when ([`servers`]), and the objects which thread runs there. One timer, one shot: it is set to the
//! earliest instant at which one of them would say something else, and off when there is none (QV-23, CH-56).
//!
//! With the feature `trace` it is the kernel of instances that record (`recorded`); the text of the other one is as if there was no such feature.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

pub mod claims;
mod dry;
mod exchange;
pub mod faults;
mod floating_point;
mod late;
mod memory;
pub mod outside;
mod recorded;
pub mod rows;
pub mod servers;
pub mod signal;
mod text;
pub mod wires;

use bulkhead_arch::kernel::{Entry, GATE_MASK, GATE_NEEDS, KernelMachine, component, registers, thread};
use bulkhead_arm::Intid;
use bulkhead_arm::exception::ExceptionClass;
use bulkhead_kernel_abi::accounts::{Accounts, FaultRecord};
use bulkhead_kernel_abi::boot::Tables;
use bulkhead_kernel_abi::{MAX_THREADS, NONE};
use bulkhead_objects::{Choice, Component, Level, NEVER, Objects, Outcome, Registers, Room, Thread, ThreadState, Time};
use bulkhead_sched::kernel::{Next as Chosen, Stint};
use core::mem::offset_of;
use late::Late;
use outside::Outside;
use servers::{Servers, TimeRoom};

/// Most interrupts that one entry takes: then the core looks at EL0 first. What is bound stays masked, so there are at most as many as bindings.
const MOST_AT_ONCE: usize = 4;
// The vectors store what the objects read.
const _: () = assert!(offset_of!(Registers, sp) == registers::STACK_POINTER);
const _: () = assert!(offset_of!(Registers, pc) == registers::PROGRAM_COUNTER);
const _: () = assert!(offset_of!(Registers, pstate) == registers::PROCESSOR_STATE);
const _: () = assert!(offset_of!(Registers, tpidr) == registers::THREAD_POINTER);
const _: () = assert!(align_of::<Thread>() == 16);

// The fast path does what the objects do.
const _: () = assert!(offset_of!(Thread, registers) == 0);
const _: () = assert!(offset_of!(Thread, component) == thread::PLACE);
const _: () = assert!(offset_of!(Thread, stack) == thread::PLACE + 2);
const _: () = assert!(offset_of!(Thread, life) == thread::PLACE + 4);
const _: () = assert!(offset_of!(Thread, depth) == thread::DEPTH);
const _: () = assert!(offset_of!(Thread, nothing) == thread::NOTHING);
const _: () = assert!(offset_of!(Thread, frames) == thread::FRAMES);
const _: () = assert!(offset_of!(Thread, below) == thread::BELOW);
const _: () = assert!(offset_of!(Level, tpidr) == 0 && offset_of!(Level, component) == 8);
const _: () = assert!(offset_of!(Level, stack) == 10 && offset_of!(Level, life) == 12);
const _: () = assert!(size_of::<Component>() == 1 << component::SHIFT);
const _: () = assert!(offset_of!(Component, free_stacks) == component::FREE_STACKS);
const _: () = assert!(offset_of!(Component, space) == component::SPACE);
const _: () = assert!(offset_of!(Component, needs_ticks) == component::NEEDS);
const _: () = assert!(bulkhead_objects::GATE_OFFSET == component::GATE);
const _: () = assert!(offset_of!(Component, counters) == component::LIFE);
const _: () = assert!(offset_of!(Component, first_slot) == component::SLOTS);
const _: () = assert!(offset_of!(Component, slots) == component::SLOTS + 4);
const _: () = assert!(offset_of!(Component, first_entry) == component::FIRST_ENTRY);
const _: () = assert!(offset_of!(Component, first_stack) == component::FIRST_ENTRY + 4);
const _: () = assert!(offset_of!(Component, entries) == component::ENTRIES);
const _: () = assert!(bulkhead_objects::GATE_MASK == GATE_MASK && bulkhead_objects::GATE_NEEDS == GATE_NEEDS);

/// What is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run this thread.
    Thread(u16),
    /// All have ended: nothing can ever happen here.
    Nobody,
}

/// The kernel of one instance.
pub struct Kernel<'a, M> {
    objects: Objects<'a>,
    outside: Outside<'a, M>,
    /// Some component needs a caller's time.
    has_needs: bool,
    /// The thread that was loaded last.
    thread: Option<u16>,
    /// What the timer is armed for.
    armed_ticks: u64,
    /// The same without what the thread itself may use: for another one of its server.
    dates_ticks: u64,
    /// The call that is timed for the accounts, and since when; [`NONE`] for none. Interrupts are not: that would cost each of them more than it tells.
    timed: u16,
    timed_from_ticks: u64,
    /// Interrupts were taken since something was told of the last claim whose time is over.
    has_looked: bool,
}

impl<'a, M: KernelMachine> Kernel<'a, M> {
    /// Makes the objects and servers of the boot tables, enables the interrupts that are bound, and starts the threads that run at boot. `None` when the
    /// rows of servers contradict each other: nobody could be promised anything.
    #[must_use]
    pub fn new(machine: M, room: Room<'a>, time: TimeRoom<'a>, tables: &Tables<'a>, counter_hz: u64) -> Option<Self> {
        let servers = Servers::new(time, tables, machine.counter_ticks())?;
        let objects = Objects::new(room, tables);
        let outside = Outside::new(machine, servers, tables, counter_hz);
        let has_needs = tables.components.iter().any(|row| row.needs_ticks != 0);
        let (thread, armed_ticks, dates_ticks, timed, timed_from_ticks) = (None, NEVER, NEVER, NONE, 0);
        let has_looked = false;
        let mut this =
            Self { objects, outside, has_needs, thread, armed_ticks, dates_ticks, timed, timed_from_ticks, has_looked };
        this.outside.enable(tables);
        this.objects.start_at_boot(&mut this.outside, tables);
        Some(this)
    }

    /// Handles what came from EL0 and chooses who runs next.
    pub fn enter(&mut self, entry: Entry) -> Next {
        let has_told = self.account();
        self.has_looked = false;
        match self.interrupted(entry) {
            Entry::Synchronous { syndrome, .. } if ExceptionClass::of_syndrome(syndrome) == faults::CALL => {
                (self.timed, self.timed_from_ticks) = (syndrome as u16, self.outside.servers.now_ticks());
                let before = self.before_call(syndrome as u16);
                match self.objects.call(&mut self.outside, syndrome as u16) {
                    Outcome::Done => {
                        self.after_call(before);
                        if let Some(next) = self.continues() {
                            self.compare_with_choice(next);
                            self.count_call();
                            return next;
                        }
                        self.look();
                    }
                    // Made again when the thread runs again, after the interrupt for which it stopped.
                    Outcome::Again => {
                        self.account_and_take();
                        self.after_call(before);
                    }
                }
            }
            Entry::Synchronous { syndrome, address } => self.fault(syndrome, address),
            Entry::Interrupt => {
                self.objects.end_turn_if_over(&mut self.outside);
                // A date that has come while somebody was told is seen, and may be the more important one.
                if has_told { self.look() } else { self.take_interrupts() }
            }
        }
        let next = self.choose();
        self.compare_with_choice(next);
        if self.timed != NONE {
            self.count_call();
        }
        next
    }

    /// What is charged and what was due at an entry is a passage of its own (CH-60). An interrupt that waits by then is taken first, as if it had come an instruction earlier:
    /// behind it a call is made again, and what faulted faults again.
    #[inline(always)] // The same.
    fn interrupted(&mut self, entry: Entry) -> Entry {
        let Entry::Synchronous { syndrome, .. } = entry else { return entry };
        if !self.outside.machine.is_interrupted() {
            return entry;
        }
        if ExceptionClass::of_syndrome(syndrome) == faults::CALL {
            self.objects.repeat_call();
        }
        Entry::Interrupt
    }

    /// What a call does and the choice behind it are two passages, as both can be long (CH-60); so are what is told late and the choice behind that.
    #[inline(always)] // On the way of each call that gives the core away, which is counted.
    fn look(&mut self) {
        if self.outside.machine.is_interrupted() {
            self.account_and_take();
        }
    }

    /// The usual end of a call: its server continues, since nothing was done by which another one could be chosen; with the same thread, or with the one
    /// that has taken its place.
    fn continues(&mut self) -> Option<Next> {
        if self.outside.wires.is_due() {
            return None;
        }
        let thread = self.objects.ready_next(self.outside.servers.chosen().server().into())?;
        let chosen = self.outside.servers.standing()?;
        self.objects.set_running(thread);
        self.record_changes();
        self.start(thread);
        self.set_timer(chosen);
        self.record_switch(thread, chosen);
        Some(Next::Thread(thread))
    }

    /// Every test on the host compares how each entry ends with a choice that remembers nothing: the same thread, and the timer not later than that one says. It may be
    /// earlier, as when a part of a budget came back since the choice that it is from. To ask who is dry is work, which charges the time since the choice and looks for
    /// interrupts: what comes of either is another one.
    pub(crate) fn compare_with_choice(&mut self, next: Next) {
        let (unasked, dry) = self.outside.servers.unasked();
        let Outside { machine, servers, .. } = &self.outside;
        let is_now = || machine.counter_ticks() == servers.now_ticks() && !machine.is_interrupted();
        if cfg!(debug_assertions) && (dry == 0 || is_now()) {
            let armed_ticks = self.armed_ticks;
            self.outside.servers.forget_choice();
            let chosen = self.choose();
            // What is not noted is not mended by the comparison.
            self.outside.servers.set_unasked(unasked);
            debug_assert_eq!(chosen, next, "a choice that something has changed");
            let wanted_ticks = self.armed_ticks;
            debug_assert!(armed_ticks <= wanted_ticks, "the timer rings at {armed_ticks} and not at {wanted_ticks}");
        }
    }

    /// In front of [`Self::enter`] of an exception of closed floating-point registers: gives the thread its own, if it may use them, and it makes its instruction again. False
    /// where it is a fault. Nothing is decided, no time is charged and the timer stays, as in the fast path of calls.
    pub fn gives_floating_point(&mut self) -> bool {
        self.outside.give_floating_point(&self.objects)
    }

    /// Adds a call that did not take the fast path to the accounts.
    #[inline(never)] // Not on the way of interrupts.
    fn count_call(&mut self) {
        let call = core::mem::replace(&mut self.timed, NONE);
        let ticks = self.outside.machine.counter_ticks().saturating_sub(self.timed_from_ticks);
        let accounts = &mut *self.outside.servers.room.accounts;
        accounts.call_ticks = accounts.call_ticks.wrapping_add(ticks);
        if let Some(longest) = accounts.longest_ticks.get_mut(usize::from(call)) {
            *longest = ticks.max(*longest);
        }
    }

    /// Charges who ran up to now, server and thread; returns whether somebody was told that a limit is used up.
    fn account(&mut self) -> bool {
        let now = self.outside.machine.counter_ticks();
        let ticks = self.outside.servers.advance(now);
        self.count(ticks)
    }

    /// The same, and takes the interrupts that wait: as a passage of its own if somebody was told.
    fn account_and_take(&mut self) {
        if !self.account() || self.outside.machine.is_interrupted() {
            self.take_interrupts();
        }
    }

    /// Counts time for the thread that ran.
    fn count(&mut self, ticks: u64) -> bool {
        let Some(thread) = self.objects.running() else { return false };
        self.outside.servers.count_ran(thread, ticks);
        self.objects.used(&mut self.outside, ticks)
    }

    /// The registers of the thread that runs, which the vectors load and save.
    pub fn registers(&mut self) -> Option<&mut Registers> {
        self.objects.registers()
    }

    /// The objects, to look at.
    #[must_use]
    pub fn objects(&self) -> &Objects<'a> {
        &self.objects
    }

    /// What those are told that watch.
    #[must_use]
    pub fn accounts(&self) -> &Accounts {
        self.outside.servers.room.accounts
    }

    /// The machine, for tests on the host.
    pub fn machine(&mut self) -> &mut M {
        &mut self.outside.machine
    }

    /// Chooses who runs. With all waiting, the core waits for an interrupt.
    pub fn choose(&mut self) -> Next {
        // By its nature without a bound: what ends it is an interrupt. Without one each turn puts a thread right or does a slice of work.
        loop {
            if self.outside.wires.is_due() {
                self.drain();
            }
            let chosen = self.outside.servers.choose();
            self.record_changes();
            for server in self.outside.servers.take_exhausted() {
                self.objects.out_of_budget(&mut self.outside, server.into());
            }
            if self.outside.servers.has_late_before(chosen.stint) {
                self.tell_late(chosen);
                continue;
            }
            if chosen.stint == Stint::IDLE {
                if self.rest(chosen) {
                    continue;
                }
                return Next::Nobody;
            }
            let server = chosen.stint.server().into();
            match self.objects.choose(&mut self.outside, server) {
                Choice::Run(thread) => {
                    if self.run(thread, chosen) {
                        return Next::Thread(thread);
                    }
                }
                // A thread was put right, or continued what it does in the kernel: its server pays, and an interrupt may wait.
                Choice::Again => {
                    let now = self.outside.machine.counter_ticks();
                    let _ = self.outside.servers.advance(now);
                    // It rang for the slice before, perhaps, or was set while only more important dates mattered.
                    self.set_timer(chosen);
                    if self.outside.machine.is_interrupted_behind_slice() {
                        self.take_interrupts();
                    }
                }
                // It asked for somebody who is no more.
                Choice::Nobody => self.outside.servers.block(server),
            }
        }
    }

    /// Tells one thing that schedulers wait to hear, or asks one server again, as work of the server whose time it is about, and looks for interrupts.
    #[inline(never)] // Rare, and not on the way of instances without schedulers.
    fn tell_late(&mut self, chosen: Chosen) {
        // The timer may be set for dates that mattered to who ran before. Nobody runs on a claim now, so no claim's end is one.
        let earliest = self.outside.servers.next_date_ticks(chosen);
        self.arm(earliest);
        // Before the work, since a call may be behind this already. After an interrupt there is work first: none can ring for ever and let nothing be done; and what it took
        // was charged already.
        if !core::mem::take(&mut self.has_looked) || self.outside.servers.is_unfinished() {
            self.account();
            if self.outside.machine.is_interrupted() {
                self.has_looked = true;
                return self.take_interrupts();
            }
        }
        if let Some((what, server)) = self.outside.servers.next_late(chosen.stint) {
            match what {
                Late::Spent(claim, first) => {
                    // Was it given time of the same server since, all continue.
                    let has_time = self.outside.servers.has_time(claim, server);
                    let first = if has_time { MAX_THREADS as u16 } else { first };
                    let continues_with = self.objects.spent(&mut self.outside, claim.into(), first);
                    self.outside.servers.told(what, continues_with);
                }
                Late::Awake(scheduler) => {
                    self.outside.servers.told(what, None);
                    self.objects.tell_parent(&mut self.outside, scheduler.into());
                }
                // Below, when it has paid.
                Late::Dry(_) => {}
            }
            let until = self.outside.machine.counter_ticks();
            self.outside.servers.charge_work(until, server);
            if let Late::Dry(slot) = what {
                self.outside.servers.ask_again(slot);
            }
            // If nothing else is to be told, who runs is chosen and loaded behind this.
            self.look();
        }
    }

    /// Loads who was chosen and sets the timer. False when somebody else is to run, since loading takes time.
    fn run(&mut self, thread: u16, chosen: Chosen) -> bool {
        self.start(thread);
        let mut chosen = chosen;
        if let Some(leaver) = self.outside.servers.take_leaver()
            && leaver != chosen.stint
        {
            let at = self.outside.machine.counter_ticks();
            self.outside.servers.loaded(at, leaver);
            // The second of two choices is a passage of its own.
            if self.outside.machine.is_interrupted() {
                self.account_and_take();
                return false;
            }
            let next = self.outside.servers.choose();
            if next.stint != chosen.stint || self.outside.servers.has_late_before(next.stint) {
                return false;
            }
            chosen = next;
        }
        self.set_timer(chosen);
        self.record_switch(thread, chosen);
        true
    }

    /// Nobody can run: does work that nobody waits for, or waits for an interrupt. False when nothing can ever happen.
    fn rest(&mut self, chosen: Chosen) -> bool {
        // Nobody was loaded whom it could be charged with. Who has no budget is awake, and does not run: neither its turn nor its limit passes meanwhile.
        let _ = self.outside.servers.take_leaver();
        self.objects.nobody_runs();
        if !self.objects.work(&mut self.outside) {
            let is_over = |state| matches!(state, ThreadState::Free | ThreadState::Stopped);
            if self.objects.room().threads.iter().all(|thread| is_over(thread.state)) {
                return false;
            }
            self.set_timer(chosen);
            self.record_idle(chosen);
            self.outside.machine.wait_for_interrupt();
        }
        // No call takes as long as the core has waited.
        self.timed = NONE;
        self.account_and_take();
        true
    }

    /// Loads the address space of who runs, and counts a thread that did not run before.
    fn start(&mut self, thread: u16) {
        self.load();
        if self.thread != Some(thread) {
            self.thread = Some(thread);
            self.outside.servers.count_switch(thread);
        }
    }

    fn load(&mut self) {
        let Some((_, space)) = self.objects.loaded() else { return };
        // Asked and not remembered: the fast path changes it as well.
        if self.outside.machine.space() != space {
            self.outside.machine.load_space(space);
        }
    }

    /// When what the thread runs on is used up, if nothing happens meanwhile: for calls into components that need some of it.
    pub fn until_ticks(&mut self) -> u64 {
        if !self.has_needs {
            return NEVER;
        }
        // A turn that is over ends before the next service is called: the slow path does that.
        if self.objects.is_turn_over() {
            return 0;
        }
        let running = self.objects.running().unwrap_or(u16::MAX);
        let Some(thread) = self.objects.room().threads.get(usize::from(running)) else { return 0 };
        // From the instant up to which it was charged.
        let (tcap, now) = (thread.runs_on, self.outside.servers.now_ticks());
        now.saturating_add(self.outside.usable_ticks(tcap, now))
    }

    /// One shot, for the earliest date; none, and the timer is off.
    fn set_timer(&mut self, chosen: Chosen) {
        let servers = &mut self.outside.servers;
        let own_ticks = servers.now_ticks().saturating_add(self.objects.left_ticks());
        self.dates_ticks = servers.earliest_ticks(chosen);
        self.arm(self.dates_ticks.min(own_ticks));
    }

    fn arm(&mut self, earliest: u64) {
        if earliest != self.armed_ticks {
            self.armed_ticks = earliest;
            self.outside.machine.set_timer(earliest);
        }
    }

    /// Takes the interrupts that wait, at most [`MOST_AT_ONCE`].
    fn take_interrupts(&mut self) {
        let mut passed_ticks = 0;
        for _ in 0..MOST_AT_ONCE {
            let intid = self.outside.machine.acknowledge();
            if intid.is_special() {
                return;
            }
            self.outside.machine.drop_priority(intid);
            // Dates are no driver's work: who sleeps until an instant at which a device rings would else spend its driver's budget.
            if passed_ticks != 0 {
                let _ = self.outside.servers.advance(passed_ticks);
            }
            if intid == Intid::VIRTUAL_TIMER {
                passed_ticks = self.pass_dates();
            } else {
                self.take_of_device(intid);
            }
            // A look, so that the choice is a passage of its own, and cheaper than an acknowledgement of nothing.
            if !self.outside.machine.is_interrupted() {
                return;
            }
        }
    }

    fn take_of_device(&mut self, intid: Intid) {
        match self.objects.binding_of(intid.0) {
            Some(binding) => {
                self.outside.arm_next(binding);
                self.objects.top_half(&mut self.outside, binding);
                let server = self.objects.payer_of(binding);
                self.record_top_half(intid, server);
                let until = self.outside.machine.counter_ticks();
                self.outside.servers.charge_for(until, server);
            }
            // Nobody's: it was never enabled.
            None if !self.hear(intid) => self.outside.machine.deactivate(intid),
            None => {}
        }
    }

    /// The kernel's own timer is not held. What is still due rings again, with the date that has passed. Returns until when that took.
    fn pass_dates(&mut self) -> u64 {
        self.outside.machine.set_timer(NEVER);
        self.armed_ticks = NEVER;
        self.outside.machine.deactivate(Intid::VIRTUAL_TIMER);
        let passed = self.objects.pass_date(&mut self.outside);
        let now = self.outside.machine.counter_ticks();
        // The timer is off until somebody is chosen, so no look sees that a date of somebody more important has come meanwhile.
        if self.outside.due(now).is_some_and(|due| passed.is_none_or(|passed| due < passed)) {
            self.arm(now);
        }
        now
    }

    /// A component has done what it may not: recorded, and said on the console if nobody is told of it. A line takes the UART of a board longer than
    /// anything else that the kernel does, and a component could have one printed as often as it is begun again, or called: so only the first fault of each is said,
    /// and none of a process, of which its maker can have as many as it likes.
    fn fault(&mut self, syndrome: u64, address: u64) {
        let address = if faults::has_address(syndrome) { address } else { 0 };
        let kind = faults::kind(syndrome).number();
        let component = self.objects.loaded().map_or(0, |(component, _)| component);
        let program_counter = self.objects.registers().map_or(0, |registers| registers.pc);
        let record = FaultRecord { kind, syndrome, address, program_counter, ..FaultRecord::default() };
        self.record_fault(component, &record);
        let faults = &mut self.outside.servers.room.accounts.faults;
        *faults = faults.wrapping_add(1);
        let room = self.objects.room();
        let is_quiet = room.processes.get(usize::from(component)).is_some_and(|one| one.is_made);
        let said = room.components.get(usize::from(component));
        if !is_quiet && said.is_none_or(|one| one.supervisor == NONE && one.fault.number == 0) {
            self.print_fault(component, &record);
        }
        self.objects.fault(&mut self.outside, record);
    }

    fn print_fault(&mut self, component: u16, record: &FaultRecord) {
        let thread = self.objects.running().unwrap_or(0);
        let numbers = [
            ("kernel: component ", u64::from(component)),
            (", thread ", u64::from(thread)),
            (", fault ", u64::from(record.kind)),
            (", syndrome ", record.syndrome),
            (", address ", record.address),
            (", at ", record.program_counter),
        ];
        let Outside { text, machine, servers, .. } = &mut self.outside;
        if !text.print_numbers(machine, &numbers, servers.now_ticks()) {
            let busy = &mut servers.room.accounts.print_busy;
            *busy = busy.wrapping_add(1);
        }
    }
}
