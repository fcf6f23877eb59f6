//! What a core keeps of a vCPU, made from the list in `core/emulation/src/state.rs`: patterns in everything that is switched, seen
//! by the owner alone and by no later life of it; attempts on everything that traps, is constant, harmless or absent, seen by
//! nobody (A1, A6 and A12 of docs/base-findings.md).

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::hypercall::{CALL_HEARTBEAT, CALL_PARTITION_RESTART, SUCCESS};
use bulkhead_abi::status::{STATE_RUNNING, StatusPage};
use bulkhead_emulation::own_registers::OWN_REGISTERS;
use bulkhead_emulation::registers::{REGISTER_GROUPS, Treatment};
use bulkhead_emulation::state::{CORE_STATE, CoreState, Handling, OWN_STACK, UNTRIED};
use bulkhead_emulation::sysreg::SystemAction;
use bulkhead_emulation::trap::encoding;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::{self, GUEST_LOAD, GUEST_RAM};
use bulkhead_system_tests::sharing::Description;
use bulkhead_system_tests::{LIMIT, Remote, Running};
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

const DUMP: u64 = GUEST_RAM + 0x20_0000;
/// Words of the dump: x1 to x30 at their numbers, then v0 to v31, FPCR and FPSR, then the list.
const VECTORS: u32 = 32;
const FPCR: u32 = VECTORS + 64;
const LISTED: u32 = FPCR + 2;
/// What was read back right after the pattern was written, and what was found later instead, with a count.
const KEPT: u32 = LISTED + 80;
const DIFFERENCES: u32 = KEPT + 80;
/// The guest waits for a word here: how it is to end.
const ORDER: u32 = DIFFERENCES + 1;
/// And says here that it does.
const READY: u32 = ORDER + 1;
/// What each attempt read at first, and the syndrome of the exception that its latest write ended in.
const FOUND: u32 = READY + 1;
const WRITTEN: u32 = FOUND + 150;
/// In place of what was read: the read was UNDEFINED.
const MARK: u64 = 0x5ca1_ab1e_0bad_0bad;
/// Where nothing is mapped.
const NOWHERE: u64 = 0x7000_0000;
const SYSTEM_RESET: u64 = 0x8400_0009;
const CPU_ON: u64 = 0xc400_0003;
const CPU_OFF: u64 = 0x8400_0002;
/// The order that ends in [`CPU_OFF`].
const SWITCH_OFF: u64 = 5;

fn field(encoding: u32, shift: u32, bits: u32) -> u32 {
    encoding >> shift & ((1 << bits) - 1)
}

/// MRS (or, without bit 21, MSR) of an encoding of [`encoding`] with a register; of the stack pointer, MOV.
pub(super) fn access(encoding: u32, register: u32, is_read: bool) -> u32 {
    if encoding == OWN_STACK {
        return if is_read { 0x9100_03e0 | register } else { 0x9100_001f | register << 5 };
    }
    let field = |shift: u32, bits: u32| field(encoding, shift, bits);
    let (op0, op2, op1, crn, crm) = (field(20, 2), field(17, 3), field(14, 3), field(10, 4), field(1, 4));
    0xd500_0000 | u32::from(is_read) << 21 | op0 << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5 | register
}

/// What has a pattern: its place in the dump, and the entry.
fn patterned() -> impl Iterator<Item = (u32, &'static CoreState)> {
    let is_switched = |state: &&CoreState| state.handling == Handling::Switched && state.encoding != 0;
    (LISTED..).zip(CORE_STATE.iter().filter(is_switched))
}

/// What a guest finds that reads a register, after any writes of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// The read is UNDEFINED.
    Undefined,
    /// This value.
    Value(u64),
    /// This value; or UNDEFINED, for the architecture has some registers for writing alone, and QEMU has not all of them.
    Trapped(u64),
    /// What it found at first.
    Same,
    /// The same, UNDEFINED or not.
    SameOrUndefined,
    /// Time.
    Changing,
    /// It is an instruction, with nothing to be read.
    Nothing,
}

/// An attempt on a register, or on an instruction with an encoding of its own.
#[derive(Clone, Copy)]
struct Attempt {
    what: &'static str,
    encoding: u32,
    reading: Reading,
    /// Whether a write is UNDEFINED; none if it may be.
    is_write_undefined: Option<bool>,
}

/// CNTPCT_EL0 and CNTVCT_EL0.
const COUNTERS: [u32; 2] = [encoding(3, 3, 14, 0, 1), encoding(3, 3, 14, 0, 2)];

/// A register that some type of core has of its own, which HCR_EL2.TIDCP keeps from guests. QEMU 7.2 does not know that bit and lets
/// guests reach those that both types have, as registers in which nothing stays.
fn is_without_trap_on_qemu(encoding: u32) -> bool {
    OWN_REGISTERS.iter().any(|own| own.encoding == encoding && own.types.len() > 1)
}

impl Attempt {
    fn new(what: &'static str, encoding: u32, reading: Reading, is_write_undefined: Option<bool>) -> Self {
        // Cache and TLB maintenance (op0 = 1) has nothing to be read.
        let is_instruction = field(encoding, 20, 2) == 1;
        let reading = if is_instruction { Reading::Nothing } else { reading };
        Self { what, encoding, reading, is_write_undefined }
    }

    /// What everybody may read and nobody may write.
    fn fact(what: &'static str, encoding: u32) -> Self {
        let reading = if COUNTERS.contains(&encoding) { Reading::Changing } else { Reading::Same };
        Self::new(what, encoding, reading, Some(field(encoding, 20, 2) != 1))
    }

    fn absent(what: &'static str, encoding: u32) -> Self {
        Self::new(what, encoding, Reading::Undefined, Some(true))
    }

    fn of_group(what: &'static str, treatment: Treatment, encoding: u32) -> Option<Self> {
        match treatment {
            Treatment::Switched => None,
            _ if is_without_trap_on_qemu(encoding) => Some(Self::new(what, encoding, Reading::SameOrUndefined, None)),
            Treatment::Trapped { read, write, .. } => {
                let reading = match read {
                    SystemAction::Read(value) => Reading::Trapped(value),
                    _ => Reading::Undefined,
                };
                let is_write_undefined = (write == SystemAction::Undefined).then_some(true);
                Some(Self::new(what, encoding, reading, is_write_undefined))
            }
            Treatment::Harmless => Some(Self::fact(what, encoding)),
            Treatment::Absent => Some(Self::absent(what, encoding)),
        }
    }

    fn of_state(state: &CoreState) -> Option<Self> {
        let is_untried = UNTRIED.iter().any(|(name, _)| *name == state.name);
        match state.handling {
            _ if state.encoding == 0 => None,
            // Switched, but nothing can be filled: RES0.
            Handling::Switched if is_untried => {
                Some(Self::new(state.name, state.encoding, Reading::Value(0), Some(false)))
            }
            // op1 = 4: EL2's own.
            Handling::Constant if field(state.encoding, 14, 3) == 4 => Some(Self::absent(state.name, state.encoding)),
            Handling::Constant => Some(Self::fact(state.name, state.encoding)),
            _ => None,
        }
    }
}

impl Display for Attempt {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let Self { what, encoding, reading, .. } = self;
        let part = |shift, bits| field(*encoding, shift, bits);
        let (op0, op1, op2) = (part(20, 2), part(14, 3), part(17, 3));
        write!(to, "S{op0}_{op1}_C{}_C{}_{op2} ({what}; reads as {reading:x?})", part(10, 4), part(1, 4))
    }
}

/// Everything that is not filled with a pattern, each encoding once.
fn attempts() -> Vec<Attempt> {
    let groups = REGISTER_GROUPS.iter().flat_map(|group| {
        group.samples.iter().filter_map(|one| Attempt::of_group(group.registers, group.treatment, *one))
    });
    let mut seen = BTreeSet::new();
    let all = groups.chain(CORE_STATE.iter().filter_map(Attempt::of_state));
    all.filter(|attempt| seen.insert(attempt.encoding)).collect()
}

fn pattern(seed: u64, place: u32) -> u64 {
    let mixed = (seed << 32 | u64::from(place)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// What a guest fills in: for odd seeds not what a start finds, and another pattern for odd and for even ones.
fn filling(seed: u64, place: u32, state: &CoreState) -> u64 {
    if state.name == "CPACR_EL1" {
        // Floating point stays on for what follows.
        return state.bits;
    }
    let lowest = state.bits & state.bits.wrapping_neg();
    let others = state.bits & !lowest;
    let mixed = pattern(seed, place) & others;
    if seed % 2 == 1 {
        mixed | lowest
    } else if mixed == 0 {
        others
    } else {
        mixed
    }
}

/// Stores what it finds at its first instructions, fills everything, watches it while it waits for an order, and ends so.
fn watcher(seed: u64) -> Program {
    watcher_behind(Program::new(), seed)
}

/// The same for vCPU 1, which vCPU 0 switches on whenever it is off.
fn secondary_watcher(seed: u64) -> Program {
    let build = |entry: u64| {
        let mut program = Program::new();
        let again = program.here();
        program.constant(0, CPU_ON).constant(1, 1).constant(2, entry).constant(3, 0).call().branch(again);
        let entry = GUEST_LOAD + program.offset();
        (watcher_behind(program, seed), entry)
    };
    // A constant takes four instructions whatever it is, so the second pass has the same offsets.
    build(build(0).1).0
}

fn watcher_behind(mut program: Program, seed: u64) -> Program {
    // x0 is given by the boot protocol; it is the one register that is not looked at.
    program.constant(0, DUMP);
    for register in 1..31 {
        program.store(register, 0, 8 * register);
    }
    program.word(0xd53b_4201).store(1, 0, 0); // MRS x1, NZCV
    for (place, state) in patterned() {
        program.word(access(state.encoding, 1, true)).store(1, 0, 8 * place);
    }
    program.constant(1, 3 << 20).word(0xd518_1041).word(0xd503_3fdf); // MSR CPACR_EL1, x1; ISB
    for register in 0..32 {
        program.word(0x3d80_0000 | (VECTORS / 2 + register) << 10 | register); // STR q, [x0, ...]
    }
    for (place, operation) in [(FPCR, 0), (FPCR + 1, 1)] {
        program.word(access(encoding(3, 3, 4, 4, operation), 1, true)).store(1, 0, 8 * place);
    }
    for register in 0..32 {
        program.constant(1, pattern(seed, register)).word(0x9e67_0020 | register).word(0x9eaf_0020 | register); // FMOV
    }
    program.constant(1, 0x07c0_0000).word(access(encoding(3, 3, 4, 4, 0), 1, false));
    program.constant(1, 0x0800_009f).word(access(encoding(3, 3, 4, 4, 1), 1, false));
    for (place, state) in patterned() {
        program.word(access(state.encoding, 1, true)).constant(2, state.bits).word(0x8a22_0021); // BIC x1, x1, x2
        program.constant(2, filling(seed, place, state)).word(0xaa02_0021); // ORR x1, x1, x2
        program.word(access(state.encoding, 1, false)).word(0xd503_3fdf);
        program.word(access(state.encoding, 1, true)).store(1, 0, 8 * (place + KEPT - LISTED));
    }
    // Whatever ends it meanwhile: those that it does not use.
    for register in 4..31 {
        program.constant(register, pattern(seed, 2000 + register));
    }
    program.constant(1, 1).store(1, 0, 8 * READY);
    let watch = program.here();
    for (place, state) in patterned() {
        program.word(access(state.encoding, 1, true)).load(2, 0, 8 * (place + KEPT - LISTED));
        program.word(0xca02_0021); // EOR x1, x1, x2
        if state.name.ends_with("CTL_EL0") {
            program.constant(2, 3).word(0x8a02_0021); // AND x1, x1, x2: ISTATUS changes with time
        }
        program.word(0xb400_0000 | 6 << 5 | 1).constant(2, u64::from(place)).store(2, 0, 8 * DIFFERENCES); // CBZ x1, past the store
    }
    program.constant(0, CALL_HEARTBEAT).call().constant(0, DUMP).load(1, 0, 8 * ORDER);
    let ordered = program.skip_not_zero(1);
    // Each order is for one life.
    program.branch(watch).land(ordered).constant(2, 0).store(2, 0, 8 * ORDER).store(2, 0, 8 * READY);
    for register in 2..31 {
        program.constant(register, pattern(seed, 1000 + register));
    }
    // A call, a load and a jump where nothing is mapped, a branch to itself, a call.
    for (argument, instruction) in [
        (SYSTEM_RESET, 0xd400_0002),
        (NOWHERE, 0xf940_0000),
        (NOWHERE, 0xd61f_0000),
        (NOWHERE, 0x1400_0000),
        (CPU_OFF, 0xd400_0002),
    ] {
        program.subtract(1, 1, 1);
        let next = program.skip_not_zero(1);
        program.constant(0, argument).word(instruction).land(next);
    }
    program.spin();
    program
}

const WAYS: [&str; 4] = ["SYSTEM_RESET", "a data abort", "an instruction abort", "the watchdog"];

fn place_of(running: &Running, partition: &str, word: u32) -> PhysicalAddress {
    let ram = running.watch().plan().partitions[running.index(partition)].ram[0].physical.0;
    PhysicalAddress(ram + DUMP - GUEST_RAM + 8 * u64::from(word))
}

fn wait_until_watching(running: &mut Running, partition: &str) {
    let place = place_of(running, partition, READY);
    let waited = running.wait_for("the patterns", LIMIT, |view| (view.ram.load_u64(place)? == 1).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
}

fn give_order(running: &Running, partition: &str, order: u64) {
    running.ram().write_at(place_of(running, partition, ORDER), &order.to_le_bytes()).expect("the word is in RAM");
}

fn word(running: &Running, partition: &str, word: u32) -> u64 {
    running.guest_word(partition, DUMP + 8 * u64::from(word))
}

/// A start finds zeros in general and floating-point registers, and in everything of the list its reset value.
fn assert_start(running: &Running, partition: &str, what: &str) {
    let set: Vec<_> =
        (0..LISTED).map(|place| (place, word(running, partition, place))).filter(|(_, value)| *value != 0).collect();
    assert_eq!(set, [], "{what}: general and floating-point registers of {partition}");
    for (place, state) in patterned() {
        let found = word(running, partition, place) & state.bits;
        assert_eq!(found, state.reset, "{what}: {} of {partition}", state.name);
    }
}

fn assert_kept(running: &Running, partition: &str, seed: u64) {
    let differs = word(running, partition, DIFFERENCES);
    let name = patterned().find(|(place, _)| u64::from(*place) == differs).map(|(_, state)| state.name);
    assert_eq!(name, None, "changed under {partition}");
    for (place, state) in patterned() {
        let kept = word(running, partition, place + KEPT - LISTED) & state.bits;
        assert_eq!(kept, filling(seed, place, state), "{}: what {partition} filled in is there", state.name);
    }
}

/// QV-74, SP-10: whatever ends a life, with a back-off or without, on an own core and on a shared one, where a neighbour has
/// patterns of its own, the next one finds no register of it; and the neighbour's stay.
#[test]
fn a_start_finds_nothing_of_the_life_before() {
    for schedule in ["", "kind = \"round-robin\"\nquantum = \"37 us\"\nfloating_point = \"lazy\""] {
        for back_off in ["0 ms", "1 ms"] {
            let is_shared = !schedule.is_empty();
            let description = Description::new("core-state");
            let description = if is_shared { description.schedule(0, schedule) } else { description };
            let policy = format!(
                "health = {{ on_fault = \"restart\", max = 10, within = \"600 s\", backoff = \"{back_off}\" }}\nwatchdog = \"40 ms\""
            );
            let description = description.program("first", 0, "one", &policy);
            // Beside an own core none else runs: with exact counting, one of two cores may not get a turn for a watchdog's time.
            let description = if is_shared { description.program("second", 0, "two", "") } else { description };
            let mut running = description.build_with(&[("one", &watcher(1)), ("two", &watcher(2))]).start_exact(4);
            if is_shared {
                wait_until_watching(&mut running, "second");
                assert_start(&running, "second", "the first start");
            }
            for (order, way) in (1u64..).zip(WAYS) {
                wait_until_watching(&mut running, "first");
                let what = format!("shared: {is_shared}, back-off {back_off}, before {way}");
                assert_start(&running, "first", &what);
                assert_kept(&running, "first", 1);
                let generation = running.status("first").generation;
                give_order(&running, "first", order);
                running.wait_for_status("first", "a restart", |status| status.generation > generation);
            }
            wait_until_watching(&mut running, "first");
            assert_start(&running, "first", "the last start");
            if is_shared {
                assert_kept(&running, "second", 2);
                assert_eq!(running.status("second").generation, 1);
            }
            running.assert_no_crash();
        }
    }
}

/// PSCI, SP-10: a vCPU that is switched off and on again finds no register of its life before, in the same instance.
#[test]
fn cpu_on_finds_nothing_of_the_life_before() {
    let description = Description::new("core-state").table(
        "[[partition]]\nname = \"first\"\ncores = [0, 1]\nmemory = \"4 MiB\"\nconsole = \"none\"\n\
         image = { kind = \"raw\", file = \"one.bin\", load = 0x4008_0000 }",
    );
    let mut running = description.build_with(&[("one", &secondary_watcher(1))]).start();
    for life in 1..=3 {
        wait_until_watching(&mut running, "first");
        assert_start(&running, "first", &format!("life {life} of vCPU 1"));
        assert_kept(&running, "first", 1);
        // What it finds next time is not what it found before.
        let write = |place: u32, value: u64| {
            let place = place_of(&running, "first", place);
            running.ram().write_at(place, &value.to_le_bytes()).expect("the word is in RAM");
        };
        // Nothing is stored at 31.
        (0..LISTED).filter(|place| *place != 31).for_each(|place| write(place, u64::MAX));
        write(READY, 0);
        give_order(&running, "first", SWITCH_OFF);
    }
    wait_until_watching(&mut running, "first");
    assert_start(&running, "first", "the last life of vCPU 1");
    assert_eq!(running.status("first").generation, 1);
    running.assert_no_crash();
}

/// QV-74, SP-10: the same when a manager asks for the restart, and when the core's other vCPU ran in between, which the trace says.
#[test]
fn a_restart_at_a_managers_request_finds_nothing_of_the_life_before() {
    for is_shared in [false, true] {
        let description = Description::new("core-state").table("[trace]\nenabled = true\nrecords = 65536");
        let ring = "kind = \"round-robin\"\nquantum = \"370 us\"\nfloating_point = \"lazy\"";
        let description = if is_shared { description.schedule(0, ring) } else { description };
        let description = description.program("first", 0, "one", "");
        let description = if is_shared { description.program("second", 0, "two", "") } else { description };
        // How fast the host asks is up to the host.
        let managing = "manages = true\nmanage_limit = { limit = 1000, per = \"100 ms\" }";
        let description = description.program("manager", 1, "remote", managing);
        let programs = [("one", &watcher(1)), ("two", &watcher(2)), ("remote", &remote::program())];
        let mut running = description.build_with(&programs).start();
        let mut manager = Remote::new(&mut running, "manager");
        for generation in 1..=3 {
            wait_until_watching(&mut running, "first");
            assert_start(&running, "first", &format!("shared: {is_shared}, start {generation}"));
            assert_kept(&running, "first", 1);
            if is_shared {
                wait_until_watching(&mut running, "second");
                assert_kept(&running, "second", 2);
            }
            let first = running.index("first") as u64;
            assert_eq!(manager.call(&mut running, CALL_PARTITION_RESTART, first)[0], SUCCESS);
            // The state is the last word of a start that the monitor writes.
            let is_over = |status: &StatusPage| status.generation > generation && status.state == STATE_RUNNING;
            running.wait_for_status("first", "a restart", is_over);
            if is_shared {
                assert_second_ran_in_between(&running);
            }
        }
        running.assert_no_crash();
    }
}

/// While the latest restart of `first` was under way, the other vCPU of its core ran.
fn assert_second_ran_in_between(running: &Running) {
    const TICK_NS: u64 = 16;
    let status = running.status("first");
    let (begin, end) = ((status.started_ticks - status.restart_ticks) * TICK_NS, status.started_ticks * TICK_NS);
    let timeline = bulkhead_run::trace::Trace::read(running.watch()).timeline(running.watch(), "");
    let second = running.slot(0, "second");
    let is_between = |from: u64, to: u64| from > begin && to < end;
    let runs = timeline.runs(0).iter().filter(|run| run.slot == second && is_between(run.from_ns, run.to_ns)).count();
    assert!(runs > 0, "the other one did not run between {begin} and {end} ns");
}

/// From here on, an instruction that ends in an exception is skipped, and x5 has the syndrome. Uses x1, x3 and x5.
pub(super) fn skip_what_is_undefined(program: &mut Program) {
    program.constant(3, 1);
    let over_the_handler = program.skip_not_zero(3);
    while program.offset() < 0xa00 {
        program.word(0xd503_201f); // NOP
    }
    // The vector of a synchronous exception: MRS x5, ESR_EL1; MRS x3, ELR_EL1; ADD; MSR ELR_EL1, x3; ERET
    program.word(0xd538_5205).word(0xd538_4023).add(3, 3, 4).word(0xd518_4023).word(0xd69f_03e0).land(over_the_handler);
    program.constant(1, GUEST_LOAD + 0x800).word(0xd518_c001).word(0xd503_3fdf); // MSR VBAR_EL1, x1; ISB
}

/// Tries everything that has no pattern, for ever: reads it, after writing ones to it if it is the one that writes, and compares
/// with what it found in its first instructions. What is UNDEFINED is skipped. Starts again when it is told to.
fn trying(writes: bool) -> Program {
    let mut program = Program::new();
    skip_what_is_undefined(&mut program);
    program.constant(0, DUMP);
    for (place, attempt) in (0..).zip(attempts()).filter(|(_, attempt)| attempt.reading != Reading::Nothing) {
        program.constant(1, MARK).word(access(attempt.encoding, 1, true)).store(1, 0, 8 * (FOUND + place));
    }
    let again = program.here();
    for (place, attempt) in (0..).zip(attempts()) {
        if writes {
            program.constant(1, u64::MAX).constant(5, 0).word(access(attempt.encoding, 1, false)).word(0xd503_3fdf);
            program.store(5, 0, 8 * (WRITTEN + place));
        }
        if !matches!(attempt.reading, Reading::Nothing | Reading::Changing) {
            program.constant(1, MARK).word(access(attempt.encoding, 1, true));
            program.load(2, 0, 8 * (FOUND + place)).word(0xca02_0021); // EOR x1, x1, x2
            // CBZ x1, past the store
            program.word(0xb400_0000 | 6 << 5 | 1).constant(2, u64::from(place) + 1).store(2, 0, 8 * DIFFERENCES);
        }
    }
    program.load(1, 0, 8 * READY).add(1, 1, 1).store(1, 0, 8 * READY).load(1, 0, 8 * ORDER);
    let ordered = program.skip_not_zero(1);
    program.branch(again).land(ordered).constant(0, SYSTEM_RESET).call().spin();
    program
}

/// What a partition found at the first instructions of this life, after many rounds in which nobody found anything else.
fn found_for_ever(running: &mut Running, partition: &str) -> Vec<u64> {
    let place = place_of(running, partition, READY);
    let waited = running.wait_for("the rounds", LIMIT, |view| (view.ram.load_u64(place)? > 200).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
    let all = attempts();
    let differs = word(running, partition, DIFFERENCES);
    let changed = (1u64..).zip(&all).find(|(number, _)| *number == differs).map(|(_, attempt)| attempt.to_string());
    assert_eq!(changed, None, "{partition} saw a change");
    let mut answered = 0;
    let mut found = Vec::new();
    for (place, attempt) in (0..).zip(&all) {
        let read = word(running, partition, FOUND + place);
        let is_as_listed = match attempt.reading {
            Reading::Undefined => read == MARK,
            Reading::Value(value) => read == value,
            Reading::Trapped(value) => read == value || read == MARK,
            Reading::Same | Reading::Changing => read != MARK,
            Reading::SameOrUndefined | Reading::Nothing => true,
        };
        assert!(is_as_listed, "{partition} read {read:#x}: {attempt}");
        answered += u32::from(matches!(attempt.reading, Reading::Trapped(_)) && read != MARK);
        found.push(if attempt.reading == Reading::Changing { 0 } else { read });
    }
    assert!(answered >= 20, "{answered} traps are answered with a value, and QEMU 7.2 has 20 such registers");
    found
}

/// A1 and A12 of docs/base-findings.md, QV-8: what traps, is constant, harmless or absent reads as it always does for the guest that
/// writes ones to it, for its neighbour and for its own next instance.
#[test]
fn an_attempt_on_what_is_not_switched_is_seen_by_nobody() {
    assert_eq!(attempts().len(), 116, "each of them has its place in the dump");
    let ring = "kind = \"round-robin\"\nquantum = \"37 us\"";
    let policy = "health = { on_fault = \"restart\", max = 10, within = \"600 s\", backoff = \"0 ms\" }";
    let description = Description::new("core-state").schedule(0, ring);
    let description = description.program("first", 0, "one", policy).program("second", 0, "two", "");
    let mut running = description.build_with(&[("one", &trying(true)), ("two", &trying(false))]).start_exact(4);
    let first = found_for_ever(&mut running, "first");
    for (place, attempt) in (0..).zip(attempts()) {
        let syndrome = word(&running, "first", WRITTEN + place);
        let is_undefined = syndrome != 0;
        assert!(!is_undefined || syndrome >> 26 == 0, "a write ended in {syndrome:#x}: {attempt}");
        assert!(attempt.is_write_undefined.is_none_or(|wanted| wanted == is_undefined), "{syndrome:#x}: {attempt}");
    }
    let second = found_for_ever(&mut running, "second");
    assert_same(&first, &second, "the neighbour");
    give_order(&running, "first", 1);
    running.wait_for_status("first", "a restart", |status| status.generation > 1);
    assert_same(&first, &found_for_ever(&mut running, "first"), "the next instance");
    assert_same(&second, &found_for_ever(&mut running, "second"), "the neighbour, after that");
    assert_eq!(running.status("second").generation, 1);
    running.assert_no_crash();
}

fn assert_same(one: &[u64], other: &[u64], who: &str) {
    for ((attempt, one), other) in attempts().iter().zip(one).zip(other) {
        assert_eq!(one, other, "what {who} found: {attempt}");
    }
}

/// A pattern that is what a start finds, or that the neighbour has too, would show nothing.
#[test]
fn patterns_differ_from_each_other_and_from_what_a_start_finds() {
    for (place, state) in patterned().filter(|(_, state)| state.bits != 0) {
        let [first, second] = [1, 2].map(|seed| filling(seed, place, state));
        assert_ne!(first, state.reset, "{}", state.name);
        assert_eq!(first == second, state.name == "CPACR_EL1", "{}", state.name);
    }
}
