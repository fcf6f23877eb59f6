//! Servers: who may run, when, and on whose budget (`real-time.md` section 5).
//!
//! A server is `{priority, budget, gate, payer, on_empty}`. A vCPU holds up to [`MAX_SERVERS_PER_VCPU`] of them and runs
//! through the best one that is usable. That one idea gives Quest-V's main vCPU (sporadic, then background), SafeG's
//! ITask, RTask and BTask (gated, reserved, background), SPUMONE (two fixed priorities) and windows of a time table.
//!
//! Three things are not servers. A time table is a gate above them ([`crate::cyclic`]), a quantum belongs to a priority
//! and not to a server ([`crate::dispatch::Core::set_quantum`]), and a limiter counts events and not time
//! ([`crate::limiter`]).

use crate::budget::Budget;

/// Number of priorities; 0 is the most important.
pub const PRIORITIES: u8 = 64;
/// Most servers of one vCPU.
pub const MAX_SERVERS_PER_VCPU: usize = 4;

/// When a server may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Whenever its vCPU is ready.
    Always,
    /// While one of these interrupt sources of the vCPU is pending. Needs a bounded budget: a guest that never
    /// acknowledges keeps its gate open.
    InterruptPending(u64),
    /// While a window with one of these names is open in the core's time table.
    Window(u64),
    /// Never: configured, and switched off.
    Never,
}

/// Whose budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payer {
    /// Its own.
    Own,
    /// That of the server with this number, which pays for itself (donation has one level).
    Donor(u8),
}

/// What happens when the budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEmpty {
    /// The server waits for its replenishment.
    Stop,
    /// It continues at this less important priority and pays nothing, until the replenishment is due.
    Background(u8),
    /// As `Stop`; [`crate::dispatch::Core::take_exhausted`] names it, for callers with a handler of overruns (SG-43).
    Notify,
}

/// One claim of a vCPU on processor time.
#[derive(Clone, Debug)]
pub struct Server {
    /// Priority, below [`PRIORITIES`]. With a PIBS budget: ignored, its clients decide.
    pub priority: u8,
    /// How its time is spent and comes back.
    pub budget: Budget,
    /// When it may be used.
    pub gate: Gate,
    /// Whose budget is spent.
    pub payer: Payer,
    /// What happens when the budget is used up.
    pub on_empty: OnEmpty,
    /// What each wake-up or replenishment after which it is chosen costs at least (`real-time.md` 1.5); 0 = what it runs.
    pub least_charge_ticks: u64,
}

impl Server {
    /// A server that is always open, pays for itself, and stops when its budget is used up.
    #[must_use]
    pub const fn new(priority: u8, budget: Budget) -> Self {
        Self { priority, budget, gate: Gate::Always, payer: Payer::Own, on_empty: OnEmpty::Stop, least_charge_ticks: 0 }
    }

    /// The same server behind a gate.
    #[must_use]
    pub fn gated(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    /// The same server, paid for by another.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub fn paid_by(mut self, donor: u8) -> Self {
        self.payer = Payer::Donor(donor);
        self
    }

    /// The same server with another answer to an empty budget.
    #[must_use]
    pub fn on_empty(mut self, on_empty: OnEmpty) -> Self {
        self.on_empty = on_empty;
        self
    }

    /// The same server with a least charge.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub fn charged_at_least(mut self, ticks: u64) -> Self {
        self.least_charge_ticks = ticks;
        self
    }

    /// The most important priority at which it can ever compete.
    #[must_use]
    pub fn best_priority(&self) -> u8 {
        self.budget.clients().map_or(self.priority, |rule| rule.best_priority())
    }

    /// The least important priority at which it can compete with budget in hand.
    #[must_use]
    pub fn lowest_priority(&self) -> u8 {
        self.budget.clients().map_or(self.priority, |rule| rule.lowest_priority())
    }

    /// The priority at which it competes now, with budget.
    #[must_use]
    pub fn current_priority(&self) -> u8 {
        self.budget.clients().map_or(self.priority, |rule| rule.priority())
    }
}
