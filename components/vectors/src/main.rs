//! Attacks with floating-point registers, by number: patterns in v0 to v31, FPCR and FPSR that somebody else would find. The table with what is expected of each is
//! `tests/hostile-kernel`; `tests/system/tests/kernel/hostile/vectors.rs` compares.
//!
//! The lowest byte of a thread's argument says who it is: the attacker, a task of ChaosRT, or one of the processes that the attacker makes of this same program. What a process
//! finds when it begins is in the code of its end, or in the address of its fault.
#![no_std]
#![no_main]

#[path = "../../pid/src/registers.rs"]
mod registers;

use bulkhead_component::call::{component_fault, component_reset, counter_ticks, receive};
use bulkhead_component::process::{self, Made, Share};
use bulkhead_component::{Code, println};
use bulkhead_kernel_abi::accounts::FaultKind;
use bulkhead_kernel_abi::call::{Call, ComponentOperation, Flag};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{PROCESS_QUOTA_SLOT, PROCESS_SLOTS};
use core::arch::asm;
use core::hint::black_box;
use registers::{Registers, plant, planted, read};

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// What processes run on; of a process the first slot that it is given.
    jobs;
    /// Where the attacker is told of their ends.
    told;
    /// From which it makes them.
    quota;
    /// The number of this program.
    program;
    /// Two empty slots: what a process is given, and the process.
    room;
}

bulkhead_component::import! {
    /// Leaves a pattern in all registers, and answers how many of them held something when it was entered.
    fn plant_all(pattern);
    /// Leaves a pattern in all registers and faults.
    fn plant_and_fault(pattern);
    /// Divides.
    fn quotient(dividend, divisor);
    /// Lets an equal task run.
    fn give_way(me);
    /// Ends a task.
    fn end(me, other);
}

/// Tries all, one after the other.
const ATTACKS: u8 = 0;
/// A task that leaves patterns and lets another one run.
const TASK: u8 = 1;
/// A process that leaves a pattern and exits.
const LEAVES: u64 = 2;
/// One that leaves a pattern and faults.
const FAULTS: u64 = 3;
/// One that leaves a pattern and becomes [`LEAVES`] of the program whose number is above.
const EXECS: u64 = 4;
/// One that leaves a pattern and forks.
const FORKS: u64 = 5;

/// The attacker's pattern, its callee's, and a process's.
const OWN: u64 = 0x5050_0000_0000_0001;
const THEIRS: u64 = 0x0a0a_0000_0000_0001;
const PROCESS: u64 = 0x0c0c_0000_0000_0001;
/// An empty slot of a process.
const CHILD: u64 = PROCESS_SLOTS as u64 - 1;
/// Above what a child found stands what its parent lost.
const LOST_SHIFT: u32 = 16;
/// Ticks of a short sleep.
const SLEEP: u64 = 5_000;
/// How often tasks take turns.
const TURNS: u64 = 20;

/// A tenth and half of the smallest normal number: another rounding mode or flushing to zero gives another one.
const QUOTIENTS: [[f64; 2]; 2] = [[1.0, 10.0], [f64::MIN_POSITIVE, 2.0]];

fn main(argument: u64) {
    let found = read().count_other_than(&Registers::NONE);
    let role = argument & 0xff;
    match role as u8 {
        ATTACKS => attacks(),
        TASK => task(argument >> 8 & 0xff),
        _ => process(role, argument >> 8, found),
    }
}

/// What a process does with its registers when it has counted what it found in them.
fn process(role: u64, program: u64, found: u64) -> ! {
    let mut words = Registers::NONE;
    match role {
        LEAVES => plant(PROCESS),
        FAULTS => {
            plant(PROCESS);
            // SAFETY: an exception that the kernel takes: nothing is mapped at page 0.
            unsafe { asm!("ldr x9, [{}]", in(reg) found, out("x9") _) }
        }
        EXECS => {
            let arguments = [ComponentOperation::Exec.number(), program, LEAVES, 0, 0, 0, 0, 0];
            planted::<{ Call::Component.number() }>(PROCESS, 0, arguments, &mut words);
        }
        _ => forks(&mut words),
    }
    process::exit(found)
}

fn forks(words: &mut Registers) {
    let share = 40;
    let arguments = [ComponentOperation::Fork.number(), PROCESS_QUOTA_SLOT, jobs(), CHILD, share, 0, 0, 0];
    let ([code, is_parent, ..], _) = planted::<{ Call::Component.number() }>(PROCESS, 0, arguments, words);
    if is_parent == 0 {
        process::exit(words.count_other_than(&Registers::NONE) | code << LOST_SHIFT);
    }
    let lost = words.count_other_than(&Registers::of(PROCESS));
    // Nobody tells a process of its child's end.
    let found = loop {
        match component_fault(CHILD) {
            Ok(record) if record.number == 0 => {
                let _ = receive(0, counter_ticks() + 1_000);
            }
            Ok(record) => break record.syndrome,
            Err(code) => break code.number() << LOST_SHIFT,
        }
    };
    process::exit(found | lost << LOST_SHIFT)
}

fn attacks() {
    let _ = process::copy_capability(jobs(), room(), right::BIND);
    // The second one has the thread of the first.
    println!("340: found {} {}", made(LEAVES)[0], made(LEAVES)[0]);
    let [both, _] = made(FORKS);
    println!("341: child found {}, parent lost {}", both & ((1 << LOST_SHIFT) - 1), both >> LOST_SHIFT);
    println!("342: found {}", made(EXECS | program() << 8)[0]);
    let [first, second] = made(FAULTS);
    println!("343: found {first} {second}");
    across::<{ Call::Version.number() }>(344, [0; 8]);
    across::<{ Call::Yield.number() }>(345, [0; 8]);
    across::<{ Call::Receive.number() }>(346, [0, Flag::All.number(), counter_ticks() + SLEEP, 0, 0, 0, 0, 0]);
    across::<0xffff>(347, [0; 8]);
    calls();
    modes();
}

/// What a process says: the code of its end, or where it faulted in each of two lives.
fn made(argument: u64) -> [u64; 2] {
    let share = Share { pages: 96, components: 1, threads: 1, regions: 1 };
    let made = Made { quota: quota(), payer: jobs(), to: room() + 1 };
    let refused = |code: Code| [code.number() << 32; 2];
    if let Err(code) = process::spawn(program(), argument, made, room()..room() + 1, share) {
        return refused(code);
    }
    let end = || {
        let _ = receive(told(), 0);
        let found = component_fault(room() + 1);
        found.map_or_else(
            |code| refused(code)[0],
            |record| if record.kind == FaultKind::Exited.number() { record.syndrome } else { record.address },
        )
    };
    let first = end();
    let second = if argument == FAULTS && component_reset(room() + 1).is_ok() { end() } else { first };
    match process::destroy(room() + 1) {
        Ok(()) => [first, second],
        Err(code) => refused(code),
    }
}

/// A pattern across a call of the kernel, which keeps it.
fn across<const NUMBER: u16>(number: u64, arguments: [u64; 8]) {
    let mut words = Registers::NONE;
    planted::<NUMBER>(OWN, 0, arguments, &mut words);
    println!("{number}: {} changed", words.count_other_than(&Registers::of(OWN)));
}

/// A pattern across `invoke`: behind it are own ones or zeros.
fn invoked(slot: u64, argument: u64) -> (u64, u64, u64) {
    let mut words = Registers::NONE;
    let arguments = [argument, 0, 0, 0, 0, 0, 0, 0];
    let ([answer, ..], code) = planted::<{ Call::Invoke.number() }>(OWN, slot, arguments, &mut words);
    (answer, code, words.count_foreign(&Registers::of(OWN)))
}

fn calls() {
    let (_, code, foreign) = invoked(0, THEIRS);
    println!("348: code {code}, foreign {foreign}");
    let (found, code, foreign) = invoked(plant_all::slot(), THEIRS);
    println!("349: code {code}, callee found {found}, foreign {foreign}");
    let (_, code, foreign) = invoked(plant_and_fault::slot(), THEIRS);
    println!("350: code {code}, foreign {foreign}");
}

/// Rounding modes, flushing and traps that one leaves for another.
fn modes() {
    let _ = plant_all(THEIRS);
    let control: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, FPCR", out(reg) control) };
    let [tenth, half] = QUOTIENTS.map(|[one, other]| (black_box(one) / black_box(other)).to_bits());
    println!("351: FPCR {control:#x}, {tenth:#x} {half:#x}");
    let [tenth, half] = QUOTIENTS.map(|both| {
        let mut words = Registers::NONE;
        let [one, other] = both.map(f64::to_bits);
        let arguments = [one, other, 0, 0, 0, 0, 0, 0];
        planted::<{ Call::Invoke.number() }>(OWN, quotient::slot(), arguments, &mut words).0[0]
    });
    println!("352: {tenth:#x} {half:#x}");
    let (control, result): (u64, u64);
    // SAFETY: computes with registers alone; FPCR and FPSR are zero again at the end.
    unsafe {
        asm!(
            "mov x9, #-1", "msr FPCR, x9", "mrs {control}, FPCR", "fmov d0, #1.0", "movi d1, #0", "fdiv d0, d0, d1",
            "fdiv d1, d1, d1", "fmov {result}, d0", "msr FPCR, xzr", "msr FPSR, xzr",
            control = out(reg) control, result = out(reg) result, out("x9") _, out("v0") _, out("v1") _,
            options(nomem, nostack, preserves_flags),
        );
    }
    println!("353: FPCR {control:#x}, 1/0 {result:#x}");
}

/// Leaves its pattern again and again when another task, with another one, is let run by ChaosRT's `switch`.
fn task(me: u64) {
    let own = Registers::of(PROCESS | me << 8);
    let mut foreign = 0;
    for _ in 0..TURNS {
        let mut words = Registers::NONE;
        let arguments = [me, 0, 0, 0, 0, 0, 0, 0];
        let (_, code) =
            planted::<{ Call::Invoke.number() }>(PROCESS | me << 8, give_way::slot(), arguments, &mut words);
        foreign += words.count_foreign(&own) + (code << 32);
    }
    println!("354: foreign {foreign}");
    let _ = end(me, me);
}
