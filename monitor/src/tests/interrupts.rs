//! List registers and software-generated interrupts (MZ-2, QV-16; `platform-facts.md` 1b).

use super::*;
use crate::interrupts::MAINTENANCE;
use bulkhead_abi::observe::Counter;
use bulkhead_arch::fake::Event;
use bulkhead_emulation::pl011::{LineEffect, UARTDR};
use std::sync::atomic::Ordering::Relaxed;

fn held(core: &Vcpu<FakeMachine>) -> Vec<u32> {
    core.machine.list.iter().filter(|slot| slot.get() >> 62 != 0).map(|slot| slot.get() as u32).collect()
}

/// MZ-19: the encoding of `mapped`.
#[test]
fn an_owned_interrupt_goes_to_a_hardware_mapped_list_register_and_stays_active() {
    in_every_view(|_| {
        let mut core = running(partition(1));
        core.interrupt(41);
        assert_eq!(core.machine.list[0].get(), 1 << 62 | 1 << 61 | 1 << 60 | 0xa0 << 48 | 41 << 32 | 41);
        assert_eq!(
            core.machine.take_events(),
            [Event::PriorityDrop(41)],
            "the guest's end of interrupt deactivates it"
        );
    });
}

#[test]
fn an_interrupt_of_nobody_is_finished_and_never_reaches_the_guest() {
    let mut core = running(partition(1));
    core.interrupt(99);
    assert!(held(&core).is_empty());
    assert_eq!(core.machine.take_events(), [Event::PriorityDrop(99), Event::Deactivate(99)]);
}

#[test]
fn the_fifth_interrupt_waits_and_the_most_urgent_waiting_one_comes_next() {
    in_every_view(|_| {
        let mut core = running(partition(1));
        core.set_priority(46, 0x20);
        for intid in 40..47 {
            core.interrupt(intid);
        }
        assert_eq!(held(&core), [40, 41, 42, 43]);
        assert!(core.machine.underflow.get());
        core.machine.list[2].set(0); // the guest ended 42
        core.interrupt(MAINTENANCE);
        assert_eq!(core.machine.list[2].get() as u32, 46, "priority 0x20 before 0xa0");
        for slot in &core.machine.list {
            slot.set(0);
        }
        core.interrupt(MAINTENANCE);
        assert_eq!(held(&core), [44, 45]);
        assert!(!core.machine.underflow.get(), "nothing waits any more");
    });
}

/// An interrupt that is routed to a vCPU which is off is there when it is on again: it stays pending, and what the vCPU had not
/// taken when it left is pending again (PSCI CPU_OFF).
#[test]
fn a_shared_interrupt_waits_for_a_vcpu_that_is_off() {
    in_every_view(|_| {
        let mut both = cores(partition(2));
        both[0].begin();
        both[1].begin_core();
        let switch_on = |both: &mut [Vcpu<FakeMachine>]| {
            super::calls::call(&mut both[0], 0xc400_0003, [1, 0x4010_0000, 0]);
            // Nobody sends SGI 15 to a core that is kicked, which looks by itself.
            let arrive: &[u32] = if IS_KICKED { &[40] } else { &[40, 15] };
            both[1].machine.pending.borrow_mut().extend(arrive);
            both[1].settle();
            assert_eq!(both[1].run, RunState::Running);
            let again = both[1].machine.acknowledge();
            assert!(again == 40 || held(&both[1]) == [40], "40 came while the vCPU was off: {:?}", held(&both[1]));
            both[1].interrupt(40);
        };
        switch_on(&mut both);
        let core = &mut both[1];
        (41..46).for_each(|intid| core.interrupt(intid));
        core.machine.list[1].set(core.machine.list[1].get() ^ 3 << 62); // the guest handles 41
        core.machine.take_events();
        super::calls::call(core, 0x8400_0002, [0; 3]);
        let back = core.machine.take_events();
        for intid in [40, 42, 43, 44, 45] {
            assert!(back.contains(&Event::Deactivate(intid)), "{intid} can come again");
        }
        assert!(
            !back.contains(&Event::Deactivate(41)),
            "as on a machine, what is active stays so until a guest ends it"
        );
        let pended = core.machine.load32(PhysicalAddress(GICD + 0x204));
        assert_eq!(pended, 1 << (45 - 32), "the last one that was made pending again");
        switch_on(&mut both);
    });
}

/// CH-41: one pending and one active at most.
#[test]
fn a_software_generated_interrupt_is_not_hardware_mapped_and_coalesces() {
    let mut core = running(partition(2));
    core.interrupt(3);
    core.interrupt(3);
    assert_eq!(held(&core), [3]);
    assert_eq!(core.machine.list[0].get() >> 61 & 1, 0);
    assert!(core.machine.take_events().contains(&Event::Deactivate(3)));
    core.machine.list[0].set(2 << 62 | 1 << 60 | 3); // the guest handles it
    core.interrupt(3);
    assert_eq!(core.machine.list[0].get() >> 62, 3, "pending and active");
}

/// Whatever the filter of GICD_IROUTER lets through, a guest has the power to route its own interrupts to its own cores only.
#[test]
fn a_guest_routes_own_interrupts_to_own_cores() {
    let both = cores(partition(2));
    let route = |intid: u32| both[0].machine.load64(PhysicalAddress(GICD + 0x6000 + 8 * u64::from(intid)));
    both[0].route_for_guest(41, 3);
    both[0].route_for_guest(41, 4);
    both[0].route_for_guest(81, 3);
    assert_eq!((route(41), route(81)), (3, 0), "core 4 and interrupt 81 are of others");
}

#[test]
fn the_fast_table_holds_owned_interrupts_only() {
    in_every_view(|_| {
        let core = running(partition(1));
        let entry = |intid: usize| core.fast_entries()[intid].load(Relaxed);
        assert_eq!(entry(27), 0xa0);
        assert_eq!(entry(40), 0xa0);
        for intid in (0..16).chain([25, 26, 28, 29, 31, 47, 99]) {
            assert_eq!(entry(intid), 0, "INTID {intid} must take the slow path");
        }
    });
}

#[test]
fn a_shared_interrupt_priority_reaches_every_vcpu_and_a_private_one_only_its_own() {
    in_every_view(|_| {
        let mut both = cores(partition(2));
        both[0].begin();
        both[0].keep_priority(40, 0x40);
        both[0].keep_priority(27, 0x40);
        let entry = |core: usize, intid: usize| both[core].fast_entries()[intid].load(Relaxed);
        assert_eq!((entry(0, 40), entry(1, 40)), (0x40, 0x40));
        assert_eq!(entry(0, 27), 0x40);
        assert_ne!(entry(1, 27), 0x40);
    });
}

/// ICC_SGI1R_EL1: INTID 27:24, target list 15:0, IRM 40.
fn send(core: &mut Vcpu<FakeMachine>, value: u64) -> Vec<Event> {
    core.head.frame.set_register(5, value);
    // MSR ICC_SGI1R_EL1 (S3_0_C12_C11_5), x5.
    let iss = 3 << 20 | 5 << 17 | 12 << 10 | 5 << 5 | 11 << 1;
    core.synchronous(0x18 << 26 | 1 << 25 | iss);
    core.machine.take_events()
}

#[test]
fn a_guest_sgi_reaches_own_vcpus_by_their_cores_and_nobody_else() {
    let mut core = cores(partition(2)).remove(0);
    core.begin();
    core.machine.take_events();
    assert_eq!(
        send(&mut core, 2 << 24 | 0b10),
        [Event::SendSgi(2 << 24 | 1 << 3)],
        "vCPU 1 runs on the core with affinity 3"
    );
    assert_eq!(send(&mut core, 2 << 24 | 0b1_0000), [], "no vCPU 4");
    assert_eq!(send(&mut core, 1 << 16 | 2 << 24 | 1), [], "another cluster");
    assert_eq!(
        send(&mut core, 1 << 40 | 7 << 24),
        [Event::SendSgi(7 << 24 | 1 << 3)],
        "all but self is all of the partition"
    );
    assert_eq!(send(&mut core, 15 << 24 | 0b10), [], "SGI 15 is the monitor's");
    assert_eq!(core.machine.guest_program_counter(), 0x4008_0000 + 5 * 4);
}

/// MZ-2: no physical interrupt is needed for what a guest sends to itself, unless it has that SGI disabled: then it is pending in the
/// redistributor, where the guest can see it and take it back.
#[test]
fn a_guest_sgi_to_itself_is_in_a_list_register_at_once_if_it_is_enabled() {
    in_every_view(|_| {
        let mut core = running(partition(2));
        core.machine.store32(PhysicalAddress(core.plan.gicr.0 + 0x1_0100), 1 << 2 | 1 << 5); // GICR_ISENABLER0
        assert_eq!(send(&mut core, 2 << 24 | 0b1), []);
        assert_eq!(held(&core), [2]);
        assert_eq!(send(&mut core, 2 << 24 | 0b1), [], "it coalesces");
        assert_eq!(held(&core), [2]);
        assert_eq!(send(&mut core, 3 << 24 | 0b1), [Event::SendSgi(3 << 24 | 1 << 2)], "3 is disabled");
        assert_eq!(send(&mut core, 5 << 24 | 0b11), [Event::SendSgi(5 << 24 | 1 << 3)], "the other vCPU as before");
        assert_eq!(held(&core), [2, 5]);
        assert_eq!(core.counter(Counter::SendSgi), 4);
        assert_eq!(core.counter(Counter::Interrupt), 0);
    });
}

#[test]
fn clearing_an_interrupt_empties_its_list_register() {
    let mut core = running(partition(1));
    core.interrupt(41);
    core.interrupt(43);
    core.machine.take_events();
    core.forget_cleared(0x280 + 4, 1 << (41 - 32)); // GICD_ICPENDR1
    assert_eq!(held(&core), [43]);
    assert_eq!(core.machine.take_events(), [Event::Deactivate(41)], "the guest will not end what it does not see");
    core.machine.list[1].set(core.machine.list[1].get() | 1 << 63); // pending and active
    core.forget_cleared(0x380 + 4, 1 << (43 - 32)); // GICD_ICACTIVER1
    assert_eq!(core.machine.list[1].get() >> 62, 1, "still pending");
    core.forget_cleared(0x380 + 4, u32::MAX);
    assert_eq!(held(&core), [43], "pending is not active");
}

/// A vCPU takes the last byte and is about to take the interrupt back, when the core that has the console adds one.
#[test]
fn input_that_comes_while_the_line_falls_keeps_its_interrupt() {
    const UARTIMSC: u64 = 0x38;
    let mut plan = partition(2);
    plan.interrupts[6].kind = INTERRUPT_CONSOLE;
    let both = cores(plan);
    let uart = &both[0].shared.uart;
    uart.write(UARTIMSC, 1 << 4);
    assert!(uart.push_input(b'a'));
    let read = uart.read(UARTDR);
    assert_eq!((read.value, read.interrupt), (u32::from(b'a'), LineEffect::Clear));
    assert!(uart.push_input(b'b'), "vCPU 0's core makes it pending");
    both[1].uart_line(read.interrupt);
    let set_pending = |core: &Vcpu<FakeMachine>| core.machine.load32(PhysicalAddress(GICD + 0x204));
    assert_eq!(set_pending(&both[1]), 1 << 14, "and vCPU 1's core, which cleared that, again");
    assert_eq!(uart.read(UARTDR).interrupt, LineEffect::Clear);
    both[0].uart_line(LineEffect::Clear);
    assert_eq!(set_pending(&both[0]), 0, "nothing waits");
}
