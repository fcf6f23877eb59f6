//! What is promised to a guest holds in runs of the product's own scheduler where switches cost time.

mod support;

use bulkhead_analysis::core_bounds::CoreBounds;
use bulkhead_analysis::core_model::Rule;
use bulkhead_analysis::overhead::{Costs, Habits};
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::supply::Supply;
use support::random::check_some;
use support::{ALWAYS, Machine, any_rule, grids, model};

fn pieces(budget_ticks: u64, period_ticks: u64, dispatch_anchor: bool, chunks: u32) -> Rule {
    Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor, lag_clamp: true, chunks, minimum_ticks: 1 }
}

/// QV-22, QV-39, SG-48: the vCPUs above a victim sleep and wake as fast as budgets allow and pay for both exchanges,
/// so the victim executes what is computed.
#[test]
fn a_victim_executes_its_supply_because_who_pre_empts_pays() {
    let mut promises = 0;
    check_some("switches", 4, |random| {
        let load = random.within(1, 3);
        // Servers of any kind, or one with a large budget and few chunks, which it can use in as many pieces as it likes.
        let mut rules: Vec<_> = if random.flip() {
            (0..random.within(1, 3)).map(|_| any_rule(random, 8, 60)).collect()
        } else {
            let budget_ticks = random.within(20, 60);
            let (period_ticks, dispatch_anchor) = (random.within(250, 400), random.flip());
            vec![pieces(budget_ticks, period_ticks, dispatch_anchor, 2)]
        };
        rules.push(pieces(random.within(60, 140), random.within(150, 200), false, random.within(2, 8) as u32));
        let mut model = model(rules);
        model.costs = Costs { switch_ticks: load, least_stint_ticks: load + 1, ..Costs::default() };
        let bounds = CoreBounds::of(&model, &Steps::default());
        if !bounds.is_accepted() {
            return;
        }
        let victim = model.servers.len() - 1;
        let supply = &bounds.vcpu(victim).expect("known").supply;
        assert!(matches!(supply, Supply::Net { .. }), "costs are counted");
        let mut machine = Machine::new(&model, &grids(random));
        machine.load = load;
        for vcpu in 0..victim as u8 {
            let mut time = random.within(30, 60);
            let (work, pause) = (random.within(1, 3), random.within(1, 2 * load + 6));
            while time < 1_000 {
                machine.work(time, vcpu, work);
                time += random.within(1, pause);
            }
        }
        machine.work(30, victim as u8, ALWAYS).run(1_000);
        for window in [150, 200, 300, 600, 900] {
            let promised = supply.in_window(window, &Steps::default());
            let Some(least) = machine.least_in(victim as u8, window) else {
                continue;
            };
            assert!(least >= promised, "window {window}: {least} < {promised}: {model:?}");
            promises += u64::from(promised > 0);
        }
    });
    println!("{promises} promises");
    assert!(promises > 100, "nobody was promised anything");
}

/// SG-48: a guest that wakes again when its victim has just been loaded uses its budget up with that, and the computed supply is no
/// more than a tenth below what is left.
#[test]
fn the_supply_is_near_what_the_worst_attack_leaves() {
    const LOAD: u64 = 3;
    const WINDOW: u64 = 15_000;
    let mut model = model(vec![Rule::Deferrable { budget_ticks: 60, period_ticks: 300 }, pieces(180, 300, false, 2)]);
    model.costs = Costs { switch_ticks: LOAD, least_stint_ticks: LOAD + 1, ..Costs::default() };
    let bounds = CoreBounds::of(&model, &Steps::default());
    assert!(bounds.is_accepted());
    let mut machine = Machine::new(&model, &[]);
    machine.load = LOAD;
    // As often as each budget holds it, and no more: work that waits for a budget pre-empts nobody.
    for (start, activation) in (0..16_000).step_by(300).flat_map(|start| (0..8).map(move |number| (start, number))) {
        machine.work(start + 30 + activation * (2 * LOAD + 1), 0, 1);
    }
    machine.work(30, 1, ALWAYS).run(16_000);
    let promised = bounds.vcpu(1).expect("known").supply.in_window(WINDOW, &Steps::default());
    let least = machine.least_in(1, WINDOW).expect("it is always busy");
    println!("{least} executed, {promised} promised");
    assert!(promised <= least && promised * 10 >= least * 9, "{promised} promised, {least} executed");
}

/// Costs of a core whose entries take a guest's time, and where an end is noticed that much late.
fn with_entries(model: &mut bulkhead_analysis::core_model::CoreModel, load: u64, way_in: u64) {
    model.costs = Costs {
        switch_ticks: load,
        way_in_ticks: way_in,
        entry_ticks: way_in,
        least_stint_ticks: load + 1,
        ..Costs::default()
    };
    model.habits = model.servers.iter().map(|_| Habits { sources: 1, ..Habits::default() }).collect();
    (model.lateness_ticks, model.blocking_ticks) = (load + way_in, load + way_in);
}

/// QV-39, SG-48: servers above a victim, or beside it, with a least charge and without, wake as often as they can; so does the victim,
/// before it wants to run for good. It executes what is computed.
#[test]
fn least_charges_limit_what_wake_ups_take() {
    let mut promises = 0;
    check_some("least charges", 4, |random| {
        let (load, way_in) = (random.within(1, 3), random.within(1, 3));
        let mut model = model((0..random.within(1, 2)).map(|_| any_rule(random, 40, 200)));
        let budget_ticks = random.within(60, 140);
        let chunks = random.within(2, 8) as u32;
        let (period, dispatch) = (random.within(180, 240), random.flip());
        let victim = model.servers.len();
        let beside = random.flip();
        let place = if beside { victim - 1 } else { victim } as u8;
        let rule = pieces(budget_ticks, period, dispatch, chunks);
        model.servers.push(bulkhead_analysis::core_model::Server::new(victim, place, rule));
        for server in &mut model.servers {
            let least = if random.flip() { random.within(1, 15) } else { 0 };
            if let Rule::Sporadic { minimum_ticks, budget_ticks, .. } = &mut server.rule {
                *minimum_ticks = least.clamp(1, *budget_ticks);
            }
            server.least_charge_ticks = least.min(server.budget().map_or(0, |(budget_ticks, _)| budget_ticks));
        }
        with_entries(&mut model, load, way_in);
        let bounds = CoreBounds::of(&model, &Steps::default());
        if !bounds.is_accepted() {
            return;
        }
        let supply = &bounds.vcpu(victim).expect("known").supply;
        let mut machine = Machine::new(&model, &grids(random));
        (machine.load, machine.way_in) = (load, way_in);
        for vcpu in 0..victim as u8 {
            let mut time = random.within(30, 60);
            let (work, pause) = (random.within(1, 3), random.within(1, 20));
            while time < 1_500 {
                machine.work(time, vcpu, work);
                time += random.within(1, pause);
            }
        }
        let early = random.within(0, 12);
        for number in 0..early {
            machine.work(30 + number * 9, victim as u8, 1);
        }
        machine.work(140, victim as u8, ALWAYS).run(1_500);
        for window in [200, 300, 400, 600, 900, 1_200] {
            let promised = supply.in_window(window, &Steps::default());
            let Some(least) = machine.least_in(victim as u8, window) else {
                continue;
            };
            assert!(least >= promised, "window {window}: {least} < {promised}: {model:?}");
            promises += u64::from(promised > 0);
        }
    });
    println!("{promises} promises");
    assert!(promises > 100, "nobody was promised anything");
}

/// SG-48: with a least charge the bound is near what a guest can do that wakes as often as it can, and far above what is promised
/// without one.
#[test]
fn a_least_charge_lets_a_promise_be_near_what_is_executed() {
    const WINDOW: u64 = 30_000;
    let bounds_with = |least| {
        let mut model =
            model(vec![Rule::Deferrable { budget_ticks: 120, period_ticks: 600 }, pieces(320, 600, false, 2)]);
        model.servers[0].least_charge_ticks = least;
        with_entries(&mut model, 2, 3);
        (CoreBounds::of(&model, &Steps::default()), model)
    };
    let promised = |least| bounds_with(least).0.vcpu(1).expect("known").supply.in_window(WINDOW, &Steps::default());
    let (bounds, model) = bounds_with(20);
    assert!(bounds.is_accepted());
    let mut machine = Machine::new(&model, &[]);
    (machine.load, machine.way_in) = (2, 3);
    for (start, number) in (0..31_000).step_by(600).flat_map(|start| (0..60).map(move |number| (start, number))) {
        machine.work(start + 30 + number * 9, 0, 1);
    }
    machine.work(30, 1, ALWAYS).run(31_000);
    let least = machine.least_in(1, WINDOW).expect("it is always busy");
    println!("{least} executed, {} promised, {} without a least charge", promised(20), promised(0));
    assert!(promised(20) <= least && promised(20) * 10 >= least * 9, "{} promised, {least} executed", promised(20));
    assert!(promised(0) * 10 < promised(20) * 9, "{} promised without", promised(0));
}

/// QV-38: what is certain in a window is what is certain within it, also where returns of a budget are counted by what is charged.
#[test]
fn the_most_in_a_window_is_the_last_amount_whose_window_fits() {
    let mut model = model(vec![pieces(400, 1_000, false, 8)]);
    with_entries(&mut model, 12, 3);
    let supply = CoreBounds::of(&model, &Steps::default()).vcpu(0).expect("known").supply.clone();
    let steps = Steps::default();
    for window in [1_000, 3_000, 10_000, 100_000, 1_000_000] {
        let most = supply.in_window(window, &steps);
        let within = |amount| supply.least_window(amount, &steps).is_some_and(|needed| needed <= window);
        assert!((most == 0 || within(most)) && !within(most + 1), "{most} in {window}");
    }
    // Eight returns of 24 in every 400.
    let long = supply.in_window(1_000_000, &steps);
    assert!((200_000..208_000).contains(&long), "{long}");
}
