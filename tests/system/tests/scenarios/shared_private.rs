//! Shared cores: what the interrupt hardware of a core keeps of one vCPU reaches no other one there, wherever it was noted.

use crate::shared_hostile::{EXCHANGE, assert_unharmed, victim_beside};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::sharing::BY_PRIORITY;

/// MSR of S`op0`_`op1`_C`crn`_C`crm`_`op2` from a register.
const fn write_register([op0, op1, crn, crm, op2]: [u32; 5], from: u32) -> u32 {
    0xd510_0000 | (op0 & 1) << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5 | from
}

const ICC_AP0R0: [u32; 5] = [3, 0, 12, 8, 4];
const ICC_IGRPEN0: [u32; 5] = [3, 0, 12, 12, 6];
const ICC_BPR0: [u32; 5] = [3, 0, 12, 8, 3];

/// A guest with interrupts masked, before what it does again and again.
fn masked() -> Program {
    let mut program = Program::new();
    program.word(0xd503_4fdf); // MSR DAIFSet, #15
    program
}

fn set(program: &mut Program, register: [u32; 5], value: u64) {
    program.constant(1, value).word(write_register(register, 1));
}

/// Computes for a while.
fn pause(program: &mut Program, turns: u64) {
    program.constant(2, turns);
    let again = program.here();
    program.subtract(2, 2, 1).branch_not_zero(2, again);
}

fn least_important(attacker: &Program) -> String {
    victim_beside(attacker, BY_PRIORITY, ["servers = [ { priority = 1 } ]", "servers = [ { priority = 9 } ]"])
}

/// A1 of docs/base-findings.md, QV-8, MZ-18: with an active priority of group 0 no virtual interrupt would be taken any more.
#[test]
fn group_0_of_one_guest_stops_no_other() {
    let mut attacker = masked();
    let again = attacker.here();
    for (register, value) in [(ICC_AP0R0, 1), (ICC_AP0R0, u64::MAX), (ICC_BPR0, 3), (ICC_IGRPEN0, 1)] {
        set(&mut attacker, register, value);
    }
    pause(&mut attacker, 150);
    attacker.branch(again);
    assert_unharmed("group 0", &least_important(&attacker), EXCHANGE);
}
