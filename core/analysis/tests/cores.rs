//! Golden examples that are whole cores (`real-time.md`): CFG-01, SAFEG-01, UNI-02, PIBS bounds, SPUMONE's two guests, and what
//! has no bound.

use bulkhead_analysis::core_bounds::{CoreBounds, Verdict, deferred_delivery, delivery, handler_server};
use bulkhead_analysis::core_model::{Client, CoreModel, Gate, Pibs, Rule, Server, TimeTable};
use bulkhead_analysis::demand::Demand;
use bulkhead_analysis::envelope::Envelope;
use bulkhead_analysis::guest::Task;
use bulkhead_analysis::overhead::{Costs, Returns};
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::table::Window;

fn sporadic(budget_ticks: u64, period_ticks: u64) -> Rule {
    Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor: false, lag_clamp: true, chunks: 8, minimum_ticks: 1 }
}

fn dispatched(budget_ticks: u64, period_ticks: u64) -> Rule {
    Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor: true, lag_clamp: true, chunks: 8, minimum_ticks: 1 }
}

fn deferrable(budget_ticks: u64, period_ticks: u64) -> Rule {
    Rule::Deferrable { budget_ticks, period_ticks }
}

fn task(cost_ticks: u64, period_ticks: u64) -> Task {
    Task { cost_ticks, period_ticks, deadline_ticks: period_ticks }
}

fn gated(mut server: Server) -> Server {
    server.gate = Gate::Interrupt;
    server
}

fn core(servers: Vec<Server>) -> CoreModel {
    CoreModel { servers, ..CoreModel::default() }
}

fn share(numerator: u64, denominator: u64, clients: &[(u64, u8)]) -> Rule {
    let clients =
        clients.iter().map(|(period_ticks, priority)| Client { period_ticks: *period_ticks, priority: *priority });
    Rule::Pibs(Pibs { numerator, denominator, clients: clients.collect(), published: false })
}

/// CFG-01, QV-38: ticks of 0.1 ms.
#[test]
fn cfg_01_one_whole_core() {
    let model = CoreModel {
        servers: vec![
            gated(Server::new(0, 0, dispatched(20, 300))),
            Server::new(1, 1, share(5, 100, &[(400, 1)])),
            Server::new(2, 2, sporadic(100, 500)),
            Server::new(3, 3, sporadic(1_000, 3_000)),
        ],
        events: vec![Demand::Events { cost_ticks: 1, events: 2, period_ticks: 100 }],
        blocking_ticks: 2,
        ..CoreModel::default()
    };
    let bounds = CoreBounds::of(&model, &Steps::default());
    assert!(bounds.is_accepted());
    let responses: Vec<_> = [0, 2, 3].map(|number: usize| bounds.servers[number].response_ticks()).into();
    assert_eq!(responses, [Some(26), Some(155), Some(1_660)]);
    assert_eq!(bounds.servers[2].blackout_ticks, Some(455));
    assert_eq!(bounds.servers[3].blackout_ticks, Some(2_660));
    // Most used in a period: the golden text gives both.
    assert_eq!(bounds.servers[2].envelope.in_window(500), 155);
    assert_eq!(bounds.servers[3].envelope.in_window(3_000), 1_660);
    let handler =
        handler_server(&model, &bounds, 0, &Steps::default()).expect("a bound").delivery(5, &Steps::default());
    assert_eq!((handler.conforming_ticks, handler.drained_ticks), (Some(11), Some(291)));
    assert_eq!(delivery(&model, &bounds, 0, 5, &Steps::default()).drained_ticks, Some(291));
    // A handler of 45 needs three budgets: two more periods, dispatch-dated with a jitter of 6.
    let long = handler_server(&model, &bounds, 0, &Steps::default()).expect("a bound").delivery(45, &Steps::default());
    assert_eq!(long.conforming_ticks, Some(2 * 306 + 11));
}

/// SAFEG-01, SG-47: tasks 10/50 and 100/300 of a trusted RTOS, ITask 2/30.
#[test]
fn safeg_01_idle_approach_and_itask() {
    let rtos = |number: usize, priority: u8| {
        let tasks = [task(10, 50), task(100, 300)];
        Server::new(0, priority, Rule::Promised(vec![tasks[number]]))
    };
    let background = Server::new(1, 60, Rule::Unlimited);
    let idle = core(vec![rtos(0, 10), rtos(1, 20), background.clone()]);
    let bounds = CoreBounds::of(&idle, &Steps::default());
    assert_eq!(bounds.vcpu(1).and_then(|vcpu| vcpu.blackout_ticks), Some(130), "the idle approach");
    assert_eq!(
        deferred_delivery(&idle, &CoreBounds::of(&idle, &Steps::default()), 1, 1, &Steps::default()).conforming_ticks,
        Some(131)
    );

    // The first tick of a handler: the budget was just used up. A bound for the wait is one less than that for a tick.
    let drained = |priority: u8| {
        let itask = gated(Server::new(1, priority, deferrable(2, 30)));
        let model = core(vec![itask, rtos(0, 10), rtos(1, 20), background.clone()]);
        let bounds = CoreBounds::of(&model, &Steps::default());
        let handler =
            handler_server(&model, &bounds, 0, &Steps::default()).expect("a bound").delivery(1, &Steps::default());
        handler.drained_ticks.map(|ticks| ticks - 1)
    };
    assert_eq!((drained(5), drained(15)), (Some(28), Some(38)));

    // What the RTOS pays: the response of each of its tasks below the ITask.
    let below = |cost: u64, period: u64, more: Vec<Server>| {
        let mut servers = vec![gated(Server::new(1, 5, deferrable(2, 30)))];
        servers.extend(more);
        servers.push(Server::new(0, 30, sporadic(cost, period)));
        CoreBounds::of(&core(servers), &Steps::default()).servers.last().and_then(|server| server.response_ticks())
    };
    assert_eq!(below(10, 50, Vec::new()), Some(14));
    assert_eq!(below(100, 300, vec![Server::new(0, 10, sporadic(10, 50))]), Some(142));
    let periodic = core(vec![Server::new(1, 5, sporadic(2, 30)), Server::new(0, 10, sporadic(10, 50))]);
    assert_eq!(
        CoreBounds::of(&periodic, &Steps::default()).servers[1].response_ticks(),
        Some(12),
        "a sporadic server costs less"
    );
}

/// UNI-02, MZ-26: a storm behind a gate takes its own budget and no more.
#[test]
fn uni_02_a_gated_storm_leaves_the_peer_its_budget() {
    let model = core(vec![gated(Server::new(0, 0, dispatched(2, 30))), Server::new(1, 1, sporadic(20, 30))]);
    let bounds = CoreBounds::of(&model, &Steps::default());
    assert_eq!(bounds.servers[1].verdict, Verdict::Fits { response_ticks: 22 });
    assert_eq!(bounds.servers[0].envelope.in_window(30), 2);
}

/// PIBS-02, PIBS-03, PIBS-04.
#[test]
fn pibs_bounds() {
    // U = 4 %, G = 200: 392 in a client period of 5,000, 584 when the grant is as late as it can be.
    let shape = |jitter_ticks| Envelope::Share {
        grant_ticks: 200,
        numerator: 4,
        denominator: 100,
        jitter_ticks,
        lateness_ticks: 0,
    };
    assert_eq!([0, 4_800].map(|jitter| shape(jitter).in_window(5_000)), [392, 584]);
    let model = core(vec![Server::new(0, 0, share(4, 100, &[(5_000, 0)]))]);
    assert_eq!(
        CoreBounds::of(&model, &Steps::default()).servers[0].envelope,
        shape(1),
        "a date is rounded up, so a grant is a tick late"
    );
    // PIBS-03: 10 % above a victim (20, 50), shortest client 10: the corrected rule is bounded by 24 (measured: 21).
    let victim = |published: bool| {
        let clients = vec![Client { period_ticks: 10, priority: 0 }, Client { period_ticks: 1_000, priority: 2 }];
        let pibs = Pibs { numerator: 1, denominator: 10, clients, published };
        let model = core(vec![Server::new(0, 0, Rule::Pibs(pibs)), Server::new(1, 1, sporadic(20, 50))]);
        CoreBounds::of(&model, &Steps::default()).servers[1].verdict
    };
    assert!(matches!(victim(false), Verdict::Fits { response_ticks: 24 }), "{:?}", victim(false));
    assert!(matches!(victim(true), Verdict::Late { response_ticks: Some(115..) }), "{:?}", victim(true));
    // PIBS-04: a request of one tick of the client with period 10, which is the shortest: T_floor + 1.
    let model = core(vec![Server::new(0, 0, share(1, 10, &[(10, 0)]))]);
    let bounds = CoreBounds::of(&model, &Steps::default());
    let handler = handler_server(&model, &bounds, 0, &Steps::default()).expect("a bound");
    assert!(handler.delivery(1, &Steps::default()).drained_ticks.is_some_and(|ticks| ticks <= 11));
}

/// SPUMONE (SP-11, SP-12): the RTOS above, the other below; without tasks declared there is no promise for the lower one.
#[test]
fn spumone_two_unlimited_guests() {
    let model = core(vec![Server::new(0, 0, Rule::Unlimited), Server::new(1, 1, Rule::Unlimited)]);
    let bounds = CoreBounds::of(&model, &Steps::default());
    assert_eq!(bounds.vcpus[0].blackout_ticks, Some(0));
    assert_eq!(
        (bounds.servers[1].verdict, bounds.vcpus[1].blackout_ticks),
        (Verdict::Starved { culprit: 0, background: false }, None)
    );
    let idle = |tasks: Vec<Task>| {
        let model = core(vec![Server::new(0, 0, Rule::Promised(tasks)), Server::new(1, 1, Rule::Unlimited)]);
        CoreBounds::of(&model, &Steps::default()).vcpus[1].blackout_ticks
    };
    assert_eq!(idle(vec![task(2, 10), task(5, 20)]), Some(7));
    assert_eq!(idle(vec![task(2, 10), task(9, 20)]), Some(13), "a second 2 arrives inside");
}

#[test]
fn what_has_no_bound_names_its_culprit() {
    let victim = Server::new(1, 5, sporadic(10, 100));
    let bounds =
        |first: Server| CoreBounds::of(&core(vec![first, victim.clone()]), &Steps::default()).servers[1].verdict;
    assert_eq!(bounds(Server::new(0, 1, Rule::Unlimited)), Verdict::NoBound { culprit: 0, background: false });
    assert_eq!(bounds(Server::new(0, 5, Rule::Unlimited)), Verdict::NoBound { culprit: 0, background: false });
    assert_eq!(bounds(Server::new(0, 6, Rule::Unlimited)), Verdict::Fits { response_ticks: 10 });
    assert_eq!(bounds(Server::new(1, 1, Rule::Unlimited)), Verdict::Shadowed { by: 0 });
    let mut fallen = Server::new(0, 1, sporadic(5, 50));
    fallen.background = Some(4);
    assert_eq!(bounds(fallen.clone()), Verdict::NoBound { culprit: 0, background: true });
    fallen.background = Some(6);
    assert_eq!(bounds(fallen), Verdict::Fits { response_ticks: 15 });
    let overload = core(vec![Server::new(0, 0, sporadic(60, 100)), Server::new(1, 1, sporadic(50, 100))]);
    let bounds = CoreBounds::of(&overload, &Steps::default());
    assert!(!bounds.is_accepted());
    // QV-39: the more important one keeps its guarantee.
    assert_eq!(bounds.servers[0].verdict, Verdict::Fits { response_ticks: 60 });
    assert_eq!(bounds.servers[1].verdict, Verdict::Late { response_ticks: Some(170) });
    let full = core(vec![Server::new(0, 0, sporadic(100, 100)), Server::new(1, 1, sporadic(50, 140))]);
    assert_eq!(CoreBounds::of(&full, &Steps::default()).servers[1].verdict, Verdict::Late { response_ticks: None });
}

#[test]
fn several_servers_of_one_vcpu_add_up() {
    let model = core(vec![Server::new(0, 0, sporadic(10, 100)), Server::new(0, 1, sporadic(20, 200))]);
    let bounds = CoreBounds::of(&model, &Steps::default());
    let vcpu = bounds.vcpu(0).expect("known");
    assert_eq!(bounds.servers[1].response_ticks(), Some(30), "its sibling counts as interference");
    let parts: u64 = bounds.servers.iter().map(|server| server.supply.in_window(1_000, &Steps::default())).sum();
    assert_eq!(vcpu.supply.in_window(1_000, &Steps::default()), parts);
    assert_eq!(vcpu.blackout_ticks, Some(90), "that of the better server");
}

#[test]
fn a_donors_budget_counts_once() {
    // The gated server of vCPU 0 spends the budget of its regular one.
    let mut handler = gated(Server::new(0, 0, Rule::Unlimited));
    handler.payer = Some(1);
    let model = core(vec![handler, Server::new(0, 1, sporadic(10, 50)), Server::new(1, 2, sporadic(10, 100))]);
    let bounds = CoreBounds::of(&model, &Steps::default());
    // Deferrable: 10 + 2 * 10.
    assert_eq!(bounds.servers[2].response_ticks(), Some(30));
    assert_eq!(bounds.servers[1].response_ticks(), Some(10));
    assert_eq!(delivery(&model, &bounds, 0, 4, &Steps::default()).conforming_ticks, Some(4));
}

#[test]
fn windows_limit_what_is_offered() {
    let windows = [(0, 30, 0), (50, 50, 1)].map(|(offset_ticks, length_ticks, owner)| Window {
        offset_ticks,
        length_ticks,
        owner,
    });
    let mut first = Server::new(0, 0, Rule::Unlimited);
    first.gate = Gate::Window(0);
    let mut second = Server::new(1, 0, Rule::Unlimited);
    second.gate = Gate::Window(1);
    let everywhere = gated(Server::new(2, 0, dispatched(2, 50)));
    let mut model = CoreModel {
        servers: vec![first, second],
        table: Some(TimeTable { major_ticks: 100, windows: windows.into(), passage_ticks: 5 }),
        ..CoreModel::default()
    };
    let bounds = CoreBounds::of(&model, &Steps::default());
    // Window 0 follows window 1 without a gap and loses 5; a gap of 20 is enough for window 1.
    assert_eq!(bounds.vcpus.iter().map(|vcpu| vcpu.blackout_ticks).collect::<Vec<_>>(), [Some(75), Some(50)]);
    assert_eq!(bounds.vcpus[0].supply.in_window(1_000, &Steps::default()), 250);
    // One behind all windows, outside of them or when both sleep, gets what the windows leave.
    model.servers.push(Server::new(3, 40, Rule::Unlimited));
    let behind = CoreBounds::of(&model, &Steps::default());
    assert_eq!(behind.vcpu(3).and_then(|vcpu| vcpu.blackout_ticks), Some(80), "both windows and their seam");
    model.servers.pop();
    model.servers.push(everywhere);
    let disturbed = CoreBounds::of(&model, &Steps::default());
    assert_eq!(disturbed.vcpus[0].blackout_ticks, Some(75 + 4));
}

#[test]
fn equals_under_a_quantum_take_turns() {
    let model = CoreModel {
        servers: (0..4).map(|vcpu| Server::new(vcpu, 3, Rule::Unlimited)).collect(),
        quanta: vec![(3, 30)],
        ..CoreModel::default()
    };
    let bounds = CoreBounds::of(&model, &Steps::default());
    for vcpu in &bounds.vcpus {
        assert_eq!(vcpu.blackout_ticks, Some(90));
        assert_eq!(vcpu.supply.in_window(240, &Steps::default()), 60, "a quarter, less what the blackout hides");
    }
}

/// SG-60, QV-38: what managers may ask is taken from the vCPU that runs, as often as their limiters let it through; the
/// vCPU that is asked loses both exchanges each time.
#[test]
fn requests_of_managers_are_counted_on_the_core_of_the_one_that_is_asked() {
    let costs = Costs { switch_ticks: 10, way_in_ticks: 3, entry_ticks: 4, least_stint_ticks: 2, ..Costs::default() };
    let requests = Returns { period_ticks: 1_000, pieces: 5 };
    let model = |requests: &[(usize, Returns)]| CoreModel {
        servers: vec![Server::new(0, 0, deferrable(400, 1_000)), Server::new(1, 1, deferrable(300, 1_000))],
        costs,
        requests: requests.to_vec(),
        ..CoreModel::default()
    };
    let (quiet, asked) =
        (CoreBounds::of(&model(&[]), &Steps::default()), CoreBounds::of(&model(&[(1, requests)]), &Steps::default()));
    for window in [1_000, 5_000, 20_000] {
        let most = requests.in_window(window);
        assert_eq!(most, 5 * (window / 1_000 + 2));
        let taken = |vcpu: usize| {
            let of = |bounds: &CoreBounds| bounds.vcpu(vcpu).expect("it is there").overhead.in_window(window, u64::MAX);
            of(&asked) - of(&quiet)
        };
        // The more important one pays two entries each; that somebody is woken by them is counted as if it were above.
        assert!(taken(0) >= most * (2 * 4), "{} for {most} requests in {window}", taken(0));
        assert!(taken(0) <= (most + 2) * (2 * 4 + 3), "{} for {most} requests in {window}", taken(0));
        assert!(taken(1) >= most * (2 * 10), "{} for {most} requests in {window}", taken(1));
    }
    assert!(
        asked.vcpus[0].supply.in_window(20_000, &Steps::default())
            < quiet.vcpus[0].supply.in_window(20_000, &Steps::default())
    );
}
