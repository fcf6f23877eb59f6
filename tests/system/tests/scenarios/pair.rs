//! Two vCPUs of one partition: they stand, resume, fault and restart together.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::hypercall::{
    CALL_PARTITION_RESTART, CALL_PARTITION_RESUME, CALL_PARTITION_SUSPEND, CALL_VERSION, SUCCESS,
};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{
    REASON_DATA_ABORT, REASON_MANAGED, REASON_REQUESTED, STATE_OFF, STATE_RUNNING, STATE_STOPPED, STATE_SUSPENDED,
};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::{self, GUEST_LOAD, GUEST_RAM};
use bulkhead_system_tests::{LIMIT, Remote, Running, System};

const PAIR: u64 = 1;
const CPU_ON: u64 = 0xc400_0003;
const CPU_OFF: u64 = 0x8400_0002;
const SYSTEM_RESET: u64 = 0x8400_0009;
/// Words in the partition's RAM: a count and an order for each vCPU.
const WORDS: u64 = 0x20_0000;
const COUNT: [u32; 2] = [0, 64];
const ORDER: [u32; 2] = [8, 72];
/// Orders: a call number for PSCI, or a guest address to load from.
const OUTSIDE: u64 = GUEST_RAM - 16;

/// Counts; on an order above 2^31 makes that call, on another loads from there.
fn loop_of(program: &mut Program, vcpu: usize) {
    program.constant(19, GUEST_RAM + WORDS).constant(20, 0).constant(23, 1 << 31);
    let again = program.here();
    program.add(20, 20, 1).store(20, 19, COUNT[vcpu]).load(21, 19, ORDER[vcpu]);
    let ordered = program.skip_not_zero(21);
    program.branch(again).land(ordered).copy(0, 21).compare(21, 23);
    // Below 2^31: an address.
    program.word(0x5400_0000 | 3 << 5 | 3); // B.LO three instructions on
    program.call().branch(again);
    program.load(1, 21, 0).branch(again);
}

fn program() -> Program {
    let build = |second: u64| {
        let mut program = Program::new();
        program.constant(0, CPU_ON).constant(1, 1).constant(2, second).constant(3, 0).call();
        loop_of(&mut program, 0);
        let second = GUEST_LOAD + program.offset();
        loop_of(&mut program, 1);
        (program, second)
    };
    // A constant takes four instructions whatever it is, so the second pass has the same offsets.
    let second = build(0).1;
    build(second).0
}

fn start() -> Running {
    System::with_programs("pair", &[], &[("remote", &remote::program()), ("pair", &program())]).start()
}

fn place(running: &Running, offset: u32) -> PhysicalAddress {
    let ram = running.watch().plan().partitions[PAIR as usize].ram[0].physical;
    PhysicalAddress(ram.0 + WORDS + u64::from(offset))
}

fn counts(running: &Running) -> [u64; 2] {
    COUNT.map(|offset| running.ram().load_u64(place(running, offset)).expect("the counts are in RAM"))
}

/// Waits until both vCPUs have counted further than `than`.
fn wait_for_progress(running: &mut Running, than: [u64; 2]) {
    let places = COUNT.map(|offset| place(running, offset));
    let waited = running.wait_for("both vCPUs to count", LIMIT, |view| {
        let counts = [view.ram.load_u64(places[0])?, view.ram.load_u64(places[1])?];
        (counts[0] > than[0] && counts[1] > than[1]).then_some(())
    });
    waited.unwrap_or_else(|error| panic!("{error}"));
}

fn order(running: &Running, vcpu: usize, order: u64) {
    running.ram().write_at(place(running, ORDER[vcpu]), &order.to_le_bytes()).expect("the order is in RAM");
}

fn wait_for_start(running: &mut Running, generation: u32) -> bulkhead_abi::status::StatusPage {
    let what = format!("start {generation}");
    running.wait_for_status("pair", &what, |status| status.state == STATE_RUNNING && status.generation == generation)
}

/// SG-60: both vCPUs stand while suspended, keep their registers, and resume together.
#[test]
fn both_vcpus_are_suspended_and_go_on() {
    let mut running = start();
    let mut manager = Remote::new(&mut running, "manager");
    wait_for_progress(&mut running, [0, 0]);
    for _ in 0..10 {
        assert_eq!(manager.call(&mut running, CALL_PARTITION_SUSPEND, PAIR)[0], SUCCESS);
        running.wait_for_state("pair", STATE_SUSPENDED);
        let stand = counts(&running);
        for _ in 0..20 {
            manager.call(&mut running, CALL_VERSION, 0);
        }
        assert_eq!(counts(&running), stand, "a suspended partition executes nothing on either core");
        assert_eq!(manager.call(&mut running, CALL_PARTITION_RESUME, PAIR)[0], SUCCESS);
        running.wait_for_state("pair", STATE_RUNNING);
        wait_for_progress(&mut running, stand);
    }
    assert_eq!(running.status("pair").generation, 1);
    running.assert_no_crash();
}

/// SG-62: a manager's restart begins with vCPU 0 alone, which switches vCPU 1 on again; from suspended too.
#[test]
fn both_vcpus_start_anew() {
    let mut running = start();
    let mut manager = Remote::new(&mut running, "manager");
    for generation in 1..=6 {
        let status = wait_for_start(&mut running, generation);
        assert_eq!(status.restarts, generation - 1);
        wait_for_progress(&mut running, [0, 0]);
        if generation % 2 == 0 {
            assert_eq!(manager.call(&mut running, CALL_PARTITION_SUSPEND, PAIR)[0], SUCCESS);
            running.wait_for_state("pair", STATE_SUSPENDED);
        }
        assert_eq!(manager.call(&mut running, CALL_PARTITION_RESTART, PAIR)[0], SUCCESS);
    }
    let status = wait_for_start(&mut running, 7);
    assert_eq!((status.reason, status.faults), (REASON_MANAGED, 0));
    wait_for_progress(&mut running, [0, 0]);
    running.assert_no_crash();
}

/// QV-9, SG-62, QV-74: a fault of either vCPU is recorded with its number and restarts both, as often as the policy says.
#[test]
fn a_fault_of_either_vcpu_restarts_both() {
    let mut running = start();
    for (generation, vcpu) in [(1, 1), (2, 0), (3, 1)] {
        wait_for_start(&mut running, generation);
        wait_for_progress(&mut running, [0, 0]);
        order(&running, vcpu, OUTSIDE);
        let status = wait_for_start(&mut running, generation + 1);
        let fault = (status.fault.reason, status.fault.vcpu as usize, status.fault.guest_address);
        assert_eq!(fault, (REASON_DATA_ABORT, vcpu, OUTSIDE));
        assert_eq!((status.faults, status.restarts), (u64::from(generation), generation));
    }
    wait_for_progress(&mut running, [0, 0]);
    order(&running, 1, OUTSIDE);
    let status = running.wait_for_state("pair", STATE_STOPPED);
    assert_eq!((status.generation, status.faults, status.fault.vcpu), (4, 4, 1));
    let stopped = counts(&running);
    let mut manager = Remote::new(&mut running, "manager");
    for _ in 0..50 {
        manager.call(&mut running, CALL_VERSION, 0);
    }
    assert_eq!(counts(&running), stopped, "both vCPUs stand when the partition is stopped");
    assert_eq!(running.counter("pair", Counter::Fault), 4);
    running.assert_no_crash();
}

/// SG-60: a reset asked for by vCPU 1 restarts the partition; PSCI CPU_OFF of both switches it off.
#[test]
fn power_calls_of_the_second_vcpu_count() {
    let mut running = start();
    wait_for_start(&mut running, 1);
    wait_for_progress(&mut running, [0, 0]);
    order(&running, 1, SYSTEM_RESET);
    let status = wait_for_start(&mut running, 2);
    assert_eq!((status.fault.reason, status.fault.vcpu, status.reason), (REASON_REQUESTED, 1, REASON_REQUESTED));
    wait_for_progress(&mut running, [0, 0]);
    order(&running, 1, CPU_OFF);
    let alone = counts(&running)[0];
    wait_for_progress_of_first(&mut running, alone);
    assert_eq!(running.status("pair").state, STATE_RUNNING, "one vCPU is left");
    order(&running, 0, CPU_OFF);
    let status = running.wait_for_state("pair", STATE_OFF);
    assert_eq!((status.generation, status.faults), (2, 1));
    running.assert_no_crash();
}

fn wait_for_progress_of_first(running: &mut Running, than: u64) {
    let first = place(running, COUNT[0]);
    let waited = running.wait_for("vCPU 0 to count", LIMIT, |view| (view.ram.load_u64(first)? > than).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
}

/// QV-74, SG-62, QV-8: Linux with two CPUs comes back with two CPUs, whichever of them asked for the reset.
#[test]
fn linux_comes_back_with_both_cpus() {
    let policy = "criticality = \"low\"\nhealth = { on_fault = \"restart\", max = 1, within = \"600 s\" }";
    let changes = [("criticality = \"low\"", policy), ("bulkhead.mode=hello,smp", "bulkhead.mode=smp,crash")];
    let mut running = System::example("linux-smp", &changes).start();
    let status = running.wait_for_state("linux", STATE_STOPPED);
    assert_eq!((status.generation, status.restarts, status.reason), (2, 1, REASON_REQUESTED));
    let working = running.texts("linux").iter().filter(|line| *line == "linux: smp: 2 CPUs work").count();
    assert_eq!(working, 2, "both starts had two working CPUs");
    running.assert_no_crash();
}
