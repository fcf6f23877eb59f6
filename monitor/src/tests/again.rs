//! Interrupts whose active state a `direct` neighbour takes, so that they arrive while their guest has them (attack A12, design record 0034).

use super::*;
use crate::interrupts::MAINTENANCE;
use crate::state::vcpu_state;
use bulkhead_abi::observe::Counter;
use bulkhead_arch::VirtualInterrupts;
use bulkhead_arch::fake::Event;
use bulkhead_arm::ListRegister;
use bulkhead_emulation::gic::LEAST_URGENT_PHYSICAL;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// A level, an edge.
const LEVEL: u32 = 40;
const EDGE: u32 = 80;

/// Numbers in list registers that are in use.
fn held(core: &Vcpu<FakeMachine>) -> Vec<u32> {
    let values = core.machine.list.iter().map(|slot| ListRegister(slot.get()));
    values.filter(|value| value.is_in_use()).map(|value| value.intid().0).collect()
}

/// What the vectors do with an interrupt that is signalled: acknowledge it, and the fast path, when every list register is free.
fn arrive(core: &mut Vcpu<FakeMachine>, intid: u32) -> bool {
    core.machine.pending.borrow_mut().push_back(intid);
    let found = core.machine.acknowledge();
    core.machine.pending.borrow_mut().clear();
    if found == intid {
        core.interrupt(intid);
    }
    found == intid
}

/// The guest acknowledges what is in a list register, or ends it.
fn turn(core: &mut Vcpu<FakeMachine>, from: u64, to: u64, intid: u32) -> bool {
    let slots = core.machine.list.clone();
    let place = slots.iter().position(|slot| slot.get() >> 62 == from && slot.get() as u32 == intid);
    let Some(place) = place else { return false };
    let value = slots[place].get();
    core.machine.set_list_register(place as u32, value & !(3 << 62) | to << 62);
    if to == 0 && ListRegister(value).is_hardware() {
        core.machine.active.borrow_mut().remove(&intid);
    }
    if core.machine.ended_list_registers() != 0 || core.machine.underflow.get() && held(core).len() <= 1 {
        core.interrupt(MAINTENANCE);
    }
    true
}

fn acknowledge(core: &mut Vcpu<FakeMachine>, intid: u32) -> bool {
    turn(core, 1, 2, intid)
}

fn end(core: &mut Vcpu<FakeMachine>, intid: u32) -> bool {
    turn(core, 2, 0, intid)
}

/// QV-16 (attack A12): an interrupt that arrives while its guest handles it is in one list register, and silent until its end. Then it is as it was.
#[test]
fn a_stolen_interrupt_costs_two_exits() {
    in_every_view(|_| {
        let mut core = running(partition(1));
        let before = core.machine.load8(core.priority_place(LEVEL));
        for round in 1..=3 {
            assert!(arrive(&mut core, LEVEL));
            assert!(core.machine.list[0].get() & ListRegister::HARDWARE != 0, "as any other");
            assert!(acknowledge(&mut core, LEVEL));
            assert!(arrive(&mut core, LEVEL), "the thief ended it");
            assert_eq!((held(&core), core.machine.list[0].get() >> 62), (vec![LEVEL], 2));
            for _ in 0..5 {
                assert!(!arrive(&mut core, LEVEL), "and again");
            }
            core.machine.take_events();
            assert!(end(&mut core, LEVEL));
            let is_deactivated = core.machine.take_events().contains(&Event::Deactivate(LEVEL));
            assert_eq!((is_deactivated, held(&core)), (true, vec![]));
            assert_eq!(core.machine.load8(core.priority_place(LEVEL)), before);
            let counts = [Counter::Interrupt, Counter::Maintenance, Counter::ArrivedAgain].map(|one| core.counter(one));
            assert_eq!(counts, [3 * round, round, round]);
        }
    });
}

/// Nobody has seen the edge that arrives again, so it waits in the interrupt controller; a level is there by itself.
#[test]
fn an_edge_is_not_lost() {
    let mut core = running(partition(1));
    for intid in [LEVEL, EDGE] {
        assert!(arrive(&mut core, intid) && arrive(&mut core, intid));
    }
    let set_pending = |word: u64| core.machine.load32(PhysicalAddress(GICD + 0x200 + 4 * word));
    assert_eq!((set_pending(1), set_pending(2)), (0, 1 << (EDGE - 64)));
}

/// One that waits for a list register is not exempt, and its end is seen once it has one.
#[test]
fn one_that_waits_becomes_silent_too() {
    in_every_view(|_| {
        let mut core = running(partition(1));
        for intid in 41..=45 {
            assert!(arrive(&mut core, intid));
        }
        assert_eq!(held(&core), [41, 42, 43, 44]);
        assert!(arrive(&mut core, 45) && !arrive(&mut core, 45));
        for intid in 41..=44 {
            assert!(acknowledge(&mut core, intid) && end(&mut core, intid));
        }
        assert_eq!(held(&core), [45]);
        assert!(!arrive(&mut core, 45));
        assert!(acknowledge(&mut core, 45) && end(&mut core, 45));
        assert!(arrive(&mut core, 45), "it comes as others do");
    });
}

/// Whatever takes an interrupt away that has become silent lets it come again, also one that still waits: its guest, CPU_OFF, also before the
/// end that the guest wrote is told, the end of its partition.
#[test]
fn nothing_stays_silent() {
    for (way, waits) in (0..6).flat_map(|way| [false, true].map(|waits| (way, waits))) {
        let mut core = running(partition(1));
        if waits {
            (41..=44).for_each(|intid| assert!(arrive(&mut core, intid)));
        }
        assert!(arrive(&mut core, LEVEL) && arrive(&mut core, LEVEL) && !arrive(&mut core, LEVEL), "{way}");
        assert_eq!(held(&core).contains(&LEVEL), !waits);
        match way {
            0 => assert_eq!(core.forget_cleared(0x280 + 4, 1 << (LEVEL - 32)), 1 << (LEVEL - 32)),
            1 | 2 | 4 if waits => continue, // it is not active
            1 => {
                assert!(acknowledge(&mut core, LEVEL));
                core.forget_cleared(0x380 + 4, 1 << (LEVEL - 32));
            }
            2 => {
                assert!(acknowledge(&mut core, LEVEL));
                core.return_shared_interrupts();
            }
            3 => core.return_shared_interrupts(),
            4 => {
                assert!(acknowledge(&mut core, LEVEL));
                core.machine.list[0].set(core.machine.list[0].get() & !(3 << 62));
                core.return_shared_interrupts();
                assert!(!core.machine.active.borrow().contains(&LEVEL));
            }
            _ => drop(super::calls::call(&mut core, 0x8400_0008, [0; 3])), // SYSTEM_OFF
        }
        let priority = core.machine.load8(core.priority_place(LEVEL));
        assert!(priority <= LEAST_URGENT_PHYSICAL, "{way} {waits}: {priority:#x}");
    }
}

/// What can happen next, to one interrupt.
const STEPS: u32 = 10;

/// The source, the interrupt controller, and how often it arrived since its guest ended it last. Each priority that the guest writes meanwhile
/// lets it arrive once more.
#[derive(Default)]
struct World {
    asserted: bool,
    active: bool,
    arrivals: u32,
    priorities: u32,
}

/// CPU_OFF and CPU_ON. What it was handling stays active, until the new run clears that, as kernels do.
fn start_again(core: &mut Vcpu<FakeMachine>, world: &mut World) {
    core.return_shared_interrupts();
    core.run = RunState::Off;
    core.shared.vcpus[0].state.store(vcpu_state::ON_PENDING, Relaxed);
    core.serve_requests();
    assert_eq!((core.run, held(core)), (RunState::Running, vec![]));
    *world = World { asserted: world.asserted, ..World::default() };
}

fn step(core: &mut Vcpu<FakeMachine>, world: &mut World, number: u32) {
    match number {
        0 => world.asserted = !world.asserted,
        1 => world.active = false, // the thief
        2 => _ = acknowledge(core, LEVEL),
        3 => {
            if end(core, LEVEL) {
                *world = World { asserted: world.asserted, ..World::default() };
            }
        }
        // GICD_ICPENDR1 and GICD_ICACTIVER1 of the guest, which then has itself to thank for what comes.
        4 | 5 => {
            let register = [0x280, 0x380][number as usize - 4];
            core.machine.active.borrow_mut().insert(LEVEL);
            core.forget_cleared(register + 4, 1 << (LEVEL - 32));
            world.active &= core.machine.active.borrow().contains(&LEVEL);
            (world.arrivals, world.priorities) = (0, 0);
        }
        6 => {
            core.set_priority(LEVEL, 0x40);
            world.priorities += 1;
        }
        7 => start_again(core, world),
        // It has ended what it has, and is off before that is told.
        8 => {
            for slot in core.machine.list.iter().filter(|slot| slot.get() >> 62 == 2) {
                slot.set(slot.get() & !(3 << 62));
            }
            start_again(core, world);
        }
        // Others need list registers: all of them, for a while.
        _ => {
            (41..=44).for_each(|intid| _ = arrive(core, intid));
            (41..=44).for_each(|intid| _ = acknowledge(core, intid) && end(core, intid));
        }
    }
    if world.asserted && !world.active && arrive(core, LEVEL) {
        world.active = true;
        world.arrivals += 1;
    }
}

/// All orders of ten things that source, thief, guest and others can do: the interrupt is never in two list registers, arrives twice at most
/// before its guest has ended it (once more for each priority that the guest writes), and comes again after every end.
#[test]
fn no_order_of_events_lists_an_interrupt_twice_or_loses_it() {
    const LENGTH: u32 = 5;
    let mut tried = BTreeSet::new();
    for order in 0..STEPS.pow(LENGTH) {
        let steps: Vec<u32> = (0..LENGTH).map(|place| order / STEPS.pow(place) % STEPS).collect();
        let mut core = running(partition(1));
        let mut world = World::default();
        for number in &steps {
            step(&mut core, &mut world, *number);
            let times = held(&core).iter().filter(|intid| **intid == LEVEL).count();
            assert!(
                times <= 1 && world.arrivals <= 2 + world.priorities,
                "{steps:?}: in {times} list registers, {} arrivals",
                world.arrivals
            );
            tried.insert(world.arrivals);
        }
        // The guest ends what it has; then the source is heard.
        for _ in 0..2 {
            step(&mut core, &mut world, 2);
            step(&mut core, &mut world, 3);
        }
        world.asserted = true;
        step(&mut core, &mut world, 2);
        assert!(held(&core).contains(&LEVEL), "{steps:?}: silent for good");
    }
    assert!(tried.is_superset(&BTreeSet::from([0, 1, 2, 3])), "{tried:?}");
}
