//! A storm of software-generated interrupts to a vCPU that shares its core and is away: the one that has the core meanwhile is entered once
//! (MZ-17, H24).

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::Counter;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::{GUEST_LOAD, GUEST_RAM};
use bulkhead_system_tests::{LIMIT, System};

/// vCPU 1 computes until its budget is used up, and is away from then on: the keeper has the core.
const SYSTEM: &str = r#"
version = 1
name = "siblings"
board = "qemu-virt"
memory = "64 MiB"

[[schedule]]
core = 0
kind = "fixed-priority"

[[partition]]
name = "keeper"
trust = "trusted"
cores = [0]
memory = "4 MiB"
image = { kind = "elf", file = "guest:experiment.elf" }
arguments = "role=hog start_us=1000 end_us=50000000 log=0"
servers = [{ priority = 5 }]

[[partition]]
name = "two"
cores = [1, 0]
memory = "4 MiB"
image = { kind = "raw", file = "two.bin", load = 0x4008_0000 }
console = "none"
servers = [{ vcpu = 1, priority = 1, rule = "sporadic", budget = "100 ms", period = "60 s" }]
"#;
const CPU_ON: u64 = 0xc400_0003;
/// Ticks of the counter from reset on, 2 s: the budget is used up, and the next one is far away.
const AWAY: u64 = 125_000_000;
/// In the partition's RAM: vCPU 1 was there; vCPU 0 is done.
const WORDS: u64 = 0x20_0000;
const DONE: u32 = 8;
const TWO: usize = 1;
const SENT: u64 = 1000;

/// vCPU 0 starts vCPU 1, waits until it is away, and sends it software-generated interrupts as fast as it can.
fn program() -> Program {
    let build = |further: u64| {
        let mut program = Program::new();
        program.constant(19, GUEST_RAM + WORDS).constant(22, 3 << 24 | 1 << 1);
        program.constant(0, CPU_ON).constant(1, 1).constant(2, further).constant(3, 0).call();
        let absent = program.here();
        program.load(20, 19, 0).constant(21, 0).compare(20, 21).branch_equal(absent);
        program.constant(21, AWAY);
        let early = program.here();
        program.counter(20).compare(20, 21).branch_below(early);
        program.constant(23, SENT);
        let again = program.here();
        program.word(0xd518_cba0 | 22).subtract(23, 23, 1).branch_not_zero(23, again); // MSR ICC_SGI1R_EL1, x22
        program.constant(20, 1).store(20, 19, DONE).stay();
        let further = GUEST_LOAD + program.offset();
        program.constant(19, GUEST_RAM + WORDS).constant(20, 1).store(20, 19, 0).spin();
        (program, further)
    };
    // A constant always takes four instructions, so the second pass has the same offsets.
    let (_, further) = build(0);
    build(further).0
}

#[test]
fn a_storm_to_a_sibling_that_is_away_enters_its_core_once() {
    let system = System::from_text_with_programs("siblings", SYSTEM, &[("two", &program())]);
    let mut running = system.start();
    let ram = system.plan().partitions[TWO].ram()[0].physical;
    let done = PhysicalAddress(ram.0 + WORDS + u64::from(DONE));
    let waited = running.wait_for("vCPU 0", LIMIT, |view| (view.ram.load_u64(done)? == 1).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(running.counter("two", Counter::SendSgi), SENT);
    // It counts on the vCPU that is loaded: the start of vCPU 1, the first post while it was loaded or when it was away, and nothing of the rest.
    let entries = running.counter("keeper", Counter::MonitorInterrupt);
    println!("{entries} interrupts of the monitor on the keeper's core");
    assert!((1..=3).contains(&entries), "{entries} interrupts of the monitor on the keeper's core");
    running.assert_no_crash();
}
