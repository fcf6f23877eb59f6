//! A manager that asks as fast as it can: its requests are limited where they are made, and it alone pays for the rest.

use bulkhead_abi::hypercall::{CALL_PARTITION_RESUME, CALL_PARTITION_STATUS, LIMITED, SUCCESS};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{STATE_OFF, STATE_RUNNING};
use bulkhead_system_tests::System;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::GUEST_RAM;
use bulkhead_system_tests::sharing::{BY_PRIORITY, Description, TICKS_PER_MILLISECOND, field};

const ANSWERS: u64 = GUEST_RAM + 0x20_0000;
const SYSTEM_OFF: u64 = 0x8400_0008;
const VICTIM: u64 = 0;
/// Interrupts of the victim's timer, one in a millisecond.
const COUNT: u64 = 300;
/// What `manage_limit` is when a description does not say it.
const EVENTS: u64 = 10;
const PERIOD_TICKS: u64 = 100 * TICKS_PER_MILLISECOND;

/// Asks for the victim to continue, which it does, until the victim is off, and reads its status in between. Leaves how
/// often it was answered "done" and "limited", its first and last date, and whether a status was refused.
fn flooding() -> Program {
    let mut program = Program::new();
    for register in [20, 21, 23] {
        program.constant(register, 0);
    }
    program.counter(24);
    let again = program.here();
    program.constant(0, CALL_PARTITION_RESUME).constant(1, VICTIM).call();
    // CINC: an answer of one kind is one more of it.
    for (answer, register) in [(SUCCESS, 20), (LIMITED, 21)] {
        program.constant(3, answer).compare(0, 3);
        program.word(0x9a80_1400 | register << 16 | register << 5 | register);
    }
    program.constant(0, CALL_PARTITION_STATUS).constant(1, VICTIM).call();
    let refused = program.skip_not_zero(0);
    program.subtract(4, 1, STATE_OFF).branch_not_zero(4, again);
    program.counter(25).constant(0, ANSWERS).store(20, 0, 0).store(21, 0, 8).store(24, 0, 16).store(25, 0, 24);
    program.constant(0, SYSTEM_OFF).call().stay();
    program.land(refused).add(23, 23, 1).constant(0, ANSWERS).store(23, 0, 32).stay();
    program
}

fn assert_limited(system: &System, neighbours: &[&str]) {
    let mut running = system.start_exact(4);
    let done = running.line("victim", "wakeups done");
    println!("{done}");
    assert_eq!((field(&done, "sent"), field(&done, "received"), field(&done, "lost")), (COUNT, COUNT, 0));
    running.wait_for_state("manager", STATE_OFF);
    running.assert_no_crash();
    let [passed, limited, first, last, refused] =
        [0, 8, 16, 24, 32].map(|offset| running.guest_word("manager", ANSWERS + offset));
    let bound = EVENTS * ((last - first).div_ceil(PERIOD_TICKS) + 1);
    let entered: u64 = neighbours.iter().map(|name| running.counter(name, Counter::MonitorInterrupt)).sum();
    println!(
        "{passed} requests passed, {limited} limited, in {} ticks; {entered} interrupts of the monitor",
        last - first
    );
    assert_eq!(refused, 0, "reading a status has no limit");
    assert!(passed <= bound, "{passed} requests of one manager passed, at most {bound} may");
    assert!(limited > 100 * passed, "this was no flood");
    // Each expiry of a budget or a timer of a guest that is not loaded is one, too: not more than three for a wake-up.
    let own = if neighbours.len() > 1 { 3 * COUNT } else { 0 };
    assert!(entered <= bound + own + 8, "{entered} interrupts on the target's core, at most {bound} requests");
    assert_eq!(running.status("victim").generation, 1);
    assert_ne!(running.status("victim").state, STATE_RUNNING);
}

fn manager(description: Description) -> System {
    description.program("manager", 1, "manager", "manages = true").build_with(&[("manager", &flooding())])
}

/// SG-60: the target has a core of its own.
#[test]
fn a_flood_of_requests_ends_at_the_sender() {
    let victim = format!("role=own count={COUNT} start_us=20000");
    let description = Description::new("manage-flood").guest("victim", 0, "wakeups", &victim, "");
    assert_limited(&manager(description), &["victim"]);
}

/// SG-60, MZ-2: the target shares its core with a guest that computes.
#[test]
fn a_flood_of_requests_leaves_a_shared_core_alone() {
    let victim = format!("role=own count={COUNT} start_us=20000");
    let mut computing = Program::new();
    computing.spin();
    let description = Description::unjudged("manage-flood").schedule(0, BY_PRIORITY);
    let description = description.guest("victim", 0, "wakeups", &victim, "servers = [ { priority = 1 } ]");
    let description = description.program("other", 0, "other", "servers = [ { priority = 9 } ]");
    let description = description.program("manager", 1, "manager", "manages = true");
    let system = description.build_with(&[("manager", &flooding()), ("other", &computing)]);
    assert_limited(&system, &["victim", "other"]);
}
