//! The kernel's objects and its calls, as pure code (`kernel.md` 1 to 6; CH-8, CH-10, CH-60, CH-61, CH-63, CH-64).
//!
//! [`Objects`] holds every object of an instance in arrays that the host sized ([`Room`]), and obeys the calls of the thread that runs. What
//! it needs of the outside are narrow traits, [`Machine`], [`Pages`], [`Time`] and [`Claims`]; so every rule runs as a host test, and the kernel's own code is
//! vectors, a fast path in assembly for the two most usual calls, and glue.
//!
//! - `table`: capabilities. `invoke`: calls by thread migration. `unwind`: faults, ends, resets, aborts.
//! - `endpoint`: notifications. `dates`: waiting, and who sleeps until when. `binding`: interrupts as end points.
//! - `position`: what runs on each server, and the rules by which schedulers in user space decide it; `exchange`: the usual case of that; `events`: what those are told. `time`: claims on time, and
//!   servers made at run time.
//! - `quota`: pages of the pool, and who pays. `space`: translation tables. `memory`: regions. `process`: components made at run
//!   time; `build` and `ends`: their beginning and their end.
//! - `calls`: which call is which of these.
//!
//! ## How the kernel uses it
//!
//! Vectors store the registers of the thread that runs into its [`Thread`]. The glue reports what happened ([`Objects::call`],
//! [`Objects::fault`], [`Objects::top_half`], [`Objects::used`], [`Objects::pass_date`]), asks `core/sched` which server runs, and asks
//! [`Objects::choose`] who runs there, until the answer is [`Choice::Run`]. Then it loads that thread and its component. It must ask after
//! every report: a report may have ended the thread that ran, or a component that it is in. [`Objects::exchange`] and [`Objects::notify_held`] say themselves who runs.
//!
//! ## Layouts
//!
//! The fast path (`arch`, `el1/kernel/calls.s`) works on the same bytes: capabilities of 16 bytes in one array, frames of 32 bytes in the thread, a
//! component of 128 bytes with a word that says which capabilities it may take ([`Component::gate`]). Nothing else has pointers: objects name each other by number, so a number out of range is an
//! object that is not there, and a table that is damaged or hostile cannot lead outside.
//!
//! ## Rules of this crate
//!
//! No allocation, no panic, no recursion; no loop that is longer than a table of the instance (threads: 64; frames: 8; depth of
//! schedulers: 8). A call that answers another code than `Ok` has changed nothing; a random driver compares all state.
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

mod binding;
mod boot;
mod build;
mod calls;
mod component;
mod copy;
mod counters;
mod dates;
mod endpoint;
mod ends;
mod events;
mod exchange;
mod invoke;
mod memory;
mod position;
mod process;
mod quota;
mod space;
mod table;
mod thread;
mod time;
mod unwind;
mod world;

pub use binding::{Binding, Hold};
pub use calls::Outcome;
pub use component::{Component, ComponentState, GATE_CLOSED, GATE_MASK, GATE_NEEDS, GATE_OFFSET, OnFault};
pub use counters::{Counters, Links, Queue, WORN};
pub use endpoint::{EndPoint, Notified};
pub use memory::Region;
pub use position::{Choice, Pair, Position, Scheduler, Timeout};
pub use process::{Phase, Process};
pub use quota::{NO_PAGE, Page, Quota};
pub use thread::{Event, Frame, Level, NEVER, Registers, Sliced, Thread, ThreadState, event};
pub use world::{Claims, Machine, Pages, Time, World};

use bulkhead_kernel_abi::boot::{EntryRow, ProgramRow, SegmentRow, StackRow};
use bulkhead_kernel_abi::{Capability, NONE};

/// Arrays for every kind of object, sized by the host. At most as many of each as `bulkhead_kernel_abi` says.
#[derive(Debug)]
pub struct Room<'a> {
    /// Components.
    pub components: &'a mut [Component],
    /// Slots of all their tables.
    pub slots: &'a mut [Capability],
    /// Threads.
    pub threads: &'a mut [Thread],
    /// End points.
    pub end_points: &'a mut [EndPoint],
    /// Bindings.
    pub bindings: &'a mut [Binding],
    /// Positions, by number of the server.
    pub servers: &'a mut [Position],
    /// Schedulers.
    pub schedulers: &'a mut [Scheduler],
    /// Life and grant of wires, whose rest is elsewhere; so are those of the next ones.
    pub wires: &'a mut [Counters],
    /// Of temporal capabilities.
    pub tcaps: &'a mut [Counters],
    /// Of bands.
    pub bands: &'a mut [Counters],
    /// Regions of memory.
    pub regions: &'a mut [Region],
    /// Quotas.
    pub quotas: &'a mut [Quota],
    /// What components have as processes, by number of the component.
    pub processes: &'a mut [Process],
    /// Pages of the pool.
    pub pages: &'a mut [Page],
    /// Entries of all components, in the boot tables.
    pub entries: &'a [EntryRow],
    /// Stacks of all components.
    pub stacks: &'a [StackRow],
    /// Programs of which processes are made.
    pub programs: &'a [ProgramRow],
    /// Their segments.
    pub segments: &'a [SegmentRow],
}

/// Every object of an instance.
#[derive(Debug)]
pub struct Objects<'a> {
    room: Room<'a>,
    /// Threads in FIFOs of servers.
    ready: Links,
    /// Threads in lists of events.
    listed: Links,
    /// Threads in lists of sleepers.
    asleep: Links,
    /// Interrupts that are held, a bit for each binding.
    held: u64,
    /// Components that are being ended, a bit each.
    ending: u64,
    /// How often a component was ended, so who has seen as many is in none that has another life.
    ends: u64,
    /// The thread that runs, or [`NONE`].
    running: u16,
    /// First component number that the host left free.
    first_process: u16,
    /// First temporal capability that it left free.
    first_tcap: u16,
    /// Physical address of the pool.
    pool_address: u64,
    /// Its pages.
    pool_pages: u32,
    /// The first page that nobody has.
    free_page: u32,
    /// Threads that may be free, a bit each: no other one is.
    free_threads: u64,
}

impl<'a> Objects<'a> {
    /// Everything, to look at.
    #[must_use]
    pub fn room(&self) -> &Room<'a> {
        &self.room
    }

    /// The thread that runs.
    #[must_use]
    pub fn running(&self) -> Option<u16> {
        (self.running != NONE).then_some(self.running)
    }

    /// The core waits: who ran last is loaded no more, awake or not.
    pub fn nobody_runs(&mut self) {
        self.running = NONE;
    }

    /// Where vectors store the registers of the thread that runs, and load them from.
    pub fn registers(&mut self) -> Option<&mut Registers> {
        let running = self.running;
        self.thread_mut(running).map(|thread| &mut thread.registers)
    }

    /// What is loaded for the thread that runs: its component, and that one's TTBR0_EL1.
    #[must_use]
    pub fn loaded(&self) -> Option<(u16, u64)> {
        let component = self.thread(self.running)?.component;
        Some((component, self.component(component)?.space))
    }

    /// The queues of threads: FIFOs of servers, and lists of events.
    #[must_use]
    pub fn queues(&self) -> (&Links, &Links) {
        (&self.ready, &self.listed)
    }

    fn thread(&self, number: u16) -> Option<&Thread> {
        self.room.threads.get(usize::from(number))
    }

    fn thread_mut(&mut self, number: u16) -> Option<&mut Thread> {
        self.room.threads.get_mut(usize::from(number))
    }

    fn component(&self, number: u16) -> Option<&Component> {
        self.room.components.get(usize::from(number))
    }

    fn component_mut(&mut self, number: u16) -> Option<&mut Component> {
        self.room.components.get_mut(usize::from(number))
    }
}
