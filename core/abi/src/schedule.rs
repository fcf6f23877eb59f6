//! How a shared core chooses who runs: the host's decisions as bytes, and what the core has given to whom.
//!
//! A core that one vCPU owns has no [`SchedulePlan`]; its monitor has nothing to decide and sets no timer. A shared core
//! has one, which names the core's vCPUs by *slot* and its servers by number, the most important first. The rules
//! behind the numbers are those of `core/sched`, which the monitor, the simulator and the analysis share. The numbers are those
//! of [`bulkhead_words`]; a field that holds one has a method of its name that reads it.

use crate::readers::{tables, words};
use crate::{GuestAddress, PhysicalAddress};
pub use bulkhead_words::{
    FloatingPoint, Gate, OnEmpty, OnInterrupt, Reading, Ring, RouteRule, Rule, ScheduleKind, ServerFlag,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of a schedule plan.
#[cfg(not(target_os = "none"))]
pub const SCHEDULE_PLAN_MAGIC: u64 = u64::from_le_bytes(*b"BHSCHED1");
/// First eight bytes of a usage page.
pub const USAGE_MAGIC: u64 = u64::from_le_bytes(*b"BHUSAGE1");

/// Most vCPUs of a shared core.
pub const MAX_CORE_VCPUS: usize = 8;
/// Most servers of a shared core.
pub const MAX_CORE_SERVERS: usize = 16;
/// Most windows of a core's time table.
pub const MAX_CORE_WINDOWS: usize = 32;
/// Most priorities of a core that have a quantum.
pub const MAX_CORE_QUANTA: usize = 8;
/// Most clients of a PIBS server.
pub const MAX_SERVER_CLIENTS: usize = 4;
/// Bytes of a shared core's scheduler, after the pages of its vCPUs in the core's private data.
pub const SCHEDULER_BYTES: u64 = 20 << 10;

/// No donor, no background.
pub const NO_SERVER: u32 = u32::MAX;

/// A vCPU of a shared core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SlotPlan {
    /// Its [`crate::plan::VcpuPlan`].
    pub plan: PhysicalAddress,
    /// Its page of the core's private data.
    pub data: PhysicalAddress,
    /// Its partition.
    pub partition: u32,
    /// 0: interrupts of others do not end its turn (round robin).
    pub preemptible: u32,
    /// What its timer's interrupts do when another vCPU runs: number of a [`RouteRule`].
    pub timer_route: u32,
    /// Zero.
    pub reserved: u32,
    /// Page with its stolen time (Arm DEN 0057A).
    pub stolen_time: PhysicalAddress,
    /// Where its guest reads that page.
    pub stolen_time_guest: GuestAddress,
}

/// A client of a PIBS server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClientPlan {
    /// The client's period.
    pub period_ticks: u64,
    /// The client's priority.
    pub priority: u32,
    /// Zero.
    pub reserved: u32,
}

/// A server. Durations of budgets are rounded down, periods up (`real-time.md` 1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ServerPlan {
    /// Slot of its vCPU.
    pub slot: u32,
    /// Priority, 0 is the most important.
    pub priority: u32,
    /// Number of a [`Rule`].
    pub rule: u32,
    /// Number of a [`Gate`].
    pub gate: u32,
    /// Number of an [`OnEmpty`].
    pub on_empty: u32,
    /// Priority when empty, with [`OnEmpty::Background`].
    pub background_priority: u32,
    /// Number of the server that pays, or [`NO_SERVER`] for itself.
    pub payer: u32,
    /// Bits of [`ServerFlag`].
    pub flags: u32,
    /// Budget per period.
    pub budget_ticks: u64,
    /// Period.
    pub period_ticks: u64,
    /// Smallest usable remainder.
    pub minimum_ticks: u64,
    /// Sporadic: chunks kept, 2 or more.
    pub chunks: u32,
    /// Entries used in `clients`.
    pub client_count: u32,
    /// PIBS: share of the core, numerator.
    pub share_numerator: u64,
    /// PIBS: share of the core, denominator.
    pub share_denominator: u64,
    /// Window gate: bit set of window names.
    pub windows: u64,
    /// What each wake-up or replenishment after which it is chosen costs at least (`real-time.md` 1.5); 0 = what it runs.
    pub least_charge_ticks: u64,
    /// PIBS: clients, shortest period first.
    pub clients: [ClientPlan; MAX_SERVER_CLIENTS],
}

/// A window of the core's time table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct WindowPlan {
    /// Start within the major frame.
    pub offset_ticks: u64,
    /// Length.
    pub length_ticks: u64,
    /// Name: the bit that opens gates.
    pub name: u32,
    /// Zero.
    pub reserved: u32,
}

/// The quantum of a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct QuantumPlan {
    /// Priority.
    pub priority: u32,
    /// Zero.
    pub reserved: u32,
    /// Quantum.
    pub quantum_ticks: u64,
}

/// The schedule of one shared core. One page, mapped read-only on that core alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SchedulePlan {
    /// [`SCHEDULE_PLAN_MAGIC`].
    pub magic: u64,
    /// Number of a [`ScheduleKind`].
    pub kind: u32,
    /// Entries used in `slots`, 1 or more.
    pub slot_count: u32,
    /// Entries used in `servers`.
    pub server_count: u32,
    /// Entries used in `windows`.
    pub window_count: u32,
    /// Entries used in `quanta`.
    pub quantum_count: u32,
    /// Round robin: number of an [`OnInterrupt`].
    pub on_interrupt: u32,
    /// Round robin: number of a [`Reading`].
    pub reading: u32,
    /// Round robin: number of a [`Ring`] (MZ-23).
    pub ring_moves: u32,
    /// Number of a [`FloatingPoint`].
    pub floating_point: u32,
    /// Zero.
    pub reserved: u32,
    /// Round robin: quantum.
    pub quantum_ticks: u64,
    /// Cyclic: major frame. The first one begins when the core's monitor starts.
    pub major_ticks: u64,
    /// Where the scheduler's state is, in the core's private data.
    pub scheduler: PhysicalAddress,
    /// The core's [`UsagePage`].
    pub usage: PhysicalAddress,
    /// Length of a counter tick in nanoseconds, times 2^32, rounded down.
    pub tick_length: u64,
    /// vCPUs.
    pub slots: [SlotPlan; MAX_CORE_VCPUS],
    /// Servers, the most important first.
    pub servers: [ServerPlan; MAX_CORE_SERVERS],
    /// Windows in order, disjoint.
    pub windows: [WindowPlan; MAX_CORE_WINDOWS],
    /// Priorities that take turns.
    pub quanta: [QuantumPlan; MAX_CORE_QUANTA],
}

words! { SlotPlan {
    /// What its timer's interrupts do when another vCPU runs.
    timer_route, timer_route: RouteRule;
} }

words! { ServerPlan {
    /// The rule.
    rule, rule: Rule;
    /// The gate.
    gate, gate: Gate;
    /// What happens when the budget is used up.
    on_empty, on_empty: OnEmpty;
} }

tables! { ServerPlan {
    /// The clients.
    clients, client_count: ClientPlan;
} }

impl ServerPlan {
    /// States whether the server has a flag.
    #[inline]
    #[must_use]
    pub const fn has(&self, flag: ServerFlag) -> bool {
        flag.is_in(self.flags)
    }
}

words! { SchedulePlan {
    /// How the core chooses.
    kind, kind: ScheduleKind;
    /// Round robin: what an interrupt does to the turn of another guest.
    on_interrupt, on_interrupt: OnInterrupt;
    /// Round robin: when a waiting interrupt acts.
    reading, reading: Reading;
    /// Round robin: what a reset does to the ring.
    ring, ring_moves: Ring;
    /// When floating-point registers are switched.
    floating_point, floating_point: FloatingPoint;
} }

tables! { SchedulePlan {
    /// The vCPUs.
    slots, slot_count: SlotPlan;
    /// The servers, the most important first.
    servers, server_count: ServerPlan;
    /// The windows of the time table.
    windows, window_count: WindowPlan;
    /// The priorities that take turns.
    quanta, quantum_count: QuantumPlan;
} }

/// What a server has used (QV-41).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ServerUsage {
    /// Time that it ran on its budget.
    pub budgeted_ticks: u64,
    /// Time in the background.
    pub background_ticks: u64,
    /// Times that it started to run.
    pub starts: u64,
    /// Times that its budget ran out while it ran.
    pub exhaustions: u64,
    /// Most that was charged beyond the budget in hand when it ran out, because the end was noticed late. The next budget pays it.
    pub longest_overrun_ticks: u64,
}

/// What a vCPU has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SlotUsage {
    /// Times that it became ready.
    pub wakes: u64,
    /// Longest time from becoming ready to running.
    pub longest_wait_ticks: u64,
    /// Longest time that it was ready and did not run.
    pub longest_blackout_ticks: u64,
    /// Interrupts that waited for it at EL2.
    pub interrupts_held: u64,
    /// Round robin: time used in turns of others (MZ-26).
    pub stolen_ticks: u64,
    /// Interrupts that its rate limit held back (MZ-26).
    pub interrupts_limited: u64,
}

/// Shortest time between two updates of a busy core's usage page, in counter ticks: 10 ms at 62.5 MHz. An idle core's is always
/// written. The analysis counts one publication for this much time.
pub const PUBLICATION_TICKS: u64 = 625_000;

/// What one shared core has given to whom, read by the host. Written by its monitor when the core becomes idle, and at a switch when
/// [`PUBLICATION_TICKS`] have passed. An update first says that it has begun, then writes everything else, and `time_ticks` last:
/// a copy is whole if `time_ticks`, read before the rest of it, is `begun_ticks`, read after the rest.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UsagePage {
    /// [`USAGE_MAGIC`].
    pub magic: u64,
    /// Time in which nobody ran.
    pub idle_ticks: u64,
    /// Switches from one vCPU to another.
    pub switches: u64,
    /// CNTPCT_EL0 of the latest update; written last.
    pub time_ticks: u64,
    /// By server number.
    pub servers: [ServerUsage; MAX_CORE_SERVERS],
    /// By slot.
    pub slots: [SlotUsage; MAX_CORE_VCPUS],
    /// CNTPCT_EL0 of the latest update; written first.
    pub begun_ticks: u64,
}

const _: () = assert!(size_of::<SchedulePlan>() <= 4096, "a schedule plan is one page");
const _: () = assert!(size_of::<UsagePage>() <= 4096, "a usage page is one page");
