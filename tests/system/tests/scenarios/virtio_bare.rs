//! A back end without an operating system.

use bulkhead_abi::status::STATE_OFF;
use bulkhead_system_tests::System;

/// A partition without an operating system serves a disk in its memory: Debian makes a file system there, takes it away, and reads a file again from it.
#[test]
fn a_bare_partition_serves_a_disk_to_linux() {
    let mut running = System::example("ramdisk", &[]).start();
    running.line("store", "ramdisk: serves scratch, 32768 sectors");
    running.line("office", "/disk/busybox");
    running.wait_for_state("office", STATE_OFF);
    running.assert_no_crash();
    let texts = running.texts("office");
    let sums: Vec<_> =
        texts.iter().filter_map(|line| line.split_once("  ")).filter(|(sum, _)| sum.len() == 64).collect();
    assert!(matches!(sums[..], [(first, "/bin/busybox"), (second, "/disk/busybox")] if first == second), "{texts:#?}");
    assert!(!texts.iter().any(|line| line.contains("FAILED")), "{texts:#?}");
    assert_eq!(running.texts("store").len(), 1, "no queue has stopped: {:#?}", running.texts("store"));
}
