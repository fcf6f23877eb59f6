//! Bounds against runs of the product's own scheduler on random systems: no run breaks a bound, and where the theory says
//! that a bound is exact it is reached (P3, P6, P6b, P8, P14 of `real-time.md`).
//!
//! The seed is printed; `BULKHEAD_SEED` and `BULKHEAD_CASES` replace it and the number of cases.

mod support;

use bulkhead_analysis::core_bounds::{CoreBounds, VcpuBounds, Verdict, handler_server};
use bulkhead_analysis::core_model::{Client, CoreModel, Gate, Pibs, Rule, Server};
use bulkhead_analysis::steps::Steps;
use support::random::check;
use support::{ALWAYS, Machine, accepted, any_rule, any_sporadic, bursts, grids, model, sporadic};

#[test]
fn a_whole_budget_is_done_within_its_response() {
    let mut cases = 0;
    check("response", |random| {
        let budget = random.within(1, 12);
        let period = random.within(20, 90);
        let victim = if random.flip() {
            sporadic(budget, period, random.flip())
        } else {
            Rule::Deferrable { budget_ticks: budget, period_ticks: period }
        };
        let Some((model, bounds)) = accepted(random, victim) else {
            return;
        };
        cases += 1;
        let victim = (model.servers.len() - 1) as u8;
        let bound = bounds.servers[usize::from(victim)].response_ticks().expect("accepted");
        let mut machine = Machine::new(&model, &grids(random));
        for vcpu in 0..victim {
            bursts(random, &mut machine, vcpu, 300);
        }
        // A deferrable server may be filled up meanwhile, which helps.
        let released = random.within(0, 150);
        machine.work(released, victim, budget).run(released + 200);
        assert!(machine.worst_response(victim) <= bound, "{model:?}: {} > {bound}", machine.worst_response(victim));
    });
    assert!(cases > 0, "no system was accepted");
}

/// P14: the same when every end of a budget is noticed late, which also blocks.
#[test]
fn a_whole_budget_is_done_within_its_response_though_ends_are_noticed_late() {
    check("late", |random| {
        let budget = random.within(1, 12);
        let victim = sporadic(budget, 90, random.flip());
        let Some((mut model, _)) = accepted(random, victim) else {
            return;
        };
        let late = random.within(1, 3);
        model.lateness_ticks = late;
        model.blocking_ticks = late;
        // Below everything, and late itself.
        model.servers.push(Server::new(7, 60, sporadic(5, 40, true)));
        let bounds = CoreBounds::of(&model, &Steps::default());
        let victim = model.servers.len() - 2;
        let Verdict::Fits { response_ticks } = bounds.servers[victim].verdict else {
            return;
        };
        if bounds.servers[..victim].iter().any(|server| !matches!(server.verdict, Verdict::Fits { .. })) {
            return;
        }
        let mut machine = Machine::new(&model, &grids(random));
        machine.late = late;
        for vcpu in (0..victim as u8).chain([7]) {
            bursts(random, &mut machine, vcpu, 300);
        }
        machine.work(random.within(30, 150), victim as u8, budget).run(500);
        let worst = machine.worst_response(victim as u8);
        assert!(worst <= response_ticks, "{worst} > {response_ticks}: {model:?}");
    });
}

/// PIBS (QV-32, QV-33, QV-34, QV-35): what a driver takes from the work below it, what it takes in a window, and how long its clients wait.
#[test]
fn a_driver_keeps_its_bounds() {
    check("PIBS", |random| {
        let denominator = random.within(3, 20);
        let numerator = random.within(1, denominator / 2 + 1);
        let short = random.within(denominator, 50);
        let clients = [(short, 1), (short + random.within(1, 80), 3)];
        let pibs = Pibs {
            numerator,
            denominator,
            clients: clients.map(|(period_ticks, priority)| Client { period_ticks, priority }).into(),
            published: false,
        };
        let grant = pibs.grant_ticks();
        if grant == 0 || numerator >= denominator {
            return;
        }
        let cost = random.within(1, 10);
        let model = CoreModel {
            servers: vec![
                Server::new(0, 0, any_rule(random, 6, 50)),
                Server::new(1, 1, Rule::Pibs(pibs)),
                Server::new(2, 2, sporadic(cost, 120, false)),
                Server::new(3, 4, sporadic(cost, 150, false)),
            ],
            ..CoreModel::default()
        };
        let bounds = CoreBounds::of(&model, &Steps::default());
        let mut machine = Machine::new(&model, &grids(random));
        bursts(random, &mut machine, 0, 400);
        let mut time = random.within(0, 60);
        while time < 400 {
            machine.request(time, (1, 1), random.within(0, 1) as usize, random.within(1, 2 * grant));
            time += random.within(0, 60);
        }
        // Both victims once, after the first budgets were used.
        machine.work(random.within(60, 300), 2, cost).work(random.within(60, 300), 3, cost).run(700);
        for victim in [2, 3] {
            if let Verdict::Fits { response_ticks } = bounds.servers[victim].verdict {
                let worst = machine.worst_response(victim as u8);
                assert!(worst <= response_ticks, "server {victim}: {worst} > {response_ticks}: {model:?}");
            }
        }
        if matches!(bounds.servers[1].verdict, Verdict::Fits { .. }) {
            for window in [grant, short, short + 1, 3 * short, 200] {
                let (most, bound) = (machine.most_in(1, window), bounds.servers[1].envelope.in_window(window));
                assert!(most <= bound, "window {window}: {most} > {bound}: {model:?}");
            }
        }
    });
}

/// PIBS-04: a request of the shortest client, alone, waits for a grant that others used up and no longer.
#[test]
fn a_request_of_the_shortest_client_is_served_in_time() {
    check("PIBS latency", |random| {
        let denominator = random.within(3, 20);
        let short = random.within(denominator, 50);
        let clients = [(short, 1), (short + random.within(1, 80), 1)];
        let pibs = Pibs {
            numerator: 1,
            denominator,
            clients: clients.map(|(period_ticks, priority)| Client { period_ticks, priority }).into(),
            published: false,
        };
        let grant = pibs.grant_ticks();
        let model = CoreModel {
            servers: vec![Server::new(0, 0, any_sporadic(random, 6, 50)), Server::new(1, 1, Rule::Pibs(pibs))],
            ..CoreModel::default()
        };
        let bounds = CoreBounds::of(&model, &Steps::default());
        if !bounds.is_accepted() {
            return;
        }
        let amount = random.within(1, grant);
        let bound = handler_server(&model, &bounds, 1, &Steps::default())
            .expect("accepted")
            .delivery(amount, &Steps::default())
            .drained_ticks;
        let mut machine = Machine::new(&model, &[]);
        bursts(random, &mut machine, 0, 400);
        let mut time = 0;
        while time < 300 {
            machine.request(time, (1, 1), 1, random.within(1, 3 * grant));
            time += random.within(1, 60);
        }
        machine.request(random.within(100, 250), (1, 1), 0, amount).run(900);
        let worst = machine.served.iter().filter(|served| served.0 == 0).map(|served| served.1).max();
        assert!(worst.is_some() && worst <= bound, "{worst:?} > {bound:?}, {amount} of grant {grant}: {model:?}");
    });
}

/// A handler that spends the budget of its vCPU's regular server: everybody below sees one budget, kept until it is wanted.
#[test]
fn a_donated_budget_is_taken_once() {
    check("donor", |random| {
        let mut handler = Server::new(0, 0, Rule::Unlimited);
        handler.gate = Gate::Interrupt;
        handler.payer = Some(2);
        let cost = random.within(1, 10);
        let model = CoreModel {
            servers: vec![
                handler,
                Server::new(1, 1, sporadic(cost, 130, false)),
                Server::new(0, 2, any_sporadic(random, 8, 50)),
                Server::new(3, 3, sporadic(cost, 150, false)),
            ],
            ..CoreModel::default()
        };
        let bounds = CoreBounds::of(&model, &Steps::default());
        if !bounds.is_accepted() {
            return;
        }
        let mut machine = Machine::new(&model, &[]);
        machine.interrupted[0] = random.flip();
        bursts(random, &mut machine, 0, 500);
        machine.work(random.within(60, 300), 1, cost).work(random.within(60, 300), 3, cost).run(700);
        for (victim, number) in [(1u8, 1), (3, 3)] {
            let bound = bounds.servers[number].response_ticks();
            let worst = machine.worst_response(victim);
            assert!(Some(worst) <= bound, "server {number}: {worst} > {bound:?}: {model:?}");
        }
    });
}

/// QV-38: released together, servers of the periodic kind reach the computed response, and so does one deferrable server above
/// them that waits for the release with its budget in hand.
#[test]
fn the_response_is_exact_at_the_critical_instant() {
    let mut cases = 0;
    check("exactness", |random| {
        let double_hit = random.flip();
        let mut rules: Vec<_> = (0..random.within(1, 3)).map(|_| any_sporadic(random, 8, 50)).collect();
        if double_hit && let Rule::Sporadic { budget_ticks, period_ticks, .. } = rules[0] {
            rules[0] = Rule::Deferrable { budget_ticks, period_ticks };
        }
        for rule in &mut rules {
            // Dated at its dispatch, a chunk that had to wait comes back later: less interference than the bound allows.
            // And a sliver is kept for later.
            if let Rule::Sporadic { dispatch_anchor, minimum_ticks, .. } = rule {
                *dispatch_anchor = false;
                *minimum_ticks = 1;
            }
        }
        let budget = random.within(1, 12);
        rules.push(sporadic(budget, 90, random.flip()));
        let model = model(rules);
        let bounds = CoreBounds::of(&model, &Steps::default());
        if !bounds.is_accepted() {
            return;
        }
        cases += 1;
        let victim = (model.servers.len() - 1) as u8;
        let released = 100;
        // The refill comes when the first budget is used up.
        let grid = match model.servers[0].rule {
            Rule::Deferrable { budget_ticks, period_ticks } => released + budget_ticks - period_ticks,
            _ => 0,
        };
        let mut machine = Machine::new(&model, &[grid]);
        for vcpu in 0..victim {
            machine.work(released, vcpu, ALWAYS);
        }
        machine.work(released, victim, budget).run(released + 200);
        let bound = bounds.servers[usize::from(victim)].response_ticks();
        assert_eq!(Some(machine.worst_response(victim)), bound, "{model:?}");
    });
    assert!(cases > 1_000 || cases > 0, "no system was accepted");
}

/// P6 and P6b: a busy vCPU gets at least its supply in every window, whatever it did before and whatever others do.
#[test]
fn a_busy_guest_gets_its_supply() {
    check("P6, P6b", |random| {
        let victim = any_rule(random, 12, 60);
        let Some((model, bounds)) = accepted(random, victim) else {
            return;
        };
        let victim = model.servers.len() - 1;
        let VcpuBounds { supply, sleeper_supply, .. } = bounds.vcpu(victim).expect("known");
        let mut machine = Machine::new(&model, &grids(random));
        for vcpu in 0..victim {
            bursts(random, &mut machine, vcpu as u8, 700);
        }
        // A sleeper first, then work without end. A polling server forgets its budget at a wake-up, which counts as a wait
        // of the sleeper and not of the busy guest.
        let sleeps = random.flip() && !matches!(model.servers[victim].rule, Rule::Polling { .. });
        let supply = if sleeps { sleeper_supply } else { supply };
        if sleeps {
            bursts(random, &mut machine, victim as u8, 150);
        }
        machine.work(if sleeps { random.within(100, 200) } else { 30 }, victim as u8, ALWAYS).run(700);
        let period = model.servers[victim].budget().expect("a budget").1;
        // The first grid point after the wake-up of a polling server.
        let first = if matches!(model.servers[victim].rule, Rule::Polling { .. }) { 2 * period } else { 0 };
        for window in [1, period, period + 1, 2 * period, 3 * period + 5, 150] {
            let promised = supply.in_window(window, &Steps::default());
            let Some(least) = machine.least_in(victim as u8, window + first) else {
                continue;
            };
            assert!(least >= promised, "window {window}: {least} < {promised}: {model:?}");
        }
    });
}

/// The bound of every wait: a guest that sleeps and wakes as it likes is never dark for longer than its blackout.
#[test]
fn no_wait_is_longer_than_the_blackout() {
    check("blackout", |random| {
        let victim = any_rule(random, 12, 60);
        let Some((model, bounds)) = accepted(random, victim) else {
            return;
        };
        let victim = model.servers.len() - 1;
        let bound = bounds.vcpu(victim).expect("known").drained_wait_ticks.expect("accepted");
        let mut machine = Machine::new(&model, &grids(random));
        for vcpu in 0..=victim {
            bursts(random, &mut machine, vcpu as u8, 500);
        }
        machine.run(500);
        let dark = machine.longest_dark(victim as u8);
        assert!(dark <= bound, "{dark} > {bound}: {model:?}");
    });
}

/// P2, P14: nobody takes more than the envelope says, also when the end of every budget is noticed late.
#[test]
fn nobody_takes_more_than_the_envelope() {
    check("envelopes", |random| {
        let victim = any_rule(random, 12, 60);
        let Some((mut model, _)) = accepted(random, victim) else {
            return;
        };
        let late = random.within(0, 2);
        model.lateness_ticks = late;
        // A late server above blocks, too.
        model.blocking_ticks = late;
        let bounds = CoreBounds::of(&model, &Steps::default());
        let mut machine = Machine::new(&model, &grids(random));
        machine.late = late;
        for vcpu in 0..model.servers.len() {
            bursts(random, &mut machine, vcpu as u8, 500);
        }
        machine.run(500);
        for (number, server) in model.servers.iter().enumerate().filter(|(_, server)| server.budget().is_some()) {
            if !matches!(bounds.servers[number].verdict, Verdict::Fits { .. }) {
                continue;
            }
            let period = server.budget().expect("filtered").1;
            for window in [1, period / 2 + 1, period, period + 1, 2 * period, 3 * period + 5] {
                let (most, bound) =
                    (machine.most_in(number as u8, window), bounds.servers[number].envelope.in_window(window));
                assert!(most <= bound, "server {number}, window {window}: {most} > {bound}: {model:?}");
            }
        }
    });
}

/// Several servers of one vCPU add up, and a background adds nothing that is promised but takes nothing either.
#[test]
fn servers_of_one_vcpu_add_up() {
    check("sums", |random| {
        let mut servers = vec![
            Server::new(0, 0, any_sporadic(random, 6, 40)),
            Server::new(1, 1, any_sporadic(random, 8, 50)),
            Server::new(0, 2, any_sporadic(random, 8, 70)),
            Server::new(1, 9, Rule::Unlimited),
        ];
        servers[1].background = random.flip().then_some(20);
        let model = CoreModel { servers, ..CoreModel::default() };
        let bounds = CoreBounds::of(&model, &Steps::default());
        if !bounds.is_accepted() {
            return;
        }
        let mut machine = Machine::new(&model, &[]);
        bursts(random, &mut machine, 1, 600);
        machine.work(random.within(0, 50), 0, ALWAYS).run(600);
        let supply = &bounds.vcpu(0).expect("known").supply;
        for window in [20, 45, 70, 100, 200, 333] {
            let least = machine.least_in(0, window).expect("busy for long");
            let promised = supply.in_window(window, &Steps::default());
            assert!(least >= promised, "window {window}: {least} < {promised}: {model:?}");
        }
        // What the unlimited one below gets is what is left.
        let rest = &bounds.servers[3].supply;
        let mut machine = Machine::new(&model, &[]);
        machine.work(0, 0, ALWAYS).work(0, 1, ALWAYS).run(600);
        for window in [30, 100, 300] {
            let least = machine.least_in(1, window).expect("busy for long");
            assert!(least >= rest.in_window(window, &Steps::default()), "window {window}: {model:?}");
        }
    });
}
