//! The longest passage of the kernel without a look for interrupts while it is attacked: row 13's instrument, the emulator plugin that counts the monitor's.

use super::instance::image;
use super::suite;
use crate::refused::head;
use bulkhead_abi::PhysicalAddress;
use bulkhead_description::kernel::PASSAGE;
use bulkhead_kernel_abi::image::LOAD;
use bulkhead_run::{CountingOptions, MachineOptions, Passages};
use bulkhead_system_tests::Running;
use bulkhead_system_tests::kernel::plain;
use bulkhead_system_tests::largest::images;

/// Row 13: what is promised (`kernel.md`, number 13). Bounds of servers count more.
pub(super) const PROMISED: u64 = 2_500;
/// What was recorded, with the kernel of today, which counts each call: 1,540.
const LONGEST: u64 = 1_600;
/// The same of calls that largest counts are of: 2,320, a `print` of many lines on a UART.
const LONGEST_CALL: u64 = 2_400;

/// Runs an instance on the board and counts passages: from an entry, or the last look for interrupts, to a return, a wait, or the next look.
/// Returns what was printed as well.
pub(super) fn passages(image: &[u8]) -> (Passages, Vec<String>) {
    let mut options = MachineOptions::bare(image.to_vec());
    options.icount_shift = Some(4);
    let place = |offset: usize| PhysicalAddress(LOAD + offset as u64);
    options.counting = Some(CountingOptions {
        ranges: vec![("kernel".to_owned(), place(0)..place(head(image)))],
        after: vec![place(head(image))..place(image.len())],
        ..CountingOptions::default()
    });
    let mut machine = Running::start(options);
    machine.end();
    let counts = machine.counts().unwrap_or_else(|error| panic!("{error}"));
    assert!(counts.ram_found);
    (counts.cores[0].passages, plain(machine.serial_text()))
}

#[test]
fn no_attack_makes_the_kernel_look_away_for_longer() {
    let runs = [
        ("the suite", "kernel/hostile.elf", suite::NUMBERS),
        ("200,000 random calls", "kernel/hostile.elf", 220..=221),
    ];
    for (what, program, numbers) in runs {
        let (found, _) = passages(&image(program, numbers));
        println!("{what}: longest passage of {}: {}, from {}", found.count, found.longest, found.longest_start);
        assert!(found.longest <= LONGEST && PROMISED <= PASSAGE, "{what}: {found:?}");
    }
}

/// No call that a largest count is of is a longer passage: what an entry charges and the choice behind a call are passages of their own, and the longest calls look between their parts.
#[test]
fn no_call_makes_the_kernel_look_away_for_longer() {
    for (what, image) in ["calls", "a scheduler's", "about processes"].into_iter().zip(images()) {
        let (found, _) = passages(&image);
        println!("{what}: longest passage of {}: {}, from {}", found.count, found.longest, found.longest_start);
        assert!(found.longest <= LONGEST_CALL && LONGEST_CALL <= PROMISED, "{what}: {found:?}");
    }
}
