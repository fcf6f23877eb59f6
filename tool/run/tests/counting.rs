//! The instruction-counting plugin against programs whose instructions can be counted by hand (SG-11, MR-2, PF-12).

mod common;

use bulkhead_abi::PhysicalAddress;
use bulkhead_run::{CountingOptions, Counts, Machine, MachineOptions, Passages};
use common::*;
use std::ops::Range;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(600);
const DONE: u64 = RAM_START.0 + (48 << 20);
/// Page of the image where the program jumps to: stands for a guest.
const GUEST: u64 = IMAGE_START + 0x1000;
/// Another one.
const OTHER: u64 = IMAGE_START + 0x2800;
/// Where a guest's handler would begin.
const HANDLER: u64 = OTHER + 0x100;
/// A loop that belongs to passages and not to switches.
const APART: u64 = IMAGE_START + 0x800;
/// Two instructions up to which a passage is counted, and one of another passage.
const MILESTONE: u64 = APART + 12;
const SECOND: u64 = IMAGE_START + 0xa00;

fn addresses(range: Range<u64>) -> Range<PhysicalAddress> {
    PhysicalAddress(range.start)..PhysicalAddress(range.end)
}

/// Runs a program until it has stored a word at `DONE`, and returns the counts.
fn run(program: &[u32], exact: bool, icount: bool) -> Counts {
    let mut options = MachineOptions::for_image(image(&two_partitions(), program)).expect("a valid image");
    options.icount_shift = icount.then_some(0);
    options.counting = Some(CountingOptions {
        ranges: vec![
            ("monitor".to_owned(), addresses(IMAGE_START..IMAGE_START + 0x1000)),
            ("guest".to_owned(), addresses(GUEST..GUEST + 0x1000)),
        ],
        after: vec![addresses(GUEST..GUEST + 0x1000), addresses(OTHER..OTHER + 0x400)],
        apart: vec![addresses(APART..APART + 12)],
        handlers: vec![PhysicalAddress(HANDLER)],
        milestones: vec![addresses(MILESTONE..MILESTONE + 8), addresses(SECOND..SECOND + 4)],
        exact,
    });
    let mut machine = Machine::start(options).expect("QEMU starts with the plugin");
    machine
        .wait_for("the end", LIMIT, |view| (view.ram.load_u64(PhysicalAddress(DONE))? != 0).then_some(()))
        .expect("ends");
    machine.quit();
    machine.counts().expect("the plugin has counted")
}

/// `movz x2, #count; subs x2, x2, #1; b.ne -4`: 1 + 2 * count instructions.
fn repeat(count: u32) -> [u32; 3] {
    [0xd280_0002 | (count << 5), 0xf100_0442, 0x54ff_ffe1]
}

/// Places pieces of code in the text pages at these offsets from the image's start; the first is the entry at 64.
fn placed(pieces: &[(u64, Vec<u32>)]) -> Vec<u32> {
    let mut program = Vec::new();
    for (offset, piece) in pieces {
        let index = ((offset - 64) / 4) as usize;
        program.resize(index.max(program.len()), 0);
        program.splice(index.., piece.iter().copied());
    }
    program
}

fn branch(from: u64, to: u64) -> u32 {
    0x1400_0000 | (((to.wrapping_sub(from) / 4) & 0x03ff_ffff) as u32)
}

/// A monitor that loops 1,000 times, a guest that loops 500 times and reports, then back in the monitor a loop of 20.
fn monitor_and_guest() -> Vec<u32> {
    let mut monitor = repeat(1000).to_vec();
    monitor.push(branch(64 + 12, 0x1000));
    let mut guest = repeat(500).to_vec();
    guest.push(branch(0x1000 + 12, 0x800));
    let mut back = repeat(20).to_vec();
    back.extend(stores(&[(DONE, 1)]));
    back.extend(WAIT_FOR_EVER);
    placed(&[(64, monitor), (0x800, back), (0x1000, guest)])
}

#[test]
fn counts_in_ranges_are_exact_and_split_at_the_first_guest_instruction() {
    let counts = run(&monitor_and_guest(), false, true);
    assert!(counts.ram_found, "the plugin knows where RAM is");
    let core = &counts.cores[0];
    let monitor = core.range("monitor").expect("named");
    // The branch at byte 0, the loop and the branch to the guest; then the second loop, 9 instructions of the store, WFI.
    let before = 1 + (1 + 2 * 1000) + 1;
    let after = (1 + 2 * 20) + 9 + 1;
    assert_eq!((monitor.total, monitor.since), (before + after, after));
    let guest = core.range("guest").expect("named");
    assert_eq!((guest.total, guest.since), (1 + 2 * 500 + 1, 1 + 2 * 500 + 1));
    assert!(core.entered);
    assert_eq!(core.all_since, after + guest.total);
    assert!(!counts.cores[1].entered, "the other cores wait for PSCI");
    assert_eq!(counts.cores[1].all, 0);
    assert_eq!(run(&monitor_and_guest(), false, true), counts, "a second run gives the same counts");
}

/// Passages end where interrupts are looked for, start-up does not count, and what is apart is in no switch (QV-6, SG-48).
#[test]
fn passages_are_as_long_as_their_instructions() {
    const READ_CLOCK: u32 = 0xd53b_e021; // mrs x1, cntpct_el0
    const ACKNOWLEDGE: u32 = 0xd538_cc01; // mrs x1, icc_iar1_el1
    const READ_ISR: u32 = 0xd538_c101; // mrs x1, isr_el1
    let mut monitor = repeat(1000).to_vec();
    monitor.push(branch(64 + 12, 0x1000));
    let guest = vec![branch(0x1000, 0x800)];
    // A switch, since it acknowledges an interrupt: 61 instructions apart, then 2 up to the clock, 42 up to the clock again, 40.
    let mut switch = repeat(30).to_vec();
    switch.extend([ACKNOWLEDGE, READ_CLOCK]);
    switch.extend(repeat(20));
    switch.push(READ_CLOCK);
    switch.extend(repeat(19));
    switch.push(branch(0x800 + 48, 0x2800));
    let other = vec![branch(0x2800, 0x900)];
    // 201 + 1 up to the look for interrupts, then 121 + 8 up to the ERET into the same guest.
    let mut longest = repeat(100).to_vec();
    longest.push(READ_ISR);
    longest.extend(repeat(60));
    longest.extend(&stores(&[(OTHER + 0x100, 0)])[..4]);
    longest.extend([0xd51c_4020, 0xd280_7920, 0xd51c_4000, 0xd69f_03e0]); // msr elr_el2, x0; spsr_el2 = EL2h, masked; eret
    let again = vec![branch(0x2900, 0xa00)];
    // Taken again at once: 1 + 41 + 6 up to an ERET that no guest's instruction follows.
    let mut chained = vec![ACKNOWLEDGE];
    chained.extend(&repeat(20));
    chained.extend(&stores(&[(IMAGE_START + 0xb00, 0)])[..4]);
    chained.extend([0xd51c_4020, 0xd69f_03e0]); // msr elr_el2, x0; eret
    let mut end = stores(&[(DONE, 1)]);
    end.extend(WAIT_FOR_EVER);
    let pieces = [
        (64, monitor),
        (0x800, switch),
        (0x900, longest),
        (0xa00, chained),
        (0xb00, end),
        (0x1000, guest),
        (0x2800, other),
        (0x2900, again),
    ];
    let counts = run(&placed(&pieces), false, true);
    let passages = counts.cores[0].passages;
    assert_eq!((passages.longest, passages.longest_start), (202, PhysicalAddress(IMAGE_START + 0x900)));
    assert_eq!(passages.longest_apart, 61);
    assert_eq!((passages.switches, passages.longest_switch), (1, 84));
    assert_eq!((passages.enter, passages.leave), ((2, 2), (82, 82)));
    // The last one is that of the store and the WFI.
    assert_eq!((passages.count, passages.shortest_chained), (5, 48));
    assert_eq!(passages.longest_after, 40);
    // What came before the look is its wait, too: an interrupt that arrived since then was not seen before.
    assert_eq!((passages.reactions, passages.longest_reaction), (1, 202 + 129));
    // Up to the second one of two, and up to the first one of another passage, which begins with it.
    assert_eq!((passages.milestones, passages.milestone_sum), (2, 63 + 1));
    assert_eq!(counts.cores[1].passages, Passages::default());
}

#[test]
fn counts_do_not_depend_on_the_clock_or_on_exactness_without_faults() {
    let with_icount = run(&monitor_and_guest(), false, true);
    assert_eq!(run(&monitor_and_guest(), false, false), with_icount);
    assert_eq!(run(&monitor_and_guest(), true, true), with_icount);
}

/// A device access in the middle of a block makes QEMU begin the instruction again under `-icount`; it counts once.
#[test]
fn device_accesses_and_faults_inside_a_block_count_once() {
    let mut monitor = stores(&[(0x0900_0018, 0)]); // a PL011 register: 9 instructions, the last one an MMIO store
    monitor.extend(repeat(10));
    monitor.extend(stores(&[(0x0900_0018, 0), (DONE, 1)]));
    monitor.extend(WAIT_FOR_EVER);
    let expected = 1 + 9 + 21 + 18 + 1;
    for exact in [false, true] {
        let counts = run(&placed(&[(64, monitor.clone())]), exact, true);
        assert_eq!(counts.cores[0].range("monitor").expect("named").total, expected, "exact: {exact}");
    }
}

/// A fault in the middle of a block that is counted as a whole: `exact` knows what ran, the default gives a ceiling.
#[test]
fn a_fault_inside_a_block_shows_the_difference_of_exact_counting() {
    // Vectors at 0x2000 (outside both ranges): the current-EL synchronous one, at + 0x200, reports and waits.
    let mut handler = stores(&[(DONE, 1)]);
    handler.extend(WAIT_FOR_EVER);
    let mut code = stores(&[])[..].to_vec();
    let vector_base = &stores(&[(IMAGE_START + 0x2000, 0)])[..4]; // x0 = vectors
    code.extend(vector_base);
    code.extend([0xd51c_c000, 0xd503_3fdf]); // msr vbar_el2, x0; isb
    code.push(branch(64 + 24, 0x3000));
    // Outside the ranges: a load from nowhere, followed by seven instructions that never run.
    let mut outside = stores(&[(0x7_0000_0000, 0)])[..4].to_vec();
    outside.push(0xf940_0001); // ldr x1, [x0]
    outside.extend([0xd503_201f; 7]);
    let program = placed(&[(64, code), (0x2200, handler), (0x3000, outside)]);
    let exact = run(&program, true, true).cores[0].all;
    let ceiling = run(&program, false, true).cores[0].all;
    // The boot loader of QEMU runs before the image; the same in both runs.
    assert_eq!(ceiling - exact, 7 + 1, "seven no-operations and the one after them, up to the end of the block");
}
