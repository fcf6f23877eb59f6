//! Servers of the non-secure world among tasks of the payload, in milliseconds: their table and accounts together, against the published
//! numbers (SG-41, SG-47, SG-E5, SG-E7).

use bulkhead_world::flash::{MOST_SERVERS, ServerKind, ServerPlan};
use bulkhead_world::overrun::{Event, Overruns};
use bulkhead_world::servers::{PriorityRange, Servers, wanted_by_priority};

/// A periodic task: priority (lower is more important, as in the paper), period, execution time, first release.
#[derive(Clone, Copy)]
struct Task(u32, u64, u64, u64);

/// A server: priority, kind, budget and period (0: none). Its periods begin at 0.
#[derive(Clone, Copy)]
struct Server(u32, ServerKind, u64, u64);

/// The kernel's part: the most important ready task runs, one millisecond at a time.
struct Core<'a> {
    tasks: &'a [Task],
    left: Vec<u64>,
    worst_response: Vec<u64>,
    servers: &'a [Server],
    table: Servers,
    overruns: Overruns<MOST_SERVERS>,
    now: u64,
    used: Vec<u64>,
}

impl<'a> Core<'a> {
    fn new(tasks: &'a [Task], servers: &'a [Server]) -> Self {
        let mut plan = [ServerPlan::default(); MOST_SERVERS];
        let mut overruns = Overruns::new();
        for (place, Server(priority, kind, budget, period)) in servers.iter().copied().enumerate() {
            plan[place] = ServerPlan { kind: kind as u32, priority, budget_ticks: budget, ..ServerPlan::default() };
            if budget != 0 {
                overruns.open(place, budget, period, 0, 0).expect("a valid account");
            }
        }
        let mut table = Servers::new(&plan);
        table.set_world(true);
        let count = tasks.len();
        let (left, worst_response) = (vec![0; count], vec![0; count]);
        let used = vec![0; servers.len()];
        let mut core = Self { tasks, left, worst_response, servers, table, overruns, now: 0, used };
        core.release();
        core
    }

    fn release(&mut self) {
        for (left, Task(_, period, time, first)) in self.left.iter_mut().zip(self.tasks) {
            if self.now >= *first && (self.now - first).is_multiple_of(*period) {
                assert_eq!(*left, 0, "a task misses its deadline at {}", self.now);
                *left = *time;
            }
        }
    }

    fn best_task(&self) -> Option<usize> {
        (0..self.tasks.len()).filter(|task| self.left[*task] != 0).min_by_key(|task| self.tasks[*task].0)
    }

    /// Who runs from now on: the server, if it is one.
    fn decide(&mut self) -> Option<usize> {
        while let Some(event) = self.overruns.take_event(self.now) {
            match event {
                Event::UsedUp(server) => self.table.used_up(server),
                Event::Filled(server) => self.table.filled(server),
            }
        }
        let best = self.best_task();
        let is_first = |server: &usize| best.is_none_or(|task| self.servers[*server].0 < self.tasks[task].0);
        let may_run = (0..self.servers.len()).filter(|server| self.table.may_run(*server));
        let server = may_run.min_by_key(|server| self.servers[*server].0).filter(is_first);
        self.overruns.switch(server, self.now, |_| u64::MAX);
        server
    }

    /// One millisecond of what was decided.
    fn run(&mut self, server: Option<usize>) {
        self.now += 1;
        match (server, self.best_task()) {
            (Some(server), _) => self.used[server] += 1,
            (None, Some(task)) => {
                self.left[task] -= 1;
                if self.left[task] == 0 {
                    let Task(_, period, _, first) = self.tasks[task];
                    let released = first + (self.now - 1 - first) / period * period;
                    self.worst_response[task] = self.worst_response[task].max(self.now - released);
                }
            }
            (None, None) => (),
        }
        self.release();
    }

    fn step(&mut self) -> Option<usize> {
        let server = self.decide();
        self.run(server);
        server
    }
}

/// SG-E5's tasks, T1 and T2, and the longest delay of an interrupt that is always there from `first` on.
fn delay_and_response(servers: &[Server], t1_first: u64, first: u64, is_dense: bool) -> (u64, u64) {
    let tasks = [Task(2, 50, 10, t1_first), Task(4, 300, 100, t1_first)];
    let mut core = Core::new(&tasks, servers);
    let (mut waiting_from, mut worst) = (None, 0);
    while core.now < 1500 {
        if core.now == first || is_dense && core.now > first {
            waiting_from = waiting_from.or(Some(core.now));
        }
        let arrived = core.now;
        // The timer is more urgent than an armed interrupt, so that a budget that ends now has ended before.
        let mut server = core.decide();
        if waiting_from == Some(arrived) && server.is_none() {
            core.table.fired(0);
            server = core.decide();
        }
        if server.is_some() {
            worst = worst.max(waiting_from.take().map_or(0, |from| arrived - from));
        }
        core.run(server);
    }
    (worst, core.worst_response[1])
}

const BTASK: Server = Server(9, ServerKind::Background, 0, 0);

/// SG-40, SG-47: with a background task alone the delay is the longest busy stretch, 130 ms.
#[test]
fn idle_delay_is_the_busy_stretch() {
    let worst = (0..300).map(|first| delay_and_response(&[BTASK], 5, first, false).0).max();
    assert_eq!(worst, Some(130));
}

/// SG-41, SG-47: an ITask of 2 ms in 30 on top delays by 28 ms at most, T2's response stays within 142 ms; below T1 it is 38 ms. Both
/// are reached.
#[test]
fn an_itask_bounds_the_delay_at_either_place() {
    for (priority, delay, response) in [(1, 28, 142), (3, 38, 142)] {
        let servers = [Server(priority, ServerKind::Interrupt, 2, 30), BTASK];
        let (mut worst_delay, mut worst_response) = (0, 0);
        for t1_first in 0..30 {
            for first in t1_first..t1_first + 30 {
                let (one, other) = delay_and_response(&servers, t1_first, first, true);
                (worst_delay, worst_response) = (worst_delay.max(one), worst_response.max(other));
            }
        }
        assert_eq!(worst_delay, delay, "priority {priority}");
        assert!(worst_response <= response, "T2 took {worst_response} ms");
        assert_eq!(worst_response, response, "the bound is reached");
    }
}

/// SG-41, SG-E6: an RTask of 6 ms in 30 gives the world its budget in every period.
#[test]
fn an_rtask_gives_a_share_in_every_period() {
    let tasks = [Task(2, 50, 10, 0), Task(4, 300, 100, 0)];
    let servers = [Server(3, ServerKind::Reserved, 6, 30), BTASK];
    let mut core = Core::new(&tasks, &servers);
    for _ in 0..100 {
        let before: u64 = core.used.iter().sum();
        for _ in 0..30 {
            core.step();
        }
        assert!(core.used.iter().sum::<u64>() - before >= 6, "until {}", core.now);
    }
    assert_eq!(core.used[0], 600, "and no more than that at its priority");
}

/// The grid of SG-E7: the longest time from a timer interrupt of the world, in LTASK0, to its thread of this priority.
fn wake_up(thread: u32, at: u64) -> u64 {
    let map = [PriorityRange { from: 95, to: 99, server: 0 }, PriorityRange { from: 88, to: 94, server: 1 }];
    let tasks = [Task(4, 100, 10, 0), Task(8, 200, 30, 0), Task(10, 200, 80, 0)];
    let latency = |priority, period, budget| Server(priority, ServerKind::Latency, budget, period);
    let servers = [latency(7, 150, 15), latency(9, 300, 25), Server(11, ServerKind::Background, 0, 0)];
    let mut core = Core::new(&tasks, &servers);
    core.table.yielded(2, u64::MAX);
    while core.now < at {
        core.step();
    }
    core.table.fired(0);
    let mut is_handled = false;
    loop {
        let mut server = core.decide();
        if server.is_some() && !is_handled {
            // The handler's own time is nothing here: it asks for the thread's LTASK as soon as the world runs.
            is_handled = true;
            core.table.yielded(0, wanted_by_priority(&map, thread));
            server = core.decide();
        }
        // The thread runs when its LTASK or a less important task runs the world.
        if server.is_some() {
            return core.now - at;
        }
        core.run(server);
    }
}

/// SG-E7, SG-80: over every phase the thread of 99 waits for T1 alone, and that of 90 for T1 and T2. That of 30 waits for all three, and
/// once more for T1, which comes again after 100 ms: 130, where 10 + 30 + 80 would be 120.
#[test]
fn the_published_grid_of_latency_tasks() {
    let worst = |thread| (2000..2600).map(|at| wake_up(thread, at)).max();
    assert_eq!([99, 90, 30].map(worst), [Some(10), Some(40), Some(130)]);
}
