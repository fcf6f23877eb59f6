//! Runs on one core with instruction counting repeat byte by byte (issue 2, "Done when").

use bulkhead_abi::PhysicalAddress;
use bulkhead_run::{End, trace::Trace};
use bulkhead_system_tests::System;

/// Trace ring and console rings at the end of a run, with the number of trace records in it.
fn rings(system: &System) -> (usize, Vec<Vec<u8>>) {
    let mut running = system.start_exact(0);
    assert_eq!(running.end(), End::AllEnded);
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
        let mut copy = vec![0; bytes as usize];
        assert!(running.ram().copy_at(address, &mut copy), "the area at {address} is in RAM");
        copy
    };
    let copies = areas.into_iter().filter(|(address, _)| address.0 != 0).map(read).collect();
    (Trace::read(running.watch()).records.len(), copies)
}

fn repeats(system: &System, fewest_records: usize) {
    let ((records, first), (_, second)) = (rings(system), rings(system));
    assert!(records >= fewest_records, "{records} trace records");
    assert!(first.iter().any(|ring| ring.iter().any(|byte| *byte != 0)));
    assert!(first == second, "two runs left different traces, counters or console rings");
}

const TRACE: &str = "memory = \"256 MiB\"\n[trace]\nenabled = true\nrecords = 4096\n";

/// QV-5: a traced run of a native guest in `mapped` mode, every exit with its time.
#[test]
fn a_native_guest_leaves_the_same_trace_twice() {
    repeats(&System::changed("victim", &[("memory = \"256 MiB\"\n", TRACE)]), 300);
}

/// The same of stock FreeRTOS and its emulated UART.
#[test]
fn freertos_leaves_the_same_trace_twice() {
    repeats(&System::example("freertos", &[("memory = \"256 MiB\"\n", TRACE)]), 1000);
}

/// The same of stock Linux: thousands of exits at the same instructions.
#[test]
fn linux_leaves_the_same_trace_twice() {
    let trace = TRACE.replace("256", "512");
    repeats(&System::example("linux", &[("memory = \"512 MiB\"\n", &trace)]), 500);
}
