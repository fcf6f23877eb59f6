//! What is promised to a guest holds in runs of the product's own scheduler where switches cost time.

mod support;

use bulkhead_analysis::core_bounds::CoreBounds;
use bulkhead_analysis::core_model::Rule;
use bulkhead_analysis::overhead::Costs;
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::supply::Supply;
use support::random::check_some;
use support::{ALWAYS, Machine, any_rule, grids, model};

fn pieces(budget_ticks: u64, period_ticks: u64, dispatch_anchor: bool, chunks: u32) -> Rule {
    Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor, lag_clamp: true, chunks, minimum_ticks: 1 }
}

/// QV-22, QV-39, SG-48: whoever is above a victim sleeps and wakes as fast as budgets allow and pays for both exchanges, so the
/// victim executes what is computed.
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
