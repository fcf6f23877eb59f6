//! Faults, policies, restart and the watchdog (SG-60..62, QV-9, QV-70, QV-74).

use super::*;
use crate::interrupts::{DEFAULT_PRIORITY, HYPERVISOR_TIMER, MAINTENANCE, MONITOR_PRIORITY, MONITOR_SGI};
use crate::life::health::Fault;
use crate::state::vcpu_state;
use bulkhead_abi::status::{self, FaultRecord};
use bulkhead_arch::fake::Event;
use std::sync::atomic::Ordering::Relaxed;

fn restarting(max: u32, within: u64, backoff: u64) -> PartitionPlan {
    let mut plan = partition(1);
    plan.health = HealthPlan {
        policy: POLICY_RESTART,
        max_restarts: max,
        within_ticks: within,
        backoff_ticks: backoff,
        watchdog_ticks: 0,
    };
    plan.segments[0] = Segment {
        destination: PhysicalAddress(RAM + 0x8_0000),
        source: PhysicalAddress(PRISTINE),
        bytes: 16,
        crc: 0,
        reserved: 0,
    };
    plan.segment_count = 1;
    plan
}

fn data_abort(core: &mut Vcpu<FakeMachine>, guest: u64) {
    core.machine.exit.set((0xffff_0000_0000_0000 | guest & 0xfff, (guest >> 12) << 4));
    core.synchronous(0x24 << 26 | 1 << 25 | 1 << 24 | 0b10 << 22 | 3 << 16 | 0b000111);
}

#[test]
fn an_access_outside_everything_stops_the_partition_and_leaves_a_record() {
    let mut core = running(partition(1));
    core.machine.program_counter.set(0x4008_1234);
    core.machine.now.set(77);
    data_abort(&mut core, 0x7000_0123);
    assert_eq!((core.run, state(&core)), (RunState::Off, (status::STATE_STOPPED, status::REASON_DATA_ABORT)));
    let word =
        |offset: usize| core.machine.load64(PhysicalAddress(STATUS + (offset_of!(StatusPage, fault) + offset) as u64));
    assert_eq!(word(offset_of!(FaultRecord, guest_address)), 0x7000_0123);
    assert_eq!(word(offset_of!(FaultRecord, program_counter)), 0x4008_1234);
    assert_eq!(word(offset_of!(FaultRecord, time_ticks)), 77);
    assert_eq!(word(offset_of!(FaultRecord, syndrome)) >> 26, 0x24);
}

#[test]
fn a_wild_jump_is_a_fault_and_an_unknown_class_is_the_guests_own_problem() {
    let mut core = running(partition(1));
    for class in [0x00u64, 0x03, 0x05, 0x06, 0x07, 0x0c, 0x0e, 0x19, 0x1b, 0x2f, 0x3f] {
        core.synchronous(class << 26 | 1 << 25);
        assert_eq!(core.machine.take_events(), [Event::Inject(1 << 25)], "class {class:#x}");
        assert_eq!(core.run, RunState::Running);
    }
    core.synchronous(0x20 << 26 | 1 << 25 | 0b000110);
    assert_eq!(state(&core), (status::STATE_STOPPED, status::REASON_INSTRUCTION_ABORT));
}

#[test]
fn a_restart_scrubs_reloads_checks_and_counts() {
    let mut plan = restarting(2, 1000, 0);
    let machine_crc = {
        let core = cores(plan).remove(0);
        core.machine.copy_and_check(PhysicalAddress(RAM), PhysicalAddress(PRISTINE), 16, 0)
    };
    plan.segments[0].crc = machine_crc;
    let mut core = running(plan);
    core.machine.store64(PhysicalAddress(RAM + 0x10_0000), 0x5ec2e7);
    core.head.frame.x[7] = 99;
    core.machine.list[1].set(1 << 62 | 44);
    core.fault(Fault::new(status::REASON_SERROR, 0));
    // A6: the vectors load all registers for a guest that left its run, and after a call or a data abort for no other.
    assert_eq!(core.run, RunState::BackOff, "the restart is not done in the handler, even without a back-off");
    core.settle();
    let events = core.machine.take_events();
    let at = |wanted: &Event| events.iter().position(|event| event == wanted);
    let scrub = at(&Event::Scrub(RAM, 0x20_0000)).expect("all RAM is scrubbed");
    let copy = at(&Event::Copy(RAM + 0x8_0000, PRISTINE, 16)).expect("the image is reloaded");
    let reset = at(&Event::ResetGuest(0x4008_0000)).expect("registers are reset");
    assert!(scrub < copy && copy < reset);
    assert_eq!(core.machine.load64(PhysicalAddress(RAM + 0x10_0000)), 0, "no secret survives");
    assert_eq!((core.head.frame.x[0], core.head.frame.x[7]), (0x400f_0000, 0));
    assert_eq!(core.machine.list[1].get(), 0, "no stale interrupt");
    assert_eq!(status32(&core, offset_of!(StatusPage, restarts)), 1);
    assert_eq!(status32(&core, offset_of!(StatusPage, generation)), 2, "peers see the change (QV-74)");
}

/// A6: on a core of its own the guest's writes reach the interrupt controller, so a restart has to take all of them back. What is
/// cleared is seen as a write to the register that clears it.
#[test]
fn a_restart_resets_the_interrupts_of_its_partition_and_no_others() {
    in_every_view(|view| {
        const PRIVATE: u64 = 0x080b_0000;
        const OWN: u32 = (!IS_KICKED as u32) << MONITOR_SGI | 1 << MAINTENANCE | 1 << HYPERVISOR_TIMER;
        let mut plan = restarting(2, 1000, 0);
        plan.segment_count = 0;
        let mut core = running(plan);
        let machine = core.machine.clone();
        let priority = |intid: u64| PhysicalAddress(if intid < 32 { PRIVATE } else { GICD } + 0x400 + intid);
        let route = |intid: u64| PhysicalAddress(GICD + 0x6000 + 8 * intid);
        let word = |place: u64| machine.load32(PhysicalAddress(place));
        for intid in 0..128 {
            machine.store8(priority(intid), 0x10);
            machine.store64(route(intid), 9);
            core.keep_priority(intid as u32, 0x10);
        }
        for offset in [0x080, 0x100, 0x180, 0x280, 0x380] {
            for index in 0..4 {
                machine.store32(PhysicalAddress(if index == 0 { PRIVATE } else { GICD } + offset + 4 * index), 0);
            }
        }
        core.fault(Fault::new(status::REASON_SERROR, 0));
        core.settle();
        assert_eq!(core.run, RunState::Running);
        assert_eq!(
            [0x080, 0x100, 0x180, 0x280, 0x380].map(|offset| word(PRIVATE + offset)),
            [if view == View::One { u32::MAX } else { 0 }, OWN, u32::MAX, !(1 << MONITOR_SGI), u32::MAX],
            "GICR_IGROUPR0, ISENABLER0, ICENABLER0, ICPENDR0, ICACTIVER0"
        );
        for (offset, name) in [(0x180, "ICENABLER"), (0x280, "ICPENDR"), (0x380, "ICACTIVER")] {
            let words = [1, 2, 3].map(|index| word(GICD + offset + 4 * index));
            assert_eq!(words, [0x7f << 8, 1 << 16, 0], "GICD_{name}: 40 to 46, 80");
        }
        for intid in 0..128 {
            let is_own = matches!(intid, 40..=46 | 80);
            let expected = match intid as u32 {
                MAINTENANCE | HYPERVISOR_TIMER => MONITOR_PRIORITY,
                MONITOR_SGI if !IS_KICKED => MONITOR_PRIORITY,
                0..32 => DEFAULT_PRIORITY,
                _ if is_own => DEFAULT_PRIORITY,
                _ => 0x10,
            };
            assert_eq!(machine.load8(priority(intid)), expected, "priority of {intid}");
            if intid >= 32 {
                assert_eq!(machine.load64(route(intid)), if is_own { core.plan.mpidr } else { 9 }, "route of {intid}");
            }
            let is_fast = is_own || matches!(intid, 27 | 30);
            if let Some(entry) = core.fast_entries().get(intid as usize).filter(|_| is_fast) {
                assert_eq!(entry.load(Relaxed), DEFAULT_PRIORITY, "fast path of {intid}");
            }
        }
    });
}

#[test]
fn a_damaged_pristine_image_is_never_entered() {
    let mut plan = restarting(2, 1000, 0);
    plan.segments[0].crc = 0xdead_beef;
    let mut core = cores(plan).remove(0);
    core.machine.crc.set(Some(1));
    core.start_partition(status::REASON_NONE);
    assert_ne!(core.run, RunState::Running);
    assert_eq!(state(&core), (status::STATE_STOPPED, status::REASON_IMAGE_DAMAGED));
    assert!(!core.machine.take_events().iter().any(|event| matches!(event, Event::ResetGuest(_))));
}

#[test]
fn the_restart_limit_counts_within_its_window_only() {
    let mut plan = restarting(2, 1000, 0);
    plan.segment_count = 0;
    let mut core = running(plan);
    for now in [10, 500, 1011, 1501] {
        core.machine.now.set(now);
        core.fault(Fault::new(status::REASON_SERROR, 0));
        core.settle();
        assert_eq!(core.run, RunState::Running, "at {now}: two within the last 1000");
    }
    core.machine.now.set(1600);
    core.fault(Fault::new(status::REASON_SERROR, 0));
    assert_eq!(state(&core), (status::STATE_STOPPED, status::REASON_SERROR), "the third within 1000");
}

#[test]
fn a_back_off_is_waited_for() {
    let mut plan = restarting(2, 10_000, 250);
    plan.segment_count = 0;
    let mut core = running(plan);
    core.machine.now.set(100);
    core.fault(Fault::new(status::REASON_SERROR, 0));
    assert_eq!((core.run, state(&core).0), (RunState::BackOff, status::STATE_RESTARTING));
    core.settle();
    assert_eq!((core.run, state(&core).0), (RunState::Running, status::STATE_RUNNING));
    assert_eq!(core.machine.now.get(), 350);
}

#[test]
fn halt_stops_the_board() {
    let mut plan = partition(1);
    plan.health.policy = POLICY_HALT;
    let mut core = running(plan);
    core.fault(Fault::new(status::REASON_SERROR, 0));
    assert_eq!(core.machine.take_events().last(), Some(&Event::PowerOff));
}

#[test]
fn a_fault_of_a_sibling_is_the_partitions_fault() {
    let mut both = cores(partition(2));
    both[0].begin();
    super::calls::call(&mut both[0], 0xc400_0003, [1, 0x4010_0000, 0]);
    both[1].interrupt(15);
    both[1].machine.take_events();
    both[1].machine.program_counter.set(0x4444);
    both[1].fault(Fault::new(status::REASON_UNKNOWN_EXCEPTION, 0x55));
    assert_eq!(both[1].machine.take_events(), [Event::SendSgi(15 << 24 | 1 << 2)], "tells vCPU 0's core");
    assert_eq!(both[1].own_vcpu().state.load(Relaxed), vcpu_state::OFF);
    both[0].interrupt(15);
    assert_eq!(state(&both[0]), (status::STATE_STOPPED, status::REASON_UNKNOWN_EXCEPTION));
    assert_eq!(status32(&both[0], offset_of!(StatusPage, fault) + offset_of!(FaultRecord, vcpu)), 1);
    assert_eq!(status32(&both[0], offset_of!(StatusPage, fault) + offset_of!(FaultRecord, program_counter)), 0x4444);
}

#[test]
fn the_watchdog_wants_a_heartbeat_in_each_period() {
    let mut plan = partition(1);
    plan.health.watchdog_ticks = 1000;
    let mut core = running(plan);
    core.machine.now.set(900);
    super::calls::call(&mut core, bulkhead_abi::hypercall::CALL_HEARTBEAT, [0; 3]);
    core.machine.take_events();
    core.machine.now.set(1000);
    core.machine.program_counter.set(0x4321);
    core.interrupt(26);
    assert_eq!(core.run, RunState::Running);
    assert!(core.machine.take_events().contains(&Event::Timer(Some(1900))), "armed for one period after the heartbeat");
    assert_eq!(status32(&core, offset_of!(StatusPage, sampled_program_counter)), 0x4321, "progress is sampled (SG-61)");
    core.machine.now.set(1900);
    core.interrupt(26);
    assert_eq!(state(&core), (status::STATE_STOPPED, status::REASON_WATCHDOG));
}
