//! A kernel crash: the policy restarts Linux, its limit holds, and the core beside it executes nothing for it.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_NONE, REASON_REQUESTED, STATE_RUNNING, STATE_STOPPED};
use bulkhead_system_tests::{LIMIT, System};

/// Restarts that the description allows.
const RESTARTS: u32 = 2;
/// Periods of the reference run, more than any run beside Linux gets through.
const REFERENCE_PERIODS: u64 = 100_000;

/// What the controller prints when it is alone: on a virtual clock that skips idle time, so minutes pass in moments.
fn reference() -> Vec<Vec<u8>> {
    let periods = format!("periods={REFERENCE_PERIODS} report=20");
    let mut alone = System::changed("control", &[("report=20", &periods)]).start_exact(0);
    alone.end();
    alone.lines("control").map(|line| line.bytes.clone()).collect()
}

/// QV-70, QV-74, SG-62, SG-60, QV-5: the policy restarts a crashed kernel `max` times from its pristine image; status words tell
/// it; the controller's exits do not move and no byte of its output changes.
#[test]
fn a_crashed_kernel_comes_back_as_often_as_its_policy_says() {
    // Before there is another machine: who keeps one and waits for a place for the next can wait for itself.
    let reference = reference();
    let system = System::named("crash");
    let mut running = system.start();
    running.line("control", "period 20 ");
    let exits_before = running.counter("control", Counter::Exits);
    let first = running.wait_for_status("linux", "first start", |status| status.state == STATE_RUNNING);
    assert_eq!((first.generation, first.reason, first.restarts), (1, REASON_NONE, 0));
    for restart in 1..=RESTARTS {
        running.line("linux", "crash of the kernel in 0 s");
        let status = running.wait_for_status("linux", "restart", |status| {
            status.state == STATE_RUNNING && status.generation == restart + 1
        });
        assert_eq!(status.restarts, restart);
        assert_eq!(status.faults, u64::from(restart));
        assert_eq!(status.fault.reason, REASON_REQUESTED, "PSCI SYSTEM_RESET");
        assert_eq!(status.reason, REASON_REQUESTED, "the guest can see why it was started");
        assert!(status.restart_ticks > 0 && status.started_ticks > status.fault.time_ticks);
    }
    let stopped = running.wait_for_state("linux", STATE_STOPPED);
    assert_eq!((stopped.reason, stopped.fault.reason), (REASON_REQUESTED, REASON_REQUESTED));
    assert_eq!(
        (stopped.generation, stopped.restarts, stopped.faults),
        (RESTARTS + 1, RESTARTS, u64::from(RESTARTS) + 1)
    );
    assert_eq!(running.counter("linux", Counter::Restart), u64::from(RESTARTS));
    let panics = running.lines("linux").filter(|line| line.text.contains("Kernel panic - not syncing")).count();
    assert_eq!(panics, RESTARTS as usize + 1, "each start ended in a panic of its own");

    // The controller continues after the last stop, and all of what it printed is what it prints alone.
    running.wait_for_line("control", "period ", LIMIT).expect("the controller continues");
    assert_eq!(running.counter("control", Counter::Exits), exits_before, "exits on the controller's core");
    assert_eq!(running.counter("control", Counter::Fault), 0);
    running.assert_no_crash();
    running.assert_image_intact(&system);
    let printed: Vec<_> = running.lines("control").map(|line| line.bytes.clone()).collect();
    assert!(printed.len() > 20, "{} lines", printed.len());
    assert!(printed.len() < reference.len());
    assert_eq!(printed, reference[..printed.len()]);
}
