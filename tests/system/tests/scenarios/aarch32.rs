//! AArch32 programs at EL0 of a guest: what is done at EL2 for one of their instructions leaves them where it would.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::STATE_OFF;

use bulkhead_system_tests::System;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::{GUEST_LOAD, GUEST_RAM};
use bulkhead_system_tests::sharing::{BY_PRIORITY, Description};

const DUMP: u64 = GUEST_RAM + 0x20_0000;
const SYSTEM_OFF: u64 = 0x8400_0008;
const DISTRIBUTOR: u64 = 0x0800_0000;
/// Where the Thumb program and the vectors are in the image.
const THUMB: u64 = 0x400;
const VECTORS: u64 = 0x800;
/// Of a User-mode Thumb state with interrupts masked.
const USER_THUMB: u64 = 0x1f0;
/// SCTLR_EL1: its reset value with nTWI, so that WFI of EL0 is not the guest kernel's.
const CONTROL: u64 = 0x30d0_0800 | 1 << 16;
/// GICD_TYPER is at offset 4; `r3` collects the instructions behind the emulated ones.
const PROGRAM: [u16; 22] = [
    0x6841, // ldr r1, [r0, #4]: two bytes, emulated
    0x2201, // movs r2, #1
    0x2307, // movs r3, #7
    0x42a4, // cmp r4, r4
    0xbf06, // itte eq
    0x6845, // ldreq r5, [r0, #4]: emulated
    0x3601, // addeq r6, #1
    0x3701, // addne r7, #1
    0x3310, // adds r3, #0x10
    0x42a4, // cmp r4, r4
    0xbf08, // it eq: of one, since QEMU 7.2 shows a trapped WFI with the ITSTATE that comes after it
    0xbf30, // wfieq: two bytes, trapped on a shared core
    0x3601, // adds r6, #1
    0x3320, // adds r3, #0x20
    0xf3af, 0x8003, // wfi.w
    0x3340, // adds r3, #0x40
    0xee10, 0x1e10, // mrc p14, 0, r1, c0, c0, 0: not for guests
    0x3380, // adds r3, #0x80
    0xdf00, // svc #0
    0xdf00, // svc #0
];
const MRC_PLACE: u64 = 2 * 17;

fn pad(program: &mut Program, to: u64) {
    while program.offset() < to {
        program.word(0xd503_201f); // NOP
    }
}

/// Enters the Thumb program and stores its registers, and what it was told about its one undefined instruction.
fn program(waits: bool) -> Program {
    let mut program = Program::new();
    program.constant(1, CONTROL).word(0xd518_1001); // MSR SCTLR_EL1, x1
    program.constant(1, GUEST_LOAD + VECTORS).word(0xd518_c001); // MSR VBAR_EL1, x1
    program.constant(1, USER_THUMB).word(0xd518_4001); // MSR SPSR_EL1, x1
    program.constant(1, GUEST_LOAD + THUMB).word(0xd518_4021); // MSR ELR_EL1, x1
    // The virtual timer has long expired: no WFI sleeps.
    program.constant(1, 0).word(0xd51b_e341).constant(1, 1).word(0xd51b_e321); // MSR CNTV_CVAL_EL0, CNTV_CTL_EL0
    program.constant(0, DISTRIBUTOR);
    for register in 1..8 {
        program.constant(register, 0);
    }
    program.word(0xd503_3fdf).word(0xd69f_03e0); // ISB; ERET
    pad(&mut program, THUMB);
    // On a core of its own a WFI does not trap, and here nothing would end it: NOPs of the same lengths.
    let instruction = |half: u16| match half {
        0xbf30 if !waits => 0xbf00,
        0x8003 if !waits => 0x8000,
        half => u32::from(half),
    };
    for pair in PROGRAM.chunks_exact(2) {
        program.word(instruction(pair[0]) | instruction(pair[1]) << 16);
    }
    pad(&mut program, VECTORS + 0x600); // synchronous exceptions of AArch32 programs
    program.constant(20, DUMP).word(0xd538_520a); // MRS x10, ESR_EL1
    program.word(0xd35a_fd4b).subtract(11, 11, 0x11); // LSR x11, x10, #26
    let undefined = program.skip_not_zero(11);
    for register in 0..8 {
        program.store(register, 20, 8 * register);
    }
    program.constant(0, SYSTEM_OFF).call().stay();
    program.land(undefined).store(10, 20, 0x80);
    program.word(0xd538_402c).store(12, 20, 0x88); // MRS x12, ELR_EL1
    program.word(0xd538_400b).store(11, 20, 0x90); // MRS x11, SPSR_EL1
    program.add(12, 12, 4).word(0xd518_402c).word(0xd69f_03e0); // MSR ELR_EL1, x12; ERET
    program
}

fn assert_thumb_goes_on(system: &System, waits: u64) {
    let mut running = system.start();
    running.wait_for_state("thumb", STATE_OFF);
    running.assert_no_crash();
    let words: Vec<u64> = (0..8).map(|register| running.guest_word("thumb", DUMP + 8 * register)).collect();
    println!("r0 to r7: {words:x?}");
    assert_ne!(words[1], 0, "GICD_TYPER");
    assert_eq!(words[2], 1, "the instruction behind an emulated one of two bytes");
    assert_eq!(words[5], words[1], "the first of the block, emulated");
    assert_eq!((words[6], words[7]), (2, 0), "the rest of both blocks");
    assert_eq!(words[3], 0xf7, "what is behind each of them");
    let told = [0x80, 0x88, 0x90].map(|offset| running.guest_word("thumb", DUMP + offset));
    assert_eq!(told[0], 1 << 25, "class 0, for which IL is always set");
    assert_eq!(told[1], GUEST_LOAD + THUMB + MRC_PLACE);
    assert_eq!(told[2] & 0x0600_fdff, USER_THUMB, "User mode, Thumb, no block");
    assert_eq!(running.counter("thumb", Counter::WaitForInterrupt), waits);
    assert_eq!(running.counter("thumb", Counter::UndefinedInjected), 1);
}

/// QV-13: on a core of its own: emulated accesses.
#[test]
fn thumb_goes_on_behind_an_emulated_access() {
    let description = Description::new("aarch32").program("thumb", 0, "thumb", "");
    assert_thumb_goes_on(&description.build_with(&[("thumb", &program(false))]), 0);
}

/// QV-13, SP-16: on a shared core, where WFI traps too.
#[test]
fn thumb_goes_on_behind_a_wait() {
    let mut other = Program::new();
    other.constant(0, SYSTEM_OFF).call().stay();
    let description = Description::unjudged("aarch32").schedule(0, BY_PRIORITY);
    let description = description.program("thumb", 0, "thumb", "servers = [ { priority = 1 } ]");
    let description = description.program("other", 0, "other", "servers = [ { priority = 2 } ]");
    assert_thumb_goes_on(&description.build_with(&[("thumb", &program(true)), ("other", &other)]), 2);
}
