//! Stock Debian Linux with one and with two CPUs.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::STATE_OFF;
use bulkhead_run::{End, Phase};
use bulkhead_system_tests::{Running, System};

/// Says hello, with the versions, and ends.
fn run(system: &System, cpus: usize) -> Running {
    let mut running = system.start();
    let hello = running.line("linux", "says hello");
    println!("kernel and CPUs as the guest sees them: {hello}");
    assert!(hello.ends_with(&format!("with {cpus} CPUs says hello")), "{hello}");
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    let status = running.status("linux");
    assert_eq!((status.state, status.generation, status.faults), (STATE_OFF, 1, 0));
    for (counter, name) in bulkhead_abi::observe::COUNTER_NAMES {
        println!("{name}: {}", running.counter("linux", *counter));
    }
    running
}

/// Linux programs its interrupt controller as if it owned it; what it does not own is ignored, a bounded number of times.
fn assert_controller_traffic_is_bounded(running: &Running) {
    // GICD_TYPER reports the SPIs up to the highest owned one, so that Linux has little to initialise.
    assert!(running.counter("linux", Counter::GicIgnored) <= 64, "writes ignored");
    assert!(running.counter("linux", Counter::Distributor) <= 200, "accesses to the distributor");
    assert_eq!(running.counter("linux", Counter::SgiOutside), 0, "Linux sends SGIs to its own CPUs only");
    assert_eq!(running.counter("linux", Counter::UndefinedInjected), 0, "no instruction of Linux is unknown");
}

/// QV-1, MZ-1: an unmodified kernel with its own drivers on one vCPU.
#[test]
fn one_cpu_boots_and_switches_itself_off() {
    let running = run(&System::example("linux", &[]), 1);
    assert_controller_traffic_is_bounded(&running);
    assert_eq!(running.counter("linux", Counter::SendSgi), 0, "one CPU has nobody to interrupt");
}

/// QV-1, QV-8: PSCI CPU_ON and SGIs between the two vCPUs of one partition.
#[test]
fn two_cpus_run_programs() {
    let running = run(&System::example("linux-smp", &[]), 2);
    assert!(running.texts("linux").contains(&"linux: smp: 2 CPUs work".to_owned()));
    assert_controller_traffic_is_bounded(&running);
    assert!(running.counter("linux", Counter::SendSgi) > 0, "two CPUs interrupt each other");
    assert_eq!((running.watch().phase(0), running.watch().phase(1)), (Phase::GuestEntered, Phase::GuestEntered));
    for core in 0..2 {
        assert!(running.watch().counter(core, Counter::Interrupt) > 100, "core {core} has a timer of its own");
    }
}
