//! How one core chooses who runs.
//!
//! [`Core`] holds the servers of one core and answers one question: who runs now, and until when at the latest? Its
//! caller reports what happens (a vCPU woke, blocked, has an interrupt pending), asks [`Core::next`] once per instant, and
//! sets a one-shot timer to the deadline that comes with the answer. There is no tick.
//!
//! The schedules of a description are settings of this one mechanism:
//!
//! - *dedicated*: a single unlimited server. No deadline is ever reported, so no timer is ever set;
//! - *fixed priority*: servers at different priorities;
//! - *round robin*: servers that share a priority with a quantum ([`Core::set_quantum`]);
//! - *cyclic*: a table ([`Core::set_table`]) and servers behind window gates. What is inside a window is one of the above.
//!
//! Costs: choosing is constant (a bitmap of priorities, a FIFO per priority); a replenishment is logarithmic in the
//! servers of the core; entering a window is linear in the servers behind window gates.
//!
//! Who is charged: the server that was chosen last, from the instant it was chosen to the instant of the next report. So a
//! server that pre-empts pays for its own loading, and with [`Core::loaded`] one that gives the core away pays for that of its
//! successor: both switches are paid by the side that pre-empts (`real-time.md` 1.2). Background running is never charged.
//!
//! The path that a guest waits for is short by construction: an interrupt makes a vCPU ready, the server that ran is
//! charged, and the core picks. So sets of servers and vCPUs are words of bits, the sporadic and the unlimited rule are
//! looked at before the others, and what is rare (an exhausted budget, a donor, a turn that ends) is kept out of line.
//! `guests/schedcost` counts the instructions.
//!
//! Rejected: a queue of vCPUs each with a private choice of servers. A queue of *servers* needs no second decision, and
//! "a better server of the vCPU that runs became usable" is then an ordinary pre-emption.

mod choose;
#[cfg(not(target_os = "none"))]
mod decision;
mod events;
mod least;
mod place;
mod setup;

#[cfg(not(target_os = "none"))]
pub use decision::{Choice, Decision};
pub use setup::SetupError;

use crate::Members;
use crate::budget::{Budget, BudgetRule};
use crate::cyclic::{CyclicTable, Slot};
use crate::dates::Dates;
use crate::ready::{LEVELS, ReadySet};
use crate::server::{Gate, Server};

/// Most priorities of a core that have a quantum.
pub const MAX_QUANTA: usize = 8;
/// No background priority.
const NO_LEVEL: u8 = u8::MAX;

/// What a blocked vCPU will run with when it wakes ([`Core::prospect`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prospect {
    /// Priority.
    pub level: u8,
    /// Time that it can use at least.
    pub capacity_ticks: u64,
}

impl Default for Prospect {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl Prospect {
    /// Only [`Core::next`] can tell.
    pub const UNKNOWN: Self = Self { level: u8::MAX, capacity_ticks: 0 };
}

/// What a server has consumed (QV-41).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time that it ran on its budget; what a least charge adds is no time.
    pub budgeted_ticks: u64,
    /// Time in the background.
    pub background_ticks: u64,
    /// Most that was charged beyond the budget in hand when it ran out, because the end was noticed late.
    pub longest_overrun_ticks: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    server: Server,
    usage: Usage,
    /// Servers that spend this one's budget; itself, unless somebody else pays for it.
    spenders: u64,
    vcpu: u8,
    /// Whose budget it spends.
    payer: u8,
    /// The budget that it spends is spent by others as well, or is not its own.
    shares: bool,
    /// Priority at which it competes with budget.
    level: u8,
    /// Priority at which it competes without, or [`NO_LEVEL`].
    background: u8,
    /// What [`Usage::budgeted_ticks`] reaches when the least charge of its activation is paid.
    least_until_ticks: u64,
}

/// Who runs through what, in one word that is compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stint(u32);

impl Stint {
    /// Nobody.
    pub const IDLE: Self = Self(u32::MAX);
    const BACKGROUND: u32 = 1 << 16;

    /// A vCPU that runs through a server at a priority.
    #[inline]
    #[must_use]
    pub const fn new(vcpu: u8, server: u8, level: u8, background: bool) -> Self {
        Self(server as u32 | (level as u32) << 8 | (background as u32) << 16 | (vcpu as u32) << 24)
    }

    /// The server through which it runs, and which is charged unless it is in the background.
    #[inline]
    #[must_use]
    pub const fn server(self) -> u8 {
        self.0 as u8
    }

    /// The vCPU.
    #[inline]
    #[must_use]
    pub const fn vcpu(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// The server's budget is used up and it runs on idle time.
    #[inline]
    #[must_use]
    pub const fn is_background(self) -> bool {
        self.0 & Self::BACKGROUND != 0
    }

    /// The priority at which it runs.
    #[inline]
    #[must_use]
    pub const fn level(self) -> u8 {
        (self.0 >> 8) as u8
    }
}

/// The answer of [`Core::next`], in two words: the path of an interrupt asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Who runs.
    pub stint: Stint,
    /// When to ask again if nothing is reported before; `u64::MAX` when nothing would change.
    pub deadline_ticks: u64,
}

/// The quantum of one priority.
#[derive(Clone, Copy, Debug)]
struct Turn {
    quantum_ticks: u64,
    left_ticks: u64,
    owner: u8,
}

/// One core's servers. `SERVERS` and `VCPUS` are capacities: 1, 4, 16 or 64 servers, and at most 64 vCPUs.
#[derive(Clone, Debug)]
// In this order: what every report reads is where one instruction reaches it.
#[repr(C)]
pub struct Core<const SERVERS: usize, const VCPUS: usize> {
    now_ticks: u64,
    /// Nothing happens by itself before this: no window ends and no budget comes back.
    quiet_until_ticks: u64,
    running: Stint,
    count: u8,
    /// vCPUs that have something to do.
    awake: u64,
    /// Servers whose vCPU is ready and whose gate is open.
    asking: u64,
    /// Servers without a gate.
    ungated: u64,
    /// Servers that pay for themselves alone by the unlimited or the sporadic rule, in priorities without a quantum, and without
    /// a least charge.
    simple: u64,
    /// The same with a least charge, or without.
    foreseeable: u64,
    /// Servers with a least charge.
    least: u64,
    /// Those of them that woke, or whose budget is back, and that were not chosen since.
    entering: u64,
    /// Servers behind interrupt gates.
    interrupt_gated: u64,
    /// Servers behind window gates.
    window_gated: u64,
    /// Priorities with a quantum.
    quanta: u64,
    idle_ticks: u64,
    exhausted: u64,
    window: Slot,
    ready: ReadySet<SERVERS>,
    /// Servers of each vCPU.
    servers_of: [u64; VCPUS],
    pending: [u64; VCPUS],
    /// How many servers can ever be more important than each level; servers are numbered in that order.
    above: [u8; LEVELS + 1],
    dates: Dates<SERVERS>,
    entries: [Entry; SERVERS],
    /// Where the turn of each level is.
    turn_of: [u8; LEVELS],
    turns: [Turn; MAX_QUANTA],
    table: Option<CyclicTable>,
}

#[inline]
const fn bit(number: u8) -> u64 {
    1u64.wrapping_shl(number as u32)
}

impl<const SERVERS: usize, const VCPUS: usize> Core<SERVERS, VCPUS> {
    #[inline]
    fn entry(&self, slot: u8) -> Option<&Entry> {
        self.entries.get(crate::within::<SERVERS>(usize::from(slot)))
    }

    #[inline]
    fn entry_mut(&mut self, slot: u8) -> Option<&mut Entry> {
        self.entries.get_mut(crate::within::<SERVERS>(usize::from(slot)))
    }

    /// The budget that a server spends.
    #[inline]
    fn budget_of(&mut self, slot: u8) -> Option<&mut Budget> {
        let entry = self.entries.get(crate::within::<SERVERS>(usize::from(slot)))?;
        let payer = usize::from(if entry.shares { entry.payer } else { slot });
        self.entries.get_mut(crate::within::<SERVERS>(payer)).map(|entry| &mut entry.server.budget)
    }

    /// The server with this number.
    #[must_use]
    pub fn server(&self, slot: u8) -> Option<&Server> {
        self.entry(slot).filter(|_| slot < self.count).map(|entry| &entry.server)
    }

    /// What the server has consumed up to the last report.
    #[must_use]
    pub fn usage(&self, slot: u8) -> Usage {
        self.entry(slot).filter(|_| slot < self.count).map_or(Usage::default(), |entry| entry.usage)
    }

    /// Time in which nobody ran, up to the last report.
    #[must_use]
    pub const fn idle_ticks(&self) -> u64 {
        self.idle_ticks
    }

    /// The servers whose budget ran out while they ran, since the last call, as a bit set. Which budget that was does not
    /// matter: a server that is paid for by another one is named itself.
    pub fn take_exhausted(&mut self) -> u64 {
        core::mem::take(&mut self.exhausted)
    }

    /// The servers that ask and wait for their budgets (in the background or not), as a bit set. Linear; for simulators.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        Members(self.asking).those(|slot| self.dates.has(slot))
    }

    /// What a server could use at once if it ran now. For traces.
    pub fn capacity_ticks(&mut self, slot: u8, now: u64) -> u64 {
        self.budget_of(slot).map_or(0, |budget| budget.capacity_ticks(now))
    }

    #[inline]
    fn takes_turns(&self, level: u8) -> bool {
        self.quanta & bit(level) != 0
    }

    #[inline]
    fn is_window_open(&self, names: u64) -> bool {
        self.window.window.is_some_and(|name| names & bit(name) != 0)
    }

    /// The server's gate is open.
    #[inline]
    fn is_gate_open(&self, entry: &Entry) -> bool {
        match entry.server.gate {
            Gate::Always => true,
            Gate::InterruptPending(sources) => self
                .pending
                .get(crate::within::<VCPUS>(usize::from(entry.vcpu)))
                .is_some_and(|pending| pending & sources != 0),
            Gate::Window(names) => self.is_window_open(names),
            Gate::Never => false,
        }
    }
}
