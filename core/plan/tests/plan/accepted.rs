//! What the planner accepts, the scheduler takes: otherwise a description would pass `check` and a core would refuse its plan
//! at boot.

use bulkhead_abi::schedule::*;
use bulkhead_plan::maps::core_use;
use bulkhead_plan::model::{
    BudgetRule, Gate, OnEmpty, Partition, Schedule, ScheduleKind, Server, ServerReference, System,
};
use bulkhead_plan::{limits, samples, schedule};
use bulkhead_sched::budget::{self, Budget, BudgetError};
use bulkhead_sched::dispatch::Core;
use bulkhead_sched::server;
use bulkhead_words as words;
use proptest::prelude::*;

fn budget_of(plan: &ServerPlan) -> Result<Budget, BudgetError> {
    let (budget_ticks, period_ticks) = (plan.budget_ticks, plan.period_ticks);
    match plan.rule() {
        Some(words::Rule::Sporadic) => budget::Sporadic::new(
            budget::SporadicParameters {
                budget_ticks,
                period_ticks,
                smallest_chunk_ticks: plan.minimum_ticks,
                chunks: plan.chunks as u8,
                anchor: budget::Anchor::Eligible,
                lag_clamp: plan.flags & words::ServerFlag::LagClamp.number() != 0,
            },
            0,
        )
        .map(Budget::Sporadic),
        Some(words::Rule::Deferrable) => budget::Deferrable::new(budget_ticks, period_ticks, 0).map(Budget::Deferrable),
        Some(words::Rule::Polling) => budget::Polling::new(budget_ticks, period_ticks, 0).map(Budget::Polling),
        Some(words::Rule::Pibs) => {
            let clients: Vec<_> = plan
                .clients()
                .iter()
                .map(|client| budget::Client { period_ticks: client.period_ticks, priority: client.priority as u8 })
                .collect();
            let share = budget::Share {
                numerator: u32::try_from(plan.share_numerator).unwrap(),
                denominator: u32::try_from(plan.share_denominator).unwrap(),
            };
            budget::Pibs::new(share, budget::PibsRule::Corrected, &clients, plan.minimum_ticks, 0).map(Budget::Pibs)
        }
        _ => Ok(Budget::Unlimited),
    }
}

/// Makes the scheduler of a core as the monitor does; says why it cannot be.
fn scheduler(plan: &SchedulePlan) -> Result<(), String> {
    let mut servers = Vec::new();
    for (number, planned) in plan.servers().iter().enumerate() {
        let budget = budget_of(planned).map_err(|error| format!("server {number}: {error:?} in {planned:?}"))?;
        let mut made = server::Server::new(planned.priority as u8, budget);
        made.gate = match planned.gate() {
            Some(words::Gate::Interrupt) => server::Gate::InterruptPending(1),
            Some(words::Gate::Window) => server::Gate::Window(planned.windows),
            Some(words::Gate::Never) => server::Gate::Never,
            _ => server::Gate::Always,
        };
        if planned.on_empty == words::OnEmpty::Background.number() {
            made.on_empty = server::OnEmpty::Background(planned.background_priority as u8);
        }
        let most_ticks = if planned.minimum_ticks > 0 { planned.minimum_ticks } else { planned.budget_ticks };
        if planned.least_charge_ticks > most_ticks {
            return Err(format!("server {number} is charged more than it has when it is chosen: {planned:?}"));
        }
        if planned.payer != NO_SERVER {
            made.payer = server::Payer::Donor(planned.payer as u8);
        }
        servers.push((planned.slot as u8, made));
    }
    let made = Core::<MAX_CORE_SERVERS, MAX_CORE_VCPUS>::new(0, servers);
    made.map(|_| ()).map_err(|error| format!("{error:?}"))
}

fn taken(system: &System) -> Result<(), String> {
    system.schedules.iter().try_for_each(|one| {
        let plan = schedule::schedule_plan(system, &core_use(system, one.board_core)).expect("it is shared");
        scheduler(&plan).map_err(|reason| format!("core {}: {reason}", one.board_core))
    })
}

#[test]
fn the_scheduler_takes_the_samples() {
    for system in [samples::shared(), samples::shared_cores()] {
        limits::check(&system).unwrap();
        taken(&system).unwrap();
    }
}

/// References to servers that may exist and may not.
fn reference() -> impl Strategy<Value = ServerReference> {
    (0..4_usize, 0..2_usize).prop_map(|(partition, server)| ServerReference { partition, server })
}

fn rule() -> impl Strategy<Value = BudgetRule> {
    // Small numbers of nanoseconds meet the edges: parts of a tick, and budgets as long as their period.
    let time = || prop_oneof![1..200_u64, 1_000..100_000_u64];
    let sporadic = (time(), time(), time(), 1..18_u32).prop_map(|(budget_ns, more_ns, minimum_ns, chunks)| {
        let period_ns = budget_ns + more_ns;
        BudgetRule::Sporadic { budget_ns, period_ns, minimum_ns, chunks, dispatch_anchor: false, lag_clamp: true }
    });
    let pibs = (0..30_u64, 1..30_u64, time(), prop::collection::vec(reference(), 0..5));
    prop_oneof![
        2 => sporadic,
        1 => (time(), time()).prop_map(|(budget_ns, period_ns)| BudgetRule::Deferrable { budget_ns, period_ns }),
        1 => (time(), time()).prop_map(|(budget_ns, period_ns)| BudgetRule::Polling { budget_ns, period_ns }),
        1 => pibs.prop_map(|(numerator, more, minimum_ns, clients)| {
            BudgetRule::Pibs { share: (numerator, numerator + more), minimum_ns, clients, published: false }
        }),
        1 => Just(BudgetRule::Unlimited),
    ]
}

fn server() -> impl Strategy<Value = Server> {
    let gate = prop_oneof![
        3 => Just(Gate::Always),
        1 => Just(Gate::Interrupt { voluntary_return: false }),
        1 => Just(Gate::Never),
    ];
    let on_empty = prop_oneof![3 => Just(OnEmpty::Stop), 1 => (0..66_u8).prop_map(OnEmpty::Background)];
    let payer = prop_oneof![4 => Just(None), 1 => reference().prop_map(Some)];
    let least_charge = prop_oneof![2 => Just(0), 1 => 0..20_000_u64];
    let parts = (0..66_u8, rule(), gate, payer, on_empty, least_charge);
    parts.prop_map(|(priority, rule, gate, payer, on_empty, least_charge_ns)| Server {
        vcpu: 0,
        priority,
        rule,
        gate,
        payer,
        on_empty,
        least_charge_ns,
    })
}

fn on_one_core(servers: Vec<Vec<Server>>) -> System {
    let partition = |(index, servers): (usize, Vec<Server>)| Partition {
        servers,
        ..samples::native(&format!("partition{index}"), &[0])
    };
    let mut system = samples::system(servers.into_iter().enumerate().map(partition).collect(), Vec::new());
    system.schedules = vec![Schedule {
        board_core: 0,
        kind: ScheduleKind::FixedPriority { quanta: Vec::new() },
        eager_floating_point: false,
    }];
    system
}

/// QV-22, QV-32, SG-40: every accepted set of servers starts, whatever the numbers. The generator makes bad ones too, which the
/// planner must refuse before the scheduler does.
#[test]
fn the_scheduler_takes_what_the_planner_accepts() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let accepted = std::cell::Cell::new(0);
    let sets = prop::collection::vec(prop::collection::vec(server(), 1..=2), 1..=4);
    let outcome = runner.run(&sets, |servers| {
        let system = on_one_core(servers);
        if limits::check(&system).is_ok() {
            accepted.set(accepted.get() + 1);
            taken(&system).map_err(TestCaseError::fail)?;
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(accepted.get() > 100, "only {} of the sets were accepted", accepted.get());
}
