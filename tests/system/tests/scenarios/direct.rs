//! Guests that own the physical CPU interface of their cores: software-generated interrupts between cores without an exit, and what a restart
//! leaves of the interface. With two security states EL1 has the non-secure view of it, and groups are those that firmware made.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{STATE_RUNNING, STATE_STOPPED};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::GUEST_RAM;
use bulkhead_system_tests::{LIMIT, Running, System};

const SYSTEM_RESET: u64 = 0x8400_0009;
/// Frame of the private interrupts, in guest addresses.
const GICR_SGI: u64 = 0x080b_0000;
const ISENABLER: u32 = 0x100;
/// Interrupts that a guest took, in its RAM.
const TAKEN: u64 = 0x20_0000;
/// Interrupts that go to the first and to the second core.
const IDS: [u64; 2] = [5, 6];
const ROUNDS: u64 = 1000;
/// Looks at the interface before an interrupt is sent again: one that comes while the other core starts is gone.
const PATIENCE: u64 = 100_000;

const IAR1: u32 = 0xd538_cc01; // MRS x1, ICC_IAR1_EL1
const EOIR1: u32 = 0xd518_cc21; // MSR ICC_EOIR1_EL1, x1
const SGI1R: u32 = 0xd518_cba0; // MSR ICC_SGI1R_EL1, x0
const ISB: u32 = 0xd503_3fdf;

/// Lets a guest take software-generated interrupts: the distributor's switch, its own enables, mask and group.
fn prepare(program: &mut Program) {
    program.constant(0, 0x12).constant(1, 0x0800_0000).store32(0, 1, 0);
    program.constant(0, 0xffff).constant(1, GICR_SGI).store32(0, 1, ISENABLER).barrier();
    program.constant(0, 0xff).word(0xd518_4600).constant(0, 1).word(0xd518_cce0).word(ISB); // ICC_PMR_EL1, ICC_IGRPEN1_EL1
}

/// Sends an interrupt to a core.
fn send(program: &mut Program, core: usize) {
    program.constant(0, IDS[core] << 24 | 1 << core).word(SGI1R).word(ISB);
}

/// Takes interrupts, counts them, and sends one to the other core for each, and one when none comes.
fn volley(core: usize) -> Program {
    let mut program = Program::new();
    prepare(&mut program);
    program.constant(19, GUEST_RAM + TAKEN).constant(20, 0).constant(2, IDS[core]);
    let again = program.here();
    send(&mut program, 1 - core);
    program.constant(21, PATIENCE);
    let poll = program.here();
    program.word(IAR1).compare(1, 2);
    // B.EQ over what follows to the end of the interrupt.
    program.word(0x5400_0000 | 4 << 5).subtract(21, 21, 1).branch_not_zero(21, poll).branch(again);
    program.word(EOIR1).add(20, 20, 1).store(20, 19, 0).branch(again);
    program
}

fn partition(name: &str, core: usize, rest: &str) -> String {
    format!(
        "\n[[partition]]\nname = \"{name}\"\ntrust = \"trusted\"\ncores = [{core}]\nmemory = \"4 MiB\"\n\
         image = {{ kind = \"raw\", file = \"{name}.bin\", load = 0x4008_0000 }}\nconsole = \"none\"\ninterrupts = \"direct\"\n{rest}"
    )
}

fn start(partitions: &str, programs: &[(&str, &Program)]) -> Running {
    let text = format!("version = 1\nname = \"direct\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n{partitions}");
    System::from_text_with_programs("direct", &text, programs).start()
}

/// QV-16: interrupts go from core to core and back by ICC_SGI1R_EL1, no monitor has a part in it, and none filters them (BH0209). A partition
/// with such interrupts has one core (BH0206), so these are two that were declared trusted.
#[test]
fn direct_guests_interrupt_each_other_across_cores() {
    let names = ["left", "right"];
    let partitions = partition(names[0], 0, "") + &partition(names[1], 1, "");
    let mut running = start(&partitions, &[(names[0], &volley(0)), (names[1], &volley(1))]);
    let plan = running.watch().plan();
    let places = [0, 1].map(|index| PhysicalAddress(plan.partitions[index].ram[0].physical.0 + TAKEN));
    let at_least = |running: &mut Running, count: u64| {
        let waited = running.wait_for("both cores to take interrupts", LIMIT, |view| {
            let taken = [view.ram.load_u64(places[0])?, view.ram.load_u64(places[1])?];
            taken.iter().all(|taken| *taken >= count).then_some(())
        });
        waited.unwrap_or_else(|error| panic!("{error}"));
    };
    at_least(&mut running, 1);
    let exits = names.map(|name| running.counter(name, Counter::Exits));
    at_least(&mut running, 1 + ROUNDS);
    assert_eq!(names.map(|name| running.counter(name, Counter::Exits)), exits, "no exit, to send or to take");
    assert_eq!(names.map(|name| running.status(name).state), [STATE_RUNNING; 2]);
    running.assert_no_crash();
}

/// SG-62, QV-16: who is restarted while an interrupt is active finds the interface as after a reset: the same interrupt comes again, as often
/// as it likes.
#[test]
fn a_direct_guest_that_is_restarted_in_a_handler_takes_interrupts() {
    let mut program = Program::new();
    prepare(&mut program);
    program.constant(2, IDS[0]);
    send(&mut program, 0);
    let poll = program.here();
    program.word(IAR1).compare(1, 2);
    program.word(0x5400_0040).branch(poll); // B.EQ over the branch
    program.constant(0, SYSTEM_RESET).call().stay();
    let policy = "health = { on_fault = \"restart\", max = 8, within = \"600 s\" }\n";
    let mut running = start(&partition("direct", 0, policy), &[("direct", &program)]);
    let status = running.wait_for_state("direct", STATE_STOPPED);
    assert_eq!((status.generation, status.restarts), (9, 8));
    running.assert_no_crash();
}
