//! One shared core as the analysis sees it: servers, interrupts, time table, and what the monitor itself takes.
//!
//! It is neutral: no names, no places in a file, one unit of time. `bulkhead-timing` makes it from a checked system, tests
//! make it by hand.

use crate::demand::Demand;
use crate::overhead::{Costs, Habits, Returns};
pub use crate::rule::*;
use crate::table::Window;
use alloc::vec::Vec;

/// A shared core under fixed priorities, with or without a time table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreModel {
    /// Servers, in any order.
    pub servers: Vec<Server>,
    /// Work above every server that no budget pays for. Our monitor has none; published systems do (CFG-01).
    pub events: Vec<Demand>,
    /// Time table.
    pub table: Option<TimeTable>,
    /// Priorities whose servers take turns, and the quantum.
    pub quanta: Vec<(u8, u64)>,
    /// Longest passage of the monitor, or of a guest that may not be pre-empted.
    pub blocking_ticks: u64,
    /// How much more than its budget a server may be charged, and how much longer a turn lasts: the end is noticed late, and
    /// a server that gives the core away is charged until its successor's guest runs.
    pub lateness_ticks: u64,
    /// What the monitor takes from the vCPU that runs.
    pub costs: Costs,
    /// What is known of each vCPU, by its number; of those that are missing: nothing, and no interrupts.
    pub habits: Vec<Habits>,
    /// Requests of managers to vCPUs of this core: the vCPU, and what the limiter lets through.
    pub requests: Vec<(usize, Returns)>,
}

/// Windows of a cyclic core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeTable {
    /// Major frame.
    pub major_ticks: u64,
    /// Windows in order.
    pub windows: Vec<Window>,
    /// A switch with the longest passage: what a window loses when the one in front of it ends where it begins.
    pub passage_ticks: u64,
}

/// A claim of a vCPU on the core's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Whose; any numbering.
    pub vcpu: usize,
    /// Priority, 0 is the most important. With clients ([`Rule::pibs`]), they decide.
    pub priority: u8,
    /// How its time is spent and comes back.
    pub rule: Rule,
    /// When it may be used.
    pub gate: Gate,
    /// Number of the server whose budget it spends; `None` for its own.
    pub payer: Option<usize>,
    /// Priority at which it continues when the budget is used up.
    pub background: Option<u8>,
    /// What each wake-up or replenishment after which it is chosen costs it at least (`real-time.md` 1.5).
    pub least_charge_ticks: u64,
}

impl Server {
    /// A server that is always open, pays for itself and stops when its budget is used up.
    #[must_use]
    pub const fn new(vcpu: usize, priority: u8, rule: Rule) -> Self {
        Self { vcpu, priority, rule, gate: Gate::Always, payer: None, background: None, least_charge_ticks: 0 }
    }

    /// The most important priority at which it ever competes with a budget.
    #[must_use]
    pub fn best_priority(&self) -> u8 {
        let clients = self.rule.pibs().map(|pibs| pibs.clients.iter().map(|client| client.priority));
        clients.and_then(Iterator::min).unwrap_or(self.priority)
    }

    /// The least important priority at which it competes with a budget.
    #[must_use]
    pub fn lowest_priority(&self) -> u8 {
        let clients = self.rule.pibs().map(|pibs| pibs.clients.iter().map(|client| client.priority));
        clients.and_then(Iterator::max).unwrap_or(self.priority)
    }

    /// Budget and period, where it has them; grant and shortest client period of a PIBS server.
    #[must_use]
    pub fn budget(&self) -> Option<(u64, u64)> {
        self.rule.budget()
    }
}

/// When a server may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Whenever its vCPU is ready.
    Always,
    /// While an interrupt waits for it.
    Interrupt,
    /// In the windows of this owner.
    Window(usize),
    /// Never.
    Never,
}
