//! What a core keeps of a vCPU, made from the list in `core/emulation/src/state.rs`: patterns in everything that is switched, seen
//! by the owner alone and by no later life of it; attempts on everything that traps, seen by nobody (A1, A6 and A12 of
//! docs/base-findings.md).

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::hypercall::{CALL_HEARTBEAT, CALL_PARTITION_RESTART, SUCCESS};
use bulkhead_emulation::registers::{REGISTER_GROUPS, RegisterGroup, Treatment};
use bulkhead_emulation::state::{CORE_STATE, CoreState, Handling};
use bulkhead_emulation::sysreg::SystemAction;
use bulkhead_emulation::trap::encoding;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::{self, GUEST_LOAD, GUEST_RAM};
use bulkhead_system_tests::sharing::Description;
use bulkhead_system_tests::{LIMIT, Remote, Running};

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
/// Where nothing is mapped.
const NOWHERE: u64 = 0x7000_0000;
const SYSTEM_RESET: u64 = 0x8400_0009;
const CPU_ON: u64 = 0xc400_0003;
const CPU_OFF: u64 = 0x8400_0002;
/// The order that ends in [`CPU_OFF`].
const SWITCH_OFF: u64 = 5;

/// MRS (or, without bit 21, MSR) of an encoding of [`encoding`] with a register.
fn access(encoding: u32, register: u32, is_read: bool) -> u32 {
    let field = |shift: u32, bits: u32| encoding >> shift & ((1 << bits) - 1);
    let (op0, op2, op1, crn, crm) = (field(20, 2), field(17, 3), field(14, 3), field(10, 4), field(1, 4));
    0xd500_0000 | u32::from(is_read) << 21 | op0 << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5 | register
}

/// What has a pattern: its place in the dump, and the entry.
fn patterned() -> impl Iterator<Item = (u32, &'static CoreState)> {
    let is_switched = |state: &&CoreState| state.handling == Handling::Switched && state.encoding != 0;
    (LISTED..).zip(CORE_STATE.iter().filter(is_switched))
}

/// Every sample of what traps, with what it reads as; 0 where a read is UNDEFINED, since that changes nothing.
fn trapped() -> impl Iterator<Item = (u32, u64)> {
    let answer = |group: &RegisterGroup| match group.treatment {
        Treatment::Trapped { read: SystemAction::Read(value), .. } => value,
        _ => 0,
    };
    let all = REGISTER_GROUPS.iter().flat_map(move |group| group.samples.iter().map(move |one| (*one, answer(group))));
    // Cache maintenance (op0 = 1) has nothing to be read.
    all.filter(|(sample, _)| sample >> 20 & 3 != 1)
}

fn pattern(seed: u64, place: u32) -> u64 {
    let mixed = (seed << 32 | u64::from(place)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
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
        // Floating point stays on for what follows.
        let bits = if state.name == "CPACR_EL1" { 0 } else { state.bits };
        program.word(access(state.encoding, 1, true)).constant(2, bits).word(0x8a22_0021); // BIC x1, x1, x2
        program.constant(2, pattern(seed, place) & bits).word(0xaa02_0021); // ORR x1, x1, x2
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

fn assert_kept(running: &Running, partition: &str) {
    let differs = word(running, partition, DIFFERENCES);
    let name = patterned().find(|(place, _)| u64::from(*place) == differs).map(|(_, state)| state.name);
    assert_eq!(name, None, "changed under {partition}");
    let filled = patterned().filter(|(place, state)| word(running, partition, place + KEPT - LISTED) & state.bits != 0);
    assert!(filled.count() > 20, "the patterns are there");
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
                assert_kept(&running, "first");
                let generation = running.status("first").generation;
                give_order(&running, "first", order);
                running.wait_for_status("first", "a restart", |status| status.generation > generation);
            }
            wait_until_watching(&mut running, "first");
            assert_start(&running, "first", "the last start");
            if is_shared {
                assert_kept(&running, "second");
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
        assert_kept(&running, "first");
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
            assert_kept(&running, "first");
            if is_shared {
                wait_until_watching(&mut running, "second");
                assert_kept(&running, "second");
            }
            let first = running.index("first") as u64;
            assert_eq!(manager.call(&mut running, CALL_PARTITION_RESTART, first)[0], SUCCESS);
            running.wait_for_status("first", "a restart", |status| status.generation > generation);
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

/// Reads everything that traps, for ever, after writing ones to it if it is the one that tries. What is UNDEFINED is skipped.
fn trying(writes: bool) -> Program {
    let mut program = Program::new();
    program.constant(3, 1);
    let over_the_handler = program.skip_not_zero(3);
    while program.offset() < 0xa00 {
        program.word(0xd503_201f); // NOP
    }
    // The vector of a synchronous exception: MRS x3, ELR_EL1; ADD; MSR ELR_EL1, x3; ERET
    program.word(0xd538_4023).add(3, 3, 4).word(0xd518_4023).word(0xd69f_03e0).land(over_the_handler);
    program.constant(1, GUEST_LOAD + 0x800).word(0xd518_c001).word(0xd503_3fdf); // MSR VBAR_EL1, x1; ISB
    program.constant(0, DUMP);
    let again = program.here();
    for (place, (sample, expected)) in (1u64..).zip(trapped()) {
        program.constant(1, u64::MAX);
        if writes {
            program.word(access(sample, 1, false)).word(0xd503_3fdf);
        }
        program.constant(1, expected).word(access(sample, 1, true));
        program.constant(2, expected).word(0xca02_0021); // EOR x1, x1, x2
        program.word(0xb400_0000 | 6 << 5 | 1).constant(2, place).store(2, 0, 8 * DIFFERENCES); // CBZ x1, past the store
    }
    program.load(1, 0, 8 * READY).add(1, 1, 1).store(1, 0, 8 * READY).branch(again);
    program
}

/// A1 of docs/base-findings.md, QV-8: what traps reads as it always does, for the guest that wrote ones to it and for its neighbour.
#[test]
fn an_attempt_on_what_traps_is_seen_by_nobody() {
    let ring = "kind = \"round-robin\"\nquantum = \"37 us\"";
    let description = Description::new("core-state").schedule(0, ring);
    let description = description.program("first", 0, "one", "").program("second", 0, "two", "");
    let mut running = description.build_with(&[("one", &trying(true)), ("two", &trying(false))]).start_exact(4);
    for partition in ["first", "second"] {
        let place = place_of(&running, partition, READY);
        let waited = running.wait_for("the rounds", LIMIT, |view| (view.ram.load_u64(place)? > 200).then_some(()));
        waited.unwrap_or_else(|error| panic!("{error}"));
        let differs = word(&running, partition, DIFFERENCES);
        let sample = (1u64..).zip(trapped()).find(|(number, _)| *number == differs);
        assert_eq!(sample, None, "(number, (encoding, expected value)) that {partition} saw otherwise");
    }
    assert!(trapped().count() > 30);
    running.assert_no_crash();
}
