//! Random payloads, simulated tick by tick with random phases, wishes and switches of worlds, beside their bounds: no response, wait or blackout is
//! longer (SG-47). The seed is printed; `BULKHEAD_SEED` and `BULKHEAD_CASES` replace it and the number of cases.

#[path = "../../sched/tests/support/random.rs"]
mod random;

use bulkhead_analysis::payload::{Payload, Server, Task};
use bulkhead_analysis::steps::Steps;
use random::Random;

/// One payload is tried where other tests try this number of cases.
const DIVISOR: u64 = 40;
const PHASES: u32 = 4;
const TICKS: u64 = 2_500;
const LIMIT: u64 = 2_000;

fn payload(random: &mut Random) -> Payload {
    let tasks = (0..random.within(1, 4)).map(|_| {
        let period = random.within(8, 60);
        Task { priority: 2 * random.within(2, 6) as u32, cost: random.within(1, (period / 3).max(1)), period }
    });
    let tasks = tasks.collect();
    let mut servers: Vec<Server> = (0..random.below(3))
        .map(|_| {
            let period = random.within(6, 50);
            Server {
                priority: random.within(2, 7) as u32,
                budget: Some((random.within(3, (period / 3).max(3)), period)),
            }
        })
        .collect();
    let switch = random.below(3);
    // Beside a task of its own priority a server is switched in every turn, which no bound counts: with switches there is none here.
    servers.iter_mut().for_each(|server| server.priority = 2 * server.priority + u32::from(switch != 0));
    servers.push(Server { priority: 1, budget: None });
    Payload { tasks, servers, switch, ..Payload::default() }
}

/// What was seen of a payload.
#[derive(Debug, Default)]
struct Seen {
    responses: Vec<u64>,
    /// By server: the longest time in which it wanted to run, and nothing of the other world did.
    blackouts: Vec<u64>,
}

/// Who has the core.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Task(usize),
    World(usize),
    Nobody,
}

struct Run<'a> {
    payload: &'a Payload,
    /// Ticks that are left of the latest job of each task, and its release.
    jobs: Vec<(u64, u64)>,
    accounts: Vec<u64>,
    wants: Vec<bool>,
    /// How long each server has wanted to run while the world did not.
    waits: Vec<u64>,
    before: Who,
    /// Who pays for the path that is under way.
    pays: Who,
    /// Ticks of a path between the worlds, which nobody interrupts.
    path: u64,
    seen: Seen,
}

impl Run<'_> {
    /// The most urgent; among equals one that `turn` chooses.
    fn choose(&self, turn: u64) -> Who {
        let tasks = self.payload.tasks.iter().enumerate().filter(|(place, _)| self.jobs[*place].0 > 0);
        let tasks = tasks.map(|(place, task)| (task.priority, Who::Task(place)));
        let servers = self.payload.servers.iter().enumerate();
        let may = servers
            .filter(|(place, server)| self.wants[*place] && (server.budget.is_none() || self.accounts[*place] > 0));
        let all: Vec<(u32, Who)> =
            tasks.chain(may.map(|(place, server)| (server.priority, Who::World(place)))).collect();
        let most = all.iter().map(|(priority, _)| *priority).max();
        let best: Vec<Who> =
            all.into_iter().filter(|(priority, _)| Some(*priority) == most).map(|(_, who)| who).collect();
        if best.is_empty() { Who::Nobody } else { best[turn as usize % best.len()] }
    }

    fn tick(&mut self, now: u64, turn: u64) {
        if self.path == 0 {
            let who = self.choose(turn);
            let is_world = |who: Who| matches!(who, Who::World(_));
            // Half of a switch is either path, the first one rounded up.
            self.path = match (is_world(self.before), is_world(who)) {
                (true, false) => self.payload.switch.div_ceil(2),
                (false, true) => self.payload.switch / 2,
                _ => 0,
            };
            // Who pays for it: the kernel's hooks are before the one and behind the other.
            self.pays = if is_world(who) { who } else { self.before };
            self.before = who;
        }
        let runs = self.path == 0;
        self.path = self.path.saturating_sub(1);
        if let (false, Who::World(server)) = (runs, self.pays) {
            self.accounts[server] = self.accounts[server].saturating_sub(1);
        }
        match self.before {
            Who::Task(task) if runs => {
                self.jobs[task].0 -= 1;
                if self.jobs[task].0 == 0 {
                    let response = now + 1 - self.jobs[task].1;
                    self.seen.responses[task] = self.seen.responses[task].max(response);
                }
            }
            Who::World(server) if runs => self.accounts[server] = self.accounts[server].saturating_sub(1),
            _ => {}
        }
        let is_world = runs && matches!(self.before, Who::World(_));
        for server in 0..self.waits.len() {
            self.waits[server] = if is_world || !self.wants[server] { 0 } else { self.waits[server] + 1 };
            self.seen.blackouts[server] = self.seen.blackouts[server].max(self.waits[server]);
        }
    }
}

fn simulate(payload: &Payload, random: &mut Random, is_overrun: &mut bool) -> Seen {
    let phases: Vec<u64> = payload.tasks.iter().map(|task| random.below(task.period)).collect();
    let grids: Vec<u64> =
        payload.servers.iter().map(|server| server.budget.map_or(0, |(_, period)| random.below(period))).collect();
    let servers = payload.servers.len();
    let mut run = Run {
        payload,
        jobs: vec![(0, 0); payload.tasks.len()],
        accounts: payload.servers.iter().map(|server| server.budget.map_or(0, |(budget, _)| budget)).collect(),
        wants: vec![false; servers],
        waits: vec![0; servers],
        before: Who::Nobody,
        pays: Who::Nobody,
        path: 0,
        seen: Seen { responses: vec![0; payload.tasks.len()], blackouts: vec![0; servers] },
    };
    // Servers want to run in bursts, or always.
    let burst = random.within(1, 80);
    let (mut turn, slice) = (0, random.within(1, 12));
    for now in 0..TICKS {
        for (place, task) in payload.tasks.iter().enumerate() {
            if now >= phases[place] && (now - phases[place]).is_multiple_of(task.period) {
                *is_overrun |= run.jobs[place].0 > 0;
                run.jobs[place] = (task.cost, now);
            }
        }
        for (place, server) in payload.servers.iter().enumerate() {
            if let Some((budget, period)) = server.budget
                && now % period == grids[place]
            {
                run.accounts[place] = budget;
            }
            // It ends an activation by a call, so when it runs.
            let has_run = run.before == Who::World(place) && run.path == 0;
            if random.below(burst) == 0 && (has_run || !run.wants[place]) {
                run.wants[place] = server.budget.is_none() || random.flip();
            }
        }
        // Whose turn it is changes with the kernel's tick.
        turn = if now.is_multiple_of(slice) { random.next() } else { turn };
        run.tick(now, turn);
    }
    run.seen
}

#[test]
fn no_random_payload_is_slower_than_its_bounds() {
    let (mut bounded, mut reached) = (0_u64, 0_u64);
    random::check_some("payloads", DIVISOR, |random| {
        let (payload, steps) = (payload(random), Steps::default());
        let responses: Vec<Option<u64>> = (0..payload.tasks.len()).map(|task| payload.response(task, &steps)).collect();
        let blackouts: Vec<Option<u64>> =
            (0..payload.servers.len()).map(|server| payload.blackout(server, LIMIT, &steps)).collect();
        if responses.iter().any(Option::is_none) {
            return;
        }
        bounded += 1;
        for _ in 0..PHASES {
            let mut is_overrun = false;
            let seen = simulate(&payload, random, &mut is_overrun);
            assert!(!is_overrun, "a job finds the one before it: {payload:?}");
            for (task, (seen, bound)) in seen.responses.iter().zip(&responses).enumerate() {
                let bound = bound.expect("found above");
                assert!(*seen <= bound, "task {task} responds in {seen} of {bound}: {payload:?}");
                reached += u64::from(*seen == bound);
            }
            // Paths are paid out of the budget, so a budget of a few paths leaves the world less than it says: real ones are hundreds of them.
            if payload.switch != 0 {
                continue;
            }
            for (server, (seen, bound)) in seen.blackouts.iter().zip(&blackouts).enumerate() {
                assert!(
                    bound.is_none_or(|bound| *seen <= bound),
                    "server {server} waits for {seen} of {bound:?}: {payload:?}"
                );
            }
        }
    });
    println!("{bounded} payloads with bounds, reached {reached} times");
    assert!(bounded > 0 && reached > 0 || std::env::var_os("BULKHEAD_CASES").is_some());
}
