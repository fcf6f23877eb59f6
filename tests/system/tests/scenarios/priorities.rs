//! A guest has 32 priority levels on every board: with one security state, where EL2 has as many, and with two, where it has half of
//! them and the last is never signalled.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::{CRASH_INTERRUPT, CRASH_SECURITY_STATES, CrashRecord};
use bulkhead_abi::plan::INTERRUPT_CONSOLE;
use bulkhead_description::board::{BUILT_IN, built_in_board};
use bulkhead_run::{CrashReport, Phase};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::GUEST_RAM;
use bulkhead_system_tests::{LIMIT, Running, System};
use std::path::Path;

const GICD: u64 = 0x0800_0000;
const GICR_SGI: u64 = 0x080b_0000;
const IGROUPR: u64 = 0x080;
const ISENABLER: u64 = 0x100;
const ISPENDR: u64 = 0x200;
const ICPENDR: u64 = 0x280;
const IPRIORITYR: u64 = 0x400;
/// No interrupt.
const NONE: u64 = 1023;
/// PPI of the virtual timer.
const TIMER: u32 = 27;
const LEVELS: u64 = 32;
/// What the guest leaves: in front the word that says that it is done, then four words for each level.
const RESULTS: u64 = 0x10_0000;
const WORDS: u64 = 4;

/// MSR or MRS of a system register.
const fn system(read: bool, [op1, crn, crm, op2]: [u32; 4], register: u32) -> u32 {
    0xd518_0000 | (read as u32) << 21 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5 | register
}

const ICC_PMR: [u32; 4] = [0, 4, 6, 0];
const ICC_IAR1: [u32; 4] = [0, 12, 12, 0];
const ICC_EOIR1: [u32; 4] = [0, 12, 12, 1];
const ICC_RPR: [u32; 4] = [0, 12, 11, 3];
const ICC_IGRPEN1: [u32; 4] = [0, 12, 12, 7];
const CNTV_CVAL: [u32; 4] = [3, 14, 3, 2];
const CNTV_CTL: [u32; 4] = [3, 14, 3, 1];

fn set(program: &mut Program, register: [u32; 4], value: u64) {
    program.constant(1, value).word(system(false, register, 1));
}

fn store(program: &mut Program, address: u64, value: u64) {
    program.constant(0, address).constant(1, value).store32(1, 0, 0);
}

/// A guest that gives an interrupt each priority in turn, reads it back, makes the interrupt pending and takes it.
fn levels(intid: u32) -> Program {
    let frame = if intid < 32 { GICR_SGI } else { GICD };
    let word = u64::from(intid / 32 * 4);
    let (bit, shift) = (1 << (intid % 32), intid % 4 * 8);
    let priority = frame + IPRIORITYR + u64::from(intid & !3);
    let mut program = Program::new();
    program.word(0xd503_4fdf); // MSR DAIFSet, #15: interrupts are looked for
    set(&mut program, ICC_PMR, 0xff);
    set(&mut program, ICC_IGRPEN1, 1);
    store(&mut program, frame + ISENABLER + word, bit);
    for level in 0..LEVELS {
        store(&mut program, priority, (8 * level) << shift);
        program.load32(3, 0, 0);
        if intid == TIMER {
            set(&mut program, CNTV_CVAL, 0);
            set(&mut program, CNTV_CTL, 1);
        } else {
            store(&mut program, frame + ISPENDR + word, bit);
        }
        // It comes at once, or not at all.
        program.constant(2, 1000);
        let again = program.here();
        program.word(system(true, ICC_IAR1, 4)).subtract(5, 4, NONE as u32);
        let taken = program.skip_not_zero(5);
        program.subtract(2, 2, 1).branch_not_zero(2, again);
        program.land(taken).word(system(true, ICC_RPR, 5));
        set(&mut program, CNTV_CTL, 0);
        program.word(system(false, ICC_EOIR1, 4));
        store(&mut program, frame + ICPENDR + word, bit);
        program.constant(0, frame + IGROUPR + word).load32(6, 0, 0);
        program.constant(0, GUEST_RAM + RESULTS + 8 * (1 + WORDS * level));
        for (place, register) in (0..).zip([3, 4, 5, 6]) {
            program.store(register, 0, 8 * place);
        }
    }
    program.barrier().constant(0, GUEST_RAM + RESULTS).constant(1, 1).store(1, 0, 0).stay();
    program
}

/// The partition `levels` on a core of its own, or beside another one.
fn description(board: &str, is_shared: bool) -> String {
    let mut text = format!("version = 1\nname = \"levels\"\nboard = \"{board}\"\nmemory = \"256 MiB\"\n");
    let servers =
        |priority: u32| if is_shared { format!("servers = [ {{ priority = {priority} }} ]\n") } else { String::new() };
    for (name, core, console, rest) in
        [("levels", 0, "pl011", servers(1)), ("other", u32::from(!is_shared), "none", servers(2))]
    {
        text.push_str(&format!(
            "[[partition]]\nname = \"{name}\"\ncores = [{core}]\nmemory = \"4 MiB\"\nconsole = \"{console}\"\n\
             image = {{ kind = \"raw\", file = \"{name}.bin\", load = 0x4008_0000 }}\n{rest}"
        ));
    }
    if is_shared {
        text.push_str("[[schedule]]\ncore = 0\nkind = \"fixed-priority\"\n");
    }
    text
}

fn build(board: &str, is_shared: bool, program: &Program) -> System {
    let other = Program::new().spin().clone();
    System::unjudged("levels", &description(board, is_shared), &[("levels", program), ("other", &other)])
}

/// What the guest found, for each level.
fn results(running: &mut Running) -> Vec<[u64; WORDS as usize]> {
    let ram = running.watch().plan().partitions[running.index("levels")].ram[0].physical;
    let word = |number: u64| PhysicalAddress(ram.0 + RESULTS + 8 * number);
    let done = running
        .wait_for("the guest to try every level", LIMIT, |view| view.ram.load_u64(word(0)).filter(|done| *done == 1));
    done.unwrap_or_else(|error| panic!("{error}"));
    running.assert_no_crash();
    let load = |number| running.ram().load_u64(word(number)).expect("it is in RAM");
    (0..LEVELS).map(|level| std::array::from_fn(|place| load(1 + WORDS * level + place as u64))).collect()
}

/// Names and texts of the boards that partitions can run on.
fn for_partitions() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUILT_IN.files.iter().copied().filter(|(name, _)| built_in_board(name).is_some_and(|board| board.secure.is_none()))
}

/// What a guest writes is what it reads and what its interrupt has when it comes, private or shared, on a core of its own or
/// on a shared one, whatever the board's interrupt controller has. Only the last level never comes: it is as urgent as the largest mask.
#[test]
fn a_guest_has_32_levels_on_every_board() {
    for (board, _) in for_partitions() {
        for is_shared in [false, true] {
            let plan = build(board, is_shared, &levels(TIMER)).plan();
            let console = plan.partitions[0].interrupts().iter().find(|interrupt| interrupt.kind == INTERRUPT_CONSOLE);
            let shared = console.expect("a guest with a console has its interrupt").intid;
            for intid in [TIMER, shared] {
                let what = format!("{board}, interrupt {intid}, shared core: {is_shared}");
                let mut running = build(board, is_shared, &levels(intid)).start();
                for (level, [written, taken, priority, group]) in
                    (0..).map(|level| 8 * level).zip(results(&mut running))
                {
                    assert_eq!(written >> (intid % 4 * 8) & 0xff, level, "{what}: read back");
                    let comes = level != 0xf8;
                    let expected = if comes { (u64::from(intid), level) } else { (NONE, 0xff) };
                    assert_eq!((taken, priority), expected, "{what}: taken, and how urgent it was");
                    assert_eq!(
                        group >> (intid % 32) & 1,
                        1,
                        "{what}: group 1 to the guest, which knows one security state"
                    );
                }
            }
        }
    }
}

/// Runs a system on a board whose file says something else than the board is; returns what a user reads of it.
fn crash_of(what: &str, board: &str, replacements: &[(&str, &str)]) -> (CrashRecord, String) {
    let (_, text) = BUILT_IN.files.iter().find(|(name, _)| *name == board).expect("it is built in");
    let changed = replacements.iter().fold((*text).to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{board} does not say {old}");
        text.replace(old, new)
    });
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{what}-{board}.toml"));
    std::fs::write(&file, changed).expect("the board file is written");
    let system = build(file.to_str().expect("UTF-8"), false, &levels(TIMER));
    let mut running = system.start();
    running.tolerates_crashes = true;
    let report = running.wait_for("the monitor to refuse the board", LIMIT, |view| CrashReport::find(view.observer?));
    let report = report.unwrap_or_else(|error| panic!("{board}: {error}"));
    assert_ne!(running.watch().phase(report.core), Phase::GuestEntered, "{board}: no guest ran there");
    (report.record, report.to_string())
}

/// One security state claimed where there are two, and the other way round, ends at boot with the line to change.
#[test]
fn other_security_states_than_the_board_file_says_are_a_crash_by_name() {
    for (board, text) in for_partitions() {
        let (says, has) = if text.contains("security_states = 1") { (1, 2) } else { (2, 1) };
        let (says_text, has_text) = (format!("security_states = {says}"), format!("security_states = {has}"));
        let (record, message) = crash_of("states", board, &[(&says_text, &has_text)]);
        assert_eq!((record.kind, record.detail), (CRASH_SECURITY_STATES, says), "{message}");
        assert!(message.contains(&format!("Set `security_states = {says}` in the board file's")), "{message}");
    }
}

/// Of an interrupt that is not there EL2 sees what it sees of one that firmware kept: zeros.
#[test]
fn an_interrupt_that_the_board_has_not_is_a_crash_by_name() {
    let more = ("shared_interrupts = 160", "shared_interrupts = 224");
    let (record, message) =
        crash_of("absent", "xlnx-versal-virt", &[more, ("first = 100, last = 110", "first = 200, last = 255")]);
    assert_eq!(record.kind, CRASH_INTERRUPT, "{message}");
    assert!((200..256).contains(&record.detail), "{message}");
    assert!(message.contains(&format!("cannot set interrupt {}: firmware kept it", record.detail)), "{message}");
}
