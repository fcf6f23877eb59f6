//! What a vCPU pays to tell one that shares its core something, and what the one that has that core meanwhile pays: counted instruction
//! by instruction (MZ-17). Storms of it are one entry.

use bulkhead_abi::PhysicalAddress;
use bulkhead_run::CountingOptions;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::{GUEST_LOAD, GUEST_RAM};
use bulkhead_system_tests::{LIMIT, System};

/// vCPU 1 computes until its budget is used up, and is away from then on: the keeper has the core at a known instant and keeps it.
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
arguments = "role=hog start_us=1000 log=0"
servers = [{ priority = 5 }]

[[partition]]
name = "two"
cores = [1, 0]
memory = "4 MiB"
image = { kind = "raw", file = "two.bin", load = 0x4008_0000 }
console = "none"
servers = [{ vcpu = 1, priority = 1, rule = "polling", budget = "100 ms", period = "10 s" }]
"#;
const CPU_ON: u64 = 0xc400_0003;
/// Ticks of the counter from reset on, 1 s: the budget is used up, and the next one is far away.
const AWAY: u64 = 62_500_000;
/// In the partition's RAM: vCPU 1 was there; vCPU 0 is done.
const WORDS: u64 = 0x20_0000;
const DONE: u32 = 8;
const TWO: usize = 1;

/// vCPU 0 starts vCPU 1, waits until it is away, and sends it as many software-generated interrupts.
fn program(count: u64) -> Program {
    let build = |further: u64| {
        let mut program = Program::new();
        program.constant(19, GUEST_RAM + WORDS);
        program.constant(0, CPU_ON).constant(1, 1).constant(2, further).constant(3, 0).call();
        let absent = program.here();
        program.load(20, 19, 0).constant(21, 0).compare(20, 21).branch_equal(absent);
        program.constant(21, AWAY);
        let early = program.here();
        program.counter(20).compare(20, 21).branch_below(early);
        program.constant(22, 3 << 24 | 1 << 1).constant(23, count + 1);
        let again = program.here();
        program.subtract(23, 23, 1).constant(20, 0).compare(23, 20);
        program.word(0x5400_0000 | 3 << 5); // B.EQ over the next two
        program.word(0xd518_cba0 | 22).branch(again); // MSR ICC_SGI1R_EL1, x22
        program.constant(20, 1).store(20, 19, DONE).stay();
        let further = GUEST_LOAD + program.offset();
        program.constant(19, GUEST_RAM + WORDS).constant(20, 1).store(20, 19, 0).spin();
        (program, further)
    };
    // A constant takes four instructions whatever it is, so the second pass has the same offsets.
    let (_, further) = build(0);
    build(further).0
}

/// Instructions of the monitor since the guests' first: on the keeper's core, and on that of vCPU 0.
fn cost(count: u64) -> [u64; 2] {
    let system = System::unjudged("siblings", SYSTEM, &[("two", &program(count))]);
    let plan = system.plan();
    let mut running = system.start_with(|options| {
        options.icount_shift = Some(4);
        options.counting = Some(CountingOptions::for_monitor(&plan));
    });
    let ram = plan.partitions[TWO].ram()[0].physical;
    let done = PhysicalAddress(ram.0 + WORDS + u64::from(DONE));
    let waited = running.wait_for("vCPU 0", LIMIT, |view| (view.ram.load_u64(done)? == 1).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
    let counts = running.counts().unwrap_or_else(|error| panic!("{error}"));
    [0, 1].map(|core| counts.cores[core].range("monitor").expect("the range is counted").since)
}

/// The first interrupt that is sent in an absence enters the core, and says what is to be decided there; the others are a word that the sender
/// writes (H24).
#[test]
fn interrupts_to_a_sibling_that_is_away() {
    let [none, one, many] = [0, 1, 1001].map(cost);
    let (entry, first) = (one[0] - none[0], one[1] - none[1]);
    let (entries, sent) = (many[0] - one[0], many[1] - one[1]);
    println!(
        "instructions (not cycles): sender {first}, the core of the one that is away {entry}, together {}; {} for each of 1,000 more",
        first + entry,
        sent / 1000
    );
    assert_eq!(entries, 0, "instructions on the core of the keeper for what is sent after the first");
    assert_eq!(sent % 1000, 0, "each costs the same");
    // Both ways, there and back to both guests. What is up to the decision alone was to be at most 320.
    assert!(first + entry <= 440, "{first} + {entry}");
}
