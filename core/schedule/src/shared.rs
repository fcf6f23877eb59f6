//! What a shared core knows of its vCPUs, and the policy that chooses among them.
//!
//! Everything that one vCPU's exit may have to touch of another vCPU is here: interrupts that wait, dates, and what the machine
//! keeps of a vCPU that is not loaded (a type of the monitor's, to this code a value that it never looks at). The loaded vCPU
//! holds the only reference to the scheduler and hands it on when another one is loaded, so no lock is needed.
//!
//! The choice itself is [`bulkhead_sched::dispatch`] or [`bulkhead_sched::quantum`].

use bulkhead_abi::plan::{InterruptPlan, MAX_INTID, MAX_LIMITED_INTERRUPTS, PartitionPlan};
use bulkhead_abi::schedule::{
    Gate, MAX_CORE_SERVERS, MAX_CORE_VCPUS, RouteRule, Rule, SchedulePlan, ServerFlag, ServerUsage, SlotUsage,
    UsagePage,
};
use bulkhead_sched::dispatch::{self, Stint, Usage};
use bulkhead_sched::quantum::QuantumRing;
use core::mem::offset_of;
use core::sync::atomic::AtomicU64;
use slot::{Clients, Closes, Role};

mod events;
mod prepared;
mod setup;
mod slot;

pub use slot::{Held, Slot};

/// No date.
pub const NEVER: u64 = u64::MAX;
/// INTIDs that can be a guest's.
const INTIDS: usize = MAX_INTID as usize;

/// The route rule in an entry of [`Scheduler::routes`]. Above it is the place + 1 of the PIBS server's client whose doorbell it is.
const RULES: u32 = 3;
/// Where that place is.
const CLIENT_SHIFT: u32 = 2;
/// Flag of an entry of [`Scheduler::routes`]: the interrupt has a rate limit.
const LIMITED: u32 = 0x80;

/// The servers of one core.
pub type Servers = dispatch::Core<MAX_CORE_SERVERS, MAX_CORE_VCPUS>;

/// How the core chooses.
// One per core, in memory that the plan set aside for the larger of the two.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Policy {
    /// By the servers' priorities and budgets.
    Servers(Servers),
    /// By turns, with the published interrupt policies.
    Ring(QuantumRing),
}

impl Policy {
    /// Tells it whether a slot has something to do from now on.
    #[inline(always)]
    fn set_ready(&mut self, slot: u8, ready: bool, now: u64) {
        match self {
            Self::Servers(servers) if ready => servers.wake(now, slot),
            Self::Servers(servers) => servers.block(now, slot),
            Self::Ring(ring) => {
                ring.advance(now);
                ring.set_ready(slot, ready);
            }
        }
    }
}

/// What the core counts of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerCounts {
    /// Times that it started to run.
    pub starts: u64,
    /// Times that its budget ran out while it ran.
    pub exhaustions: u64,
}

/// A rate limit of one interrupt.
#[derive(Debug, Default)]
pub struct InterruptLimit {
    /// INTID; 0 = unused.
    pub intid: u32,
    /// Most per window.
    pub events: u32,
    /// Window.
    pub period_ticks: u64,
    /// The limiter's word.
    pub word: AtomicU64,
}

/// A shared core's state, owned by its loaded vCPU.
#[derive(Debug)]
// In this order: what every switch reads is where one instruction reaches it.
#[repr(C)]
pub struct Scheduler<Registers> {
    /// The plan.
    pub plan: &'static SchedulePlan,
    /// When the loaded slot was woken without the policy being told yet ([`Scheduler::catch_up`]); 0 = the policy knows all.
    pub owed_ticks: u64,
    /// When the loaded slot's guest could go on after `leaver` gave the core away, and the policy was not told yet; 0 = it was.
    pub loaded_ticks: u64,
    /// From when on the one that runs is charged, and who paid for the loading until then; 0 = since the choice. For traces.
    pub charged_from: (u64, Stint),
    /// When the policy wants to be asked again.
    pub deadline_ticks: u64,
    /// What CNTHP is armed for; [`NEVER`] = not armed.
    pub armed_ticks: u64,
    /// The earliest date of a slot that the policy does not know of.
    pub next_date_ticks: u64,
    /// When the policy was told something in this exit, the instant at which it is to choose; 0 = it was not.
    pub instant: u64,
    /// Private interrupts that are enabled in the redistributor, of those that guests own.
    pub private_enabled: u32,
    /// Slots that woke since the trace last said so.
    pub woken: u32,
    /// The loaded slot.
    pub loaded: u8,
    /// Whose floating-point registers are in the machine.
    pub floating_point_owner: u8,
    /// Something happened that may change who runs.
    pub decide: bool,
    /// List registers were in use when the last vCPU was unloaded, and may hold its values.
    pub list_used: bool,
    /// [`Self::next_date_ticks`] may be of the loaded slot, which needs none.
    pub date_is_stale: bool,
    /// Who ran last, through what (the slot again under round robin).
    pub stint: Stint,
    /// Who pays for the loading of the one that runs: the one that gave the core away, and nobody else if it was taken.
    pub leaver: Stint,
    /// Slot + 1 of the owner of each interrupt; 0 = nobody's.
    pub owners: [u8; INTIDS],
    /// Route of each interrupt.
    pub routes: [u8; INTIDS],
    /// Its vCPUs.
    pub slots: [Slot<Registers>; MAX_CORE_VCPUS],
    /// How it chooses.
    pub policy: Policy,
    /// What each server did.
    pub counts: [ServerCounts; MAX_CORE_SERVERS],
    /// Switches between vCPUs.
    pub switches: u64,
    /// Servers whose budget ran out since the trace last said so.
    pub exhausted: u64,
    /// Servers that waited for their budgets when the trace was last told of them.
    pub waiting: u64,
    /// When the usage page was written last.
    pub published_ticks: u64,
    /// Rate limits.
    pub limits: [InterruptLimit; MAX_LIMITED_INTERRUPTS],
    /// INTID of the console's input; 0 = none comes to this core.
    pub console_intid: u32,
    /// Slot that receives it.
    pub console: u8,
    /// The console's interrupt waits for that slot.
    pub console_waits: bool,
}

impl<Registers> Scheduler<Registers> {
    /// Registers what a partition's plan says about the interrupts of slot `slot`.
    pub fn adopt(&mut self, slot: u8, partition: &'static PartitionPlan) {
        for interrupt in partition.interrupts() {
            let limited = self.limit(interrupt);
            let at = interrupt.intid as usize;
            if let (Some(owner), Some(route)) = (self.owners.get_mut(at), self.routes.get_mut(at)) {
                *owner = slot.wrapping_add(1);
                *route = (interrupt.route | limited | interrupt.client << CLIENT_SHIFT) as u8;
            }
        }
        let plan = self.plan;
        let ring = matches!(self.policy, Policy::Ring(_));
        let Some(state) = self.slot_mut(slot) else { return };
        let own =
            plan.servers().iter().zip(0..MAX_CORE_SERVERS as u8).filter(|(server, _)| server.slot == u32::from(slot));
        let (mut closes, mut clients) = (None, None);
        for (server, number) in own {
            if server.gate() == Some(Gate::Interrupt) {
                let at_end = server.has(ServerFlag::VoluntaryReturn);
                let one = if at_end { Closes::AtEnd } else { Closes::Late };
                closes = closes.max(Some(one));
            }
            if server.rule().is_some_and(Rule::serves_clients) {
                let default = 1u8.wrapping_shl(server.client_count);
                clients = Some(Clients { server: number, default, ..Clients::default() });
            }
        }
        state.timer_route = plan.slots.get(usize::from(slot)).map_or(0, |slot| slot.timer_route);
        let preempts = ring && state.timer_route == RouteRule::Preempt.number();
        state.role = match (closes, clients) {
            (closes, Some(clients)) => Role::Serves(closes, clients),
            (Some(closes), None) => Role::Gated(closes, slot::Gate::Closed),
            (None, None) if preempts => Role::Preempts,
            (None, None) => Role::Plain,
        };
        state.partition = Some(partition);
    }

    /// Takes a place for an interrupt's rate limit, if it has one; returns the flag of its route.
    fn limit(&mut self, interrupt: &InterruptPlan) -> u32 {
        if interrupt.limit_period_ticks == 0 {
            return 0;
        }
        if let Some(free) = self.limits.iter_mut().find(|limit| limit.intid == 0) {
            (free.intid, free.events) = (interrupt.intid, interrupt.limit_events);
            free.period_ticks = interrupt.limit_period_ticks;
        }
        LIMITED
    }

    /// What a server could use at once; without a limit under round robin.
    pub fn capacity_ticks(&mut self, server: u8, now: u64) -> u64 {
        match &mut self.policy {
            Policy::Servers(servers) => servers.capacity_ticks(server, now),
            Policy::Ring(_) => u64::MAX,
        }
    }

    /// For traces: a server whose budget ran out, and one that no longer waits for its own, as bits. One of each at a time, so
    /// that a decision with trace recording is not longer by all servers of the core; the others are for the next calls.
    pub fn take_budget_changes(&mut self, now: u64) -> (u64, u64) {
        let lowest = |set: u64| set & set.wrapping_neg();
        let exhausted = lowest(self.exhausted);
        self.exhausted ^= exhausted;
        let Policy::Servers(servers) = &mut self.policy else { return (exhausted, 0) };
        let waiting = servers.waiting();
        let left = lowest(self.waiting & !waiting);
        self.waiting = (self.waiting | waiting) & !left;
        // One that fell asleep ceases to wait without budget.
        let returns = left != 0 && servers.capacity_ticks(left.trailing_zeros() as u8, now) > 0;
        (exhausted, if returns { left } else { 0 })
    }

    /// The words of the core's usage page but those that date it: each with its offset there.
    pub fn usage(&self, mut store: impl FnMut(usize, u64)) {
        let mut store_all = |start: usize, words: &[u64]| {
            for (offset, word) in (start..).step_by(8).zip(words) {
                store(offset, *word);
            }
        };
        let (servers, ring, idle) = match &self.policy {
            Policy::Servers(servers) => (Some(servers), None, servers.idle_ticks()),
            Policy::Ring(ring) => (None, Some(ring), ring.idle_ticks()),
        };
        let ring = |number| ring.map_or((0, 0), |ring| ring.used_and_stolen_ticks(number));
        store_all(offset_of!(UsagePage, idle_ticks), &[idle, self.switches]);
        let count = self.plan.server_count.max(self.plan.slot_count) as usize;
        for (number, counts) in self.counts.iter().enumerate().take(count) {
            let used = servers.map_or(Usage::default(), |servers| servers.usage(number as u8));
            let budgeted = used.budgeted_ticks.wrapping_add(ring(number as u8).0);
            let place = offset_of!(UsagePage, servers).wrapping_add(size_of::<ServerUsage>().wrapping_mul(number));
            let overrun = used.longest_overrun_ticks;
            store_all(place, &[budgeted, used.background_ticks, counts.starts, counts.exhaustions, overrun]);
        }
        for (number, slot) in self.slots.iter().enumerate().take(self.plan.slot_count as usize) {
            let SlotUsage { wakes, longest_wait_ticks, longest_blackout_ticks, interrupts_held, .. } = slot.usage;
            let place = offset_of!(UsagePage, slots).wrapping_add(size_of::<SlotUsage>().wrapping_mul(number));
            let stolen = ring(number as u8).1;
            let limited = slot.usage.interrupts_limited;
            store_all(place, &[wakes, longest_wait_ticks, longest_blackout_ticks, interrupts_held, stolen, limited]);
        }
    }

    /// A slot.
    pub fn slot(&self, slot: u8) -> Option<&Slot<Registers>> {
        self.slots.get(usize::from(slot))
    }

    /// A slot, to change it.
    pub fn slot_mut(&mut self, slot: u8) -> Option<&mut Slot<Registers>> {
        self.slots.get_mut(usize::from(slot))
    }

    /// The loaded slot.
    pub fn own(&mut self) -> Option<&mut Slot<Registers>> {
        self.slots.get_mut(usize::from(self.loaded))
    }

    /// The slot that owns a shared peripheral interrupt.
    #[inline]
    pub fn owner(&self, intid: u32) -> Option<u8> {
        self.owners.get(intid as usize).copied()?.checked_sub(1)
    }
}
