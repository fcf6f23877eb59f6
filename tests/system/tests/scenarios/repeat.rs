//! Runs on one core with instruction counting repeat byte by byte.
//!
//! Of a guest that sleeps this is so only because the harness closes a gap of QEMU 7.2, in which the interrupt that ends a sleep
//! comes late by what the core executed since its clock was last read (`tests/plugin/sleep.c`). The scenario `sleep` shows
//! that, without a monitor.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::hypercall::CALL_HEARTBEAT;
use bulkhead_abi::observe::{TRACE_STATE, TraceRecord};
use bulkhead_abi::status::STATE_OFF;
use bulkhead_run::trace::Trace;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::{LIMIT, System};
use std::time::Instant;

/// What is compared.
const AREAS: [&str; 4] = ["trace ring", "counters", "console ring of the virtual UART", "guest's own console ring"];
const TRACE: &str = "memory = \"256 MiB\"\n[trace]\nenabled = true\nrecords = 4096\n";

/// What a run left behind.
#[derive(PartialEq, Eq)]
struct Left {
    records: Vec<String>,
    areas: Vec<Vec<u8>>,
}

/// Runs a system until its one guest is off and the last record is written.
fn run(system: &System, shift: u8) -> Left {
    let mut running = system.start_exact(shift);
    running.end();
    // The record of the end follows the state that the end was seen by.
    let deadline = Instant::now() + LIMIT;
    let is_last = |record: &TraceRecord| record.kind == TRACE_STATE && record.small == STATE_OFF;
    let mut trace = Trace::read(running.watch());
    while !trace.records.last().is_some_and(is_last) {
        assert!(Instant::now() < deadline, "the end was never recorded");
        trace = Trace::read(running.watch());
    }
    let records = trace.text(running.watch());
    running.assert_no_crash();
    let header = &running.watch().plan().header;
    let (core, partition) = (&header.cores[0], &header.partitions[0]);
    let areas = [
        (core.trace, core.trace_bytes),
        (core.counters, 4096),
        (partition.vcpu_console[0], partition.console_bytes),
        (partition.guest_console, partition.console_bytes),
    ];
    let read = |(address, bytes): (PhysicalAddress, u64)| {
        if address.0 == 0 { Vec::new() } else { running.copy(address, bytes) }
    };
    Left { areas: areas.into_iter().map(read).collect(), records: records.lines().map(str::to_owned).collect() }
}

/// Says where two runs part: the records around the first that differs, then the first byte.
fn assert_same(first: &Left, second: &Left) {
    let pairs = first.records.iter().zip(&second.records);
    if let Some(parts) = pairs.clone().position(|(first, second)| first != second) {
        let around = parts.saturating_sub(3)..pairs.len().min(parts + 4);
        assert_eq!(first.records[around.clone()], second.records[around]);
    }
    for (name, (first, second)) in AREAS.iter().zip(first.areas.iter().zip(&second.areas)) {
        let differs = first.iter().zip(second).position(|(first, second)| first != second);
        assert_eq!(differs, None, "offset in the {name}");
    }
}

/// Runs a system several times; every run is the first one again.
fn repeats(system: &System, shift: u8, runs: usize, fewest_records: usize) {
    let first = run(system, shift);
    assert!(first.records.len() >= fewest_records, "{} trace records", first.records.len());
    for _ in 1..runs {
        assert_same(&first, &run(system, shift));
    }
}

/// QV-5: a traced run with a watchdog, so that the monitor's own interrupts are in it, of a guest that never sleeps:
/// every exit comes at the same instruction.
#[test]
fn a_busy_guest_leaves_the_same_trace_each_time() {
    // 500 heartbeats, 62,500 ticks apart.
    let mut program = Program::new();
    program.constant(19, 500).constant(20, 62_500).counter(21);
    let beat = program.here();
    program.word(0x8b14_02b5); // ADD x21, x21, x20
    let wait = program.here();
    program.counter(22).compare(22, 21).branch_below(wait);
    program.constant(0, CALL_HEARTBEAT).call().subtract(19, 19, 1).branch_not_zero(19, beat);
    program.constant(0, 0x8400_0008).call().stay();
    let changes = [("memory = \"256 MiB\"\n", TRACE), ("\"100 ms\"", "\"3 ms\"")];
    let system = System::with_programs("watchdog", &changes, &[("guest", &program)]);
    repeats(&system, 4, 5, 601);
}

/// QV-5: a native guest with its timer and its software-generated interrupts.
#[test]
fn a_native_guest_leaves_the_same_trace_each_time() {
    repeats(&System::changed("victim", &[("memory = \"256 MiB\"\n", TRACE)]), 0, 5, 300);
}

/// The same of stock FreeRTOS and its emulated UART.
#[test]
fn freertos_leaves_the_same_trace_each_time() {
    repeats(&System::example("freertos", &[("memory = \"256 MiB\"\n", TRACE)]), 0, 5, 1000);
}

/// The same of stock Linux: thousands of exits at the same instructions.
#[test]
fn linux_leaves_the_same_trace_each_time() {
    let trace = TRACE.replace("256", "512");
    repeats(&System::example("linux", &[("memory = \"512 MiB\"\n", &trace)]), 0, 3, 500);
}
