//! Wake-ups that the policy hears of later: the same choices, the same accounts, and the general way for whatever is not certain.

use super::shared::{Core, WFI, budgeted, schedule, server, with_the_first_asleep};
use super::*;
use crate::interrupts::{HYPERVISOR_TIMER, MONITOR_SGI, list_value};
use crate::sharing::scheduler::{Held, Policy, Scheduler};
use bulkhead_abi::schedule::*;
use bulkhead_abi::status;

pub(super) fn sporadic(slot: u32, priority: u32, budget_ticks: u64, period_ticks: u64) -> ServerPlan {
    ServerPlan {
        rule: Rule::Sporadic.number(),
        budget_ticks,
        period_ticks,
        chunks: 4,
        minimum_ticks: 20,
        flags: ServerFlag::LagClamp.number(),
        ..server(slot, priority)
    }
}

/// SP-14: the sleeper runs before the policy knows; the policy is told at the next exit, of the instant at which it was.
#[test]
fn the_policy_hears_later_of_a_certain_wake_up() {
    let mut core = with_the_first_asleep();
    core.pass(100);
    let at = core.machine.now.get();
    core.interrupt(40);
    assert_eq!((core.loaded, core.listed()), (0, vec![40]));
    let used = |core: &Core| {
        let scheduler = held(core);
        let Policy::Servers(servers) = &scheduler.policy else { panic!("servers") };
        (scheduler.owed_ticks, [0, 1].map(|server| servers.usage(server).budgeted_ticks))
    };
    assert_eq!(used(&core), (at, [0, 0]), "nothing is booked yet");
    core.machine.list[0].set(0);
    core.pass(7);
    core.exit(WFI);
    assert_eq!(core.loaded, 1);
    assert_eq!(used(&core), (0, [7, 100]), "each its own time, to the tick");
}

/// A second interrupt that wakes somebody still more important finds the books written first.
#[test]
fn a_nested_wake_up_is_booked_in_order() {
    let servers = [server(0, 1), server(1, 5), server(2, 9)];
    let mut core = Core::new(schedule(&servers, 3));
    core.exit(WFI);
    core.exit(WFI);
    assert_eq!(core.loaded, 2);
    core.pass(10);
    core.interrupt(50);
    core.pass(10);
    core.interrupt(40);
    assert_eq!(core.loaded, 0);
    core.machine.list.iter().for_each(|list| list.set(0));
    core.exit(WFI);
    assert_eq!((core.loaded, core.listed()), (1, vec![50]));
    let Policy::Servers(servers) = &core.scheduler().policy else { panic!("servers") };
    assert_eq!([0, 1, 2].map(|server| servers.usage(server).budgeted_ticks), [0, 10, 10]);
}

/// A vCPU that is not more important, whose interrupt is limited or deferred, whose budget is used up, or whose core is traced is
/// not woken by the short way.
#[test]
fn what_is_not_certain_takes_the_general_way() {
    let asleep = |servers: &[ServerPlan], change: &dyn Fn(&mut InterruptPlan)| {
        let change = |slot: u32, plan: &mut PartitionPlan| {
            if slot == 0 {
                change(&mut plan.interrupts[0]);
            }
        };
        let mut core = Core::with(schedule(servers, 2), change);
        core.exit(WFI);
        assert_eq!(core.loaded, 1);
        core
    };
    let plain = [server(0, 1), server(1, 5)];
    assert_eq!(asleep(&plain, &|_| ()).own().jump(40), Some(0), "or this test shows nothing");
    assert_eq!(asleep(&plain, &|plan| plan.route = RouteRule::Defer.number()).own().jump(40), None);
    let limit = |plan: &mut InterruptPlan| (plan.limit_events, plan.limit_period_ticks) = (1, 1000);
    assert_eq!(asleep(&plain, &limit).own().jump(40), None);
    assert_eq!(asleep(&[server(0, 5), server(1, 5)], &|_| ()).own().jump(40), None, "an equal waits");
    let mut traced = Core::new(schedule(&plain, 2));
    traced.vcpus.iter_mut().for_each(|vcpu| vcpu.core.trace.enabled = true);
    traced.exit(WFI);
    assert_eq!((traced.loaded, traced.own().jump(40)), (1, None), "a trace wants the whole story");
    let mut empty = Core::new(schedule(&[sporadic(0, 1, 1000, 100_000), server(1, 5)], 2));
    empty.pass(1000);
    empty.exit(WFI);
    assert_eq!((empty.loaded, empty.own().jump(40)), (1, None), "its budget is used up");
}

/// MZ-17, SG-45: a guest below another one has an interrupt that the vectors delivered. When the other one wakes, the gate opens: without
/// that the first one would not run again as long as the other one has something to do.
#[test]
fn a_gate_opens_for_an_interrupt_of_the_vectors() {
    let gate = ServerPlan { gate: Gate::Interrupt.number(), ..budgeted(0, 1, 500, 4000) };
    let mut core = Core::new(schedule(&[gate, server(1, 5), server(0, 9)], 2));
    core.exit(WFI);
    assert_eq!(core.loaded, 0, "below slot 1, which sleeps");
    core.machine.list[0].set(list_value(40, 0xa0).0);
    core.interrupt(50);
    assert_eq!((core.loaded, core.listed()), (0, vec![40]));
}

/// The interrupt waits for its guest, or is in a list register: active, so that it cannot come again.
fn is_active(core: &Core, intid: u32) -> bool {
    let slot = &held(core).slots[(intid as usize - 40) / 10];
    let saved = slot.registers.context.list_used && slot.registers.context.list.iter().any(|value| value >> 62 != 0);
    let loaded = usize::from(held(core).loaded) == (intid as usize - 40) / 10;
    slot.held != Held::Nothing || if loaded { !core.listed().is_empty() } else { saved }
}

/// The scheduler as it is, with wake-ups that are not booked yet.
fn held(core: &Core) -> &Scheduler {
    core.vcpus[core.loaded].core.scheduler.as_deref().expect("the loaded vCPU has it")
}

/// A guest that is suspended in its sleep stays suspended, whatever its device sends.
#[test]
fn a_suspended_sleeper_is_not_woken() {
    let manager = PhysicalAddress(0x5100_0000);
    let change = |slot: u32, plan: &mut PartitionPlan| {
        if slot == 0 {
            plan.manage[3] = manager;
        }
    };
    let mut core = Core::with(schedule(&[server(0, 1), server(1, 5)], 2), change);
    core.exit(WFI);
    core.machine.store64(manager, 1 << 8 | u64::from(status::MANAGE_SUSPEND));
    core.interrupt(MONITOR_SGI);
    assert_eq!((core.loaded, core.vcpus[0].run), (1, RunState::Parked));
    core.interrupt(40);
    assert_eq!(core.loaded, 1, "it is not to run");
    core.machine.store64(manager, 2 << 8 | u64::from(status::MANAGE_RESUME));
    core.interrupt(MONITOR_SGI);
    assert_eq!((core.loaded, core.listed()), (0, vec![40]), "and now it does, with its interrupt");
}

/// The end of a budget is where its guest has run for all of it, although others paid for its loading.
#[test]
fn a_budget_ends_at_its_first_timer_interrupt() {
    let budget =
        ServerPlan { rule: Rule::Deferrable.number(), budget_ticks: 1000, period_ticks: 100_000, ..server(1, 5) };
    let mut core = Core::new(schedule(&[server(0, 1), budget, server(2, 9)], 3));
    // Its first start is work of its own; by the next one its budget is whole again.
    core.exit(WFI);
    core.interrupt(40);
    core.machine.list[0].set(0);
    core.pass(150_000);
    core.load_ticks = 50;
    core.exit(WFI);
    let loaded = core.machine.now.get();
    assert_eq!((core.loaded, core.armed()), (1, Some(loaded + 1000)));
    core.machine.now.set(loaded + 1000);
    core.interrupt(HYPERVISOR_TIMER);
    assert_eq!(core.loaded, 2, "at its first interrupt");
}

/// What has become of a core, short and general way alike.
fn state(core: &mut Core) -> String {
    let (loaded, listed) = (core.loaded, core.listed());
    let now = core.machine.now.get();
    let scheduler = core.own().core.scheduler.as_deref_mut().expect("the loaded vCPU has it");
    scheduler.catch_up();
    let Policy::Servers(servers) = &mut scheduler.policy else { panic!("servers") };
    servers.advance(now);
    let used = [0, 1, 2].map(|server| servers.usage(server));
    let slots = [0, 1, 2].map(|slot: usize| (scheduler.slots[slot].usage.wakes, scheduler.slots[slot].is_asleep()));
    let waits = [0, 1, 2].map(|slot: usize| scheduler.slots[slot].usage.longest_blackout_ticks);
    let counts = [0, 1, 2].map(|server: usize| (scheduler.counts[server].starts, scheduler.counts[server].exhaustions));
    format!(
        "{loaded} {listed:?} {used:?} {slots:?} {waits:?} {counts:?} {} {}",
        scheduler.switches,
        servers.idle_ticks()
    )
}

/// SP-16, QV-41: over random histories a core that takes the short way where it can and one that never does load the same vCPU,
/// give it the same interrupts, and write the same accounts.
#[test]
fn both_ways_come_to_the_same() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut jumps = 0;
    for story in 0..60 {
        let budgets = [sporadic(0, 1, 300, 2000), sporadic(1, 3, 500, 3000), server(2, 9)];
        let plain = [server(0, 1), server(1, 3), server(2, 9)];
        let servers = [0, 1, 2].map(|number: usize| if random(3) == 0 { plain[number] } else { budgets[number] });
        let mut cores = [false, true].map(|is_general| {
            let mut core = Core::new(schedule(&servers, 3));
            (core.is_general, core.load_ticks) = (is_general, story % 3 * 4);
            core
        });
        for step in 0..40 {
            let (what, intid, ticks) = (random(4), 40 + 10 * random(3) as u32, random(120));
            for core in &mut cores {
                core.pass(ticks);
                // Whatever is due comes first, and is not late.
                while held(core).armed_ticks <= core.machine.now.get() {
                    core.interrupt(HYPERVISOR_TIMER);
                }
                match what {
                    // Somebody always has something to do.
                    0 if core.loaded == 2 => {}
                    0 => core.exit(WFI),
                    1 => core.machine.list.iter().for_each(|list| list.set(0)),
                    _ if is_active(core, intid) => {}
                    _ => core.interrupt(intid),
                }
            }
            let [short, general] = &mut cores;
            jumps += u32::from(held(short).owed_ticks + short.load_ticks == short.machine.now.get());
            assert_eq!(
                (short.loaded, short.listed()),
                (general.loaded, general.listed()),
                "story {story}, step {step}"
            );
            if step % 5 == 4 {
                assert_eq!(state(short), state(general), "story {story}, step {step}");
            }
        }
    }
    assert!(jumps > 100, "only {jumps} short ways were taken");
}
