//! The watchdog, on a virtual clock: it bites exactly one period after the last heartbeat, whatever the guest does instead.

use bulkhead_abi::hypercall::CALL_HEARTBEAT;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_WATCHDOG, STATE_OFF, STATE_STOPPED, StatusPage};
use bulkhead_run::End;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::GUEST_LOAD;
use bulkhead_system_tests::{Running, System};

/// 100 ms at 62.5 MHz.
const PERIOD: u64 = 6_250_000;
/// `-icount shift=4`: a tick of the counter is an instruction. What the monitor may take between the compare value and
/// the fault record.
const HANDLER: u64 = 600;
/// The first period begins when the watchdog is armed, which is before the vCPU's registers are reset.
const PREPARATION: u64 = 2000;
const SYSTEM_OFF: u64 = 0x8400_0008;

/// `count` heartbeats, one each `distance` ticks, then `end`.
fn beating(count: u64, distance: u64, end: impl FnOnce(&mut Program)) -> Program {
    let mut program = Program::new();
    program.constant(19, count).constant(20, distance).counter(21);
    let beat = program.here();
    program.word(0x8b14_02b5); // ADD x21, x21, x20
    let wait = program.here();
    program.counter(22).compare(22, 21).branch_below(wait);
    program.constant(0, CALL_HEARTBEAT).call().subtract(19, 19, 1).branch_not_zero(19, beat);
    end(&mut program);
    program
}

fn switch_off(program: &mut Program) {
    program.constant(0, SYSTEM_OFF).call().stay();
}

fn start(program: &Program) -> Running {
    System::with_programs("watchdog", &[], &[("guest", program)]).start_exact(4)
}

/// Runs until the watchdog bites; returns the status page and how many ticks after `since` it was.
fn bitten(program: &Program, since: impl Fn(&StatusPage) -> u64) -> (StatusPage, u64) {
    let mut running = start(program);
    let status = running.wait_for_state("guest", STATE_STOPPED);
    assert_eq!((status.reason, status.fault.reason, status.faults), (REASON_WATCHDOG, REASON_WATCHDOG, 1));
    assert_eq!(running.counter("guest", Counter::Fault), 1);
    running.assert_no_crash();
    (status, status.fault.time_ticks - since(&status))
}

/// The bite after a start comes when the first period is over.
fn assert_first_period(ticks: u64) {
    assert!((PERIOD - PREPARATION..=PERIOD + HANDLER).contains(&ticks), "bitten after {ticks} ticks, not {PERIOD}");
}

/// SG-61: a guest that computes with all interrupts masked and never calls is stopped after its period.
#[test]
fn a_silent_guest_is_stopped_after_its_period() {
    let mut program = Program::new();
    program.word(0xd503_4fdf); // MSR DAIFSet, #15
    let loop_at = GUEST_LOAD + program.offset();
    program.spin();
    let (status, ticks) = bitten(&program, |status| status.started_ticks);
    assert_first_period(ticks);
    // Progress without cooperation: where it was, and that it took nothing but the watchdog's own interrupt.
    assert_eq!(status.fault.program_counter, loop_at);
    assert_eq!(status.sampled_program_counter, loop_at);
    assert_eq!((status.sampled_exits, status.sampled_interrupts, status.heartbeats), (1, 1, 0));
}

/// SG-61: waiting in WFI is no heartbeat.
#[test]
fn an_idle_guest_is_stopped_after_its_period() {
    let mut program = Program::new();
    program.stay();
    assert_first_period(bitten(&program, |status| status.started_ticks).1);
}

/// SG-61: heartbeats within the period keep it alive for as long as they come.
#[test]
fn heartbeats_keep_a_guest_alive() {
    let program = beating(50, PERIOD * 9 / 10, switch_off);
    let mut running = start(&program);
    assert_eq!(running.end(), End::AllEnded);
    let status = running.status("guest");
    assert_eq!((status.state, status.faults), (STATE_OFF, 0));
    assert_eq!(running.counter("guest", Counter::Heartbeat), 50);
    let checks = running.counter("guest", Counter::Watchdog);
    assert!((40..=50).contains(&checks), "the watchdog looked {checks} times and found a heartbeat each time");
}

/// SG-61: a heartbeat that comes a thousandth too late is too late.
#[test]
fn a_late_heartbeat_is_too_late() {
    let (status, ticks) = bitten(&beating(10, PERIOD * 1001 / 1000, switch_off), |status| status.started_ticks);
    assert_first_period(ticks);
    assert_eq!(status.heartbeats, 0);
}

/// SG-61: the bite comes one period after the last heartbeat, not after the last look.
#[test]
fn the_period_starts_at_the_last_heartbeat() {
    let distance = PERIOD * 7 / 10;
    let program = beating(3, distance, |program| {
        program.spin();
    });
    let (status, ticks) = bitten(&program, |status| status.started_ticks);
    let expected = 3 * distance + PERIOD;
    // Counted from just before the first instruction of the guest, whose own waiting makes the sum exact.
    assert!((expected..=expected + HANDLER).contains(&ticks), "{ticks} ticks instead of {expected}");
    assert_eq!(status.heartbeats, 3);
}

/// SG-61, SG-62: with a restart policy the watchdog starts again with each start.
#[test]
fn the_watchdog_watches_the_restarted_guest_too() {
    let mut program = Program::new();
    program.spin();
    let policy = "watchdog = \"100 ms\"\nhealth = { on_fault = \"restart\", max = 2, within = \"600 s\" }";
    let system = System::with_programs("watchdog", &[("watchdog = \"100 ms\"", policy)], &[("guest", &program)]);
    let mut running = system.start_exact(4);
    // The starts themselves last for milliseconds, which a busy host may not see; the last state tells of them.
    let status = running.wait_for_state("guest", STATE_STOPPED);
    assert_eq!((status.generation, status.restarts, status.faults), (3, 2, 3));
    assert_first_period(status.fault.time_ticks - status.started_ticks);
}
