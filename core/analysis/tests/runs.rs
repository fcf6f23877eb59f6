//! Bounds against runs of the product's own scheduler on random systems: no run breaks a bound, and where the theory says
//! that a bound is exact it is reached (P3, P6, P6b, P8, P14 of `real-time.md`).
//!
//! The seed is printed; `BULKHEAD_ANALYSIS_SEED` and `BULKHEAD_ANALYSIS_CASES` replace it and the number of cases.

mod support;

use bulkhead_analysis::core_bounds::{CoreBounds, VcpuBounds, Verdict, handler_server};
use bulkhead_analysis::core_model::{Client, CoreModel, Gate, Pibs, Rule, Server, TimeTable};
use bulkhead_analysis::guest::{SporadicBudget, Task, responses_in_hand};
use bulkhead_analysis::table::Window;
use support::{ALWAYS, Machine, Random, any_rule, any_sporadic, bursts, check, model, sporadic};

/// Some servers above a victim, all of them within their periods.
fn accepted(random: &mut Random, victim: Rule) -> Option<(CoreModel, CoreBounds)> {
    let above = random.within(1, 3);
    let mut rules: Vec<_> = (0..above).map(|_| any_rule(random, 8, 50)).collect();
    rules.push(victim);
    let model = model(rules);
    let bounds = CoreBounds::of(&model);
    bounds.is_accepted().then_some((model, bounds))
}

/// Grids of the deferrable and polling servers begin anywhere.
fn grids(random: &mut Random) -> [u64; 8] {
    core::array::from_fn(|_| random.within(0, 30))
}

#[test]
fn a_whole_budget_is_done_within_its_response() {
    let mut cases = 0;
    check("response", 1, |random| {
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
    check("late", 1, |random| {
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
        let bounds = CoreBounds::of(&model);
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
    check("PIBS", 1, |random| {
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
        let bounds = CoreBounds::of(&model);
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
    check("PIBS latency", 1, |random| {
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
        let bounds = CoreBounds::of(&model);
        if !bounds.is_accepted() {
            return;
        }
        let amount = random.within(1, grant);
        let bound = handler_server(&model, &bounds, 1).expect("accepted").delivery(amount).drained_ticks;
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
    check("donor", 1, |random| {
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
        let bounds = CoreBounds::of(&model);
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
    check("exactness", 1, |random| {
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
        let bounds = CoreBounds::of(&model);
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
    check("P6, P6b", 1, |random| {
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
            let promised = supply.in_window(window);
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
    check("blackout", 1, |random| {
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
    check("envelopes", 1, |random| {
        let victim = any_rule(random, 12, 60);
        let Some((mut model, _)) = accepted(random, victim) else {
            return;
        };
        let late = random.within(0, 2);
        model.lateness_ticks = late;
        // A late server above blocks, too.
        model.blocking_ticks = late;
        let bounds = CoreBounds::of(&model);
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
    check("sums", 1, |random| {
        let mut servers = vec![
            Server::new(0, 0, any_sporadic(random, 6, 40)),
            Server::new(1, 1, any_sporadic(random, 8, 50)),
            Server::new(0, 2, any_sporadic(random, 8, 70)),
            Server::new(1, 9, Rule::Unlimited),
        ];
        servers[1].background = random.flip().then_some(20);
        let model = CoreModel { servers, ..CoreModel::default() };
        let bounds = CoreBounds::of(&model);
        if !bounds.is_accepted() {
            return;
        }
        let mut machine = Machine::new(&model, &[]);
        bursts(random, &mut machine, 1, 600);
        machine.work(random.within(0, 50), 0, ALWAYS).run(600);
        let supply = &bounds.vcpu(0).expect("known").supply;
        for window in [20, 45, 70, 100, 200, 333] {
            let least = machine.least_in(0, window).expect("busy for long");
            let promised = supply.in_window(window);
            assert!(least >= promised, "window {window}: {least} < {promised}: {model:?}");
        }
        // What the unlimited one below gets is what is left.
        let rest = &bounds.servers[3].supply;
        let mut machine = Machine::new(&model, &[]);
        machine.work(0, 0, ALWAYS).work(0, 1, ALWAYS).run(600);
        for window in [30, 100, 300] {
            let least = machine.least_in(1, window).expect("busy for long");
            assert!(least >= rest.in_window(window), "window {window}: {model:?}");
        }
    });
}

/// A guest with one task: as long as the tasks ask for no more than the budget, only what is more important is waited for.
#[test]
fn a_task_with_its_budget_in_hand_keeps_its_response() {
    let mut cases = 0;
    check("in hand", 1, |random| {
        let victim = any_sporadic(random, 12, 60);
        let Some((model, bounds)) = accepted(random, victim) else {
            return;
        };
        let victim = model.servers.len() - 1;
        let Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor, chunks, minimum_ticks, .. } =
            model.servers[victim].rule
        else {
            unreachable!("made as one")
        };
        let task = Task {
            cost_ticks: random.within(1, budget_ticks),
            period_ticks: random.within(1.max(period_ticks / 4), 2 * period_ticks),
            deadline_ticks: 1,
        };
        let server = SporadicBudget {
            budget_ticks: budget_ticks - (minimum_ticks - 1),
            period_ticks,
            chunks: u64::from(chunks),
            dispatch_anchor,
        };
        let contention = bounds.servers[victim].contention.as_ref().expect("accepted");
        let Some(responses) = responses_in_hand(contention, &server, &[task]) else {
            return;
        };
        let Some(bound) = responses[0].filter(|bound| *bound <= task.period_ticks) else {
            return;
        };
        cases += 1;
        let mut machine = Machine::new(&model, &grids(random));
        for vcpu in 0..victim {
            bursts(random, &mut machine, vcpu as u8, 600);
        }
        let mut time = random.within(30, 90);
        while time < 500 {
            machine.work(time, victim as u8, task.cost_ticks);
            // Often as early as it may.
            time += task.period_ticks + if random.flip() { 0 } else { random.within(0, 20) };
        }
        machine.run(700);
        let worst = machine.worst_response(victim as u8);
        assert!(worst <= bound, "{worst} > {bound}: {task:?} {model:?}");
    });
    assert!(cases > 0, "no case had its budget in hand");
}

/// SG-45, SG-47: a handler behind an interrupt gate.
#[test]
fn handlers_end_within_their_bounds() {
    check("handlers", 1, |random| {
        let rule = any_sporadic(random, 8, 50);
        let budget = match &rule {
            Rule::Sporadic { budget_ticks, .. } => *budget_ticks,
            _ => unreachable!("asked for a sporadic one"),
        };
        let mut gated = Server::new(1, 1, rule);
        gated.gate = Gate::Interrupt;
        let above = Server::new(0, 0, any_rule(random, 6, 50));
        let model = CoreModel { servers: vec![above, gated], ..CoreModel::default() };
        let bounds = CoreBounds::of(&model);
        if !bounds.is_accepted() {
            return;
        }
        let handler = random.within(1, 2 * budget);
        let bound = handler_server(&model, &bounds, 1).expect("accepted").delivery(handler);
        let mut machine = Machine::new(&model, &grids(random));
        machine.interrupted[1] = true;
        bursts(random, &mut machine, 0, 600);
        // Each begins when the one before it has ended for certain: the bound is for one at a time.
        let mut time = random.within(0, 60);
        for _ in 0..6 {
            machine.work(time, 1, handler);
            time += bound.drained_ticks.expect("a bound") + random.within(0, 20);
        }
        machine.run(time);
        let worst = machine.worst_response(1);
        assert!(Some(worst) <= bound.drained_ticks, "{worst} > {bound:?}, handler {handler}: {model:?}");
        let mut fresh = Machine::new(&model, &grids(random));
        fresh.interrupted[1] = true;
        bursts(random, &mut fresh, 0, 300);
        fresh.work(random.within(0, 100), 1, handler).run(1_500);
        let worst = fresh.worst_response(1);
        assert!(Some(worst) <= bound.conforming_ticks, "{worst} > {bound:?} with the budget in hand: {model:?}");
    });
}

/// SG-50: under a time table, servers inside and outside of windows.
#[test]
fn windows_give_what_the_table_promises() {
    check("windows", 20, |random| {
        let major = random.within(60, 120);
        let first = random.within(10, major / 2 - 5);
        let second = random.within(10, major / 2 - 5);
        let gap = random.within(0, major - first - second);
        let windows = [(0, first, 0), (first + gap, second, 1)].map(|(offset_ticks, length_ticks, owner)| Window {
            offset_ticks,
            length_ticks,
            owner,
        });
        // Often a period that is not longer than the frame.
        let longest = if random.flip() { major } else { 250 };
        let mut inside = Server::new(0, 1, any_rule(random, 8, longest));
        inside.gate = Gate::Window(0);
        let mut other = Server::new(1, 2, Rule::Unlimited);
        other.gate = Gate::Window(1);
        let everywhere = Server::new(2, 0, any_sporadic(random, 4, 60));
        let model = CoreModel {
            servers: vec![everywhere, inside, other],
            table: Some(TimeTable { major_ticks: major, windows: windows.into(), passage_ticks: 0 }),
            ..CoreModel::default()
        };
        let bounds = CoreBounds::of(&model);
        // Busy from the start, or woken in the middle of a window.
        let sleeps = random.flip();
        let mut machine = Machine::new(&model, &if sleeps { grids(random) } else { [0; 8] });
        bursts(random, &mut machine, 2, 1_000);
        for vcpu in [0, 1] {
            machine.work(if sleeps { random.within(30, 100) } else { 0 }, vcpu, ALWAYS);
        }
        machine.run(1_000);
        for vcpu in [0, 1] {
            let bounds = bounds.vcpu(vcpu).expect("known");
            let supply = if sleeps { &bounds.sleeper_supply } else { &bounds.supply };
            for window in [major / 2, major, 2 * major, 3 * major + 7, 500] {
                let least = machine.least_in(vcpu as u8, window).expect("busy for long");
                let promised = supply.in_window(window);
                assert!(least >= promised, "vCPU {vcpu}, window {window}: {least} < {promised}: {model:?}");
            }
            let bound = if sleeps { bounds.drained_wait_ticks } else { bounds.blackout_ticks };
            if let Some(bound) = bound {
                assert!(machine.longest_dark(vcpu as u8) <= bound, "vCPU {vcpu} {bound}: {model:?}");
            }
        }
    });
}

/// Equals under a quantum, above and below servers with budgets.
#[test]
fn equals_under_a_quantum_get_their_turns() {
    check("turns", 1, |random| {
        let peers = random.within(2, 4) as usize;
        let quantum = random.within(2, 20);
        let mut servers = vec![Server::new(0, 0, any_rule(random, 6, 60))];
        servers.extend((1..=peers).map(|vcpu| Server::new(vcpu, 5, Rule::Unlimited)));
        let model = CoreModel { servers, quanta: vec![(5, quantum)], ..CoreModel::default() };
        let bounds = CoreBounds::of(&model);
        let mut machine = Machine::new(&model, &grids(random));
        bursts(random, &mut machine, 0, 800);
        machine.work(random.within(0, 100), 1, ALWAYS);
        (2..=peers).for_each(|vcpu| bursts(random, &mut machine, vcpu as u8, 800));
        machine.run(800);
        let vcpu = bounds.vcpu(1).expect("known");
        let bound = vcpu.blackout_ticks.expect("light load above");
        assert!(machine.longest_dark(1) <= bound, "{} > {bound}: {model:?}", machine.longest_dark(1));
        for window in [bound, 2 * bound, 100, 300] {
            let least = machine.least_in(1, window.min(600)).expect("busy for long");
            assert!(least >= vcpu.supply.in_window(window.min(600)), "window {window}: {model:?}");
        }
    });
}
