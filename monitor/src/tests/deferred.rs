//! Interrupts of a vCPU that does not run for them: deferred ones beside work of the monitor, and those of one that stands.

use super::shared::{Core, WFI, budgeted, schedule, server};
use super::*;
use crate::interrupts::{HYPERVISOR_TIMER, MONITOR_SGI};
use bulkhead_abi::schedule::*;
use bulkhead_abi::status::{MANAGE_RESUME, MANAGE_SUSPEND};

const MANAGER: PhysicalAddress = PhysicalAddress(0x5100_0000);

/// Slot 0 has a watchdog, a manager, and interrupts of the route `defer`.
fn watched(first: ServerPlan, route: u32) -> Core {
    Core::with(schedule(&[first, server(1, 5)], 2), |slot, partition| {
        if slot == 0 {
            partition.interrupts[0].route = route;
            partition.health.watchdog_ticks = if route == RouteRule::Defer.number() { 50_000 } else { 0 };
            partition.manage[3] = MANAGER;
        }
    })
}

/// MZ-17: the monitor's work for a sleeper does not make it forget that an interrupt waits for an idle moment.
#[test]
fn a_deferred_interrupt_outlives_the_monitors_work() {
    let mut core = watched(server(0, 1), RouteRule::Defer.number());
    core.exit(WFI);
    core.interrupt(40);
    core.pass(40_000);
    core.vcpus[0].heartbeat();
    core.pass(10_001);
    core.interrupt(HYPERVISOR_TIMER);
    assert_eq!((core.loaded, core.vcpus[0].run), (1, RunState::Running), "looked at, and asleep again");
    core.exit(WFI);
    assert_eq!((core.loaded, core.listed()), (0, vec![40]), "nobody else has anything to do");
}

/// MZ-17: one that waits for its budget is released once, so that the core waits and takes what comes.
#[test]
fn a_deferred_interrupt_without_budget_is_released_once() {
    let mut core = watched(budgeted(0, 1, 2000, 1_000_000), RouteRule::Defer.number());
    core.pass(100);
    core.exit(WFI);
    core.pass(50_001);
    core.interrupt(HYPERVISOR_TIMER);
    assert_eq!(core.loaded, 1, "the watchdog's date has passed, and there is no budget to look at it");
    core.interrupt(40);
    let now = core.machine.now.get();
    let scheduler = core.own().core.scheduler.as_deref_mut().expect("the loaded vCPU has it");
    assert!(scheduler.slots[0].is_ready());
    assert_eq!([(); 3].map(|()| scheduler.release_deferred(now)), [true, false, false]);
}

/// QV-32, SG-60: an interrupt of a suspended PIBS server is no request: the server would be chosen for as long as its grant lasts,
/// and nothing else done on the core meanwhile. Resumed, its guest has it.
#[test]
fn a_suspended_server_takes_no_request() {
    let client = ClientPlan { period_ticks: 10_000, priority: 1, ..Default::default() };
    let pibs = ServerPlan {
        rule: Rule::Pibs.number(),
        share_numerator: 1,
        share_denominator: 2,
        client_count: 1,
        clients: [client; MAX_SERVER_CLIENTS],
        minimum_ticks: 10,
        ..server(0, 1)
    };
    let mut core = watched(pibs, RouteRule::Priority.number());
    core.machine.store64(MANAGER, 1 << 8 | u64::from(MANAGE_SUSPEND));
    core.interrupt(MONITOR_SGI);
    assert_eq!((core.loaded, core.vcpus[0].run), (1, RunState::Parked));
    let now = core.machine.now.get();
    let scheduler = core.own().core.scheduler.as_deref_mut().expect("the loaded vCPU has it");
    scheduler.arrived(0, RouteRule::Priority.number(), now);
    assert_eq!(scheduler.pick(now).stint.vcpu(), 1, "the suspended one is chosen, and cannot run");
    core.interrupt(40);
    assert_eq!(core.loaded, 1);
    core.machine.store64(MANAGER, 2 << 8 | u64::from(MANAGE_RESUME));
    core.interrupt(MONITOR_SGI);
    assert_eq!((core.loaded, core.listed()), (0, vec![40]));
    core.machine.list[0].set(0);
    core.exit(WFI);
    core.interrupt(40);
    assert_eq!((core.loaded, core.listed()), (0, vec![40]), "a request again");
}
