//! The longest time in which somebody wants to run and gets nothing, on random systems of every kind: guests that sleep and wake
//! at the worst instants are never dark for longer than is promised (SG-47, QV-38).
//!
//! The worst instants are right after a date of the grid, right after a budget is used up, with a little of it left, and while
//! others wake as fast as they can.

mod support;

use bulkhead_analysis::core_bounds::{CoreBounds, Verdict};
use bulkhead_analysis::core_model::{Client, CoreModel, Gate, Pibs, Rule, Server, TimeTable};
use bulkhead_analysis::round_robin::{OnInterrupt, Reading, Ring};
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::table::Window;
use bulkhead_sched::dispatch::Decision;
use bulkhead_sched::quantum::{QuantumRing, RingParameters};
use support::random::{Random, check_some};
use support::{ALWAYS, Habit, Machine, any_rule, sporadic};

const END: u64 = 900;

/// A guest at the edge of what its server allows.
fn habit(random: &mut Random, rule: &Rule, start: u64) -> Habit {
    let server = Server::new(0, 0, rule.clone());
    let (budget, period) = server.budget().unwrap_or((10, 40));
    let amounts = match random.below(6) {
        0 => vec![1],
        1 => vec![budget],
        2 => vec![budget.saturating_sub(1), 1, 2],
        3 => vec![budget + 1, 2 * budget],
        4 => vec![random.within(1, budget + 2)],
        _ => vec![1, budget, 3 * budget],
    };
    let pauses = match random.below(4) {
        0 => vec![1],
        1 => vec![1, 2, period - budget],
        2 => vec![random.within(1, period), 1],
        _ => vec![random.within(1, 2 * period)],
    };
    Habit { random: Random(random.next()), amounts, pauses, grid: (start, period) }
}

/// Everybody lives at the edge, or always wants to run.
fn populate(random: &mut Random, model: &CoreModel, machine: &mut Machine, grids: &[u64]) {
    let vcpus = model.servers.iter().map(|server| server.vcpu).max().unwrap_or(0);
    for vcpu in 0..=vcpus {
        let mut mine = model.servers.iter().zip(grids).filter(|(server, _)| server.vcpu == vcpu);
        let Some((server, start)) = mine.next_back() else { continue };
        // Grids begin by 30; before that a deferrable server has its first budget for longer than a period.
        let time = random.within(30, 80);
        if random.below(6) == 0 {
            machine.work(time, vcpu as u8, ALWAYS);
        } else {
            let habit = habit(random, &server.rule, *start);
            machine.live(time, vcpu as u8, habit);
        }
    }
}

/// No server and no vCPU with a promise is dark for longer.
fn assert_promises(model: &CoreModel, bounds: &CoreBounds, machine: &Machine, promises: &mut u64) {
    for bounds in &bounds.vcpus {
        let Some(promised) = bounds.blackout_ticks else { continue };
        let dark = machine.longest_dark(bounds.vcpu as u8);
        assert!(dark <= promised, "vCPU {}: {dark} > {promised}: {model:?}", bounds.vcpu);
        *promises += 1;
    }
    for (number, (server, bounds)) in model.servers.iter().zip(&bounds.servers).enumerate() {
        // Work waits behind a gate without wanting to run.
        if server.gate == Gate::Interrupt {
            continue;
        }
        let Some(promised) = bounds.blackout_ticks else { continue };
        // A sibling may spend this one's budget: that is time which its owner gets through it.
        let spends =
            |other: u8| usize::from(other) == number || model.servers[usize::from(other)].payer == Some(number);
        let dark = machine.longest_dark_without(server.vcpu as u8, spends);
        assert!(dark <= promised, "server {number}: {dark} > {promised}: {model:?}");
    }
}

/// Some servers are charged at least something for each wake-up, at most what there is when they are chosen.
fn with_least_charges(random: &mut Random, mut model: CoreModel) -> CoreModel {
    for server in &mut model.servers {
        let most = match (&server.rule, server.budget()) {
            (Rule::Sporadic { minimum_ticks, .. }, _) => *minimum_ticks,
            (_, Some((budget_ticks, _))) => budget_ticks,
            (_, None) => 0,
        };
        server.least_charge_ticks = if server.payer.is_none() && random.flip() { random.within(0, most) } else { 0 };
    }
    model
}

fn judge(random: &mut Random, model: &CoreModel, promises: &mut u64) {
    let model = &if random.below(3) == 0 { with_least_charges(random, model.clone()) } else { model.clone() };
    let bounds = CoreBounds::of(model, &Steps::default());
    let refused = |one: &bulkhead_analysis::core_bounds::ServerBounds| {
        matches!(one.verdict, Verdict::Late { .. } | Verdict::NoBound { .. })
    };
    if bounds.servers.iter().any(refused) {
        return;
    }
    let grids: Vec<u64> = model.servers.iter().map(|_| random.within(0, 30)).collect();
    let mut machine = Machine::new(model, &grids);
    machine.late = random.within(0, model.lateness_ticks);
    machine.late_by_chance = random.flip().then(|| Random(random.next()));
    machine.interrupted = core::array::from_fn(|_| random.flip());
    populate(random, model, &mut machine, &grids);
    machine.run(END);
    assert_promises(model, &bounds, &machine, promises);
}

/// A budget that is more than what an end noticed late takes of the next one, as the checker demands.
fn rule(random: &mut Random, late: u64) -> Rule {
    loop {
        let rule = any_rule(random, 12, 60);
        if Server::new(0, 0, rule.clone()).budget().is_some_and(|(budget, _)| budget > 2 * late) {
            return rule;
        }
    }
}

/// The example of docs/base-findings.md, A19: a polling server on top, 4 of 10, woken right after a date of its grid.
#[test]
fn a_polling_server_is_dark_for_a_period_after_a_wake_up() {
    let model = support::model([Rule::Polling { budget_ticks: 400, period_ticks: 1000 }]);
    let mut machine = Machine::new(&model, &[0]);
    machine.work(3001, 0, 1).run(6000);
    let dark = machine.longest_dark(0);
    let bounds = CoreBounds::of(&model, &Steps::default());
    assert_eq!(dark, 999);
    assert_eq!((bounds.servers[0].blackout_ticks, bounds.vcpus[0].blackout_ticks), (Some(dark), Some(dark)));
}

/// Servers of any rule at different priorities, some with several servers of one vCPU, some that go on in the background, some
/// that take turns, each end noticed late.
#[test]
fn nobody_is_dark_for_longer_than_promised() {
    let mut promises = 0;
    let cases = check_some("blackouts", 20, |random| {
        let late = random.below(3);
        let count = random.within(1, 4) as usize;
        let mut servers: Vec<Server> =
            (0..count).map(|number| Server::new(number, number as u8, rule(random, late))).collect();
        if random.below(4) == 0 {
            let vcpu = random.below(count as u64) as usize;
            servers.push(Server::new(vcpu, count as u8, rule(random, late)));
        }
        for server in &mut servers {
            server.background = (random.below(4) == 0).then(|| random.within(20, 22) as u8);
        }
        match random.below(3) {
            0 => servers.push(Server::new(5, 9, Rule::Unlimited)),
            1 => servers.extend((5..7).map(|vcpu| Server::new(vcpu, 9, Rule::Unlimited))),
            _ => {}
        }
        let mut quanta = vec![(9, random.within(1, 20))];
        if random.below(4) == 0 {
            // One with a budget among those without.
            servers.push(Server::new(7, 9, sporadic(random.within(1, 8), 60, random.flip())));
        }
        if random.below(4) == 0 && count > 1 {
            servers[1].priority = 0;
            quanta.push((0, random.within(1, 10)));
        }
        let model = CoreModel { servers, quanta, lateness_ticks: late, blocking_ticks: late, ..CoreModel::default() };
        judge(random, &model, &mut promises);
    });
    println!("{promises} promises in {cases} systems");
    assert!(promises > cases / 2);
}

/// The same in the windows of a table, and beside them.
#[test]
fn nobody_is_dark_for_longer_than_its_windows_promise() {
    let mut promises = 0;
    let cases = check_some("windows", 20, |random| {
        let mut windows = Vec::new();
        let mut at = random.below(6);
        let owners = random.within(1, 3);
        for _ in 0..random.within(1, 5) {
            let length_ticks = random.within(3, 30);
            windows.push(Window { offset_ticks: at, length_ticks, owner: random.below(owners) as usize });
            at += length_ticks + random.below(8);
        }
        let major_ticks = at + random.below(20);
        let used = |owner: usize| windows.iter().any(|window| window.owner == owner);
        let mut servers = Vec::new();
        for owner in (0..owners as usize).filter(|owner| used(*owner)) {
            let rule = match random.below(3) {
                0 => Rule::Unlimited,
                _ => any_rule(random, 12, 2 * major_ticks),
            };
            servers.push(Server { gate: Gate::Window(owner), ..Server::new(owner, 3, rule) });
        }
        if random.flip() {
            servers.push(Server::new(3, 1, rule(random, 0)));
        }
        if random.flip() {
            servers.push(Server::new(4, 9, Rule::Unlimited));
        }
        servers.sort_by_key(|server| server.priority);
        let table = Some(TimeTable { major_ticks, windows, passage_ticks: 0 });
        let model = CoreModel { servers, table, ..CoreModel::default() };
        judge(random, &model, &mut promises);
    });
    println!("{promises} promises in {cases} systems");
    assert!(promises > cases / 4);
}

/// The same where a guest has a server behind its interrupts beside the regular one, with a budget of its own or of that one.
#[test]
fn nobody_is_dark_for_longer_than_promised_beside_gates() {
    let mut promises = 0;
    let cases = check_some("gates", 20, |random| {
        let mut handler = Server::new(0, 0, rule(random, 0));
        handler.gate = Gate::Interrupt;
        if random.flip() {
            handler.payer = Some(2);
        }
        let servers = vec![
            handler,
            Server::new(1, 1, rule(random, 0)),
            Server::new(0, 2, rule(random, 0)),
            Server::new(2, 3, rule(random, 0)),
            Server::new(0, 9, Rule::Unlimited),
        ];
        let take = if random.flip() { 5 } else { 4 };
        let model = CoreModel { servers: servers.into_iter().take(take).collect(), ..CoreModel::default() };
        judge(random, &model, &mut promises);
    });
    println!("{promises} promises in {cases} systems");
    assert!(promises > cases / 4);
}

/// The same for a driver whose clients ask right after a grant is used up, and while they raise its priority.
#[test]
fn a_driver_is_not_dark_for_longer_than_promised() {
    let mut promises = 0;
    let cases = check_some("drivers", 20, |random| {
        let late = random.below(3);
        let denominator = random.within(3, 20);
        let short = random.within(denominator, 60);
        let clients = [(short, 1), (short + random.within(1, 80), 3)];
        let pibs = Pibs {
            numerator: random.within(1, denominator / 2),
            denominator,
            clients: clients.map(|(period_ticks, priority)| Client { period_ticks, priority }).into(),
            published: false,
        };
        let grant = pibs.grant_ticks();
        let servers = vec![
            Server::new(0, 0, rule(random, late)),
            Server::new(1, 1, Rule::Pibs(pibs)),
            Server::new(2, 2, rule(random, late)),
        ];
        let model = CoreModel { servers, lateness_ticks: late, blocking_ticks: late, ..CoreModel::default() };
        let bounds = CoreBounds::of(&model, &Steps::default());
        if !bounds.is_accepted() {
            return;
        }
        let mut machine = Machine::new(&model, &[0; 3]);
        machine.late = late;
        machine.late_by_chance = random.flip().then(|| Random(random.next()));
        for vcpu in [0, 2] {
            let habit = habit(random, &model.servers[usize::from(vcpu)].rule, 0);
            machine.live(random.within(30, 60), vcpu, habit);
        }
        let mut time = random.within(0, 60);
        let most = random.within(1, 3 * short);
        while time < END {
            machine.request(time, (1, 1), random.within(0, 1) as usize, random.within(1, 2 * grant));
            time += random.within(0, most);
        }
        machine.run(END);
        assert_promises(&model, &bounds, &machine, &mut promises);
    });
    println!("{promises} promises in {cases} systems");
    assert!(promises > cases / 2);
}

/// Guests of a ring that sleep, wake and are interrupted as they like, and how long each was ready without running.
fn dark_in_a_ring(random: &mut Random, parameters: RingParameters, interrupting: &[bool]) -> Vec<u64> {
    let guests = usize::from(parameters.guests);
    let mut ring = QuantumRing::new(0, parameters).expect("valid");
    let (mut ready, mut since, mut dark) = (vec![false; guests], vec![0; guests], vec![0u64; guests]);
    let sleepy = random.within(1, 12);
    for now in 0..END {
        ring.advance(now);
        for guest in 0..guests {
            if random.below(sleepy) == 0 {
                // Only one that runs falls asleep.
                let wakes = !ready[guest];
                if wakes || ring.running() == Some(guest as u8) {
                    ready[guest] = wakes;
                    since[guest] = now;
                    ring.set_ready(guest as u8, wakes);
                }
            }
            if ready[guest] && interrupting[guest] && random.below(8) == 0 {
                ring.interrupt(guest as u8);
            }
        }
        let running = Decision::from(ring.pick(now)).choice.map(|choice| usize::from(choice.vcpu));
        for guest in 0..guests {
            if running == Some(guest) || !ready[guest] {
                since[guest] = now + 1;
            }
            dark[guest] = dark[guest].max((now + 1).saturating_sub(since[guest]));
        }
    }
    dark
}

/// RR-03: the same in a ring, where a guest whose turns others' interrupts may take has no promise.
#[test]
fn nobody_is_dark_for_longer_than_a_ring_promises() {
    let (mut promises, mut broken) = (0u64, 0u64);
    let cases = check_some("rings", 20, |random| {
        let guests = random.within(2, 5) as usize;
        let policies = [OnInterrupt::None, OnInterrupt::Recycle, OnInterrupt::Reset, OnInterrupt::ResetExtend];
        let policy = policies[random.below(4) as usize];
        let latched = random.flip();
        let quantum_ticks = random.within(2, 12);
        let preemptible: Vec<bool> = (0..guests).map(|_| random.flip()).collect();
        let interrupting: Vec<bool> = (0..guests).map(|_| random.below(3) == 0).collect();
        let parameters = RingParameters {
            guests: guests as u8,
            quantum_ticks,
            on_interrupt: policy,
            reading: if latched { Reading::Latched } else { Reading::Masked },
            ring_moves: random.flip(),
            preemptible: preemptible.iter().enumerate().fold(0, |bits, (guest, open)| bits | u32::from(*open) << guest),
        };
        let reading = if latched { Reading::Latched } else { Reading::Masked };
        let ring = Ring { preemptible, interrupting, turn_ticks: quantum_ticks, quantum_ticks, policy, reading };
        let dark = dark_in_a_ring(random, parameters, &ring.interrupting);
        let without = Ring { policy: OnInterrupt::None, ..ring.clone() };
        for (guest, dark) in dark.into_iter().enumerate() {
            if let Some(promised) = ring.blackout(guest, 0) {
                assert!(dark <= promised, "guest {guest}: {dark} > {promised}: {ring:?}");
                promises += 1;
            } else if Some(dark) > without.blackout(guest, 0) {
                broken += 1;
            }
        }
    });
    println!("{promises} promises in {cases} rings; {broken} guests without one were dark for longer than a round");
    assert!(promises > cases && broken > cases / 10);
}
