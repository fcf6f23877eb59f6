//! Every exception class that EL1 and EL0 can cause: each is this guest's own affair and must come back to it.

use crate::{
    attack::{Attack, Expectation, Outcome},
    trial,
};
use bulkhead_sdk::{cpu, interrupt, timer};
use core::arch::asm;

/// Exception classes (Arm ARM D17.2.37).
const UNDEFINED: u64 = 0x00;
const ILLEGAL_STATE: u64 = 0x0e;
const SVC_AARCH32: u64 = 0x11;
const SVC: u64 = 0x15;
const MISALIGNED_PROGRAM_COUNTER: u64 = 0x22;
const MISALIGNED_STACK: u64 = 0x26;
const SINGLE_STEP: u64 = 0x33;
const BREAKPOINT_INSTRUCTION: u64 = 0x3c;

/// Processor states for an exception return, interrupts masked.
const STATE_EL2: u64 = 0x3c9;
const STATE_EL3: u64 = 0x3cd;
const STATE_EL0: u64 = 0x3c0;
const STATE_EL0_AARCH32: u64 = 0x1d0;
const STATE_EL0_THUMB: u64 = 0x1f0;
/// Single-step bit of a saved processor state.
const STATE_SINGLE_STEP: u64 = 1 << 21;

fn expect_class(work: impl FnOnce(), class: u64) -> Outcome {
    match trial::attempt(work) {
        Some(syndrome) if syndrome.class() == class => Outcome::contained("exception at EL1, ESR", syndrome.0),
        Some(syndrome) => Outcome::unexpected("another exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped("the instruction was done", 0),
    }
}

macro_rules! instruction {
    ($name:ident, $class:expr, $($instruction:literal),+) => {
        fn $name() -> Outcome {
            // SAFETY: the instruction is expected to cause an exception, which is stepped over; x20 is declared.
            expect_class(|| unsafe { asm!($($instruction),+, out("x20") _, options(nostack)) }, $class)
        }
    };
}

instruction!(undefined_instruction, UNDEFINED, "udf #0");
instruction!(supervisor_call, SVC, "svc #0xffff");
instruction!(breakpoint, BREAKPOINT_INSTRUCTION, "brk #0xffff");
// The semihosting trap of AArch64: without it (or with it, for a guest) undefined.
instruction!(semihosting, UNDEFINED, "mov x0, #0x18", "hlt #0xf000");
instruction!(debug_to_el2, UNDEFINED, ".inst 0xd4a00002");
instruction!(debug_to_el3, UNDEFINED, ".inst 0xd4a00003");
instruction!(vector_length, UNDEFINED, ".inst 0x04bf5020");
instruction!(pointer_authentication, UNDEFINED, ".inst 0xd69f0bff");
/// Loads through a misaligned stack pointer. SP_EL0 is used, so that the handler keeps a good stack.
fn misaligned_stack() -> Outcome {
    let exception = trial::attempt(|| {
        // SAFETY: the load goes to 4 bytes below an address of this program's own stack; x20 is declared.
        unsafe {
            asm!(
                "mov x20, sp", "sub x20, x20, #4", "msr SP_EL0, x20", "msr SPSel, #0", "ldr x20, [sp]", "msr SPSel, #1",
                out("x20") _, options(nostack),
            );
        }
    });
    match exception {
        Some(syndrome) if syndrome.class() == MISALIGNED_STACK => {
            Outcome::contained("exception at EL1, ESR", syndrome.0)
        }
        Some(syndrome) => Outcome::unexpected("another exception at EL1, ESR", syndrome.0),
        // The emulated core does not check the stack's alignment.
        None => Outcome::contained("the core does not check", 0),
    }
}

fn misaligned_jump() -> Outcome {
    expect_class(|| trial::jump(0x4008_0002), MISALIGNED_PROGRAM_COUNTER)
}

/// Returns to a more privileged level: the core refuses and stays.
fn return_to_el2() -> Outcome {
    expect_class(|| trial::return_to(NOTHING.as_ptr(), STATE_EL2), ILLEGAL_STATE)
}

fn return_to_el3() -> Outcome {
    expect_class(|| trial::return_to(NOTHING.as_ptr(), STATE_EL3), ILLEGAL_STATE)
}

/// Single-steps through a hypercall: debug is trapped, so the step never comes.
fn step_over_call() -> Outcome {
    let result = trial::attempt(|| {
        // SAFETY: sets the debug control that a self-hosted debugger would set; the monitor ignores it.
        unsafe { asm!("msr MDSCR_EL1, {}", "isb", in(reg) 0x2001_u64, options(nostack)) };
        trial::return_to(CALL_64.as_ptr(), STATE_EL0 | STATE_SINGLE_STEP);
        // SAFETY: puts the debug control back.
        unsafe { asm!("msr MDSCR_EL1, xzr", "isb", options(nostack)) };
    });
    match result {
        Some(syndrome) if syndrome.class() & !1 == SINGLE_STEP & !1 => Outcome::escaped("debug works, ESR", syndrome.0),
        Some(syndrome) => Outcome::contained("exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped("no exception", 0),
    }
}

fn wait_masked() -> Outcome {
    interrupt::start();
    timer::enable_interrupt();
    timer::set_compare_ticks(cpu::counter_ticks() + 1000);
    let exception = trial::attempt(|| {
        // SAFETY: events and interrupts only; the timer above ends the WFI.
        unsafe { asm!("sev", "wfe", "wfi", options(nostack)) };
    });
    timer::stop();
    super::interrupts::repair();
    match exception {
        None => Outcome::contained("went on after", 0),
        Some(syndrome) => Outcome::unexpected("exception at EL1, ESR", syndrome.0),
    }
}

static NOTHING: [u32; 2] = [0, 0];
/// HVC #0, then SVC #0.
static CALL_64: [u32; 2] = [0xd400_0002, 0xd400_0001];
/// SMC #0, then SVC #0.
static SECURE_CALL_64: [u32; 2] = [0xd400_0003, 0xd400_0001];
/// MSR VTTBR_EL2, x0, then SVC #0.
static STAGE2_BASE_64: [u32; 2] = [0xd51c_2100, 0xd400_0001];

/// AArch32 programs: one instruction, then SVC #0.
const SVC_32: u32 = 0xef00_0000;
/// MCR p15, 0, r0, c15, c0, 0: implementation defined.
static COPROCESSOR_15: [u32; 2] = [0xee0f_0f10, SVC_32];
/// MCRR p15, 0, r0, r1, c15: implementation defined.
static COPROCESSOR_15_PAIR: [u32; 2] = [0xec41_0f0f, SVC_32];
/// MRC p14, 0, r0, c0, c1, 0: debug status.
static COPROCESSOR_14: [u32; 2] = [0xee10_0e11, SVC_32];
/// MRRC p14, 0, r0, r1, c1: debug ROM address.
static COPROCESSOR_14_PAIR: [u32; 2] = [0xec51_0e01, SVC_32];
/// LDC p14, c5, [r0]: debug data transfer.
static COPROCESSOR_14_MEMORY: [u32; 2] = [0xed90_5e00, SVC_32];
/// HVC #0 and SMC #0 in AArch32.
static CALL_32: [u32; 2] = [0xe140_0070, SVC_32];
static SECURE_CALL_32: [u32; 2] = [0xe160_0070, SVC_32];
/// MRC p15, 0, r0, c9, c13, 0: cycle counter.
static CYCLE_COUNTER_32: [u32; 2] = [0xee19_0f1d, SVC_32];
/// Thumb: UDF #0, then SVC #0.
static THUMB: [u32; 1] = [0xdf00_de00];

/// Runs one instruction at EL0: undefined, or done without effect and then the SVC.
fn at_el0(code: &'static [u32], state: u64) -> Outcome {
    match trial::attempt(|| trial::return_to(code.as_ptr(), state)) {
        Some(syndrome) => match syndrome.class() {
            UNDEFINED => Outcome::contained("undefined, ESR", syndrome.0),
            SVC | SVC_AARCH32 => Outcome::contained("went on to its SVC, ESR", syndrome.0),
            _ => Outcome::contained("exception at EL1, ESR", syndrome.0),
        },
        None => Outcome::escaped("no exception", 0),
    }
}

macro_rules! answer {
    ($name:literal, $run:expr) => {
        Attack { name: $name, expectation: Expectation::Answer, run: $run }
    };
}

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    answer!("undefined instruction", undefined_instruction),
    answer!("SVC", supervisor_call),
    answer!("BRK", breakpoint),
    answer!("semihosting call", semihosting),
    answer!("DCPS2", debug_to_el2),
    answer!("DCPS3", debug_to_el3),
    answer!("SVE instruction", vector_length),
    answer!("pointer authentication return", pointer_authentication),
    answer!("misaligned stack", misaligned_stack),
    answer!("misaligned jump", misaligned_jump),
    answer!("return to EL2", return_to_el2),
    answer!("return to EL3", return_to_el3),
    answer!("single step over a call", step_over_call),
    answer!("WFE and WFI with everything masked", wait_masked),
    answer!("HVC at EL0", || at_el0(&CALL_64, STATE_EL0)),
    answer!("SMC at EL0", || at_el0(&SECURE_CALL_64, STATE_EL0)),
    answer!("write VTTBR_EL2 at EL0", || at_el0(&STAGE2_BASE_64, STATE_EL0)),
    answer!("AArch32: write of coprocessor 15", || at_el0(&COPROCESSOR_15, STATE_EL0_AARCH32)),
    answer!("AArch32: pair write of coprocessor 15", || at_el0(&COPROCESSOR_15_PAIR, STATE_EL0_AARCH32)),
    answer!("AArch32: read of coprocessor 14", || at_el0(&COPROCESSOR_14, STATE_EL0_AARCH32)),
    answer!("AArch32: pair read of coprocessor 14", || at_el0(&COPROCESSOR_14_PAIR, STATE_EL0_AARCH32)),
    answer!("AArch32: memory access of coprocessor 14", || at_el0(&COPROCESSOR_14_MEMORY, STATE_EL0_AARCH32)),
    answer!("AArch32: cycle counter", || at_el0(&CYCLE_COUNTER_32, STATE_EL0_AARCH32)),
    answer!("AArch32: HVC", || at_el0(&CALL_32, STATE_EL0_AARCH32)),
    answer!("AArch32: SMC", || at_el0(&SECURE_CALL_32, STATE_EL0_AARCH32)),
    answer!("AArch32: Thumb", || at_el0(&THUMB, STATE_EL0_THUMB)),
];
