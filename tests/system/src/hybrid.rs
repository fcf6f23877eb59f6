//! Partitions below a payload, of which one has its interrupts to itself and nobody's trust (`guests/stubborn`), and guests of a few instructions
//! that send each other software-generated interrupts.

use crate::assemble::Program;
use crate::remote::GUEST_RAM;
use crate::{LIMIT, System};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::Counter;

/// The payload ticks on core 0, with the manager below it; the guest has core 1 and its interrupts.
#[must_use]
pub fn text(keeper: &str, stubborn: &str) -> String {
    format!(
        r#"{HEAD}
[[partition]]
name = "keeper"
cores = [0]
memory = "2 MiB"
image = {{ kind = "elf", file = "guest:stubborn.elf" }}
arguments = "role=keeper target=1 {keeper}"
trust = "trusted"
manages = true

[[partition]]
name = "stubborn"
cores = [1]
memory = "2 MiB"
image = {{ kind = "elf", file = "guest:stubborn.elf" }}
arguments = "role=stubborn {stubborn}"
interrupts = "direct"
sgi = "filtered"
"#
    )
}

/// A payload above partitions, which follow.
pub const HEAD: &str = r#"version = 1
name = "stopped"
board = "qemu-virt-secure"
memory = "128 MiB"

[secure]
payload = { kind = "freertos", file = "guest:multi-world.elf" }
memory = "1 MiB"
devices = ["secure-uart", "secure-gpio"]
non_secure = { partitions = true }
servers = [{ name = "btask", priority = 1 }]
"#;

/// The system in which a manager stops a guest that has masked everything that often, starts it again, and leaves it suspended ([`STOPPED`]).
#[must_use]
pub fn stopping(rounds: u64) -> System {
    System::from_text("stopped", &text(&format!("rounds={rounds} after_ms=40"), "quiet_ms=20 sgis=1"))
}

/// What the manager says last.
pub const STOPPED: &str = "leaves it suspended";

/// Exits and calls that each tick of a millisecond costs a guest that nobody trusts, up to this number of them, and how late the latest came, in counter
/// ticks. A guest with one tick has all of its own that is not for a tick, so the difference of two whole runs is exact.
///
/// # Panics
/// When the guest does not take them, or has fewer with more ticks.
#[must_use]
pub fn exits_beside_ticks(ticks: u64) -> (u64, u64) {
    let ((with_all, late), (with_one, _)) = (entries_until_quiet(ticks), entries_until_quiet(1));
    (with_all.checked_sub(with_one).expect("ticks take no entries away"), late)
}

/// Exits and calls of the guest from its start to the end of its ticks, where it sleeps for good, and how late the latest tick came.
fn entries_until_quiet(ticks: u64) -> (u64, u64) {
    // Nobody manages: without that role its program is over at once.
    let text = text("", &format!("quiet_ms={ticks} masks=0")).replace("role=keeper", "role=nobody");
    let mut machine = System::from_text("stopped", &text).start_exact(4);
    let quiet = machine.line("stubborn", "stubborn quiet");
    let all = [Counter::Exits, Counter::Hypercall, Counter::Psci];
    let entries = all.map(|counter| machine.counter("stubborn", counter)).iter().sum::<u64>();
    let late = quiet.strip_prefix(&format!("stubborn quiet {ticks} ticks, at worst "));
    let late = late.and_then(|rest| rest.strip_suffix(" late")?.parse().ok());
    machine.assert_no_crash();
    (entries, late.unwrap_or_else(|| panic!("{quiet}")))
}

/// By core: the machine starts on the first one.
const NAMES: [&str; 3] = ["first", "sender", "receiver"];
/// Where a guest counts, in its RAM.
const COUNTED: u64 = 0x20_0000;
/// MSR of x0 to ICC_SGI1R_EL1, ICC_ASGI1R_EL1, ICC_SGI0R_EL1.
const SENDS: [u32; 3] = [0xd518_cba0, 0xd518_cbc0, 0xd518_cbe0];
const IAR1: u32 = 0xd538_cc01; // MRS x1, ICC_IAR1_EL1
const EOIR1: u32 = 0xd518_cc21; // MSR ICC_EOIR1_EL1, x1
const ISB: u32 = 0xd503_3fdf;

/// Every number by every register to every core that its affinity can name, and to all others; then it counts, and again.
fn sender() -> Program {
    let mut program = Program::new();
    program.constant(19, GUEST_RAM + COUNTED).constant(20, 0);
    let again = program.here();
    for intid in 0..16_u64 {
        for targets in [0xffff, 1 << 40] {
            program.constant(0, intid << 24 | targets);
            for register in SENDS {
                program.word(register);
            }
        }
    }
    program.word(ISB).add(20, 20, 1).store(20, 19, 0).branch(again);
    program
}

/// Opens all numbers on its side, and counts what it takes, and how often it looks.
fn receiver() -> Program {
    let mut program = Program::new();
    program.constant(0, 0x12).constant(1, 0x0800_0000).store32(0, 1, 0);
    program.constant(0, 0xffff).constant(1, 0x080b_0000).store32(0, 1, 0x100).barrier();
    program.constant(0, 0xff).word(0xd518_4600).constant(0, 1).word(0xd518_cce0).word(ISB); // ICC_PMR_EL1, ICC_IGRPEN1_EL1
    program.constant(19, GUEST_RAM + COUNTED).constant(20, 0).constant(21, 0).constant(2, 1023);
    let again = program.here();
    program.add(21, 21, 1).store(21, 19, 8).word(IAR1).compare(1, 2);
    program.word(0x5400_0000 | 5 << 5); // B.EQ over what an interrupt needs
    program.word(EOIR1).add(20, 20, 1).store(20, 19, 0).branch(again).branch(again);
    program
}

fn direct(name: &str, core: u32, rest: &str) -> String {
    format!(
        "\n[[partition]]\nname = \"{name}\"\ntrust = \"trusted\"\ncores = [{core}]\nmemory = \"4 MiB\"\n\
         image = {{ kind = \"raw\", file = \"{name}.bin\", load = 0x4008_0000 }}\nconsole = \"none\"\ninterrupts = \"direct\"\n{rest}"
    )
}

/// Software-generated interrupts that a `direct` guest takes while another one on another core sends all there are, unfiltered, this number of times.
/// The receiver's core has none open, or, where the monitor sends for the receiver, those of a kernel.
///
/// # Panics
/// When one of them does not do its work.
#[must_use]
pub fn foreign_sgis(rounds: u64, receiver_is_filtered: bool) -> u64 {
    let filtered = if receiver_is_filtered { "sgi = \"filtered\"\n" } else { "" };
    let rests = ["", "", filtered];
    let text: String = (0..).zip(NAMES).zip(rests).map(|((core, name), rest)| direct(name, core, rest)).collect();
    let mut stays = Program::new();
    stays.stay();
    let programs = [(NAMES[0], &stays), (NAMES[1], &sender()), (NAMES[2], &receiver())];
    let mut machine = System::from_text_with_programs("sgis", &format!("{HEAD}{text}"), &programs).start_exact(4);
    let plan = machine.watch().plan();
    let counted = |partition: usize, word: u64| {
        let ram = &plan.partitions[partition].ram[0];
        PhysicalAddress(ram.physical.0 + COUNTED + 8 * word)
    };
    let (sent, taken, looks) = (counted(1, 0), counted(2, 0), counted(2, 1));
    let mut wait = |what: &str, place: PhysicalAddress, least: u64| {
        let found = machine.wait_for(what, LIMIT, |view| view.ram.load_u64(place).filter(|count| *count >= least));
        found.unwrap_or_else(|error| panic!("{error}"))
    };
    // It is open before it looks, and looks after the last one that is counted.
    wait("the receiver to look", looks, 1);
    let before = wait("the sender to send", sent, 1);
    wait("the sender to send all", sent, before + rounds);
    let before = wait("the receiver to look", looks, 1);
    wait("the receiver to look again", looks, before + 100);
    let found = machine.ram().load_u64(taken).expect("the receiver is in RAM");
    machine.assert_no_crash();
    found
}
