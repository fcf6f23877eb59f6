//! A payload of the secure world: its periodic tasks by priority, and the servers among them that run the world below (SG-41, SG-47).
//!
//! A deferrable server above a task takes C * ceil((R + T - C) / T) of a window R from it, because it may keep its budget until the window
//! begins (the double hit). What the world below cannot have, its blackout, is what tasks above its server take together, once its
//! budget was used up. Each job above may find the other world running: it comes in by path 2, and path 4 gives the core back; a release
//! may find path 4 begun, which ends first, and path 2 follows it.
//!
//! A server with windows has their time and no more, and cannot keep any of it, so it is above a task what its table gives in a window. What one
//! of its own windows loses is what comes before the server within its length: handlers of interrupts, the tick, and more urgent tasks, each
//! of which may have been held up until the window began (SG-52). Windows are disjoint, so no other server with windows is in it.
//!
//! Tasks of equal priority share the core in turns of the kernel's tick, so each counts as above the other.
//!
//! Rejected: the servers of [`crate::core_model`]. Its servers run guests that are switched by the monitor, whose costs and
//! whose chunks a payload has not.

use crate::arithmetic::remainder;
use crate::demand::Demand;
use crate::response::Contention;
use crate::steps::Steps;
use crate::supply::Supply;
use crate::table::{Table, Window};
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

impl Windows {
    /// The instants at which windows begin or end, by how long before this one they are: this one is first.
    fn boundaries_until(&self, instant: u64) -> Vec<u64> {
        let ends = self.list.iter().flat_map(|window| [window.offset_ticks, window.end_ticks()]);
        let since = |end| instant.saturating_add(self.major).saturating_sub(remainder(end, self.major));
        let mut all: Vec<u64> = ends.map(|end| remainder(since(end), self.major)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
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

    /// Longest time for which a server that wants to run does not: tasks above it, behind a budget that was just used up, or around the end of a
    /// window and the start of the next one. `None` when there is no bound within `limit`.
    #[must_use]
    pub fn blackout(&self, server: usize, limit: u64, steps: &Steps) -> Option<u64> {
        if let Some((_, table)) = self.table(server) {
            return self.dark(server, Some(table), limit, steps);
        }
        let refill = self.servers.get(server)?.budget.map_or(0, |(budget, period)| period.saturating_sub(budget));
        self.wait(server, limit, steps)?.checked_add(refill)
    }

    /// The same with a budget in hand, or a window that is open.
    #[must_use]
    pub fn wait(&self, server: usize, limit: u64, steps: &Steps) -> Option<u64> {
        self.dark(server, None, limit, steps)
    }

    /// What the tasks above a server take of a busy window, in which other servers run too, and what is outside of its table. That others run is no
    /// wait of the other world, but it puts the tasks off, so that more of their jobs come one after the other than without. And what is left of a
    /// budget may not outlast the way in: that one and the way back are nobody's.
    fn dark(&self, server: usize, table: Option<Table>, limit: u64, steps: &Steps) -> Option<u64> {
        let mine = self.servers.get(server)?;
        let mut lost = self.demands(mine.priority, None);
        lost.extend(self.boundaries());
        let mut demands = lost.clone();
        demands.extend(self.of_servers(mine.priority, Some(server)));
        for (place, other) in self.servers.iter().enumerate().filter(|(place, _)| *place != server) {
            lost.extend(self.ways(place));
            if let Some((_, period)) = other.budget {
                lost.push(Demand::DoubleHit { budget_ticks: self.switch.min(period), period_ticks: period });
            }
        }
        let offered = table.clone().map_or(Supply::Whole, Supply::Table);
        let contention = Contention { offered, demands, blocking_ticks: self.switch, ..Contention::none() };
        // Up to the first moment of its own.
        let window = contention.response(1, limit, steps)?.saturating_sub(1);
        let closed = table.map_or(0, |table| window.saturating_sub(table.supply(window)));
        let taken = |sum: u64, one: &Demand| Some(sum.saturating_add(one.in_window(window)?));
        lost.iter().try_fold(self.switch.saturating_add(closed), taken).map(|lost| lost.min(window))
    }

    /// Longest start of the world below, of this cost, from its order until a server may run: no server runs meanwhile, and all tasks come before.
    /// `None` when there is no bound within `limit`.
    #[must_use]
    pub fn start(&self, cost: u64, limit: u64, steps: &Steps) -> Option<u64> {
        let mut demands = self.demands(0, None);
        demands.extend(self.boundaries());
        let contention = Contention { demands, blocking_ticks: self.switch, ..Contention::none() };
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
        let servers = self.servers.iter().enumerate().filter(|(_, one)| one.priority >= mine.priority);
        let servers = servers.filter_map(|(place, one)| match self.table(place) {
            Some((_, table)) => Some((table.open_in_frame(), table.major_ticks())),
            None => one.budget,
        });
        let boundaries = self.windows.iter().map(|one| {
            let count = u64::try_from(one.list.len()).unwrap_or(u64::MAX).saturating_mul(2);
            (one.boundary.saturating_mul(count), one.major)
        });
        let handlers = self.handlers.iter().copied();
        tasks.chain(servers).chain(boundaries).chain(handlers).map(part).fold(0, u64::saturating_add)
    }

    fn above(&self, priority: u32, without: Option<usize>) -> Contention {
        let mut demands = self.demands(priority, without);
        demands.extend(self.boundaries());
        demands.extend(self.of_servers(priority, None));
        Contention { demands, blocking_ticks: self.switch, ..Contention::none() }
    }

    /// What servers take of what is below them; `without` is whom it is for, when that is a server. One with windows has nobody else's in them.
    fn of_servers(&self, priority: u32, without: Option<usize>) -> Vec<Demand> {
        let mut demands = Vec::new();
        let is_windowed = without.is_some_and(|server| self.table(server).is_some());
        for (place, server) in
            self.servers.iter().enumerate().filter(|(place, one)| one.priority >= priority && Some(*place) != without)
        {
            if let Some((_, table)) = self.table(place) {
                demands.extend(self.ways(place));
                demands.extend((!is_windowed).then_some(Demand::Windows(table)));
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

    /// The ways into the windows of a server and out of them.
    fn ways(&self, server: usize) -> impl Iterator<Item = Demand> {
        let windows = self.windows.iter().flat_map(|one| one.list.iter().map(|window| (window.owner, one.major)));
        windows.filter(move |(owner, _)| *owner == server).map(|(_, major)| Demand::periodic(self.switch, major))
    }

    fn demands(&self, priority: u32, without: Option<usize>) -> Vec<Demand> {
        let others =
            self.tasks.iter().enumerate().filter(|(place, task)| task.priority >= priority && Some(*place) != without);
        let tasks = others.map(|(_, task)| Demand::periodic(task.cost.saturating_add(self.switch), task.period));
        let handlers = self.handlers().map(|(cost, period)| Demand::periodic(cost, period));
        tasks.chain(handlers).collect()
    }

    /// Handlers with the ways of each: cost and period.
    fn handlers(&self) -> impl Iterator<Item = (u64, u64)> {
        self.handlers.iter().map(|(cost, period)| (cost.saturating_add(self.switch), *period))
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
        let priority = self.servers.get(window.owner)?.priority;
        let (length, (tick, tick_period)) = (window.length_ticks, windows.tick);
        // What other servers do is the other world's too, and not this window's.
        let servers = self.of_servers(priority, Some(window.owner));
        let (mut start, mut lost) = (servers.clone(), servers);
        start.push(Demand::periodic(tick, tick_period));
        start.extend(self.demands(priority, None));
        // An interrupt may have been held up until the window began, by what nothing interrupts; a job also by what is above it.
        lost.extend(self.interrupts(windows, steps));
        for (place, task) in self.tasks.iter().enumerate().filter(|(_, task)| task.priority >= priority) {
            let jitter_ticks = match self.response(place, steps) {
                Some(response) => response.saturating_sub(task.cost),
                None => task.period,
            };
            let budget_ticks = task.cost.saturating_add(self.switch);
            lost.push(Demand::Periodic { budget_ticks, period_ticks: task.period, jitter_ticks });
        }
        let blocking = |boundaries: usize| {
            let boundaries = u64::try_from(boundaries).unwrap_or(u64::MAX);
            self.switch.saturating_add(windows.boundary.saturating_mul(boundaries))
        };
        // What comes before it may have begun at any boundary before its own, and have each one since then in it.
        let boundaries = windows.boundaries_until(window.offset_ticks);
        let late = |(earlier, since): (usize, &u64)| {
            let blocking_ticks = blocking(earlier.saturating_add(1));
            let contention = Contention { demands: start.clone(), blocking_ticks, ..Contention::none() };
            let response = contention.response(1, length.saturating_add(*since), steps)?;
            Some(response.saturating_sub(1).saturating_sub(*since))
        };
        let latest_start = boundaries.iter().enumerate().map(late).try_fold(0, |most, late| Some(most.max(late?)));
        let once = self.switch.saturating_add(windows.boundary).saturating_add(tick);
        let held = self.handlers().fold(once, |all, (cost, _)| all.saturating_add(cost));
        let near = boundaries.iter().take_while(|since| **since == 0 || **since < held).count();
        let taken = |all: u64, demand: &Demand| Some(all.saturating_add(demand.in_window(length)?));
        let most_lost = lost.iter().try_fold(blocking(near), taken).unwrap_or(length).min(length);
        Some(Disturbance { latest_start, most_lost })
    }

    /// The tick and the handlers, each with how long the others, a boundary and a way that has begun may hold it up.
    fn interrupts(&self, windows: &Windows, steps: &Steps) -> Vec<Demand> {
        let all: Vec<(u64, u64)> = core::iter::once(windows.tick).chain(self.handlers()).collect();
        let held = |(place, (cost, period)): (usize, &(u64, u64))| {
            let others = all.iter().enumerate().filter(|(other, _)| *other != place);
            let demands = others.map(|(_, (cost, period))| Demand::periodic(*cost, *period)).collect();
            let blocking_ticks = self.switch.saturating_add(windows.boundary);
            let contention = Contention { demands, blocking_ticks, ..Contention::none() };
            let response = contention.response(*cost, *period, steps).unwrap_or(*period);
            let jitter_ticks = response.saturating_sub(*cost);
            Demand::Periodic { budget_ticks: *cost, period_ticks: *period, jitter_ticks }
        };
        all.iter().enumerate().map(held).collect()
    }
}
