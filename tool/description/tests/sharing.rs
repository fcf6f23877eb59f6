//! Shared cores as they come out of a description: defaults, numbers, places.

mod support;

use bulkhead_description::{Loaded, load_text_unchecked, load_unchecked};
use bulkhead_plan::model::{
    BudgetRule, Gate, Limiter, OnEmpty, OnInterrupt, Reading, Route, RouteRule, ScheduleKind, Server, ServerReference,
    TableWindow,
};
use bulkhead_plan::samples;
use std::path::Path;

fn shared_cores() -> Loaded {
    load_unchecked(Path::new("tests/good/shared-cores.toml"), &support::options()).expect("accepted")
}

/// QV-22, QV-32, SG-40, MZ-10: the same system as the planner's hand-made one, so both ends agree on every word.
#[test]
fn a_description_gives_the_hand_made_system() {
    let (system, sample) = (shared_cores().system, samples::shared_cores());
    assert_eq!(system.schedules, sample.schedules);
    for (found, expected) in system.partitions.iter().zip(&sample.partitions) {
        assert_eq!(
            (&found.name, &found.cores, found.preemptible),
            (&expected.name, &expected.cores, expected.preemptible)
        );
    }
    assert_eq!(system.partitions[0].servers, sample.partitions[0].servers, "real-time.md 5.5: defaults");
    assert_eq!(system.partitions[1].servers, sample.partitions[1].servers, "QV-32: a client is named");
    assert_eq!(system.partitions[3].servers, sample.partitions[3].servers, "the window gate is the default");
    assert_eq!(system.partitions[6].route, sample.partitions[6].route);
}

/// MZ-15: nobody waits for more than a quantum unless the description asks for it.
#[test]
fn an_interrupt_that_waits_acts_at_the_end_of_the_quantum_by_default() {
    let path = Path::new("tests/good/shared-cores.toml");
    let text = std::fs::read_to_string(path).expect("it is there");
    let without: String =
        text.lines().filter(|line| !line.starts_with("reading")).map(|line| format!("{line}\n")).collect();
    assert_ne!(text, without);
    let loaded = load_text_unchecked(path, &without, &support::options()).expect("accepted");
    let found = loaded.system.schedules.iter().find_map(|schedule| match schedule.kind {
        ScheduleKind::RoundRobin { reading, .. } => Some(reading),
        _ => None,
    });
    assert_eq!(found, Some(Reading::Latched));
}

#[test]
fn kinds_of_schedules_are_resolved() {
    let system = shared_cores().system;
    let [fixed, table, turns] = &system.schedules[..] else { panic!("three") };
    assert_eq!(fixed.kind, ScheduleKind::FixedPriority { quanta: vec![(9, 10_000_000)] });
    let window = |partition, offset_ns, length_ns| TableWindow { partition, offset_ns, length_ns };
    let windows = vec![window(3, 0, 20_000_000), window(4, 20_000_000, 30_000_000)];
    assert_eq!(table.kind, ScheduleKind::Cyclic { major_ns: 100_000_000, windows }, "in the order of time");
    assert!(table.eager_floating_point && !fixed.eager_floating_point);
    let expected = ScheduleKind::RoundRobin {
        quantum_ns: 30_000_000,
        on_interrupt: OnInterrupt::Recycle,
        reading: Reading::Latched,
        ring_moves: true,
    };
    assert_eq!(turns.kind, expected);
}

/// `real-time.md` 5.5: an untrusted partition's server is a cap, a small budget has a small remainder.
#[test]
fn servers_have_their_defaults() {
    let system = shared_cores().system;
    let reference = |partition, server| ServerReference { partition, server };
    let plain = &system.partitions[4].servers[0];
    let BudgetRule::Sporadic { minimum_ns, chunks, dispatch_anchor, lag_clamp, .. } = plain.rule else { panic!() };
    assert_eq!((minimum_ns, chunks, dispatch_anchor, lag_clamp), (15_000, 16, false, false));
    assert_eq!((plain.least_charge_ns, system.partitions[2].servers[0].least_charge_ns), (0, 100_000));
    assert_eq!((plain.gate, plain.on_empty), (Gate::Window, OnEmpty::Notify));
    assert_eq!(system.partitions[4].servers[1].gate, Gate::Always);
    let help = &system.partitions[2].servers[1];
    let expected = Server {
        vcpu: 0,
        priority: 20,
        rule: BudgetRule::Unlimited,
        gate: Gate::Interrupt { voluntary_return: false },
        payer: Some(reference(0, 0)),
        on_empty: OnEmpty::Stop,
        least_charge_ns: 0,
    };
    assert_eq!(*help, expected, "the first server of `control` with a budget pays");
    assert_eq!(system.partitions[2].servers[0].on_empty, OnEmpty::Background(40));
}

/// MZ-26: routes and limits of interrupts.
#[test]
fn routes_and_tasks_are_resolved() {
    let system = shared_cores().system;
    let control = &system.partitions[0];
    let limit = Some(Limiter { events: 10, period_ns: 100_000_000 });
    let route = Route { rule: RouteRule::Defer, limit, handler_ns: Some(5_000), deadline_ns: Some(1_000_000) };
    assert_eq!((control.route, control.device_routes.as_slice()), (Route::default(), [route].as_slice()));
    assert_eq!(system.partitions[2].route.handler_ns, Some(20_000));
    let tasks: Vec<_> = control.tasks.iter().map(|task| (task.cost_ns, task.period_ns, task.deadline_ns)).collect();
    assert_eq!(tasks, [(200_000, 1_000_000, 1_000_000), (1_000_000, 20_000_000, 10_000_000)]);
}

#[test]
fn every_part_has_its_place() {
    let Loaded { system, spans, warnings, .. } = shared_cores();
    let text = |span| warnings.sources.text(span).to_owned();
    assert_eq!(spans.partitions.len(), system.partitions.len());
    for (partition, places) in system.partitions.iter().zip(&spans.partitions) {
        assert_eq!(text(places.name), format!("\"{}\"", partition.name));
        let counts = (places.servers.len(), places.tasks.len(), places.devices.len(), places.cores.len());
        let expected = (partition.servers.len(), partition.tasks.len(), partition.devices.len(), partition.cores.len());
        assert_eq!(counts, expected);
    }
    let server = &spans.partitions[0].servers[1];
    assert_eq!(server.name.as_deref(), Some("io"));
    assert_eq!(server.budget.map(text).as_deref(), Some("\"1 ms\""));
    assert_eq!(server.or_whole(server.chunks), server.whole);
    let windows: Vec<String> = spans.schedules[1].windows.iter().map(|window| text(*window)).collect();
    assert!(windows[0].contains("table") && windows[1].contains("plain"), "in the order of the model: {windows:?}");
    assert_eq!(spans.partitions[0].tasks[1].deadline.map(text).as_deref(), Some("\"10 ms\""));
}

/// MZ-10, MZ-11, MZ-14: per guest its devices, which of their interrupts act at once, and whether its turn can be ended by others.
#[test]
fn the_published_table_can_be_written() {
    let path = Path::new("tests/good/mips-table-1.toml");
    let system = load_unchecked(path, &support::options()).expect("accepted").system;
    let rules: Vec<_> = system
        .partitions
        .iter()
        .map(|partition| {
            let devices: Vec<_> =
                partition.device_routes.iter().map(|route| (route.rule, route.limit.is_some())).collect();
            (partition.preemptible, partition.route.rule, devices)
        })
        .collect();
    let expected = [
        (false, RouteRule::Priority, vec![(RouteRule::Preempt, false)]),
        (true, RouteRule::Priority, vec![(RouteRule::Preempt, true)]),
        (true, RouteRule::Preempt, vec![]),
    ];
    assert_eq!(rules, expected, "an interrupt that does not pre-empt waits for its guest's turn");
}
