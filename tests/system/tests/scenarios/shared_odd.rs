//! Shared cores: odd combinations of an attacker's own interrupts, timers and sleeps. Its victim's interrupts come once each and in
//! time all the same.

use crate::shared_hostile::{EXCHANGE, GICR_SGI, assert_unharmed, victim_beside};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::sharing::BY_PRIORITY;

const GICD: u64 = 0x0800_0000;
/// Whatever the attacker does may be under way when the victim's date comes: at the worst its gate opens, and the core decides for it and
/// publishes (`./x bench costs.interrupt_entry costs.switch`). Twelve seeds of the victim's dates show 3,683 in all.
const DECISION: u64 = 1300;
const TIMERS: u64 = 1 << 27 | 1 << 30;

/// MSR of S`op0`_`op1`_C`crn`_C`crm`_`op2` from x1.
const fn from_x1([op0, op1, crn, crm, op2]: [u32; 5]) -> u32 {
    0xd510_0001 | (op0 & 1) << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5
}

const ICC_IAR1_TO_X2: u32 = 0xd538_cc02;
const ICC_EOIR1: [u32; 5] = [3, 0, 12, 12, 1];
const ICC_DIR: [u32; 5] = [3, 0, 12, 11, 1];
const ICC_CTLR: [u32; 5] = [3, 0, 12, 12, 4];
const ICC_IGRPEN1: [u32; 5] = [3, 0, 12, 12, 7];
const ICC_PMR: [u32; 5] = [3, 0, 4, 6, 0];
const ICC_AP1R0: [u32; 5] = [3, 0, 12, 9, 0];
const CNTKCTL: [u32; 5] = [3, 0, 14, 1, 0];
const COMPARES: [[u32; 5]; 2] = [[3, 3, 14, 3, 2], [3, 3, 14, 2, 2]];
const CONTROLS: [[u32; 5]; 2] = [[3, 3, 14, 3, 1], [3, 3, 14, 2, 1]];

fn set(program: &mut Program, register: [u32; 5], value: u64) {
    program.constant(1, value).word(from_x1(register));
}

fn store(program: &mut Program, address: u64, value: u64) {
    program.constant(0, address).constant(1, value).store32(1, 0, 0);
}

fn pause(program: &mut Program, turns: u64) {
    program.constant(2, turns);
    let again = program.here();
    program.subtract(2, 2, 1).branch_not_zero(2, again);
}

/// With its interrupts masked and the virtual interface open: runs this again and again.
fn again_and_again(body: impl FnOnce(&mut Program)) -> Program {
    let mut program = Program::new();
    program.word(0xd503_4fdf); // MSR DAIFSet, #15
    set(&mut program, ICC_PMR, 0xff);
    set(&mut program, ICC_IGRPEN1, 1);
    let again = program.here();
    body(&mut program);
    program.branch(again);
    program
}

/// Each combination of dates and controls of both timers, with their interrupts on and off, and a WFI beside each.
fn timers() -> Program {
    again_and_again(|program| {
        for register in [0x100, 0x180] {
            for compare in [0, 1, 1 << 63, u64::MAX - 1, u64::MAX] {
                for control in [1, 3, 0, 2] {
                    store(program, GICR_SGI + register, TIMERS);
                    for timer in 0..2 {
                        set(program, COMPARES[timer], compare);
                        set(program, CONTROLS[timer], control ^ timer as u64);
                    }
                    set(program, CNTKCTL, 0x3ff ^ compare & 0xf0);
                    // It sleeps until the next one is there, so both timers have to be past.
                    set(program, COMPARES[0], 0);
                    set(program, CONTROLS[0], 1);
                    program.wait();
                    pause(program, 40);
                    store(program, GICR_SGI + 0x280, TIMERS);
                }
            }
        }
    })
}

/// Its own shared interrupt (of the clock) of the most urgent priority, made pending and active, cleared in the other order, ended twice.
fn shared_interrupts() -> Program {
    again_and_again(|program| {
        for word in 1..8 {
            for lane in 0..8 {
                store(program, GICD + 0x400 + 32 * word + 4 * lane, 0);
            }
            for register in [0x100, 0x300, 0x200, 0x380, 0x200, 0x300, 0x280, 0x200] {
                store(program, GICD + register + 4 * word, u64::MAX);
            }
            program.word(ICC_IAR1_TO_X2).copy(1, 2).word(from_x1(ICC_EOIR1)).word(from_x1(ICC_EOIR1));
            pause(program, 20);
        }
    })
}

/// Priority drop and deactivation apart, ends of what never was, active priorities for ever.
fn ends() -> Program {
    again_and_again(|program| {
        store(program, GICR_SGI + 0x100, u64::MAX);
        store(program, GICR_SGI + 0x200, 0x7fff);
        for mode in [2, 0, 3, 1] {
            set(program, ICC_CTLR, mode);
            for intid in [15, 25, 26, 27, 30, 33, 40, 1019, 1023] {
                set(program, ICC_EOIR1, intid);
                set(program, ICC_DIR, intid);
            }
            for timer in 0..2 {
                set(program, COMPARES[timer], 0);
                set(program, CONTROLS[timer], 1);
            }
            program.word(ICC_IAR1_TO_X2).copy(1, 2).word(from_x1(ICC_EOIR1));
            set(program, ICC_AP1R0, u64::MAX);
            program.wait();
            pause(program, 100);
            set(program, ICC_AP1R0, 0);
        }
    })
}

/// QV-8, MZ-18: below the victim, behind a gate that closes at the end of an interrupt, and behind one that its budget closes.
#[test]
fn odd_combinations_harm_no_other() {
    let gate = |more: &str| {
        format!(
            "servers = [ {{ priority = 9, rule = \"sporadic\", budget = \"900 us\", period = \"1 ms\", gate = \"interrupt\"{more} }}, \
             {{ priority = 10 }} ]"
        )
    };
    let servers = ["servers = [ { priority = 9 } ]".to_owned(), gate(""), gate(", voluntary_return = true")];
    for (name, attacker) in [("timers", timers()), ("shared", shared_interrupts()), ("ends", ends())] {
        for rest in &servers {
            let rest = format!("{rest}\ndevices = [ \"rtc\" ]");
            let done = victim_beside(&attacker, BY_PRIORITY, ["servers = [ { priority = 1 } ]", &rest]);
            assert_unharmed(&format!("{name}, {rest}"), &done, EXCHANGE + DECISION);
        }
    }
}
