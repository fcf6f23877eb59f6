//! Calls of guests: PSCI within the partition, doorbells with their limiter, management.

use super::*;
use crate::state::vcpu_state;
use bulkhead_abi::hypercall::*;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{self, REASON_REQUESTED};
use bulkhead_arch::fake::Event;
use bulkhead_emulation::psci::{CALLS, Caller};
use std::sync::atomic::Ordering::Relaxed;

// PSCI function ids (Arm DEN 0022), written out here and not taken from `core/arm`: they are what guests send.
pub(super) const CPU_ON: u64 = 0xc400_0003;
pub(super) const CPU_OFF: u64 = 0x8400_0002;
pub(super) const SYSTEM_OFF: u64 = 0x8400_0008;
pub(super) const AFFINITY_INFO: u64 = 0xc400_0004;
const HVC: u64 = 0x16 << 26 | 1 << 25;
const SMC: u64 = 0x17 << 26 | 1 << 25;

pub(crate) fn call(core: &mut Vcpu<FakeMachine>, function: u64, arguments: [u64; 3]) -> u64 {
    core.head.frame.x[0] = function;
    core.head.frame.x[1..4].copy_from_slice(&arguments);
    core.synchronous(HVC);
    core.head.frame.x[0]
}

#[test]
fn smc_and_hvc_are_the_same_but_for_the_return_address() {
    let mut core = running(partition(1));
    let before = core.machine.guest_program_counter();
    assert_eq!(call(&mut core, CALL_VERSION, [0; 3]), u64::from(bulkhead_abi::ABI_VERSION));
    assert_eq!(core.machine.guest_program_counter(), before, "ELR is behind an HVC already");
    core.head.frame.x[0] = CALL_VERSION;
    core.synchronous(SMC);
    assert_eq!(core.head.frame.x[0], u64::from(bulkhead_abi::ABI_VERSION));
    assert_eq!(core.machine.guest_program_counter(), before + 4, "ELR is at a trapped SMC");
}

#[test]
fn the_function_is_the_lower_half_of_its_register() {
    let mut core = running(partition(1));
    let upper = 0xdead_beef << 32;
    assert_eq!(call(&mut core, upper | CALL_VERSION, [0; 3]), u64::from(bulkhead_abi::ABI_VERSION));
    assert_eq!(call(&mut core, upper | CALL_HEARTBEAT, [0; 3]), SUCCESS);
    assert_eq!(call(&mut core, upper | CALL_DOORBELL, [9, 0, 0]), INVALID_PARAMETERS);
}

#[test]
fn unknown_functions_are_not_supported_whatever_their_owner() {
    let mut core = running(partition(1));
    for function in [0u64, 1, 0x8200_0001, 0xc200_0000, 0xbf00_ff01, 0x3200_0000, 0x8400_00ff, 0xc600_ffff, u64::MAX] {
        assert_eq!(call(&mut core, function, [0; 3]) as u32, u32::MAX, "{function:#x}");
    }
    assert_eq!(core.run, RunState::Running);
}

/// CPU_ON's arguments are in range here; what a row's decoder makes of them is tried where the table is.
#[test]
fn each_row_of_the_table_is_answered_and_those_of_managers_are_denied() {
    for (name, caller, ids) in CALLS {
        for id in *ids {
            let mut core = running(partition(1));
            call(&mut core, u64::from(*id), [0, 0x4010_0000, 0]);
            let denied = core.counter(Counter::DeniedCall);
            assert_eq!(
                denied,
                u64::from(*caller == Caller::Manager),
                "{name}: a call of managers, or one without an answer"
            );
        }
    }
}

#[test]
fn cpu_on_starts_own_vcpus_once() {
    let mut both = cores(partition(2));
    both[0].begin();
    both[0].machine.take_events();
    let entry = 0x4010_0000;
    let lead = &mut both[0];
    assert_eq!(call(lead, CPU_ON, [5, entry, 0]), INVALID_PARAMETERS, "no such vCPU");
    assert_eq!(call(lead, CPU_ON, [1 << 8 | 1, entry, 0]), INVALID_PARAMETERS, "another cluster");
    assert_eq!(call(lead, CPU_ON, [1, 0x9000_0000, 0]), (-9i64) as u64, "entry outside its RAM");
    assert_eq!(lead.machine.take_events(), []);
    assert_eq!(call(lead, CPU_ON, [1, entry, 0x77]), SUCCESS);
    assert_eq!(lead.machine.take_events(), [Event::SendSgi(15 << 24 | 1 << 3)]);
    assert_eq!(call(lead, CPU_ON, [1, entry, 0]), (-5i64) as u64, "on pending");
    let sibling = &mut both[1];
    sibling.interrupt(15);
    assert_eq!(
        (sibling.run, sibling.machine.guest_program_counter(), sibling.head.frame.x[0]),
        (RunState::Running, entry, 0x77)
    );
    assert_eq!(call(&mut both[0], CPU_ON, [1, entry, 0]), (-4i64) as u64, "already on");
    assert_eq!(call(&mut both[0], 0xc400_0004, [1, 0, 0]), 0, "AFFINITY_INFO: on");
}

/// PSCI: a vCPU whose core was not set up yet when it was told to start lost the interrupt, and starts when its core is.
#[test]
fn cpu_on_reaches_a_core_that_comes_later() {
    let mut both = cores(partition(2));
    both[0].begin();
    assert_eq!(call(&mut both[0], CPU_ON, [1, 0x4010_0000, 0]), SUCCESS);
    both[0].machine.take_events();
    both[1].begin_partition();
    assert!(both[1].machine.take_events().contains(&Event::SendSgi(15 << 24 | 1 << 2)), "it is here");
    both[0].interrupt(15);
    assert!(both[0].machine.take_events().contains(&Event::SendSgi(15 << 24 | 1 << 3)), "so it is told again");
    both[1].interrupt(15);
    assert_eq!(both[1].run, RunState::Running);
    both[0].interrupt(15);
    let again = both[0].machine.take_events();
    assert!(!again.iter().any(|event| matches!(event, Event::SendSgi(_))), "and not when it runs");
}

/// CH-30, CH-31, CH-33 (record 0021): the monitor decides, by the index of the doorbell alone.
#[test]
fn a_doorbell_passes_its_limit_per_window_and_then_says_limited() {
    let mut core = running(partition(1));
    let pend = PhysicalAddress(GICD + 0x200 + 4 * (81 / 32));
    core.machine.now.set(1000);
    assert_eq!(call(&mut core, CALL_DOORBELL, [0; 3]), SUCCESS);
    assert_eq!(core.machine.load32(pend), 1 << (81 % 32), "the receiver's spare interrupt is pending");
    assert_eq!(call(&mut core, CALL_DOORBELL, [0; 3]), SUCCESS);
    core.machine.store32(pend, 0);
    assert_eq!(call(&mut core, CALL_DOORBELL, [0; 3]), LIMITED);
    assert_eq!(core.machine.load32(pend), 0, "nothing raised");
    core.machine.now.set(1100);
    assert_eq!(call(&mut core, CALL_DOORBELL, [0; 3]), SUCCESS, "next window");
    assert_eq!(call(&mut core, CALL_DOORBELL, [1, 0, 0]), INVALID_PARAMETERS, "no such doorbell");
    assert_eq!(call(&mut core, CALL_DOORBELL, [u64::MAX, 0, 0]), INVALID_PARAMETERS);
}

#[test]
fn system_off_and_reset_are_a_state_and_a_policy() {
    let mut core = running(partition(1));
    call(&mut core, SYSTEM_OFF, [0; 3]);
    assert_eq!((core.run, state(&core)), (RunState::Off, (status::STATE_OFF, 0)));
    let mut plan = partition(1);
    plan.health =
        HealthPlan { policy: POLICY_RESTART, max_restarts: 1, within_ticks: 100, backoff_ticks: 0, watchdog_ticks: 0 };
    let mut core = running(plan);
    call(&mut core, 0x8400_0009, [0; 3]);
    core.settle();
    assert_eq!((core.run, state(&core)), (RunState::Running, (status::STATE_RUNNING, REASON_REQUESTED)));
    call(&mut core, 0x8400_0009, [0; 3]);
    assert_eq!(state(&core), (status::STATE_STOPPED, REASON_REQUESTED), "the limit holds for requested restarts too");
}

#[test]
fn the_last_cpu_off_is_the_partition_off() {
    let mut both = cores(partition(2));
    both[0].begin();
    call(&mut both[0], CPU_ON, [1, 0x4010_0000, 0]);
    both[1].interrupt(15);
    call(&mut both[0], CPU_OFF, [0; 3]);
    assert_eq!(state(&both[0]).0, status::STATE_RUNNING);
    call(&mut both[1], CPU_OFF, [0; 3]);
    both[0].interrupt(15);
    assert_eq!(state(&both[0]).0, status::STATE_OFF);
}

fn managing() -> PartitionPlan {
    let mut plan = partition(1);
    plan.flags = FLAG_MANAGES;
    plan.manage[0] = PhysicalAddress(OWN_MANAGE);
    plan.status[1] = PhysicalAddress(PEER_STATUS);
    plan.lead_mpidr[1] = 6;
    plan
}

#[test]
fn a_manager_posts_requests_and_reads_states_and_nobody_else_does() {
    let mut core = running(managing());
    assert_eq!(
        call(&mut core, CALL_PARTITION_RESTART, [1, 0, 0]),
        DENIED,
        "its core is not set up and would not hear it"
    );
    assert_eq!(core.machine.take_events(), []);
    core.machine.store8(PhysicalAddress(PEER_STATUS + offset_of!(StatusPage, name) as u64), b'p');
    core.machine.store32(PhysicalAddress(PEER_STATUS), status::STATE_RUNNING);
    assert_eq!(call(&mut core, CALL_PARTITION_STATUS, [1, 0, 0]), SUCCESS);
    assert_eq!(core.head.frame.x[1], u64::from(status::STATE_RUNNING));
    assert_eq!(call(&mut core, CALL_PARTITION_RESTART, [1, 0, 0]), SUCCESS);
    assert_eq!(core.machine.take_events(), [Event::SendSgi(15 << 24 | 1 << 6)]);
    assert_eq!(
        core.machine.atomic(PhysicalAddress(OWN_MANAGE + 8)).load(Relaxed),
        status::next_request(0, status::MANAGE_RESTART)
    );
    for target in [0, 2, 7, 8, u64::MAX] {
        assert_eq!(call(&mut core, CALL_PARTITION_RESTART, [target, 0, 0]), DENIED, "target {target}");
    }
    let mut other = running(partition(1));
    assert_eq!(call(&mut other, CALL_PARTITION_RESTART, [1, 0, 0]), DENIED);
    assert_eq!(call(&mut other, CALL_PARTITION_STATUS, [1, 0, 0]), DENIED);
    assert_eq!(call(&mut other, CALL_PARTITION_STATUS, [0, 0, 0]), SUCCESS, "its own state is no secret");
    assert_eq!(other.machine.take_events(), []);
}

/// A manager posts a request, and the partition's core hears of it.
fn manage(core: &mut Vcpu<FakeMachine>, request: u32) {
    let place = PhysicalAddress(PEER_MANAGE);
    core.machine.store64(place, status::next_request(core.machine.load64(place), request));
    core.interrupt(15);
}

#[test]
fn a_request_is_served_once_and_suspends_resumes_restarts() {
    let mut plan = partition(1);
    plan.manage[3] = PhysicalAddress(PEER_MANAGE);
    let mut core = running(plan);
    manage(&mut core, status::MANAGE_SUSPEND);
    assert_eq!((core.run, state(&core).0), (RunState::Parked, status::STATE_SUSPENDED));
    assert_ne!(core.own_vcpu().state.load(Relaxed) & vcpu_state::PARKED, 0);
    manage(&mut core, status::MANAGE_RESUME);
    assert_eq!((core.run, state(&core).0), (RunState::Running, status::STATE_RUNNING));
    let generation = status32(&core, offset_of!(StatusPage, generation));
    manage(&mut core, status::MANAGE_RESTART);
    core.interrupt(15); // the same word again
    assert_eq!(status32(&core, offset_of!(StatusPage, generation)), generation + 1);
    assert_eq!(state(&core), (status::STATE_RUNNING, status::REASON_MANAGED));
}

/// A manager asks for something of a partition whose vCPU 1 is on, and whose core never takes its SGI; time passes while its sibling waits.
fn asked_with_a_stuck_sibling(request: u32) -> Vcpu<FakeMachine> {
    let mut plan = partition(2);
    plan.manage[3] = PhysicalAddress(PEER_MANAGE);
    let mut both = cores(plan);
    both[0].begin();
    call(&mut both[0], CPU_ON, [1, 0x4010_0000, 0]);
    both[1].interrupt(15);
    both[0].machine.take_events();
    both[0].machine.ticks_per_spin.set(1 << 20);
    manage(&mut both[0], request);
    both.remove(0)
}

#[test]
fn a_sibling_that_does_not_stand_is_never_overtaken_by_a_restart() {
    let core = asked_with_a_stuck_sibling(status::MANAGE_RESTART);
    assert_eq!(state(&core), (status::STATE_STOPPED, status::REASON_CORE_STUCK));
    assert!(!core.machine.take_events().iter().any(|event| matches!(event, Event::Scrub(..))), "its RAM is in use");
    // Nor is it said to be suspended, and a resume brings nobody back who was never there.
    let mut core = asked_with_a_stuck_sibling(status::MANAGE_SUSPEND);
    assert_eq!(state(&core), (status::STATE_STOPPED, status::REASON_CORE_STUCK));
    manage(&mut core, status::MANAGE_RESUME);
    assert_eq!(state(&core), (status::STATE_STOPPED, status::REASON_CORE_STUCK));
}

#[test]
fn a_policy_does_not_restart_beside_a_sibling_that_does_not_stand() {
    let mut plan = partition(2);
    plan.health = HealthPlan { policy: POLICY_RESTART, max_restarts: 9, within_ticks: 9, ..plan.health };
    let mut both = cores(plan);
    both[0].begin();
    call(&mut both[0], CPU_ON, [1, 0x4010_0000, 0]);
    both[1].interrupt(15);
    both[0].machine.ticks_per_spin.set(1 << 20);
    call(&mut both[0], 0x8400_0009, [0; 3]);
    assert_eq!(state(&both[0]), (status::STATE_STOPPED, status::REASON_CORE_STUCK));
    assert_eq!(both[0].run, RunState::Off, "it is not started again, even if that core comes later");
}
