//! Partitions that manage others, and those that may not.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::hypercall::{
    CALL_PARTITION_RESTART, CALL_PARTITION_RESUME, CALL_PARTITION_STATUS, CALL_PARTITION_SUSPEND, CALL_VERSION, DENIED,
    SUCCESS,
};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_MANAGED, REASON_NONE, STATE_OFF, STATE_RUNNING, STATE_SUSPENDED};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::{self, GUEST_RAM};
use bulkhead_system_tests::{LIMIT, Remote, Running, System};

const MANAGER: u64 = 0;
const PLAIN: u64 = 1;
const TARGET: u64 = 2;
const DIRECT: u64 = 3;
const COUNT: u64 = 0x20_0000;
/// Above this count the target switches itself off when it is told to by a word in its RAM.
const SWITCH: u64 = COUNT + 8;
const SYSTEM_OFF: u64 = 0x8400_0008;

/// Counts in a word of its RAM; switches itself off when the word after it is not zero.
fn counting() -> Program {
    let mut program = Program::new();
    program.constant(19, GUEST_RAM + COUNT).constant(20, 0).constant(22, 3);
    let again = program.here();
    program.add(20, 20, 1).store(20, 19, 0).load(21, 19, 8).compare(21, 22).branch_below(again);
    program.constant(0, SYSTEM_OFF).call().stay();
    program
}

fn start() -> Running {
    let (remote, mut waiting) = (remote::program(), Program::new());
    waiting.stay();
    let programs = [("remote", &remote), ("counting", &counting()), ("waiting", &waiting)];
    System::with_programs("manage", &[], &programs).start()
}

fn word(running: &Running, offset: u64) -> PhysicalAddress {
    PhysicalAddress(running.watch().plan().partitions[TARGET as usize].ram[0].physical.0 + offset)
}

fn count(running: &Running) -> u64 {
    running.ram().load_u64(word(running, COUNT)).expect("the count is in RAM")
}

/// Waits until the target has counted further than `than`.
fn wait_for_progress(running: &mut Running, than: u64) {
    let place = word(running, COUNT);
    let waited =
        running.wait_for("the target to count", LIMIT, |view| (view.ram.load_u64(place)? > than).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
}

/// Lets the manager work for a while, so that a target that runs would be seen to.
fn let_time_pass(manager: &mut Remote, running: &mut Running) {
    for _ in 0..100 {
        manager.call(running, CALL_VERSION, 0);
    }
}

/// SG-60, SG-61: status, suspend, resume and restart of another partition.
#[test]
fn a_manager_suspends_resumes_and_restarts() {
    let mut running = start();
    let mut manager = Remote::new(&mut running, "manager");
    running.wait_for_state("target", STATE_RUNNING);
    wait_for_progress(&mut running, 0);
    let status = manager.call(&mut running, CALL_PARTITION_STATUS, TARGET);
    assert_eq!(status, [SUCCESS, u64::from(STATE_RUNNING), u64::from(REASON_NONE), 1]);

    assert_eq!(manager.call(&mut running, CALL_PARTITION_SUSPEND, TARGET)[0], SUCCESS);
    running.wait_for_state("target", STATE_SUSPENDED);
    let suspended_at = count(&running);
    let exits = running.counter("target", Counter::Exits);
    let_time_pass(&mut manager, &mut running);
    assert_eq!(count(&running), suspended_at, "a suspended partition executes nothing");
    assert_eq!(running.counter("target", Counter::Exits), exits);
    let status = manager.call(&mut running, CALL_PARTITION_STATUS, TARGET);
    assert_eq!(status, [SUCCESS, u64::from(STATE_SUSPENDED), u64::from(REASON_MANAGED), 1]);

    assert_eq!(manager.call(&mut running, CALL_PARTITION_RESUME, TARGET)[0], SUCCESS);
    running.wait_for_state("target", STATE_RUNNING);
    // It continues where it was: a restarted one would count from 1.
    wait_for_progress(&mut running, suspended_at);
    assert_eq!(running.status("target").generation, 1);

    assert_eq!(manager.call(&mut running, CALL_PARTITION_RESTART, TARGET)[0], SUCCESS);
    let status =
        running.wait_for_status("target", "restart", |status| status.state == STATE_RUNNING && status.generation == 2);
    assert_eq!((status.reason, status.restarts, status.faults), (REASON_MANAGED, 1, 0));
    wait_for_progress(&mut running, 0);
    assert_eq!(running.counter("manager", Counter::DeniedCall), 0);
    running.assert_no_crash();
}

/// SG-62: a partition that switched itself off can be started again, whatever its policy.
#[test]
fn a_manager_restarts_what_is_off() {
    let mut running = start();
    let mut manager = Remote::new(&mut running, "manager");
    for generation in 1..=3 {
        let state = running.wait_for_status("target", "start", |status| {
            status.state == STATE_RUNNING && status.generation == generation
        });
        assert_eq!(state.restarts, generation - 1);
        wait_for_progress(&mut running, 0);
        running.ram().write_at(word(&running, SWITCH), &7u64.to_le_bytes()).expect("the switch is in RAM");
        running.wait_for_state("target", STATE_OFF);
        // Nothing to suspend or resume there; the requests are served and change nothing.
        for call in [CALL_PARTITION_SUSPEND, CALL_PARTITION_RESUME] {
            assert_eq!(manager.call(&mut running, call, TARGET)[0], SUCCESS);
        }
        let_time_pass(&mut manager, &mut running);
        assert_eq!(running.status("target").state, STATE_OFF);
        assert_eq!(manager.call(&mut running, CALL_PARTITION_RESTART, TARGET)[0], SUCCESS);
    }
    running.assert_no_crash();
}

/// SG-60: who does not manage learns only about itself and changes nobody.
#[test]
fn a_partition_that_does_not_manage_is_denied() {
    let mut running = start();
    let mut plain = Remote::new(&mut running, "plain");
    // All three are looked at below. Nothing else of this test needs the manager, which starts when its core does.
    for name in ["manager", "plain", "target"] {
        running.wait_for_state(name, STATE_RUNNING);
    }
    wait_for_progress(&mut running, 0);
    let own = plain.call(&mut running, CALL_PARTITION_STATUS, PLAIN);
    assert_eq!(own, [SUCCESS, u64::from(STATE_RUNNING), u64::from(REASON_NONE), 1]);
    let calls = [CALL_PARTITION_STATUS, CALL_PARTITION_SUSPEND, CALL_PARTITION_RESUME, CALL_PARTITION_RESTART];
    let mut denied = 0;
    for call in calls {
        for partition in [MANAGER, TARGET, DIRECT, 4, 8, u64::MAX] {
            let answer = plain.call(&mut running, call, partition);
            assert_eq!(answer[0], DENIED, "call {call:#x} on partition {partition}");
            assert_eq!(answer[1], partition, "the answer tells nothing else");
            denied += 1;
        }
    }
    for call in &calls[1..] {
        assert_eq!(plain.call(&mut running, *call, PLAIN)[0], DENIED, "call {call:#x} on itself");
        denied += 1;
    }
    assert_eq!(running.counter("plain", Counter::DeniedCall), denied);
    for name in ["manager", "plain", "target"] {
        let status = running.status(name);
        assert_eq!((status.state, status.generation, status.faults), (STATE_RUNNING, 1, 0), "{name}");
    }
    let counted = count(&running);
    wait_for_progress(&mut running, counted);
}

/// SG-60: a manager cannot act on itself, on a `direct` partition, or on one that is not there.
#[test]
fn a_manager_is_denied_what_cannot_be() {
    let mut running = start();
    let mut manager = Remote::new(&mut running, "manager");
    running.wait_for_state("direct", STATE_RUNNING);
    for call in [CALL_PARTITION_SUSPEND, CALL_PARTITION_RESUME, CALL_PARTITION_RESTART] {
        for partition in [MANAGER, DIRECT, 4, 7, 8, 1 << 32 | TARGET, u64::MAX] {
            assert_eq!(manager.call(&mut running, call, partition)[0], DENIED, "call {call:#x} on {partition}");
        }
    }
    for partition in [4, 7, 8, 1 << 32 | TARGET, u64::MAX] {
        assert_eq!(manager.call(&mut running, CALL_PARTITION_STATUS, partition)[0], DENIED, "status of {partition}");
    }
    let direct = manager.call(&mut running, CALL_PARTITION_STATUS, DIRECT);
    assert_eq!(direct, [SUCCESS, u64::from(STATE_RUNNING), u64::from(REASON_NONE), 1], "looking is allowed");
    assert_eq!(running.status("target").generation, 1);
    running.assert_no_crash();
}
