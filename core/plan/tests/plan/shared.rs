//! Plans of shared cores: slots, private data, numbers, maps, and what is refused.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::plan::{INTERRUPT_CONSOLE, INTERRUPT_DEVICE};
use bulkhead_abi::schedule::*;
use bulkhead_arm::el2::hcr;
use bulkhead_plan::maps::{console_input, core_use};
use bulkhead_plan::model::{
    BudgetRule, Gate, InterruptMode, OnEmpty, Route, RouteRule, ScheduleKind, ServerReference, System,
};
use bulkhead_plan::tables::Attributes;
use bulkhead_plan::{AreaKind, Plan, PlanError, plan, samples, schedule, ticks};
use bulkhead_words as words;
use std::collections::BTreeMap;

fn planned(system: &System) -> Plan {
    plan(system, &samples::monitor()).unwrap()
}

fn shared() -> Plan {
    planned(&samples::shared_cores())
}

fn schedule_of(plan: &Plan, core: usize) -> &SchedulePlan {
    plan.schedules[core].as_ref().unwrap()
}

/// QV-22, MZ-10: the monitor finds each vCPU's own plan, counters and data, and nobody else has them.
#[test]
fn every_slot_has_its_own_plan_data_and_counters() {
    let plan = shared();
    let boot = plan.header.cores[0];
    assert_eq!(boot.schedule, plan.layout.address(AreaKind::Schedule(0)));
    assert_eq!((boot.plan, boot.counters), (schedule_of(&plan, 0).slots[0].plan, plan.vcpus[0][0].counters));
    assert_eq!(boot.data_bytes, 3 * 4096 + SCHEDULER_BYTES);
    for (core, vcpus) in plan.vcpus.iter().enumerate().take(3) {
        let (schedule, data) = (schedule_of(&plan, core), plan.header.cores[core].data.0);
        assert_eq!(schedule.slot_count as usize, vcpus.len());
        assert_eq!(schedule.scheduler.0, data + vcpus.len() as u64 * 4096);
        assert_eq!(schedule.usage, plan.layout.address(AreaKind::Usage(core)));
        for (slot, (facts, vcpu)) in schedule.slots.iter().zip(vcpus).enumerate() {
            let (partition, number) = (vcpu.partition as usize, vcpu.vcpu as usize);
            assert_eq!(facts.plan, plan.layout.address(AreaKind::VcpuPlan(partition, number)));
            assert_eq!(facts.data.0, data + slot as u64 * 4096);
            assert_eq!((facts.partition, vcpu.slot as usize), (vcpu.partition, slot));
            assert_eq!(vcpu.schedule, plan.header.cores[core].schedule);
            assert_eq!(vcpu.vttbr >> 48, u64::from(vcpu.partition) + 1);
            assert_eq!(plan.header.partitions[partition].vcpu_counters[number], vcpu.counters);
        }
    }
}

#[test]
fn idle_guests_trap_on_shared_cores_alone() {
    let plan = shared();
    let values: Vec<Vec<u64>> = plan.vcpus.iter().map(|core| core.iter().map(|vcpu| vcpu.hcr).collect()).collect();
    assert_eq!(values, [vec![hcr::SHARED; 3], vec![hcr::SHARED; 2], vec![hcr::SHARED; 2], vec![hcr::MAPPED]]);
    let bits: Vec<u32> = plan.partitions.iter().map(|partition| partition.plan.shared_vcpus).collect();
    assert_eq!(bits, [1, 1, 1, 1, 1, 1, 1, 0], "`alone` owns its core");
    assert_eq!(plan.partitions[7].plan.vcpu_core[0], 3);
}

/// A core that one vCPU owns costs what it cost before there were shared ones, and its plan says so.
#[test]
fn an_own_core_has_nothing_of_a_shared_one() {
    let plan = planned(&samples::demo());
    assert!(plan.schedules.iter().all(Option::is_none));
    for (core, (boot, vcpus)) in plan.header.cores.iter().zip(&plan.vcpus).enumerate() {
        assert_eq!((boot.schedule, boot.data_bytes, vcpus.len()), (PhysicalAddress(0), 4096, 1));
        let hcr = if core == 0 { hcr::DIRECT } else { hcr::MAPPED };
        assert_eq!((vcpus[0].schedule, vcpus[0].slot, vcpus[0].hcr), (PhysicalAddress(0), 0, hcr));
    }
    assert!(plan.areas().iter().all(|area| !matches!(area.kind, AreaKind::Schedule(_) | AreaKind::Usage(_))));
}

/// QV-22, QV-32, SG-40: servers by best priority, payers and clients by number.
#[test]
fn servers_are_numbered_by_priority() {
    let plan = shared();
    let schedule = schedule_of(&plan, 0);
    let servers = schedule.servers();
    let facts: Vec<_> = servers.iter().map(|server| (server.slot, server.priority, server.rule, server.gate)).collect();
    let expected = [
        (0, 0, words::Rule::Sporadic.number(), words::Gate::Interrupt.number()),
        (0, 1, words::Rule::Sporadic.number(), words::Gate::Always.number()),
        (1, 1, words::Rule::Pibs.number(), words::Gate::Always.number()),
        (2, 9, words::Rule::Deferrable.number(), words::Gate::Always.number()),
        (2, 20, words::Rule::Unlimited.number(), words::Gate::Interrupt.number()),
    ];
    assert_eq!(facts, expected, "of equals the first in the description comes first");
    // 62.5 MHz.
    assert_eq!((servers[1].budget_ticks, servers[1].period_ticks, servers[1].chunks), (125_000, 625_000, 8));
    assert_eq!(
        servers[0].flags,
        words::ServerFlag::DispatchAnchor.number()
            | words::ServerFlag::LagClamp.number()
            | words::ServerFlag::VoluntaryReturn.number()
    );
    assert_eq!(
        servers.iter().map(|server| server.payer).collect::<Vec<_>>(),
        [NO_SERVER, NO_SERVER, NO_SERVER, NO_SERVER, 1]
    );
    let pibs = &servers[2];
    assert_eq!((pibs.share_numerator, pibs.share_denominator, pibs.client_count), (1, 20, 2));
    let clients: Vec<_> = pibs.clients[..2].iter().map(|client| (client.period_ticks, client.priority)).collect();
    assert_eq!(clients, [(625_000, 1), (1_875_000, 9)], "the shortest period first");
    assert_eq!((servers[3].on_empty, servers[3].background_priority), (words::OnEmpty::Background.number(), 40));
    assert_eq!((schedule.quantum_count, schedule.quanta[0].quantum_ticks), (1, 625_000));
}

/// SG-50: windows open the gates of their partition's slot.
#[test]
fn windows_are_named_by_slot() {
    let plan = shared();
    let schedule = schedule_of(&plan, 1);
    assert_eq!(
        (schedule.kind, schedule.major_ticks, schedule.window_count),
        (words::ScheduleKind::Cyclic.number(), 6_250_000, 2)
    );
    let windows: Vec<_> =
        schedule.windows[..2].iter().map(|window| (window.offset_ticks, window.length_ticks, window.name)).collect();
    assert_eq!(windows, [(0, 1_250_000, 0), (1_250_000, 1_875_000, 1)]);
    let gates: Vec<_> = schedule.servers[..3].iter().map(|server| (server.slot, server.gate, server.windows)).collect();
    assert_eq!(
        gates,
        [
            (0, words::Gate::Never.number(), 0),
            (0, words::Gate::Window.number(), 1),
            (1, words::Gate::Window.number(), 2)
        ]
    );
    assert_eq!(schedule.floating_point, words::FloatingPoint::Eager.number());
}

/// MZ-10 to MZ-26: the published round robin.
#[test]
fn a_round_robin_has_turns_and_no_servers() {
    let plan = shared();
    let schedule = schedule_of(&plan, 2);
    assert_eq!(
        (schedule.kind, schedule.server_count, schedule.quantum_ticks),
        (words::ScheduleKind::RoundRobin.number(), 0, 1_875_000)
    );
    assert_eq!(
        (schedule.on_interrupt, schedule.reading, schedule.ring_moves),
        (words::OnInterrupt::Recycle.number(), words::Reading::Latched.number(), 1)
    );
    let slots: Vec<_> = schedule.slots[..2].iter().map(|slot| (slot.preemptible, slot.timer_route)).collect();
    assert_eq!(slots, [(0, words::RouteRule::Priority.number()), (1, words::RouteRule::Preempt.number())]);
}

/// MZ-26: an interrupt has its device's route and limit, or its partition's.
#[test]
fn interrupts_have_routes_and_limits() {
    let plan = shared();
    let of = |partition: usize, kind| {
        let interrupts = plan.partitions[partition].plan.interrupts;
        *interrupts.iter().find(|interrupt| interrupt.kind == kind).unwrap()
    };
    let device = of(0, INTERRUPT_DEVICE);
    assert_eq!(
        (device.route, device.limit_events, device.limit_period_ticks),
        (words::RouteRule::Defer.number(), 10, 6_250_000)
    );
    let console = of(6, INTERRUPT_CONSOLE);
    assert_eq!((console.route, console.limit_period_ticks), (words::RouteRule::Preempt.number(), 0));
}

/// Record 0001 for shared cores: the union of what the vCPUs need, each page once.
#[test]
fn the_map_of_a_shared_core_is_the_union() {
    let plan = shared();
    let mut mapped: BTreeMap<u64, Attributes> = BTreeMap::new();
    for mapping in &plan.el2[0] {
        assert_eq!(mapped.insert(mapping.input, mapping.attributes), None, "{:#x} is mapped twice", mapping.input);
    }
    let attributes = |kind| mapped.get(&plan.layout.address(kind).0).copied();
    for partition in 0..3 {
        assert_eq!(attributes(AreaKind::Ram(partition)), Some(Attributes::EL2_WRITE));
        assert_eq!(attributes(AreaKind::Status(partition)), Some(Attributes::EL2_SHARED_WRITE), "its own");
    }
    assert_eq!(attributes(AreaKind::Ram(3)), None, "a partition of another core");
    assert_eq!(attributes(AreaKind::Status(3)), Some(Attributes::EL2_SHARED_READ), "control manages");
    assert_eq!(
        attributes(AreaKind::Manage(0)),
        Some(Attributes::EL2_WRITE),
        "written by one and read by its neighbours"
    );
    assert_eq!(attributes(AreaKind::Schedule(0)), Some(Attributes::EL2_READ));
    assert_eq!(attributes(AreaKind::Usage(0)), Some(Attributes::EL2_WRITE));
    assert_eq!(attributes(AreaKind::Schedule(1)), None);
    assert_eq!(attributes(AreaKind::ChannelWriter(0)), Some(Attributes::EL2_SHARED_WRITE), "both ends are here");
}

/// The focus goes round cores, so the first partition with a virtual UART of a shared core gets the input.
#[test]
fn console_input_goes_to_one_vcpu_of_a_core() {
    let system = samples::shared_cores();
    let receivers: Vec<_> =
        (0..4).map(|core| console_input(&system, core).map(|input| input.receiver.partition)).collect();
    assert_eq!(receivers, [Some(2), Some(4), Some(5), None]);
    let nexts: Vec<_> = (0..3).map(|core| console_input(&system, core).unwrap().next_board_core).collect();
    assert_eq!(nexts, [1, 2, 0]);
    let plan = planned(&system);
    let with_uart: Vec<u32> =
        plan.vcpus.iter().flatten().filter(|vcpu| vcpu.uart.0 != 0).map(|vcpu| vcpu.partition).collect();
    assert_eq!(with_uart, [2, 4, 5]);
}

/// `real-time.md` 1.1: nobody gets more by rounding.
#[test]
fn budgets_are_rounded_down_and_periods_up() {
    let mut system = samples::shared();
    system.partitions[0].servers = vec![samples::sporadic(1, 100_015, 1_000_001)];
    let plan = planned(&system);
    let server = schedule_of(&plan, 0).servers[0];
    assert_eq!((server.budget_ticks, server.period_ticks), (6_250, 62_501));
    assert_eq!((ticks::exact(32, 62_500_000), ticks::exact(33, 62_500_000)), (Some(2), None));
    assert_eq!((ticks::to_ns(2, 62_500_000), ticks::round_up(u64::MAX, u64::MAX)), (32, u64::MAX));
}

#[test]
fn numbers_are_the_same_without_a_plan() {
    let system = samples::shared_cores();
    let numbers = schedule::numbered_servers(&system, &core_use(&system, 0));
    let reference = |partition, server| ServerReference { partition, server };
    let expected = [reference(0, 1), reference(0, 0), reference(1, 0), reference(2, 0), reference(2, 1)];
    assert_eq!(numbers, expected);
}

/// The planner does not depend on the scheduler, so their limits are compared here.
#[test]
fn limits_are_those_of_the_scheduler() {
    use bulkhead_plan::sharing;
    use bulkhead_sched::{budget, cyclic, quantum, server};
    assert_eq!(sharing::PRIORITIES, server::PRIORITIES);
    assert_eq!(sharing::MAX_VCPU_SERVERS, server::MAX_SERVERS_PER_VCPU);
    assert_eq!(sharing::MAX_CHUNKS as usize, budget::MAX_CHUNKS);
    assert_eq!(sharing::MAX_PERIOD_TICKS, budget::MAX_PERIOD_TICKS);
    const { assert!(MAX_SERVER_CLIENTS <= budget::MAX_CLIENTS && MAX_CORE_WINDOWS <= cyclic::MAX_WINDOWS) };
    const { assert!(MAX_CORE_VCPUS <= quantum::MAX_GUESTS && MAX_CORE_VCPUS <= cyclic::MAX_WINDOW_NAMES as usize) };
}

fn refused(change: impl FnOnce(&mut System)) -> String {
    let mut system = samples::shared_cores();
    change(&mut system);
    match plan(&system, &samples::monitor()) {
        Ok(_) => panic!("must be refused"),
        Err(error) => error.to_string(),
    }
}

/// What is refused, how, and a part of the reason.
type Case = (&'static str, fn(&mut System), &'static str);

const CASES: &[Case] = &[
    ("no schedule", |system| system.schedules.truncate(2), "given to several vCPUs"),
    ("two schedules", |system| system.schedules.push(system.schedules[0].clone()), "it is there twice"),
    ("schedule of nobody", |system| system.schedules[2].board_core = 6, "no partition runs there"),
    ("direct", |system| system.partitions[0].mode = InterruptMode::Direct, "direct interrupts cannot share"),
    ("no server", |system| system.partitions[0].servers.clear(), "it has no server"),
    ("server of nobody", |system| system.partitions[0].servers[0].vcpu = 1, "does not run on a shared core"),
    (
        "server in turns",
        |system| system.partitions[5].servers = vec![samples::unlimited(1)],
        "round robin has no servers",
    ),
    ("five servers", |system| system.partitions[2].servers = vec![samples::unlimited(1); 5], "holds at most 4"),
    ("first of several", |system| system.partitions[3].cores.push(5), "name a core first that it has to itself"),
    ("two vCPUs of one", |system| system.partitions[3].cores.push(1), "wait for each other"),
    ("one of two vCPUs", |system| system.partitions[3].cores.push(4), "name a core first that it has to itself"),
    ("priority", |system| system.partitions[0].servers[0].priority = 64, "below 64"),
    ("background", |system| system.partitions[0].servers[0].on_empty = OnEmpty::Background(1), "larger number"),
    (
        "payer itself",
        |system| {
            system.partitions[2].servers[1].payer = Some(ServerReference { partition: 2, server: 1 });
        },
        "payer",
    ),
    (
        "payer elsewhere",
        |system| {
            system.partitions[2].servers[1].payer = Some(ServerReference { partition: 4, server: 0 });
        },
        "payer",
    ),
    ("open gate", |system| system.partitions[2].servers[1].payer = None, "there must be a budget"),
    ("window gate", |system| system.partitions[0].servers[0].gate = Gate::Window, "cyclic cores only"),
    ("share", |system| set_share(system, (20, 20)), "between 0 and 1"),
    ("client order", |system| system.partitions[2].servers[0].priority = 0, "more important"),
    ("budget", |system| system.partitions[0].servers[0] = samples::sporadic(1, 20_000_000, 10_000_000), "its budget"),
    ("no ticks", |system| system.partitions[0].servers[0] = samples::sporadic(1, 15, 10_000_000), "its budget"),
    ("window past the frame", |system| set_window(system, 90_000_000), "leaves the major frame"),
    ("window between ticks", |system| set_window(system, 20_000_001), "no whole ticks"),
    ("windows overlap", |system| set_window(system, 10_000_000), "overlaps"),
    (
        "quantum",
        |system| {
            system.schedules[0].kind = ScheduleKind::FixedPriority { quanta: vec![(64, 1_000_000)] };
        },
        "bad priority",
    ),
    (
        "preempt",
        |system| {
            system.partitions[2].route = Route { rule: RouteRule::Preempt, ..Route::default() };
        },
        "belongs to round robin",
    ),
    ("keeps its turn", |system| system.partitions[2].preemptible = false, "only round robin"),
    ("routes of devices", |system| system.partitions[0].device_routes.clear(), "number of routes"),
];

fn set_share(system: &mut System, value: (u64, u64)) {
    if let BudgetRule::Pibs { share, .. } = &mut system.partitions[1].servers[0].rule {
        *share = value;
    }
}

fn set_window(system: &mut System, offset: u64) {
    if let ScheduleKind::Cyclic { windows, .. } = &mut system.schedules[1].kind {
        windows[1].offset_ns = offset;
    }
}

/// All but the first of a partition's vCPUs may share their cores.
#[test]
fn a_shared_core_beside_an_own_one_is_planned() {
    let mut system = samples::shared_cores();
    system.partitions[7].cores.push(2);
    let plan = planned(&system);
    let schedule = schedule_of(&plan, 2);
    let last = schedule.slots[schedule.slot_count as usize - 1];
    assert_eq!((schedule.slot_count, last.partition), (3, 7));
    let partition = &plan.partitions[7].plan;
    assert_eq!((partition.shared_vcpus, &partition.vcpu_core[..2]), (0b10, &[3, 2][..]));
}

#[test]
fn contradictions_are_refused_with_the_reason() {
    for (what, change, reason) in CASES {
        let text = refused(change);
        assert!(text.contains(reason), "{what}: {text}");
    }
}

#[test]
fn a_core_without_a_schedule_is_named() {
    let mut system = samples::shared();
    system.schedules.clear();
    system.partitions.iter_mut().for_each(|partition| partition.servers.clear());
    assert_eq!(plan(&system, &samples::monitor()).unwrap_err(), PlanError::CoreUsedTwice { core: 0 });
}
