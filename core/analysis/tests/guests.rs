//! What is promised to guests and their handlers, against runs of the product's own scheduler on random systems: tasks with a budget
//! in hand, handlers, windows of a table, turns (P8, P14 of `real-time.md`). As `runs.rs`, which is about servers.

mod support;

use bulkhead_analysis::core_bounds::{CoreBounds, handler_server};
use bulkhead_analysis::core_model::{CoreModel, Gate, Rule, Server, TimeTable};
use bulkhead_analysis::guest::{ChunkedBudget, Task, responses_in_hand};
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::table::Window;
use support::random::{check, check_some};
use support::{ALWAYS, Machine, accepted, any_rule, any_sporadic, bursts, grids};

/// A guest with one task: as long as the tasks ask for no more than the budget, only what is more important is waited for.
#[test]
fn a_task_with_its_budget_in_hand_keeps_its_response() {
    let mut cases = 0;
    check("in hand", |random| {
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
        let server = ChunkedBudget {
            budget_ticks: budget_ticks - (minimum_ticks - 1),
            period_ticks,
            chunks: u64::from(chunks),
            dispatch_anchor,
        };
        let contention = bounds.servers[victim].contention.as_ref().expect("accepted");
        let Some(responses) = responses_in_hand(contention, &server, &[task], &Steps::default()) else {
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
    check("handlers", |random| {
        let rule = any_sporadic(random, 8, 50);
        let budget = match &rule {
            Rule::Sporadic { budget_ticks, .. } => *budget_ticks,
            _ => unreachable!("asked for a sporadic one"),
        };
        let mut gated = Server::new(1, 1, rule);
        gated.gate = Gate::Interrupt;
        let above = Server::new(0, 0, any_rule(random, 6, 50));
        let model = CoreModel { servers: vec![above, gated], ..CoreModel::default() };
        let bounds = CoreBounds::of(&model, &Steps::default());
        if !bounds.is_accepted() {
            return;
        }
        let handler = random.within(1, 2 * budget);
        let bound = handler_server(&model, &bounds, 1, &Steps::default())
            .expect("accepted")
            .delivery(handler, &Steps::default());
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
    check_some("windows", 20, |random| {
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
        let bounds = CoreBounds::of(&model, &Steps::default());
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
                let promised = supply.in_window(window, &Steps::default());
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
    check("turns", |random| {
        let peers = random.within(2, 4) as usize;
        let quantum = random.within(2, 20);
        let mut servers = vec![Server::new(0, 0, any_rule(random, 6, 60))];
        servers.extend((1..=peers).map(|vcpu| Server::new(vcpu, 5, Rule::Unlimited)));
        let model = CoreModel { servers, quanta: vec![(5, quantum)], ..CoreModel::default() };
        let bounds = CoreBounds::of(&model, &Steps::default());
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
            assert!(least >= vcpu.supply.in_window(window.min(600), &Steps::default()), "window {window}: {model:?}");
        }
    });
}
