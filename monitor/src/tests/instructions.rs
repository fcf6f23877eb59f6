//! Where a guest continues after an instruction that the monitor did for it, and what was not to be executed at all.

use super::shared::{Core, WFI, schedule, server};
use super::*;
use bulkhead_abi::observe::Counter;
use bulkhead_arch::fake::Event;

/// A load from the distributor's GICD_TYPER into r3.
const LOAD: u64 = 0x24 << 26 | 1 << 24 | 0b10 << 22 | 3 << 16 | 0b000101;
const THIRTY_TWO_BITS: u64 = 1 << 25;
/// User mode, Thumb, interrupts masked.
const THUMB: u64 = 0x1f0;
/// ITSTATE of a block of two whose condition is EQ: then EQ, else NE.
const THEN_ELSE: u64 = (0b0000_1100 >> 2) << 10;
const ELSE: u64 = (0b0001_1000 >> 2) << 10;
const ZERO_FLAG: u64 = 1 << 30;

fn emulating(state: u64) -> Vcpu<FakeMachine> {
    let mut plan = partition(1);
    plan.windows[0] =
        Window { guest: bulkhead_abi::GuestAddress(GICD), bytes: 0x1_0000, kind: WINDOW_GICD, ..Default::default() };
    plan.window_count = 1;
    let core = running(plan);
    core.machine.exit.set((4, GICD >> 12 << 4));
    core.machine.program_counter.set(0x4008_1000);
    core.machine.set_guest_state(state);
    core
}

fn place(core: &Vcpu<FakeMachine>) -> (u64, u64) {
    (core.machine.guest_program_counter(), core.machine.guest_state())
}

#[test]
fn an_emulated_access_is_as_long_as_its_instruction_and_ends_its_place_in_a_block() {
    for (syndrome, bytes) in [(LOAD, 2), (LOAD | THIRTY_TWO_BITS, 4)] {
        let mut core = emulating(THUMB | THEN_ELSE);
        core.synchronous(syndrome);
        assert_ne!(core.head.frame.x[3], 0);
        assert_eq!(place(&core), (0x4008_1000 + bytes, THUMB | ELSE));
        core.machine.exit.set((4, GICD >> 12 << 4));
        core.synchronous(syndrome);
        assert_eq!(place(&core), (0x4008_1000 + 2 * bytes, THUMB), "out of the block");
    }
    // In AArch64 the bits of ITSTATE are others: they stay.
    let mut core = emulating(0x3c5 | THEN_ELSE);
    core.synchronous(LOAD | THIRTY_TWO_BITS);
    assert_eq!(place(&core), (0x4008_1004, 0x3c5 | THEN_ELSE));
}

#[test]
fn a_coprocessor_access_whose_condition_fails_is_no_instruction() {
    for (class, named) in [(0x03u64, true), (0x05, true), (0x0c, false), (0x03, false)] {
        // CV with NE, or the block, says that the condition is NE.
        let syndrome = class << 26 | THIRTY_TWO_BITS | if named { 1 << 24 | 1 << 20 } else { 0 };
        let state = THUMB | if named { 0 } else { ELSE };
        let mut core = emulating(state | ZERO_FLAG);
        core.synchronous(syndrome);
        assert_eq!(core.machine.take_events(), [], "class {class:#x}");
        assert_eq!(place(&core), (0x4008_1004, THUMB | ZERO_FLAG));
        assert_eq!(core.counter(Counter::UndefinedInjected), 0);
        let mut core = emulating(state);
        core.synchronous(syndrome);
        assert_eq!(core.machine.take_events(), [Event::Inject(1 << 25)], "NE holds");
        assert_eq!(place(&core), (0x4008_1000, state), "the guest's kernel sees the instruction and its state");
    }
}

#[test]
fn a_wait_in_a_block_sleeps_if_its_condition_holds() {
    for (flags, sleeps) in [(0, false), (ZERO_FLAG, true)] {
        let mut core = Core::new(schedule(&[server(0, 1), server(1, 5)], 2));
        core.machine.program_counter.set(0x4008_1000);
        core.machine.set_guest_state(THUMB | THEN_ELSE | flags);
        core.own().other_exception(WFI & !THIRTY_TWO_BITS);
        assert_eq!(place(core.own()), (0x4008_1002, THUMB | ELSE | flags));
        assert_eq!(core.own().counter(Counter::WaitForInterrupt), u64::from(sleeps));
        core.go_on();
        assert_eq!(core.loaded == 1, sleeps, "flags {flags:#x}");
    }
}
