//! Random payloads, simulated tick by tick with random phases, wishes and switches of worlds, beside their bounds: no response, wait or blackout is
//! longer (SG-47), and no window begins later or loses more (SG-50, SG-52). The seed is printed; `BULKHEAD_SEED` and `BULKHEAD_CASES` replace it and the number of cases.

#[path = "../../sched/tests/support/random.rs"]
mod random;

use bulkhead_analysis::payload::{Payload, Server, Task, Windows};
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::table::Window;
use random::Random;
use std::ops::Range;

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
    let switch = random.below(3);
    let budgeted = |random: &mut Random| {
        // Paths are paid out of the budget, so a budget of a few paths leaves the world less than it says: real ones are hundreds of them.
        let least = (20 * switch).max(3);
        let period = random.within(2 * least, (3 * least).max(50));
        Server {
            priority: random.within(2, 7) as u32,
            budget: Some((random.within(least, (period / 3).max(least)), period)),
        }
    };
    let mut servers: Vec<Server> = (0..random.below(3)).map(|_| budgeted(random)).collect();
    let windowed = if random.flip() { random.within(1, 2) as usize } else { 0 };
    servers.extend((0..windowed).map(|_| Server { priority: random.within(2, 7) as u32, budget: None }));
    // Beside a task of its own priority a server is switched in every turn, which no bound counts: with switches there is none here.
    servers.iter_mut().for_each(|server| server.priority = 2 * server.priority + u32::from(switch != 0));
    let windows = (windowed != 0).then(|| table(random, servers.len() - windowed..servers.len()));
    servers.push(Server { priority: 1, budget: None });
    let handlers = (0..random.below(3)).map(|_| (random.within(1, 2), random.within(20, 80))).collect();
    Payload { tasks, servers, switch, handlers, windows }
}

/// One to four windows, of each of these servers one at least, which may touch.
fn table(random: &mut Random, owners: Range<usize>) -> Windows {
    let (mut list, mut end) = (Vec::new(), random.below(20));
    for place in 0..random.within(owners.len() as u64, 4) as usize {
        let owner = owners
            .clone()
            .nth(place)
            .unwrap_or_else(|| random.within(owners.start as u64, owners.end as u64 - 1) as usize);
        let window = Window { offset_ticks: end, length_ticks: random.within(5, 40), owner };
        end = window.end_ticks() + if random.flip() { random.below(4) } else { random.within(4, 40) };
        list.push(window);
    }
    let tick = (random.below(2), random.within(5, 10));
    Windows { major: end + random.below(10), list, boundary: random.below(3), tick }
}

/// What was seen of a payload.
#[derive(Debug, Default)]
struct Seen {
    responses: Vec<u64>,
    /// By server: the longest time in which it wanted to run, and nothing of the other world did.
    blackouts: Vec<u64>,
    /// By window: the latest start, and the most that it lost.
    windows: Vec<(u64, u64)>,
}

/// Who has the core.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Task(usize),
    World(usize),
    /// Handlers of interrupts, which nothing interrupts.
    Kernel,
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
    /// Interrupts that were raised: a boundary, the tick of the kernel, handlers.
    pending: Vec<bool>,
    /// Ticks of the one that is served, and which it is.
    served: (u64, usize),
    /// Whose window it is, as the kernel last saw it.
    open: Option<usize>,
    /// What the window that is open by the clock has lost, and when its server ran first.
    suffered: (u64, Option<u64>),
    before: Who,
    /// Who pays for the path that is under way.
    pays: Who,
    /// Ticks of a path between the worlds, which nobody interrupts.
    path: u64,
    seen: Seen,
}

// In the order in which they are served: a tick at the end of a window is in the time of who runs then.
const BOUNDARY: usize = 0;
const TICK: usize = 1;

impl Run<'_> {
    fn is_windowed(&self, server: usize) -> bool {
        self.payload.windows.iter().any(|windows| windows.list.iter().any(|window| window.owner == server))
    }

    /// The most urgent; among equals one that `turn` chooses.
    fn choose(&self, turn: u64) -> Who {
        let tasks = self.payload.tasks.iter().enumerate().filter(|(place, _)| self.jobs[*place].0 > 0);
        let tasks = tasks.map(|(place, task)| (task.priority, Who::Task(place)));
        let servers = self.payload.servers.iter().enumerate();
        let may = servers.filter(|(place, server)| {
            let has_time = match server.budget {
                Some(_) => self.accounts[*place] > 0,
                None => !self.is_windowed(*place) || self.open == Some(*place),
            };
            self.wants[*place] && has_time
        });
        let all: Vec<(u32, Who)> =
            tasks.chain(may.map(|(place, server)| (server.priority, Who::World(place)))).collect();
        let most = all.iter().map(|(priority, _)| *priority).max();
        let best: Vec<Who> =
            all.into_iter().filter(|(priority, _)| Some(*priority) == most).map(|(_, who)| who).collect();
        if best.is_empty() { Who::Nobody } else { best[turn as usize % best.len()] }
    }

    /// Takes an interrupt that was raised. What the tick costs a task is part of the task's own cost.
    fn serve(&mut self, turn: u64) -> bool {
        if let Who::Task(task) = self.choose(turn)
            && self.pending[TICK]
        {
            let cost = self.cost(TICK);
            let left = &mut self.jobs[task].0;
            *left = left.saturating_sub(cost).max(1);
            self.pending[TICK] = false;
        }
        let Some(place) = self.pending.iter().position(|pending| *pending) else { return false };
        self.pending[place] = false;
        self.served = (self.cost(place), place);
        true
    }

    fn cost(&self, interrupt: usize) -> u64 {
        let windows = self.payload.windows.as_ref();
        match interrupt {
            TICK => windows.map_or(0, |windows| windows.tick.0),
            BOUNDARY => windows.map_or(0, |windows| windows.boundary),
            handler => self.payload.handlers[handler - 2].0,
        }
    }

    /// Chooses who runs in this tick, and begins the path to it. What takes no time is served at once.
    fn decide(&mut self, now: u64, origin: u64, turn: u64) {
        while self.path == 0 {
            let is_served = self.served.0 > 0 || self.serve(turn);
            let who = if is_served { Who::Kernel } else { self.choose(turn) };
            let is_world = |who: Who| matches!(who, Who::World(_));
            // Half of a switch is either path, the first one rounded up. The paths around a tick are part of its cost.
            let is_tick = is_served && self.served.1 == TICK;
            self.path = match (is_world(self.before), is_world(who)) {
                (true, false) if !is_tick => self.payload.switch.div_ceil(2),
                (false, true) => self.payload.switch / 2,
                _ => 0,
            };
            // Who pays for it: the kernel's hooks are before the one and behind the other.
            self.pays = match is_tick {
                true => self.choose(turn),
                false if is_world(who) => who,
                false => self.before,
            };
            self.before = if is_tick && is_world(self.before) { self.before } else { who };
            if !is_served || self.served.0 > 0 {
                return;
            }
            self.end_service(now, origin);
        }
    }

    fn end_service(&mut self, now: u64, origin: u64) {
        if self.served.1 == BOUNDARY {
            self.open = self
                .window(now, origin)
                .map(|(place, _)| self.payload.windows.as_ref().expect("a table").list[place].owner);
        }
    }

    /// The window that is open by the clock, and for how long it has been.
    fn window(&self, now: u64, origin: u64) -> Option<(usize, u64)> {
        let windows = self.payload.windows.as_ref()?;
        let at = now.checked_sub(origin)? % windows.major;
        let is_here = |window: &Window| (window.offset_ticks..window.end_ticks()).contains(&at);
        let place = windows.list.iter().position(is_here)?;
        Some((place, at - windows.list[place].offset_ticks))
    }

    fn tick(&mut self, now: u64, origin: u64, turn: u64) {
        if self.path == 0 {
            self.decide(now, origin, turn);
        }
        let is_served = self.path == 0 && self.served.0 > 0;
        let runs = self.path == 0 && !is_served;
        self.path = self.path.saturating_sub(1);
        // A tick of the kernel in a server's time is charged to it as well.
        let is_tick = is_served && self.served.1 == TICK;
        if let (false, Who::World(server)) = (runs || is_served && !is_tick, self.pays) {
            self.accounts[server] = self.accounts[server].saturating_sub(1);
        }
        if is_served {
            self.served.0 -= 1;
            if self.served.0 == 0 {
                self.end_service(now + 1, origin);
            }
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
        // And it is nobody's wait.
        for server in (0..self.waits.len()).filter(|_| !is_tick) {
            self.waits[server] = if is_world || !self.wants[server] { 0 } else { self.waits[server] + 1 };
            self.seen.blackouts[server] = self.seen.blackouts[server].max(self.waits[server]);
        }
        self.suffer(now, origin, is_world);
    }

    /// Another server's time in a window is the other world's too, so it is none that was lost, and none in which the owner ran.
    fn suffer(&mut self, now: u64, origin: u64, is_world: bool) {
        let Some((place, since)) = self.window(now, origin) else { return };
        let owner = self.payload.windows.as_ref().expect("a table").list[place].owner;
        if since == 0 {
            self.suffered = (0, None);
        }
        if is_world && self.before == Who::World(owner) {
            self.suffered.1 = self.suffered.1.or(Some(since));
        } else {
            self.suffered.0 += 1;
        }
        let (latest, most) = &mut self.seen.windows[place];
        *most = self.suffered.0.max(*most);
        *latest = self.suffered.1.unwrap_or(since + 1).max(*latest);
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
        pending: vec![false; 2 + payload.handlers.len()],
        served: (0, TICK),
        open: None,
        suffered: (0, None),
        before: Who::Nobody,
        pays: Who::Nobody,
        path: 0,
        seen: Seen {
            responses: vec![0; payload.tasks.len()],
            blackouts: vec![0; servers],
            windows: vec![(0, 0); payload.windows.as_ref().map_or(0, |windows| windows.list.len())],
        },
    };
    let mut next: Vec<u64> = payload.handlers.iter().map(|(_, period)| random.below(*period)).collect();
    let origin = payload.windows.as_ref().map_or(0, |windows| random.below(windows.major));
    // Servers want to run in bursts, or always; handlers come as often as they may, or less.
    let (burst, spread) = (random.within(1, 80), random.within(1, 30));
    let (mut turn, slice) = (0, random.within(1, 12));
    for now in 0..TICKS {
        for (place, task) in payload.tasks.iter().enumerate() {
            if now >= phases[place] && (now - phases[place]).is_multiple_of(task.period) {
                *is_overrun |= run.jobs[place].0 > 0;
                run.jobs[place] = (task.cost, now);
            }
        }
        for (place, next) in next.iter_mut().enumerate().filter(|(_, next)| now == **next) {
            run.pending[2 + place] = true;
            *next += payload.handlers[place].1 + random.below(spread);
        }
        if let Some(windows) = payload.windows.as_ref().filter(|_| now >= origin) {
            run.pending[TICK] |= (now - origin).is_multiple_of(windows.tick.1);
            let at = (now - origin) % windows.major;
            run.pending[BOUNDARY] |= windows
                .list
                .iter()
                .any(|window| [window.offset_ticks, window.end_ticks() % windows.major].contains(&at));
        }
        for (place, server) in payload.servers.iter().enumerate() {
            if run.is_windowed(place) {
                run.wants[place] = now >= origin;
                continue;
            }
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
        run.tick(now, origin, turn);
    }
    run.seen
}

#[test]
fn no_random_payload_is_slower_than_its_bounds() {
    let (mut bounded, mut reached, mut darkest, mut windows_reached) = (0_u64, 0_u64, 0_u64, 0_u64);
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
            for (server, (seen, bound)) in seen.blackouts.iter().zip(&blackouts).enumerate() {
                assert!(
                    bound.is_none_or(|bound| *seen <= bound),
                    "server {server} waits for {seen} of {bound:?}: {payload:?}"
                );
                darkest += u64::from(Some(*seen) == *bound);
            }
            for (place, (latest, most)) in seen.windows.iter().enumerate() {
                let bound = payload.disturbance(place, &steps).expect("a window");
                assert!(
                    bound.latest_start.is_none_or(|bound| *latest <= bound) && *most <= bound.most_lost,
                    "window {place} begins {latest} late and loses {most} of {bound:?}: {payload:?}"
                );
                let is_open = bound.latest_start.is_some();
                windows_reached +=
                    u64::from(is_open && (Some(*latest), *most) == (bound.latest_start, bound.most_lost));
            }
        }
    });
    println!(
        "{bounded} payloads with bounds, reached {reached} times, blackouts {darkest} times, windows {windows_reached} times"
    );
    let is_reached = [bounded, reached, darkest, windows_reached].iter().all(|count| *count > 0);
    assert!(is_reached || std::env::var_os("BULKHEAD_CASES").is_some());
}
