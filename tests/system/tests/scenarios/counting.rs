//! Instructions, counted by the emulator: whose they are, and how many a restart takes.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{STATE_RUNNING, STATE_STOPPED};
use bulkhead_run::CountingOptions;
use bulkhead_system_tests::remote;
use bulkhead_system_tests::{Remote, Running, System};

const RESTARTS: u32 = 5;

/// Monitor instructions on a core since its guest's first instruction.
fn stolen(running: &Running, core: usize) -> u64 {
    let counts = running.counts().unwrap_or_else(|error| panic!("{error}"));
    assert!(counts.ram_found && counts.cores[core].entered, "the plugin sees core {core} run its guest");
    counts.cores[core].range("monitor").expect("the range is counted").since
}

/// QV-5, QV-74, SG-11: while another core's partition is restarted five times, the controller's core executes not one
/// instruction of the monitor.
#[test]
fn a_restart_steals_no_instruction_of_another_core() {
    let system = System::with_programs("restart", &[], &[("remote", &remote::program())]);
    let plan = system.plan();
    let mut running = system.start_with(|options| options.counting = Some(CountingOptions::for_monitor(&plan)));
    let mut guest = Remote::new(&mut running, "remote");
    running.line("control", "period 10 ");
    let (before, restarter_before) = (stolen(&running, 0), stolen(&running, 1));
    assert_eq!(before, 0, "instructions at EL2 on the controller's core from its first one to period 10");
    for restart in 1..=RESTARTS {
        assert!(guest.answers(&mut running));
        guest.load_and_fault(&running, 0);
        running.wait_for_status("remote", "restart", |status| {
            status.state == STATE_RUNNING && status.generation == restart + 1
        });
        guest.forget();
    }
    running.line("control", "period ");
    assert_eq!(stolen(&running, 0), before, "instructions at EL2 on the controller's core during the restarts");
    let restarter = stolen(&running, 1) - restarter_before;
    assert!(restarter > u64::from(RESTARTS) * 1_000_000, "{restarter} instructions to scrub 64 MiB {RESTARTS} times");
    assert_eq!(running.counter("remote", Counter::Restart), u64::from(RESTARTS));
    assert_eq!(running.status("control").faults, 0);
    running.assert_no_crash();
}

/// The ceiling: a restart of the 256 MiB Linux partition, fault to kernel entry, checksums included, takes at
/// most 0.2 instructions per byte of its RAM. The watchdog is what faults it.
#[test]
fn restarting_linux_costs_a_fifth_of_an_instruction_per_byte() {
    let policy = "criticality = \"low\"\nwatchdog = \"100 ms\"\n\
                  health = { on_fault = \"restart\", max = 1, within = \"600 s\" }";
    let system = System::example("linux", &[("criticality = \"low\"", policy)]);
    // One instruction takes 16 ns, which is one tick.
    let mut running = system.start_exact(4);
    let status = running.wait_for_state("linux", STATE_STOPPED);
    assert_eq!((status.generation, status.faults), (2, 2));
    let bytes = system.model.partitions[0].memory_bytes;
    assert_eq!(bytes, 256 << 20);
    println!("restart of {bytes} bytes: {} instructions", status.restart_ticks);
    assert!(status.restart_ticks * 5 <= bytes, "{} instructions for {bytes} bytes", status.restart_ticks);
    // Nobody scrubs 256 MiB in less than an instruction per kilobyte: the count is of the whole restart.
    assert!(status.restart_ticks > bytes / 1024);
    running.assert_no_crash();
}
