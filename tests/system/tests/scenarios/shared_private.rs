//! Shared cores: what the interrupt hardware of a core keeps of one vCPU reaches no other one there, wherever it was noted.

use crate::shared_hostile::{EXCHANGE, GICR_SGI, assert_unharmed, victim_beside};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::sharing::BY_PRIORITY;

const ISENABLER0: u64 = 0x100;
const ISPENDR0: u64 = 0x200;
const ICPENDR0: u64 = 0x280;
const ISACTIVER0: u64 = 0x300;
const ICACTIVER0: u64 = 0x380;
/// PPIs 27 and 30.
const TIMERS: u64 = 1 << 27 | 1 << 30;

/// MSR of S`op0`_`op1`_C`crn`_C`crm`_`op2` from a register.
const fn write_register([op0, op1, crn, crm, op2]: [u32; 5], from: u32) -> u32 {
    0xd510_0000 | (op0 & 1) << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5 | from
}

const ICC_AP0R0: [u32; 5] = [3, 0, 12, 8, 4];
const ICC_IGRPEN0: [u32; 5] = [3, 0, 12, 12, 6];
const ICC_IGRPEN1: [u32; 5] = [3, 0, 12, 12, 7];
const ICC_BPR0: [u32; 5] = [3, 0, 12, 8, 3];
const ICC_PMR: [u32; 5] = [3, 0, 4, 6, 0];
const ICC_CTLR: [u32; 5] = [3, 0, 12, 12, 4];
const CNTV_CVAL: [u32; 5] = [3, 3, 14, 3, 2];
const CNTV_CTL: [u32; 5] = [3, 3, 14, 3, 1];
const CNTP_CVAL: [u32; 5] = [3, 3, 14, 2, 2];
const CNTP_CTL: [u32; 5] = [3, 3, 14, 2, 1];

/// A guest with interrupts masked, before what it does again and again.
fn masked() -> Program {
    let mut program = Program::new();
    program.word(0xd503_4fdf); // MSR DAIFSet, #15
    program
}

fn set(program: &mut Program, register: [u32; 5], value: u64) {
    program.constant(1, value).word(write_register(register, 1));
}

fn store(program: &mut Program, register: u64, value: u64) {
    program.constant(0, GICR_SGI + register).constant(1, value).store32(1, 0, 0);
}

/// Both timers enabled in the redistributor, and up since ever.
fn ring_both_timers(program: &mut Program) {
    store(program, ISENABLER0, u64::MAX);
    for (compare, control) in [(CNTV_CVAL, CNTV_CTL), (CNTP_CVAL, CNTP_CTL)] {
        set(program, compare, 0);
        set(program, control, 1);
    }
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

/// A2 of docs/base-findings.md, QV-8, MZ-18: with its list registers full of own software-generated interrupts a guest's
/// timers have nowhere to go; they do not keep those of the others silent.
#[test]
fn timers_that_wait_for_a_list_register_silence_no_other() {
    let mut attacker = masked();
    set(&mut attacker, ICC_IGRPEN1, 0);
    store(&mut attacker, ISENABLER0, u64::MAX);
    store(&mut attacker, ISPENDR0, 0xf);
    ring_both_timers(&mut attacker);
    attacker.spin();
    assert_unharmed("waiting timers", &least_important(&attacker), EXCHANGE);
}

/// The attacker's gate may be opening or closing when the victim's date comes (`./x bench costs.interrupt_entry`).
const DECISION: u64 = 1000;
/// A gate that closes when the guest ends its interrupt: list registers are not backed by hardware then.
const VOLUNTARY: &str = "servers = [ { priority = 9, rule = \"sporadic\", budget = \"900 us\", period = \"1 ms\", \
     gate = \"interrupt\", voluntary_return = true }, { priority = 10 } ]";

fn beside_voluntary(attacker: &Program) -> String {
    victim_beside(attacker, BY_PRIORITY, ["servers = [ { priority = 1 } ]", VOLUNTARY])
}

/// A3 of docs/base-findings.md, QV-8, SG-45: however a guest gets rid of a timer's interrupt, the timers of the others ring.
#[test]
fn a_timer_that_is_cleared_silences_no_other() {
    for (name, register) in [("ICPENDR0", ICPENDR0), ("ISACTIVER0", ISACTIVER0), ("ICACTIVER0", ICACTIVER0)] {
        let mut attacker = masked();
        set(&mut attacker, ICC_PMR, 0xff);
        set(&mut attacker, ICC_IGRPEN1, 1);
        let again = attacker.here();
        ring_both_timers(&mut attacker);
        if register != ICPENDR0 {
            attacker.word(0xd538_cc02); // MRS x2, ICC_IAR1_EL1
        }
        for register in [register, ICPENDR0] {
            store(&mut attacker, register, TIMERS);
        }
        set(&mut attacker, CNTV_CTL, 0);
        set(&mut attacker, CNTP_CTL, 0);
        pause(&mut attacker, 150);
        attacker.branch(again);
        assert_unharmed(name, &beside_voluntary(&attacker), EXCHANGE + DECISION);
    }
}

/// The same with the group off, so that nothing is ever taken, and with list registers full.
#[test]
fn a_timer_that_is_cleared_while_it_waits_silences_no_other() {
    let mut attacker = masked();
    set(&mut attacker, ICC_CTLR, 0);
    store(&mut attacker, ISENABLER0, u64::MAX);
    store(&mut attacker, ISPENDR0, 0xf);
    let again = attacker.here();
    ring_both_timers(&mut attacker);
    store(&mut attacker, ICPENDR0, TIMERS);
    set(&mut attacker, CNTV_CTL, 0);
    set(&mut attacker, CNTP_CTL, 0);
    pause(&mut attacker, 150);
    attacker.branch(again);
    assert_unharmed("cleared while it waits", &least_important(&attacker), EXCHANGE);
}
