//! How one core chooses who runs.
//!
//! [`Core`] holds the servers of one core and answers one question: who runs now, and until when at the latest? Its
//! caller reports what happens (a vCPU woke, blocked, has an interrupt pending), asks [`Core::pick`] once per instant, and
//! sets a one-shot timer to the deadline that comes with the answer. There is no tick.
//!
//! The schedules of the issue are settings of this one mechanism:
//!
//! - *dedicated*: a single unlimited server. No deadline is ever reported, so no timer is ever set;
//! - *fixed priority*: servers at different priorities;
//! - *round robin*: servers that share a priority with a quantum ([`Core::set_quantum`]);
//! - *cyclic*: a table ([`Core::set_table`]) and servers behind window gates. What is inside a window is one of the above.
//!
//! Costs: choosing is constant (a bitmap of priorities, a FIFO per priority); a replenishment is logarithmic in the
//! servers of the core; entering a window is linear in the servers behind window gates.
//!
//! Who is charged: the server that was chosen last, from the instant it was chosen to the instant of the next report. So
//! the caller reads the clock once when it enters and both switches are paid by the side that pre-empts. Background
//! running is never charged.
//!
//! Rejected: a queue of vCPUs each with a private choice of servers. A queue of *servers* needs no second decision, and
//! "a better server of the vCPU that runs became usable" is then an ordinary pre-emption.

mod events;
mod setup;

pub use setup::SetupError;

use crate::budget::{Budget, BudgetRule, UNBOUNDED_TICKS};
use crate::cyclic::{CyclicTable, Slot};
use crate::dates::{Dates, NEVER};
use crate::ready::{LEVELS, ReadySet};
use crate::server::{Gate, OnEmpty, Payer, Server};

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The vCPU.
    pub vcpu: u8,
    /// The server through which it runs, and which is charged unless `background`.
    pub server: u8,
    /// The server's budget is used up and it runs on idle time.
    pub background: bool,
}

/// The answer of [`Core::pick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Who runs; `None` when the core is idle.
    pub choice: Option<Choice>,
    /// When to ask again if nothing is reported before; `None` when nothing would change.
    pub deadline_ticks: Option<u64>,
}

/// What a server has consumed (QV-41).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time that was charged.
    pub budgeted_ticks: u64,
    /// Time in the background.
    pub background_ticks: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    server: Server,
    vcpu: u8,
    /// The vCPU is ready and the gate is open.
    asking: bool,
    usage: Usage,
}

#[derive(Clone, Copy, Debug, Default)]
struct Vcpu {
    ready: bool,
    pending: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Running {
    slot: u8,
    level: u8,
    background: bool,
}

/// The quantum of one priority.
#[derive(Clone, Copy, Debug)]
struct Turn {
    quantum_ticks: u64,
    left_ticks: u64,
    owner: u8,
}

/// One core's servers. `SERVERS` and `VCPUS` are capacities, at most 64 and 255.
#[derive(Clone, Debug)]
pub struct Core<const SERVERS: usize, const VCPUS: usize> {
    entries: [Option<Entry>; SERVERS],
    count: usize,
    vcpus: [Vcpu; VCPUS],
    /// How many servers can ever be more important than each level; servers are numbered in that order.
    above: [u8; LEVELS + 1],
    turns: [Turn; LEVELS],
    ready: ReadySet<SERVERS>,
    dates: Dates<SERVERS>,
    table: Option<CyclicTable>,
    window: Slot,
    running: Option<Running>,
    now_ticks: u64,
    idle_ticks: u64,
    overruns: u64,
}

impl<const SERVERS: usize, const VCPUS: usize> Core<SERVERS, VCPUS> {
    fn entry(&self, slot: u8) -> Option<&Entry> {
        self.entries.get(usize::from(slot)).and_then(Option::as_ref)
    }

    fn entry_mut(&mut self, slot: u8) -> Option<&mut Entry> {
        self.entries.get_mut(usize::from(slot)).and_then(Option::as_mut)
    }

    /// The server whose budget this one spends.
    fn payer(&self, slot: u8) -> u8 {
        match self.entry(slot).map(|entry| entry.server.payer) {
            Some(Payer::Donor(donor)) => donor,
            _ => slot,
        }
    }

    fn budget_mut(&mut self, slot: u8) -> Option<&mut Budget> {
        self.entry_mut(slot).map(|entry| &mut entry.server.budget)
    }

    /// The server with this number.
    #[must_use]
    pub fn server(&self, slot: u8) -> Option<&Server> {
        self.entry(slot).map(|entry| &entry.server)
    }

    /// What the server has consumed up to the last report.
    #[must_use]
    pub fn usage(&self, slot: u8) -> Usage {
        self.entry(slot).map_or(Usage::default(), |entry| entry.usage)
    }

    /// Time in which nobody ran, up to the last report.
    #[must_use]
    pub const fn idle_ticks(&self) -> u64 {
        self.idle_ticks
    }

    /// The servers with [`OnEmpty::Notify`] that used their budget up since the last call, as a bit set.
    pub fn take_overruns(&mut self) -> u64 {
        core::mem::take(&mut self.overruns)
    }

    fn is_open(&self, entry: &Entry) -> bool {
        let Some(vcpu) = self.vcpus.get(usize::from(entry.vcpu)).filter(|vcpu| vcpu.ready) else {
            return false;
        };
        match entry.server.gate {
            Gate::Always => true,
            Gate::InterruptPending(sources) => vcpu.pending & sources != 0,
            Gate::Window(names) => {
                self.window.window.is_some_and(|name| names & 1u64.wrapping_shl(u32::from(name)) != 0)
            }
            Gate::Never => false,
        }
    }

    /// Puts a server where it belongs now: into a ready queue, on the list of dates, on both, or nowhere.
    fn refresh(&mut self, slot: u8, now: u64) {
        let Some(entry) = self.entry(slot) else {
            return;
        };
        let open = self.is_open(entry);
        let was_open = entry.asking;
        let priority = entry.server.current_priority();
        let on_empty = entry.server.on_empty;
        let payer = self.payer(slot);
        if open != was_open {
            self.note_asking(slot, payer, open, now);
        }
        let mut level = None;
        let mut date_ticks = NEVER;
        if let Some(budget) = self.budget_mut(payer).filter(|_| open) {
            if budget.capacity_ticks(now) > 0 {
                level = Some(priority);
            } else {
                date_ticks = budget.next_event_ticks(now).unwrap_or(NEVER);
                if let OnEmpty::Background(background) = on_empty {
                    level = Some(background);
                }
            }
        }
        self.dates.set(slot, date_ticks);
        if self.ready.level(slot) != level {
            self.ready.remove(slot);
            if let Some(level) = level {
                self.ready.push(slot, level);
            }
        }
    }

    /// Tells the budget that its owner began or ceased to ask. A donor's budget is told of a wake-up in any case, which
    /// can only forfeit credit, and of a block only when the donor does not ask itself.
    fn note_asking(&mut self, slot: u8, payer: u8, open: bool, now: u64) {
        if let Some(entry) = self.entry_mut(slot) {
            entry.asking = open;
        }
        let donor_asks = payer != slot && self.entry(payer).is_some_and(|entry| entry.asking);
        if let Some(budget) = self.budget_mut(payer) {
            if open {
                budget.wake(now);
            } else if !donor_asks {
                budget.block(now);
            }
        }
    }

    /// Chooses who runs from `now` on.
    pub fn pick(&mut self, now: u64) -> Decision {
        self.advance(now);
        // A donor's budget may have been spent by somebody else since a server was queued; each such server is met once.
        for _ in 0..=self.count {
            let Some((level, slot)) = self.ready.first() else {
                break;
            };
            let background = matches!(
                self.entry(slot).map(|entry| entry.server.on_empty),
                Some(OnEmpty::Background(own)) if own == level
            );
            let chosen = Running { slot, level, background };
            let payer = self.payer(slot);
            let capacity_ticks = match self.budget_mut(payer) {
                Some(budget) if !background => budget.capacity_ticks(now),
                _ => UNBOUNDED_TICKS,
            };
            if capacity_ticks == 0 {
                self.refresh(slot, now);
                continue;
            }
            return self.start(chosen, payer, now);
        }
        self.running = None;
        let deadline = self.dates.earliest_of_first(self.count).min(self.boundary_ticks());
        Decision { choice: None, deadline_ticks: (deadline != NEVER).then_some(deadline) }
    }

    /// Lets the chosen server run and says until when.
    fn start(&mut self, chosen: Running, payer: u8, now: u64) -> Decision {
        let mut deadline = self.boundary_ticks();
        let fresh = self.running != Some(chosen);
        if let Some(budget) = self.budget_mut(payer).filter(|_| !chosen.background) {
            if fresh {
                budget.dispatch(now);
            }
            deadline = deadline.min(now.saturating_add(budget.capacity_ticks(now)));
        }
        self.running = Some(chosen);
        let mut rivals = usize::from(chosen.level);
        let peers = self.ready.has_peers(chosen.level);
        if let Some(turn) = self.turns.get_mut(usize::from(chosen.level)).filter(|turn| turn.quantum_ticks > 0) {
            if turn.owner != chosen.slot {
                turn.owner = chosen.slot;
                turn.left_ticks = turn.quantum_ticks;
            }
            if peers {
                deadline = deadline.min(now.saturating_add(turn.left_ticks));
            }
            // An equal that becomes usable starts to wait for this turn's end.
            rivals = rivals.saturating_add(1);
        }
        let above = self.above.get(rivals).copied().unwrap_or(0);
        deadline = deadline.min(self.dates.earliest_of_first(usize::from(above)));
        let vcpu = self.entry(chosen.slot).map_or(0, |entry| entry.vcpu);
        Decision {
            choice: Some(Choice { vcpu, server: chosen.slot, background: chosen.background }),
            deadline_ticks: (deadline != NEVER).then_some(deadline),
        }
    }

    fn boundary_ticks(&self) -> u64 {
        if self.table.is_some() { self.window.until_ticks } else { NEVER }
    }
}
