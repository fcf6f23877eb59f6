//! A small machine around the product's own scheduler whose runs are compared with bounds.
#![allow(dead_code)] // Each test program uses a part of it.

#[path = "../../../sched/tests/support/random.rs"]
pub(crate) mod random;

use bulkhead_analysis::core_bounds::CoreBounds;
use bulkhead_analysis::core_model::{CoreModel, Gate, Rule, Server};
use bulkhead_analysis::steps::Steps;
use bulkhead_sched::budget::{
    Anchor, Budget, Client, Deferrable, Pibs, PibsRule, Polling, Share, Sporadic, SporadicParameters,
};
use bulkhead_sched::cyclic::{CyclicTable, Window};
use bulkhead_sched::dispatch::{Core, Decision, Stint};
use bulkhead_sched::server;
use random::Random;

/// Work that never ends.
pub(crate) const ALWAYS: u64 = u64::MAX / 4;
/// A core of the product with the servers of a model; deferrable and polling servers begin their grid at `grid[number]`.
pub(crate) fn scheduler(model: &CoreModel, grid: &[u64]) -> Core<16, 8> {
    let servers = model.servers.iter().enumerate().map(|(number, server)| {
        let start = grid.get(number).copied().unwrap_or(0);
        let budget = budget(&server.rule, start);
        let priority = server.best_priority();
        let mut made = server::Server::new(priority, budget);
        made.gate = match server.gate {
            Gate::Always => server::Gate::Always,
            Gate::Interrupt => server::Gate::InterruptPending(1),
            Gate::Window(owner) => server::Gate::Window(1 << owner),
            Gate::Never => server::Gate::Never,
        };
        made.payer = server.payer.map_or(server::Payer::Own, |payer| server::Payer::Donor(payer as u8));
        made.on_empty = server.background.map_or(server::OnEmpty::Stop, server::OnEmpty::Background);
        made.least_charge_ticks = server.least_charge_ticks;
        (server.vcpu as u8, made)
    });
    let mut core = Core::new(0, servers).expect("the servers of a test are valid");
    for (priority, quantum) in &model.quanta {
        core.set_quantum(*priority, *quantum);
    }
    if let Some(table) = &model.table {
        let windows: Vec<_> = table
            .windows
            .iter()
            .map(|window| Window {
                offset_ticks: window.offset_ticks,
                length_ticks: window.length_ticks,
                name: window.owner as u8,
            })
            .collect();
        core.set_table(0, CyclicTable::new(0, table.major_ticks, &windows).expect("a valid table"));
    }
    core
}

fn budget(rule: &Rule, start: u64) -> Budget {
    match rule {
        Rule::Unlimited | Rule::Promised(_) => Budget::Unlimited,
        Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor, lag_clamp, chunks, minimum_ticks } => {
            let parameters = SporadicParameters {
                budget_ticks: *budget_ticks,
                period_ticks: *period_ticks,
                smallest_chunk_ticks: *minimum_ticks,
                chunks: (*chunks).try_into().expect("few chunks"),
                anchor: if *dispatch_anchor { Anchor::Dispatch } else { Anchor::Eligible },
                lag_clamp: *lag_clamp,
            };
            Budget::Sporadic(Sporadic::new(parameters, 0).expect("valid"))
        }
        Rule::Deferrable { budget_ticks, period_ticks } => {
            Budget::Deferrable(Deferrable::new(*budget_ticks, *period_ticks, start).expect("valid"))
        }
        Rule::Polling { budget_ticks, period_ticks } => {
            Budget::Polling(Polling::new(*budget_ticks, *period_ticks, start).expect("valid"))
        }
        Rule::Pibs(pibs) => {
            let share = Share { numerator: pibs.numerator as u32, denominator: pibs.denominator as u32 };
            let clients: Vec<_> = pibs
                .clients
                .iter()
                .map(|client| Client { period_ticks: client.period_ticks, priority: client.priority })
                .collect();
            Budget::Pibs(Pibs::new(share, PibsRule::Corrected, &clients, 1, 0).expect("valid"))
        }
    }
}

/// One stretch of running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) vcpu: u8,
    pub(crate) server: u8,
    pub(crate) background: bool,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// A stretch in which a vCPU had work: from its wake-up until its work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy {
    pub(crate) vcpu: u8,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What a vCPU does that goes to the edge of what its budget allows: how much it works each time, and when it wakes again.
#[derive(Clone, Debug)]
pub(crate) struct Habit {
    pub(crate) random: Random,
    /// One of these each time.
    pub(crate) amounts: Vec<u64>,
    /// It may sleep so long, or until the next date of the grid (start and period) and these ticks more.
    pub(crate) pauses: Vec<u64>,
    pub(crate) grid: (u64, u64),
}

impl Habit {
    fn amount(&mut self) -> u64 {
        self.amounts[self.random.below(self.amounts.len() as u64) as usize].max(1)
    }

    fn next(&mut self, now: u64) -> u64 {
        let pause = self.pauses[self.random.below(self.pauses.len() as u64) as usize];
        let (start, period) = self.grid;
        let date = start + (now.saturating_sub(start) / period + 1) * period;
        // An arrival at the instant of completion is no sleep.
        (if self.random.flip() { now + pause } else { date + pause.min(3) }).max(now + 1)
    }
}

/// vCPUs with work, on the product's scheduler.
pub(crate) struct Machine {
    pub(crate) core: Core<16, 8>,
    pub(crate) runs: Vec<Run>,
    pub(crate) busy: Vec<Busy>,
    /// A vCPU whose interrupt is pending as long as it has work.
    pub(crate) interrupted: [bool; 8],
    /// Every deadline is noticed this much late.
    pub(crate) late: u64,
    /// Or by at most this much.
    pub(crate) late_by_chance: Option<Random>,
    /// What a vCPU is charged, without working, when it runs after another one.
    pub(crate) load: u64,
    /// What the running one is charged, without working, when another one wakes.
    pub(crate) way_in: u64,
    loaded: u8,
    loading: u64,
    stint: Stint,
    arrivals: Vec<(u64, u8, u64)>,
    next_arrival: usize,
    /// What each vCPU does whenever its work is done.
    habits: [Option<Habit>; 8],
    left: [u64; 8],
    since: [u64; 8],
    /// Requests to a driver, on whose behalf and how much is left; the shortest client period first.
    requests: Vec<(u64, u8, usize, u64)>,
    waiting: Vec<(usize, u64, u64)>,
    /// Finished requests: client and response.
    pub(crate) served: Vec<(usize, u64)>,
    /// Server and vCPU of the driver.
    driver: Option<(u8, u8)>,
}

impl Machine {
    pub(crate) fn new(model: &CoreModel, grid: &[u64]) -> Self {
        Self {
            core: scheduler(model, grid),
            runs: Vec::new(),
            busy: Vec::new(),
            interrupted: [false; 8],
            late: 0,
            late_by_chance: None,
            load: 0,
            way_in: 0,
            loaded: u8::MAX,
            loading: 0,
            stint: Stint::IDLE,
            arrivals: Vec::new(),
            next_arrival: 0,
            habits: [const { None }; 8],
            left: [0; 8],
            since: [0; 8],
            requests: Vec::new(),
            waiting: Vec::new(),
            served: Vec::new(),
            driver: None,
        }
    }

    /// This client asks the driver, which has a PIBS server, for this much work.
    pub(crate) fn request(&mut self, time: u64, driver: (u8, u8), client: usize, amount: u64) -> &mut Self {
        self.driver = Some(driver);
        self.requests.push((time, driver.0, client, amount));
        self
    }

    fn accept(&mut self, now: u64, server: u8, client: usize, amount: u64) {
        assert!(self.core.request(now, server, client), "a known client");
        if self.waiting.is_empty() {
            self.since[usize::from(self.driver.expect("set by the request").1)] = now;
        }
        let place = self.waiting.iter().position(|other| other.0 > client).unwrap_or(self.waiting.len());
        self.waiting.insert(place, (client, now, amount));
        let vcpu = usize::from(self.driver.expect("set by the request").1);
        self.left[vcpu] = self.waiting.first().map_or(0, |request| request.2);
    }

    fn complete(&mut self, now: u64) {
        let (server, vcpu) = self.driver.expect("the driver ran");
        let done = self.waiting.iter().position(|request| request.2 == 0).expect("just finished");
        let (client, arrived, _) = self.waiting.remove(done);
        self.served.push((client, now - arrived));
        assert!(self.core.complete(now, server, client), "the client waited");
        self.left[usize::from(vcpu)] = self.waiting.first().map_or(0, |request| request.2);
        if self.waiting.is_empty() {
            self.busy.push(Busy { vcpu, from: self.since[usize::from(vcpu)], to: now });
        }
    }

    /// This much work arrives. Work for a vCPU with a PIBS server is a request of its first client.
    pub(crate) fn work(&mut self, time: u64, vcpu: u8, amount: u64) -> &mut Self {
        self.arrivals.push((time, vcpu, amount));
        self
    }

    /// This vCPU has work at `time`, and whenever that is done again as its habit says.
    pub(crate) fn live(&mut self, time: u64, vcpu: u8, mut habit: Habit) -> &mut Self {
        let amount = habit.amount();
        self.habits[usize::from(vcpu)] = Some(habit);
        self.work(time, vcpu, amount)
    }

    fn arrive(&mut self, now: u64, vcpu: u8, amount: u64) {
        let place = usize::from(vcpu);
        let idle = self.left[place] == 0;
        self.left[place] = self.left[place].saturating_add(amount).min(ALWAYS);
        if idle {
            self.since[place] = now;
            self.core.wake(now, vcpu);
            if self.interrupted[place] {
                self.core.set_pending(now, vcpu, 1);
            }
        }
    }

    fn finish(&mut self, now: u64, vcpu: u8) {
        let place = usize::from(vcpu);
        if self.driver.is_some_and(|(_, driver)| driver == vcpu) {
            if self.waiting.iter().any(|request| request.2 == 0) {
                self.complete(now);
            }
        } else if self.left[place] == 0 {
            self.busy.push(Busy { vcpu, from: self.since[place], to: now });
            if self.interrupted[place] {
                self.core.set_pending(now, vcpu, 0);
            }
            self.core.block(now, vcpu);
            if let Some(habit) = &mut self.habits[place] {
                let again = (habit.next(now), vcpu, habit.amount());
                let place = self.arrivals.partition_point(|arrival| *arrival <= again).max(self.next_arrival);
                self.arrivals.insert(place, again);
            }
        }
    }

    pub(crate) fn run(&mut self, until: u64) -> &mut Self {
        self.arrivals.sort_unstable();
        self.requests.sort_unstable();
        let mut next_request = 0;
        self.next_arrival = 0;
        let mut now = 0;
        let mut ran = None;
        while now < until {
            while let Some((_, vcpu, amount)) =
                self.arrivals.get(self.next_arrival).copied().filter(|(time, ..)| *time <= now)
            {
                if ran.is_some_and(|running| running != vcpu) && self.left[usize::from(vcpu)] == 0 {
                    now += self.way_in;
                }
                self.arrive(now, vcpu, amount);
                self.next_arrival += 1;
            }
            while let Some((_, server, client, amount)) =
                self.requests.get(next_request).copied().filter(|(time, ..)| *time <= now)
            {
                self.accept(now, server, client, amount);
                next_request += 1;
            }
            if let Some(vcpu) = ran {
                self.finish(now, vcpu);
            }
            let answer = self.core.next(now);
            let decision = Decision::from(answer);
            let before = core::mem::replace(&mut self.stint, answer.stint);
            if self.load > 0
                && ![before, answer.stint].contains(&Stint::IDLE)
                && self.loaded != answer.stint.vcpu()
                && answer.stint.level() >= before.level()
            {
                // The server that gives the core away pays for loading its successor, and nothing interrupts that.
                now += self.load;
                self.core.loaded(now, before);
                (self.loaded, self.loading, ran) = (answer.stint.vcpu(), 0, None);
                continue;
            }
            let mut next = self.arrivals.get(self.next_arrival).map_or(until, |(time, ..)| (*time).min(until));
            next = next.min(self.requests.get(next_request).map_or(until, |(time, ..)| *time));
            if let Some(deadline) = decision.deadline_ticks {
                let late = self.late_by_chance.as_mut().map_or(self.late, |random| random.within(0, self.late));
                next = next.min(deadline + late);
            }
            // An entry may take the time until the end of the run.
            next = next.max(now);
            ran = None;
            if let Some(choice) = decision.choice {
                if self.loaded != choice.vcpu {
                    (self.loaded, self.loading) = (choice.vcpu, self.load);
                }
                let left = &mut self.left[usize::from(choice.vcpu)];
                next = next.min(now + self.loading + *left);
                let works_from = next.min(now + self.loading);
                self.loading -= works_from - now;
                *left -= next - works_from;
                if self.driver.is_some_and(|(_, driver)| driver == choice.vcpu) {
                    self.waiting.first_mut().expect("only a driver with work is chosen").2 = *left;
                }
                ran = Some(choice.vcpu);
                self.runs.push(Run {
                    vcpu: choice.vcpu,
                    server: choice.server,
                    background: choice.background,
                    from: works_from,
                    to: next,
                });
            }
            now = next;
        }
        if let Some(vcpu) = ran {
            self.finish(now, vcpu);
        }
        for vcpu in 0..8u8 {
            if self.left[usize::from(vcpu)] > 0 {
                self.busy.push(Busy { vcpu, from: self.since[usize::from(vcpu)], to: until });
            }
        }
        self
    }

    /// Worst time from a wake-up to the end of the work.
    pub(crate) fn worst_response(&self, vcpu: u8) -> u64 {
        self.busy.iter().filter(|busy| busy.vcpu == vcpu).map(|busy| busy.to - busy.from).max().unwrap_or(0)
    }

    /// Most that a server ran in its foreground in any window.
    pub(crate) fn most_in(&self, server: u8, window: u64) -> u64 {
        let runs: Vec<_> = self.runs.iter().filter(|run| run.server == server && !run.background).collect();
        let inside = |from: u64| -> u64 {
            let to = from + window;
            runs.iter().map(|run| run.to.min(to).saturating_sub(run.from.max(from))).sum()
        };
        runs.iter().flat_map(|run| [run.from, run.to.saturating_sub(window)]).map(inside).max().unwrap_or(0)
    }

    /// Least that a vCPU ran in any window that lies in one of its busy stretches; `None` without such a window.
    pub(crate) fn least_in(&self, vcpu: u8, window: u64) -> Option<u64> {
        let runs: Vec<_> = self.runs.iter().filter(|run| run.vcpu == vcpu).collect();
        let stretches = self.busy.iter().filter(|busy| busy.vcpu == vcpu && busy.to - busy.from >= window);
        let given = |from: u64| -> u64 {
            runs.iter().map(|run| run.to.min(from + window).saturating_sub(run.from.max(from))).sum()
        };
        let least = stretches.filter_map(|busy| {
            let last = busy.to - window;
            let edges = runs.iter().flat_map(|run| [run.to, run.from.saturating_sub(window)]);
            let starts = edges.chain([busy.from, last]).filter(|start| (busy.from..=last).contains(start));
            starts.map(given).min()
        });
        least.min()
    }

    /// Longest time that a vCPU had work and did not run.
    pub(crate) fn longest_dark(&self, vcpu: u8) -> u64 {
        self.longest_dark_between(vcpu, |run| run.vcpu == vcpu)
    }

    /// Longest time that a vCPU had work and did not run on a budget through these servers.
    pub(crate) fn longest_dark_without(&self, vcpu: u8, servers: impl Fn(u8) -> bool) -> u64 {
        self.longest_dark_between(vcpu, |run| run.vcpu == vcpu && servers(run.server) && !run.background)
    }

    fn longest_dark_between(&self, vcpu: u8, counts: impl Fn(&Run) -> bool) -> u64 {
        let runs: Vec<_> = self.runs.iter().filter(|run| counts(run)).collect();
        let dark = |busy: &Busy| {
            let mut last = busy.from;
            let mut longest = 0;
            for run in runs.iter().filter(|run| run.to > busy.from && run.from < busy.to) {
                longest = longest.max(run.from.saturating_sub(last));
                last = last.max(run.to);
            }
            longest.max(busy.to.saturating_sub(last))
        };
        self.busy.iter().filter(|busy| busy.vcpu == vcpu).map(dark).max().unwrap_or(0)
    }
}

pub(crate) fn sporadic(budget_ticks: u64, period_ticks: u64, dispatch_anchor: bool) -> Rule {
    Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor, lag_clamp: true, chunks: 8, minimum_ticks: 1 }
}

/// A sporadic server with random parameters.
pub(crate) fn any_sporadic(random: &mut Random, most_budget: u64, most_period: u64) -> Rule {
    let budget_ticks = random.within(1, most_budget);
    let period_ticks = random.within(budget_ticks + 1, most_period.max(budget_ticks + 1));
    Rule::Sporadic {
        budget_ticks,
        period_ticks,
        dispatch_anchor: random.flip(),
        lag_clamp: true,
        chunks: random.within(2, 16) as u32,
        minimum_ticks: random.within(1, budget_ticks.min(4)),
    }
}

/// A server of any kind with a budget.
pub(crate) fn any_rule(random: &mut Random, most_budget: u64, most_period: u64) -> Rule {
    let Rule::Sporadic { budget_ticks, period_ticks, .. } = any_sporadic(random, most_budget, most_period) else {
        unreachable!("asked for a sporadic one")
    };
    match random.within(0, 5) {
        0 => Rule::Deferrable { budget_ticks, period_ticks },
        1 => Rule::Polling { budget_ticks, period_ticks },
        _ => any_sporadic(random, most_budget, most_period),
    }
}

/// Random bursts for one vCPU.
pub(crate) fn bursts(random: &mut Random, machine: &mut Machine, vcpu: u8, until: u64) {
    let busy = random.flip();
    // Grids begin by 30; before that a deferrable server has its first budget for longer than a period.
    let mut time = random.within(30, 70);
    while time < until {
        machine.work(time, vcpu, if busy { random.within(10, 60) } else { random.within(1, 8) });
        time += random.within(1, if busy { 30 } else { 60 });
    }
}

/// Servers of different vCPUs, in the order of their priorities.
pub(crate) fn model(rules: impl IntoIterator<Item = Rule>) -> CoreModel {
    let servers = rules.into_iter().enumerate().map(|(number, rule)| Server::new(number, number as u8, rule));
    CoreModel { servers: servers.collect(), ..CoreModel::default() }
}

/// Grids of the deferrable and polling servers begin anywhere.
pub(crate) fn grids(random: &mut Random) -> [u64; 8] {
    core::array::from_fn(|_| random.within(0, 30))
}

/// Some servers above a victim, all of them within their periods.
pub(crate) fn accepted(random: &mut Random, victim: Rule) -> Option<(CoreModel, CoreBounds)> {
    let above = random.within(1, 3);
    let mut rules: Vec<_> = (0..above).map(|_| any_rule(random, 8, 50)).collect();
    rules.push(victim);
    let model = model(rules);
    let bounds = CoreBounds::of(&model, &Steps::default());
    bounds.is_accepted().then_some((model, bounds))
}
