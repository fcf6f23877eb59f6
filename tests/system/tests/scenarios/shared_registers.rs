//! Shared cores: an exchange of vCPUs exchanges every register, and a start leaves nothing of a neighbour to be seen.

use bulkhead_abi::status::{REASON_REQUESTED, STATE_STOPPED};
use bulkhead_run::End;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::GUEST_RAM;
use bulkhead_system_tests::sharing::{Description, field};
use bulkhead_system_tests::{LIMIT, Running, System};

/// A quantum that no length of a loop in the guest is a multiple of: pre-emption comes at every place of it.
const RING: &str = "kind = \"round-robin\"\nquantum = \"37 us\"";
/// A budget of 41 us in 97 us above everybody else.
const ABOVE: &str = "servers = [ { priority = 1, rule = \"polling\", budget = \"41 us\", period = \"97 us\" } ]";
const BELOW: &str = "servers = [ { priority = 9 } ]";
const LAZY: &str = "floating_point = \"lazy\"";
const EAGER: &str = "floating_point = \"eager\"";

fn clean(line: &str) {
    assert_eq!(field(line, "differences"), 0, "{line}");
}

/// Runs two guests with patterns of their own to their ends on one core; neither may see a register change.
fn nothing_changes(system: &System, rounds: u64, least_switches: u64) {
    let mut running = system.start_exact(4);
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    for partition in ["first", "second"] {
        let lines = running.texts(partition);
        assert!(lines.iter().all(|line| !line.contains("DIFFER")), "{partition}: {lines:#?}");
        clean(&running.printed(partition, "registers start"));
        let done = running.printed(partition, "registers done");
        clean(&done);
        assert_eq!(field(&done, "rounds"), rounds);
    }
    let switches = running.final_usage(0).switches;
    println!("{switches} switches");
    assert!(switches >= least_switches, "{switches} switches are not enough to say anything");
}

fn two(schedule: &str, rounds: u64, rest: [&str; 2]) -> System {
    let argument = |seed: u32| format!("seed={seed} rounds={rounds}");
    let description = Description::unjudged("shared-registers").schedule(0, schedule);
    let description = description.guest("first", 0, "registers", &argument(1), rest[0]);
    description.guest("second", 0, "registers", &argument(2), rest[1]).build()
}

/// SP-10, SP-18: in turns, floating point switched at its first use.
#[test]
fn turns_exchange_everything_with_lazy_floating_point() {
    nothing_changes(&two(&format!("{RING}\n{LAZY}"), 400, [""; 2]), 400, 4000);
}

/// SP-10, SP-18: in turns, floating point switched with everything else.
#[test]
fn turns_exchange_everything_with_eager_floating_point() {
    nothing_changes(&two(&format!("{RING}\n{EAGER}"), 400, [""; 2]), 400, 4000);
}

/// SP-10, SP-18: pre-emption by budgets.
#[test]
fn budgets_exchange_everything() {
    for mode in [LAZY, EAGER] {
        let schedule = format!("kind = \"fixed-priority\"\n{mode}");
        nothing_changes(&two(&schedule, 200, [ABOVE, BELOW]), 200, 2000);
    }
}

/// SP-18: a guest that never uses floating point beside one that does.
#[test]
fn a_guest_without_floating_point_changes_nothing() {
    let description = Description::new("shared-registers").schedule(0, &format!("{RING}\n{LAZY}"));
    let description = description.guest("first", 0, "registers", "seed=1 rounds=200", "");
    let description = description.guest("second", 0, "experiment", "role=hog start_us=100 end_us=200000 log=0", "");
    let mut running = description.build().start_exact(4);
    assert_eq!(running.end(), End::AllEnded);
    clean(&running.printed("first", "registers done"));
    running.assert_no_crash();
}

/// QV-74, SP-10: a guest that restarts again and again beside one with another pattern finds zeros each time, and the
/// neighbour sees nothing of the restarts.
#[test]
fn a_restart_finds_nothing_of_the_neighbour() {
    const RESTARTS: u32 = 12;
    for mode in [LAZY, EAGER] {
        let description = Description::new("shared-registers").schedule(0, &format!("{RING}\n{mode}"));
        let policy = format!("health = {{ on_fault = \"restart\", max = {RESTARTS}, within = \"600 s\" }}");
        let description = description.guest("first", 0, "registers", "seed=1 rounds=20 reset=1", &policy);
        let description = description.guest("second", 0, "registers", "seed=2 rounds=600", "");
        let mut running = description.build().start_exact(4);
        assert_eq!(running.end(), End::AllEnded);
        running.assert_no_crash();
        let status = running.status("first");
        assert_eq!((status.state, status.reason, status.restarts), (STATE_STOPPED, REASON_REQUESTED, RESTARTS));
        let lines = running.texts("first");
        let starts: Vec<_> = lines.iter().filter(|line| line.starts_with("registers start")).collect();
        assert_eq!(starts.len(), 1 + RESTARTS as usize, "{lines:#?}");
        starts.into_iter().for_each(|line| clean(line));
        assert!(lines.iter().all(|line| !line.contains("DIFFER")), "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.starts_with("registers done")).count(), 1 + RESTARTS as usize);
        clean(&running.printed("second", "registers done"));
        assert_eq!(running.status("second").generation, 1);
    }
}

/// QV-74: the same on a core of its own, where what the guest writes to the redistributor and to the CPU interface is in the
/// machine.
#[test]
fn a_restart_on_an_own_core_finds_nothing_of_the_life_before() {
    const RESTARTS: u32 = 4;
    let policy = format!("health = {{ on_fault = \"restart\", max = {RESTARTS}, within = \"600 s\" }}");
    let description =
        Description::new("own-registers").guest("first", 0, "registers", "seed=1 rounds=20 reset=1", &policy);
    let mut running = description.build().start();
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    let status = running.status("first");
    assert_eq!((status.state, status.reason, status.restarts), (STATE_STOPPED, REASON_REQUESTED, RESTARTS));
    let lines = running.texts("first");
    assert!(lines.iter().all(|line| !line.contains("DIFFER")), "{lines:#?}");
    for start in ["registers start", "registers done"] {
        let found: Vec<_> = lines.iter().filter(|line| line.starts_with(start)).collect();
        assert_eq!(found.len(), 1 + RESTARTS as usize, "{lines:#?}");
        found.into_iter().for_each(|line| clean(line));
    }
}

const DUMP: u64 = GUEST_RAM + 0x20_0000;
const DONE: u64 = DUMP + 0x1000;
const SYSTEM_RESET: u64 = 0x8400_0009;

/// Stores x1 to x30, the flags and v0 to v31 at its first instructions, counts its starts, and asks for another one.
fn dumping() -> Program {
    let mut program = Program::new();
    // x0 is given by the boot protocol; it is the one register that is not looked at.
    program.constant(0, DUMP);
    for register in 1..31 {
        program.store(register, 0, 8 * register);
    }
    program.word(0xd53b_4201).store(1, 0, 0); // MRS x1, NZCV
    program.constant(1, 3 << 20).word(0xd518_1041).word(0xd503_3fdf); // MSR CPACR_EL1, x1; ISB
    for register in 0..32 {
        program.word(0x3d80_0000 | (16 + register) << 10 | register); // STR q, [x0, #256 + 16 n]
    }
    program.constant(1, DONE).constant(2, 1).store(2, 1, 0);
    // The rest of its life it does what a neighbour could see: it waits for the word to be taken away.
    let again = program.here();
    program.load(2, 1, 0).branch_not_zero(2, again);
    program.constant(0, SYSTEM_RESET).call().stay();
    program
}

fn dumped(running: &mut Running) -> Vec<u64> {
    let place = running.watch().plan().partitions[running.index("first")].ram[0].physical.0 + (DONE - GUEST_RAM);
    let place = bulkhead_abi::PhysicalAddress(place);
    let waited = running.wait_for("the dump", LIMIT, |view| (view.ram.load_u64(place)? == 1).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
    let words = (0..96).map(|word| running.guest_word("first", DUMP + 8 * word)).collect();
    running.ram().write_at(place, &0u64.to_le_bytes()).expect("the word is in RAM");
    words
}

/// QV-74: at the first instruction of a start general and floating-point registers are zero, whatever the neighbour on the
/// core has in them.
#[test]
fn a_start_begins_with_registers_of_zeros() {
    let policy = "health = { on_fault = \"restart\", max = 10, within = \"600 s\" }";
    let description = Description::new("shared-registers").schedule(0, &format!("{RING}\n{LAZY}"));
    let description = description.program("first", 0, "dumping", policy);
    let description = description.guest("second", 0, "registers", "seed=2 rounds=1000000", "");
    let mut running = description.build_with(&[("dumping", &dumping())]).start_exact(4);
    for start in 1..=10 {
        let words = dumped(&mut running);
        let set: Vec<_> = words.iter().enumerate().filter(|(_, word)| **word != 0).collect();
        // The flags are word 0; x31 does not exist, its word is not written.
        assert_eq!(set, [], "registers at start {start}");
        running.wait_for_status("first", "a restart", |status| status.generation > start);
    }
    clean(&running.printed("second", "registers start"));
    assert!(running.texts("second").iter().all(|line| !line.contains("DIFFER")));
    running.assert_no_crash();
}
