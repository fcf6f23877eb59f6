//! Shared cores: an attacker beside its victim on one core.

use bulkhead_abi::status::STATE_RUNNING;
use bulkhead_run::End;
use bulkhead_system_tests::Running;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::sharing::{BY_PRIORITY, Description, field};

/// The redistributor's frame of private interrupts, as a guest sees it.
pub(crate) const GICR_SGI: u64 = 0x080b_0000;
const SETS: [(&str, u64); 6] = [
    ("ISENABLER0", 0x100),
    ("ICENABLER0", 0x180),
    ("ISPENDR0", 0x200),
    ("ICPENDR0", 0x280),
    ("ISACTIVER0", 0x300),
    ("ICACTIVER0", 0x380),
];
const PRIORITIES: u64 = 0x400;
const CONFIGURATION: u64 = 0xc04;
/// What a victim with nobody but the attacker beside it may be late by: see `shared_wakeups`.
pub(crate) const EXCHANGE: u64 = 2500;
/// Longest time in which the monitor works for one partition without looking at interrupts: a slice of a restart.
const SLICE: u64 = 5000;
const COUNT: u64 = 1000;

/// Writes a value to registers again and again, a few instructions apart, for ever.
fn writing(registers: &[u64], value: u64) -> Program {
    let mut program = Program::new();
    program.word(0xd503_4fdf).constant(1, value); // MSR DAIFSet, #15
    let again = program.here();
    for register in registers {
        program.constant(0, GICR_SGI + register).store32(1, 0, 0);
    }
    program.constant(2, 150);
    let pause = program.here();
    program.subtract(2, 2, 1).branch_not_zero(2, pause).branch(again);
    program
}

/// A victim that waits for interrupts in every way, above an attacker; returns what it printed at its end.
pub(crate) fn victim_beside(attacker: &Program, schedule: &str, rest: [&str; 2]) -> String {
    let description = Description::unjudged("shared-hostile").schedule(0, schedule);
    let argument = format!("role=own count={COUNT} start_us=20000");
    let description = description.guest("victim", 0, "wakeups", &argument, rest[0]);
    let description = description.program("attacker", 0, "attacker", rest[1]);
    let system = description.build_with(&[("attacker", attacker)]);
    let mut running = system.start_exact(4);
    let done = running.line("victim", "wakeups done");
    assert_eq!(running.status("attacker").state, STATE_RUNNING);
    running.assert_no_crash();
    running.assert_image_intact(&system);
    done
}

pub(crate) fn assert_unharmed(what: &str, done: &str, most_late: u64) {
    println!("{what}: {done}");
    // More than were sent would be interrupts that the attacker made.
    let counts = (field(done, "sent"), field(done, "received"), field(done, "lost"));
    assert_eq!(counts, (COUNT, COUNT, 0), "{what}: {done}");
    assert!(field(done, "late") <= most_late, "{what}: {done}");
}

/// QV-8, MZ-18: whatever a guest writes to its redistributor, the timers and the software-generated interrupts of a neighbour
/// on the core come once each and in time.
#[test]
fn a_redistributor_is_each_guests_own() {
    for (name, register) in SETS {
        let done = victim_beside(
            &writing(&[register], u64::MAX),
            BY_PRIORITY,
            ["servers = [ { priority = 1 } ]", "servers = [ { priority = 9 } ]"],
        );
        assert_unharmed(name, &done, EXCHANGE);
    }
}

/// QV-8: the same with priorities and trigger modes, the most and the least urgent ones.
#[test]
fn priorities_of_private_interrupts_are_each_guests_own() {
    let registers: Vec<u64> = (0..8).map(|word| PRIORITIES + 4 * word).chain([CONFIGURATION]).collect();
    for value in [0, 0x0808_0808, u64::MAX] {
        let done = victim_beside(
            &writing(&registers, value),
            BY_PRIORITY,
            ["servers = [ { priority = 1 } ]", "servers = [ { priority = 9 } ]"],
        );
        assert_unharmed("priorities", &done, EXCHANGE);
    }
}

/// QV-8: all of them together, in turns, where the attacker is also loaded between the victim's sleep and its wake-up.
#[test]
fn attacks_in_turns_change_nothing() {
    let registers: Vec<u64> = SETS.map(|(_, register)| register).into_iter().chain([PRIORITIES + 24]).collect();
    let schedule = "kind = \"round-robin\"\nquantum = \"50 us\"";
    let done = victim_beside(&writing(&registers, u64::MAX), schedule, ["", ""]);
    assert_unharmed("all in turns", &done, 3125 + EXCHANGE);
}

/// Every attack of the hostile guest, on the core of a victim that works and of one that waits; without it, a quiet guest.
fn suite(attacker: &str, arguments: &str) -> Running {
    let description = Description::unjudged("shared-hostile").schedule(0, BY_PRIORITY);
    let waits = format!("role=own count={SUITE_COUNT} start_us=20000");
    let description = description.guest("waits", 0, "wakeups", &waits, "servers = [ { priority = 1 } ]");
    let work = "servers = [ { priority = 2, rule = \"sporadic\", budget = \"4 ms\", period = \"10 ms\" } ]";
    let description = description.guest("victim", 0, "victim", "round_us=20000 rounds=5 lines=40", work);
    let policy = "servers = [ { priority = 9 } ]\n\
                  health = { on_fault = \"restart\", max = 128, within = \"600 s\" }";
    let system = description.guest("hostile", 0, attacker, arguments, policy).build();
    let mut running = system.start_exact(4);
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    running.assert_image_intact(&system);
    running
}

/// Waits of the waiting victim: they last as long as the attacks.
const SUITE_COUNT: u64 = 20_000;

/// QV-5, QV-7, QV-8, QV-9, SG-48: no attack gains anything, and beside all of them, restarts included, a victim on the same core
/// prints byte for byte what it prints beside a quiet guest, and another one gets each of its interrupts in time.
#[test]
fn no_attack_reaches_a_victim_on_the_same_core() {
    // One machine at a time: who keeps one and waits for a place for another can wait for itself.
    let quiet = suite("hello", "");
    let (quiet_victim, quiet_waits) = (quiet.texts("victim"), quiet.printed("waits", "wakeups done"));
    drop(quiet);
    let attacked = suite("hostile", "");
    let done = attacked.texts("hostile").into_iter().find(|line| line.starts_with("attacks done"));
    let done = done.expect("the attacker comes to its end");
    println!("{done}");
    assert_eq!((field(&done, "unexpected"), field(&done, "escaped")), (0, 0), "{done}");
    assert!(field(&done, "tried") > 100 && attacked.status("hostile").restarts > 40, "{done}");
    assert!(attacked.texts("victim").len() > 40);
    assert_eq!(attacked.texts("victim"), quiet_victim);
    let end = |partition: &str| attacked.lines(partition).last().map_or(0, |line| line.time_ticks);
    assert!(end("hostile") < end("waits") && end("hostile") < end("victim"), "both victims outlive all attacks");
    let status = attacked.status("victim");
    assert_eq!((status.faults, status.restarts, status.generation), (0, 0, 1));
    for (what, line) in [("quiet", quiet_waits), ("attacked", attacked.printed("waits", "wakeups done"))] {
        println!("{what}: {line}");
        let counts = (field(&line, "sent"), field(&line, "received"), field(&line, "lost"));
        assert_eq!(counts, (SUITE_COUNT, SUITE_COUNT, 0), "{what}: {line}");
        assert!(field(&line, "late") <= SLICE, "{what}: {line}");
    }
}
