//! A payload of the secure world: its periodic tasks by priority, and the servers among them that run the world below (SG-41, SG-47).
//!
//! A deferrable server above a task takes C * ceil((R + T - C) / T) of a window R from it, because it may keep its budget until the window
//! begins (the double hit). What the world below cannot have, its blackout, is what tasks above its server take together, once its
//! budget was used up. Each job above may find the other world running: it comes in by path 2, and path 4 gives the core back; a release
//! may find path 4 begun, which ends first, and path 2 follows it.
//!
//! Tasks of equal priority share the core in turns of the kernel's tick, so each counts as above the other.
//!
//! Rejected: the servers of [`crate::core_model`]. Its servers run guests that are switched by the monitor, whose costs and
//! whose chunks a payload has not.

use crate::demand::Demand;
use crate::response::Contention;
use crate::steps::Steps;
use alloc::vec::Vec;

/// What the gate at EL3 takes, in instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Path 2: from a secure interrupt in the other world to the payload's vector.
    pub to_payload: u64,
    /// Path 4: from the payload's call to the other world.
    pub to_world: u64,
}

/// The most that either path may take: tests count each on the machine and hold it to this
/// (`docs/specification/secure-world.md`, part 4). Instructions, not cycles.
pub const PROMISED_PATHS: Paths = Paths { to_payload: 115, to_world: 115 };

/// What a start of the world below takes of the payload, in instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartCost {
    /// Interrupts, timers and registers brought to rest, and the switches of tasks around.
    pub fixed: u64,
    /// A page that is filled with zeros.
    pub filled_page: u64,
    /// A page that is copied out of flash and read again, with its checksum both times.
    pub copied_page: u64,
}

/// The most that a start may take: a test measures starts of several sizes and holds them to this. Instructions, not cycles.
pub const PROMISED_START: StartCost = StartCost { fixed: 16_000, filled_page: 230, copied_page: 2_350 };

impl StartCost {
    /// Of a world with so many pages of memory, of which so many come out of flash.
    #[must_use]
    pub const fn instructions(&self, pages: u64, copied_pages: u64) -> u64 {
        let filled = pages.saturating_mul(self.filled_page);
        self.fixed.saturating_add(filled).saturating_add(copied_pages.saturating_mul(self.copied_page))
    }
}

/// A periodic task. All times are in one unit, whichever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Priority: a higher number is more urgent.
    pub priority: u32,
    /// Longest execution time.
    pub cost: u64,
    /// Shortest distance of two releases.
    pub period: u64,
}

/// A task that runs the other world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Priority, as a task's.
    pub priority: u32,
    /// Deferrable budget and its period; `None` = as much as nothing more urgent wants.
    pub budget: Option<(u64, u64)>,
}

/// All of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// The servers.
    pub servers: Vec<Server>,
    /// Time of path 2 and path 4 together.
    pub switch: u64,
}

impl Payload {
    /// Worst response of a task, if it is within its period; `None` without such a bound. With a longer one, a job would find the one before
    /// it, and the deadline of neither is bounded here.
    #[must_use]
    pub fn response(&self, task: usize, steps: &Steps) -> Option<u64> {
        let mine = self.tasks.get(task)?;
        let contention = self.above(mine.priority, Some(task));
        contention.response(mine.cost, mine.period, steps)
    }

    /// Longest time for which a server that wants to run does not: tasks above it, behind a budget that was just used up. `None` when there
    /// is no bound within `limit`.
    #[must_use]
    pub fn blackout(&self, server: usize, limit: u64, steps: &Steps) -> Option<u64> {
        let refill = self.servers.get(server)?.budget.map_or(0, |(budget, period)| period.saturating_sub(budget));
        self.wait(server, limit, steps)?.checked_add(refill)
    }

    /// The same with a budget in hand.
    #[must_use]
    pub fn wait(&self, server: usize, limit: u64, steps: &Steps) -> Option<u64> {
        let mine = self.servers.get(server)?;
        // What other servers take is the other world's too.
        let tasks = self.demands(mine.priority, None);
        let contention = Contention { demands: tasks, blocking_ticks: self.switch, ..Contention::none() };
        // Up to the first moment of its own.
        contention.response(1, limit, steps).map(|response| response.saturating_sub(1))
    }

    /// Longest start of the world below, of this cost, from its order until a server may run: no server runs meanwhile, and all tasks come before.
    /// `None` when there is no bound within `limit`.
    #[must_use]
    pub fn start(&self, cost: u64, limit: u64, steps: &Steps) -> Option<u64> {
        let tasks = self.demands(0, None);
        let contention = Contention { demands: tasks, blocking_ticks: self.switch, ..Contention::none() };
        contention.response(cost, limit, steps)
    }

    /// What is used of the core by a task and all that comes before it, as parts of a million, rounded up.
    #[must_use]
    pub fn share_ppm(&self, task: usize) -> u64 {
        let Some(mine) = self.tasks.get(task) else { return 0 };
        let part = |(amount, period): (u64, u64)| {
            let ppm = u128::from(amount).saturating_mul(1_000_000).div_ceil(u128::from(period.max(1)));
            u64::try_from(ppm).unwrap_or(u64::MAX)
        };
        let tasks = self.tasks.iter().filter(|one| one.priority >= mine.priority).map(|one| (one.cost, one.period));
        let servers = self.servers.iter().filter(|one| one.priority >= mine.priority).filter_map(|one| one.budget);
        tasks.chain(servers).map(part).fold(0, u64::saturating_add)
    }

    fn above(&self, priority: u32, without: Option<usize>) -> Contention {
        let mut demands = self.demands(priority, without);
        for server in self.servers.iter().filter(|server| server.priority >= priority) {
            demands.push(match server.budget {
                Some((budget, period)) => {
                    let budget_ticks = budget.saturating_add(self.switch).min(period);
                    Demand::DoubleHit { budget_ticks, period_ticks: period }
                }
                None => Demand::Unlimited,
            });
        }
        Contention { demands, blocking_ticks: self.switch, ..Contention::none() }
    }

    fn demands(&self, priority: u32, without: Option<usize>) -> Vec<Demand> {
        let others =
            self.tasks.iter().enumerate().filter(|(place, task)| task.priority >= priority && Some(*place) != without);
        others.map(|(_, task)| Demand::periodic(task.cost.saturating_add(self.switch), task.period)).collect()
    }
}
