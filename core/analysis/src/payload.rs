//! A payload of the secure world: its periodic tasks by priority, and the servers among them that run the world below (SG-41, SG-47).
//!
//! A deferrable server above a task takes C * ceil((R + T - C) / T) of a window R from it, because it may keep its budget until the window
//! begins (the double hit). What the world below cannot have, its blackout, is what tasks above its server take together, once its
//! budget was used up. Each job above may find the other world running: it comes in by path 2, and path 4 gives the core back; a release
//! may find path 4 begun, which ends first, and path 2 follows it.
//!
//! A server with windows has their time and no more, and cannot keep any of it, so it is above a task what its table gives in a window. What one
//! of its own windows loses is what comes before the server within its length: handlers of interrupts, the tick, and more urgent tasks, each
//! of which may have a job that was held up until the window began (SG-52).
//!
//! Tasks of equal priority share the core in turns of the kernel's tick, so each counts as above the other.
//!
//! Rejected: the servers of [`crate::core_model`]. Its servers run guests that are switched by the monitor, whose costs and
//! whose chunks a payload has not.

use crate::demand::Demand;
use crate::response::Contention;
use crate::steps::Steps;
use crate::table::{Table, Window};
use alloc::{vec, vec::Vec};

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

/// What the payload's kernel does of its own, in instructions, with the paths of EL3 around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelCost {
    /// A tick that wakes nobody.
    pub tick: u64,
    /// The timer at a boundary of the table of windows: its server is woken or stopped, and the kernel switches to who runs next.
    pub boundary: u64,
}

/// The most that these take: a test measures windows and holds them to their bounds. Instructions, not cycles.
pub const PROMISED_KERNEL: KernelCost = KernelCost { tick: 800, boundary: 2_000 };

/// A table of windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Length of its round.
    pub major: u64,
    /// By start; owners are servers.
    pub list: Vec<Window>,
    /// Time of a boundary.
    pub boundary: u64,
    /// Cost and period of the kernel's tick.
    pub tick: (u64, u64),
}

/// What a window may suffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// Longest time from its start until its server runs; `None` without a bound within its length.
    pub latest_start: Option<u64>,
    /// The most of its length that its server does not have: at most all of it.
    pub most_lost: u64,
}

/// All of a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// The servers.
    pub servers: Vec<Server>,
    /// Time of path 2 and path 4 together.
    pub switch: u64,
    /// Handlers of the payload's interrupts: cost and shortest distance of two.
    pub handlers: Vec<(u64, u64)>,
    /// The table of windows.
    pub windows: Option<Windows>,
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
        if let Some((_, table)) = self.table(server) {
            // From the end of a window to the first moment of the next one that has any.
            return self.wait(server, limit, steps)?.checked_add(table.longest_gap()?);
        }
        let refill = self.servers.get(server)?.budget.map_or(0, |(budget, period)| period.saturating_sub(budget));
        self.wait(server, limit, steps)?.checked_add(refill)
    }

    /// The same with a budget in hand: what the tasks above it take of a busy window, in which other servers run too. That these run is no wait of
    /// the other world, but it puts the tasks off, so that more of their jobs come one after the other than without. And what is left of a budget
    /// may not outlast the way in: that one and the way back are nobody's.
    #[must_use]
    pub fn wait(&self, server: usize, limit: u64, steps: &Steps) -> Option<u64> {
        let mine = self.servers.get(server)?;
        let tasks = self.demands(mine.priority, None);
        let others = self.servers.iter().enumerate().filter(|(place, _)| *place != server);
        let switches = others
            .filter_map(|(_, one)| one.budget)
            .map(|(_, period)| Demand::DoubleHit { budget_ticks: self.switch.min(period), period_ticks: period });
        let lost: Vec<Demand> = tasks.iter().cloned().chain(switches).collect();
        let demands = tasks.into_iter().chain(self.of_servers(mine.priority, Some(server))).collect();
        let contention = Contention { demands, blocking_ticks: self.switch, ..Contention::none() };
        // Up to the first moment of its own.
        let window = contention.response(1, limit, steps)?.saturating_sub(1);
        let taken = |sum: u64, one: &Demand| Some(sum.saturating_add(one.in_window(window)?));
        lost.iter().try_fold(self.switch, taken).map(|lost| lost.min(window))
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
        demands.extend(self.boundaries());
        demands.extend(self.of_servers(priority, None));
        Contention { demands, blocking_ticks: self.switch, ..Contention::none() }
    }

    /// What servers take of what is below them.
    fn of_servers(&self, priority: u32, without: Option<usize>) -> Vec<Demand> {
        let mut demands = Vec::new();
        for (place, server) in
            self.servers.iter().enumerate().filter(|(place, one)| one.priority >= priority && Some(*place) != without)
        {
            if let Some((windows, table)) = self.table(place) {
                let opened = windows.list.iter().filter(|window| window.owner == place);
                demands.extend(opened.map(|_| Demand::periodic(self.switch, windows.major)));
                demands.push(Demand::Windows(table));
                continue;
            }
            demands.push(match server.budget {
                Some((budget, period)) => {
                    let budget_ticks = budget.saturating_add(self.switch).min(period);
                    Demand::DoubleHit { budget_ticks, period_ticks: period }
                }
                None => Demand::Unlimited,
            });
        }
        demands
    }

    fn demands(&self, priority: u32, without: Option<usize>) -> Vec<Demand> {
        let others =
            self.tasks.iter().enumerate().filter(|(place, task)| task.priority >= priority && Some(*place) != without);
        let tasks = others.map(|(_, task)| Demand::periodic(task.cost.saturating_add(self.switch), task.period));
        let handlers =
            self.handlers.iter().map(|(cost, period)| Demand::periodic(cost.saturating_add(self.switch), *period));
        tasks.chain(handlers).collect()
    }

    /// Both ends of each window.
    fn boundaries(&self) -> impl Iterator<Item = Demand> {
        let of = |windows: &Windows| (windows.list.len().saturating_mul(2), windows.boundary, windows.major);
        let (count, boundary, major) = self.windows.as_ref().map_or((0, 0, 1), of);
        core::iter::repeat_n(Demand::periodic(boundary, major), count)
    }

    /// The windows of a server, if it has any.
    fn table(&self, server: usize) -> Option<(&Windows, Table)> {
        let windows = self.windows.as_ref().filter(|one| one.list.iter().any(|window| window.owner == server))?;
        Some((windows, Table::of_owner(windows.major, &windows.list, server, 0)))
    }

    /// What the window at this place of the table may suffer (SG-52); `None` when there is none.
    #[must_use]
    pub fn disturbance(&self, window: usize, steps: &Steps) -> Option<Disturbance> {
        let windows = self.windows.as_ref()?;
        let window = windows.list.get(window)?;
        let server = self.servers.get(window.owner)?;
        let length = window.length_ticks;
        let (tick, tick_period) = windows.tick;
        let mut before = vec![Demand::periodic(tick, tick_period)];
        before.extend(
            self.handlers.iter().map(|(cost, period)| Demand::periodic(cost.saturating_add(self.switch), *period)),
        );
        // What other servers do is the other world's too, and not this window's.
        let others = self.servers.iter().enumerate();
        for (_, other) in others.filter(|(place, other)| *place != window.owner && other.priority >= server.priority) {
            before.push(match other.budget {
                Some((budget, period)) => {
                    let budget_ticks = budget.saturating_add(self.switch).min(period);
                    Demand::DoubleHit { budget_ticks, period_ticks: period }
                }
                None => Demand::Unlimited,
            });
        }
        let tasks = self.tasks.iter().enumerate().filter(|(_, task)| task.priority >= server.priority);
        let (mut start, mut lost) = (before.clone(), before);
        for (place, task) in tasks {
            let cost = task.cost.saturating_add(self.switch);
            start.push(Demand::periodic(cost, task.period));
            // A job may have been held up until the window began, and the next ones come in time.
            let jitter_ticks = match self.response(place, steps) {
                Some(response) => response.saturating_sub(task.cost),
                None => task.period,
            };
            lost.push(Demand::Periodic { budget_ticks: cost, period_ticks: task.period, jitter_ticks });
        }
        let blocking_ticks = self.switch.saturating_add(windows.boundary);
        let contention = Contention { demands: start, blocking_ticks, ..Contention::none() };
        let latest_start = contention.response(1, length, steps).map(|response| response.saturating_sub(1));
        let taken =
            lost.iter().try_fold(blocking_ticks, |all, demand| Some(all.saturating_add(demand.in_window(length)?)));
        Some(Disturbance { latest_start, most_lost: taken.unwrap_or(length).min(length) })
    }
}
