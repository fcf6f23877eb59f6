//! Shared cores: an interrupt that waits for an idle moment (route `defer`, or beyond its limit), and a monitor that has something
//! to do for its owner at the same time.

use crate::shared_hostile::{EXCHANGE, GICR_SGI, assert_unharmed, victim_beside};
use bulkhead_abi::hypercall::CALL_HEARTBEAT;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::sharing::{BY_PRIORITY, TICKS_PER_MILLISECOND as MS};

/// The attacker's date, which the monitor looks at, may come just before the victim's (`./x bench costs.interrupt_entry`).
const DECISION: u64 = 1000;
const CNTV_CVAL_FROM_X4: u32 = 0xd51b_e344;
const CNTV_CTL_FROM_X1: u32 = 0xd51b_e321;

/// QV-8, MZ-17: a guest without budget whose watchdog's date has passed, and then a deferred timer of its own: that timer waits as
/// well, and the core keeps sleeping until somebody can run.
#[test]
fn a_deferred_interrupt_of_one_without_budget_stops_no_core() {
    let mut attacker = Program::new();
    attacker.word(0xd503_4fdf); // MSR DAIFSet, #15
    attacker.constant(0, GICR_SGI + 0x100).constant(1, 1 << 27).store32(1, 0, 0); // GICR_ISENABLER0
    let again = attacker.here();
    attacker.constant(0, CALL_HEARTBEAT).call();
    attacker.constant(1, 0).word(CNTV_CTL_FROM_X1);
    attacker.constant(0, GICR_SGI + 0x280).constant(1, 1 << 27).store32(1, 0, 0); // GICR_ICPENDR0
    attacker.counter(4).constant(5, 5 * MS).word(0x8b05_0084).word(CNTV_CVAL_FROM_X4); // ADD x4, x4, x5
    attacker.constant(1, 1).word(CNTV_CTL_FROM_X1);
    // Its budget goes with its sleep, and comes back at the next multiple of the period.
    attacker.wait().branch(again);
    let rest = "servers = [ { priority = 9, rule = \"polling\", budget = \"1 ms\", period = \"10 ms\" } ]\n\
                route = \"defer\"\nwatchdog = \"12 ms\"";
    let done = victim_beside(&attacker, BY_PRIORITY, ["servers = [ { priority = 1 } ]", rest]);
    assert_unharmed("deferred without budget", &done, EXCHANGE + DECISION);
}
