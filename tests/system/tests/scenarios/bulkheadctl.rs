//! Channels and management from inside stock Linux: ivshmem functions with the kernel's own UIO driver, and `bulkheadctl`.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_MANAGED, STATE_OFF, STATE_RUNNING};
use bulkhead_system_tests::{Running, System};

/// Starts the system; Linux runs `commands` one after the other and switches itself off.
fn start(commands: &[&str]) -> Running {
    // The kernel's command line: commas stand for spaces.
    let commands = commands.join(";").replace(' ', ",");
    System::changed("bulkheadctl", &[("COMMANDS", &commands)]).start()
}

fn finish(running: &mut Running) -> Vec<String> {
    running.wait_for_state("linux", STATE_OFF);
    running.assert_no_crash();
    let texts = running.texts("linux");
    assert!(!texts.iter().any(|line| line.contains("FAILED")), "{texts:#?}");
    texts
}

fn has(texts: &[String], parts: &[&str]) -> bool {
    texts.iter().any(|line| parts.iter().all(|part| line.contains(part)))
}

/// QV-50, QV-51, QV-53, CH-31: list, wait, watch, read and write through the kernel's own drivers.
#[test]
fn linux_uses_channels() {
    let mut running = start(&[
        "bulkheadctl channel list",
        "bulkheadctl channel wait telemetry --timeout 500s && echo linux: the doorbell rang",
        "bulkheadctl channel watch telemetry --count 20 --timeout 500s >/tmp/values && echo linux: $(wc -l </tmp/values) values",
        "bulkheadctl channel read telemetry --format json",
        "bulkheadctl channel write orders --hex 0100000000000000",
        "bulkheadctl channel write orders --hex 0200000000000000",
        "bulkheadctl channel write orders --hex 0300000000000000",
        "bulkheadctl channel write telemetry x || echo linux: not a source with code $?",
    ]);
    let texts = finish(&mut running);
    assert!(has(&texts, &["telemetry", "destination", "sampling", "64", "yes"]));
    assert!(has(&texts, &["orders", "source", "queuing", "16", "8"]));
    assert!(has(&texts, &["linux: the doorbell rang"]));
    assert!(has(&texts, &["linux: 20 values"]));
    assert!(has(&texts, &["linux: not a source with code 2"]));
    assert_eq!(running.line("listener", "in order"), "listener received 3 in order");
    assert_eq!(running.counter("linux", Counter::DoorbellSent), 3);
    assert!(running.counter("linux", Counter::DoorbellReceived) > 0);
    assert_eq!(running.counter("control", Counter::Fault), 0);
}

/// SG-60, SG-61, SG-62: a manager in user space lists, suspends, resumes and restarts; `direct` guests are out of reach.
#[test]
fn linux_manages_partitions() {
    let mut running = start(&[
        "bulkheadctl partition list",
        "bulkheadctl partition suspend worker",
        "until bulkheadctl partition status worker | grep -q suspended; do :; done",
        "echo linux: worker stands",
        "bulkheadctl partition resume worker",
        "until bulkheadctl partition status worker | grep -q running; do :; done",
        "bulkheadctl partition restart worker",
        "until bulkheadctl partition status worker | grep -q 2.times; do :; done",
        "bulkheadctl partition status worker",
        "bulkheadctl partition suspend control || echo linux: refused with code $?",
        "bulkheadctl partition restart nobody || echo linux: unknown with code $?",
    ]);
    let texts = finish(&mut running);
    for name in ["control", "linux", "listener", "worker"] {
        assert!(has(&texts, &[name, "running", " 1 "]), "{name} is listed");
    }
    assert!(has(&texts, &["* linux"]), "its own partition is marked");
    assert!(has(&texts, &["linux: worker stands"]));
    assert!(has(&texts, &["started:", "2 times"]));
    assert!(has(&texts, &["reason:", "managed"]));
    assert!(has(&texts, &["linux: refused with code 7"]));
    assert!(has(&texts, &["linux: unknown with code 3"]));
    let worker = running.status("worker");
    assert_eq!((worker.state, worker.reason), (STATE_RUNNING, REASON_MANAGED));
    assert_eq!((worker.generation, worker.restarts, worker.faults), (2, 1, 0));
    assert_eq!(running.texts("worker").iter().filter(|line| *line == "control start").count(), 2);
    for name in ["control", "listener"] {
        assert_eq!((running.status(name).state, running.status(name).generation), (STATE_RUNNING, 1), "{name}");
    }
}
