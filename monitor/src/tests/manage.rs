//! Requests of a manager: how many leave its core.

use super::calls::call;
use super::*;
use bulkhead_abi::hypercall::*;
use bulkhead_abi::status::ManagePage;
use bulkhead_arch::fake::Event;

const PERIOD: u64 = 1000;
const EVENTS: u32 = 3;

fn manager() -> Vcpu<FakeMachine> {
    let mut plan = partition(1);
    plan.flags = FLAG_MANAGES;
    plan.manage[0] = PhysicalAddress(OWN_MANAGE);
    (plan.manage_period_ticks, plan.manage_events) = (PERIOD, EVENTS);
    for target in 1..3 {
        plan.status[target] = PhysicalAddress(PEER_STATUS);
        plan.lead_mpidr[target] = 6;
    }
    let core = running(plan);
    // The cores of the others are set up: they have named themselves.
    core.machine.store8(PhysicalAddress(PEER_STATUS + offset_of!(bulkhead_abi::status::StatusPage, name) as u64), b'p');
    core.machine.now.set(10 * PERIOD);
    // The others' cores are set up: they have named themselves.
    core.machine.store8(PhysicalAddress(PEER_STATUS + offset_of!(StatusPage, name) as u64), b'p');
    core
}

fn sent(core: &Vcpu<FakeMachine>) -> usize {
    core.machine.take_events().iter().filter(|event| matches!(event, Event::SendSgi(_))).count()
}

/// SG-60: the limit is per target and window; what is beyond it is told, leaves no trace and interrupts nobody.
#[test]
fn requests_beyond_the_limit_end_at_the_sender() {
    let mut core = manager();
    let requests = [CALL_PARTITION_SUSPEND, CALL_PARTITION_RESUME, CALL_PARTITION_RESTART];
    let word = |core: &Vcpu<FakeMachine>, target: u64| {
        let offset = offset_of!(ManagePage, requests) as u64 + 8 * target;
        core.machine.atomic(PhysicalAddress(OWN_MANAGE + offset)).load(std::sync::atomic::Ordering::Relaxed)
    };
    for window in 0..4 {
        for target in 1..3 {
            for number in 0..100 {
                let posted = word(&core, target);
                let expected = if number < EVENTS { SUCCESS } else { LIMITED };
                assert_eq!(call(&mut core, requests[number as usize % 3], [target, 0, 0]), expected);
                assert_eq!(word(&core, target) == posted, expected == LIMITED);
                assert_eq!(call(&mut core, CALL_PARTITION_STATUS, [target, 0, 0]), SUCCESS, "reading is free");
            }
            assert_eq!(sent(&core), EVENTS as usize, "target {target}, window {window}");
        }
        core.machine.now.set(core.machine.now.get() + PERIOD);
    }
}

/// Who may not ask at all uses nothing up, and a refusal says why first.
#[test]
fn a_refusal_is_not_counted() {
    let mut core = manager();
    for _ in 0..10 {
        for target in [0, 3, 8, u64::MAX] {
            assert_eq!(call(&mut core, CALL_PARTITION_RESUME, [target, 0, 0]), DENIED);
        }
    }
    assert_eq!(call(&mut core, CALL_PARTITION_RESUME, [1, 0, 0]), SUCCESS);
}
