//! The short form of every experiment of the real-time kernel holds; `./x bench kernel.NAME` runs one in full.

use bulkhead_bench::experiments::{self, ITERATIONS, Length};

fn assert_holds(name: &str) {
    let experiment = experiments::named(name).unwrap_or_else(|| panic!("{name} is an experiment"));
    let done = experiments::run(experiment, Length::Short).unwrap_or_else(|failure| panic!("{}", failure.message));
    println!("{}", done.text(false));
    let findings = done.findings.as_ref().unwrap_or_else(|failure| panic!("{}", failure.message));
    assert_eq!(findings.misses(), 0, "{}", done.text(false));
}

/// QV-21, QV-22, QV-39, CH-61, CH-63: whatever is beside it, a control loop loses no period and answers within what `check` promised.
#[test]
fn isolation() {
    assert_holds("kernel.isolation");
}

/// QV-E7, QV-35, CH-64: as many interrupts in a partition as on the board, each by the same path, and no exit.
#[test]
fn interrupts() {
    assert_holds("kernel.interrupts");
}

/// QV-E6, QV-5: forks take as many instructions in a partition as on the board, and no exit.
#[test]
fn fork() {
    assert_holds("kernel.fork");
}

/// QV-E1, QV-5: claims A and B: a second stage adds no instruction and no exit, and an exit adds the same to each round.
#[test]
fn stage2() {
    assert_holds("kernel.stage2");
}

/// CH-E4, CH-E5: each operation takes the same in every run, on the board and in a partition.
#[test]
fn micro() {
    assert_holds("kernel.micro");
}

/// QV-E10, QV-20, QV-22, QV-32: figure 4 comes out on the servers of an instance.
#[test]
fn figure_4() {
    assert_holds("kernel.figure-4");
}

/// CH-E2, CH-E7: without limits a flood costs more with each core; with limits it has a bound, and the job ends in all of them.
#[test]
fn flood() {
    assert_holds("kernel.flood");
}

/// CH-E1: a call of the kernel takes the same beside each number of cores; one of a model with a lock grows.
#[test]
fn lock() {
    assert_holds("kernel.lock");
}

/// CH-E9 in part, CH-38: a poll takes the same however often it is made, so the job is slowed down by a poll in each period. A tenth of a percent at 1 ms is missed.
#[test]
fn poll() {
    assert_holds("kernel.poll");
}

/// CH-E6 in part: a round trip between subsystems and the end of a sleep take the same each time, at each depth of schedulers.
#[test]
fn depth() {
    assert_holds("kernel.depth");
}

/// CH-E8 in part, CH-31, CH-38: messages that a limiter holds back are found as late as the model says, within one way of a signal. From another core as many
/// doorbells pass in each window as the monitor's limit says, and no message and no signal is lost.
#[test]
fn latency() {
    assert_holds("kernel.latency");
}

/// QV-E9 in part, QV-21, QV-24, QV-53: on one core messages take what follows from four of them, and are there when a simulation says; between two instances on two cores each word
/// arrives, in order and once, and nothing is timed.
#[test]
fn messages() {
    assert_holds("kernel.messages");
}

/// CH-22, CH-52: a server works for a less important client at its level, and within its envelope.
#[test]
fn delegation() {
    assert_holds("kernel.delegation");
}

/// What the issue and the seeds ask of full forms; the short ones are bounded, so that all tests stay below their limit of time.
#[test]
fn full_forms_repeat_as_often_as_the_seeds_did() {
    let full = |name: &str| ITERATIONS.iter().find(|row| row.experiment == name).map(|row| row.full);
    let asked = [
        ("kernel.interrupts", 30_000),
        ("kernel.fork", 40_000),
        ("kernel.micro", 1_000_000),
        ("kernel.messages", 5_000),
    ];
    assert_eq!(asked.map(|(name, _)| full(name)), asked.map(|(_, count)| Some(count)));
    assert!(ITERATIONS.iter().all(|row| row.short <= 200), "{ITERATIONS:?}");
}

/// No experiment of the kernel is left out above.
#[test]
fn every_experiment_has_a_test() {
    let source = include_str!("kernel_experiments.rs");
    for row in ITERATIONS {
        assert!(source.contains(&format!("assert_holds(\"{}\")", row.experiment)), "{}", row.experiment);
    }
}
