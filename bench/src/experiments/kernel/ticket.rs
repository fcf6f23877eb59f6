//! A model of a kernel with one lock: cores that take a ticket, wait until it is theirs, do a call's work and hand the lock on. It is a guest of a few instructions.

use crate::Failure;
use bulkhead_run::{CountingOptions, End};
use bulkhead_system_tests::System;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::{GUEST_LOAD, GUEST_RAM};

const CPU_ON: u64 = 0xc400_0003;
const SYSTEM_OFF: u64 = 0x8400_0008;
/// In the guest's RAM, zeros when it starts: the next ticket, and behind it whose turn it is.
const LOCK: u64 = GUEST_RAM + 0x20_0000;
const TURN: u32 = 8;
/// Instructions of work with the lock held, and the same without it.
const WORK: u64 = 65;

/// Instructions of a look at whose turn it is that finds another one's.
const LOOK: u64 = 5;

/// YIELD: another core's turn.
const YIELD: u32 = 0xd503_203f;

/// Computes: two instructions for each round.
fn compute(program: &mut Program) {
    program.constant(9, WORK / 2);
    let again = program.here();
    program.subtract(9, 9, 1).branch_not_zero(9, again);
}

/// A call: takes the lock, works, in the middle of which others have their turns, and hands it on. Who waits gives its turn away behind a number of looks.
fn locked_call(program: &mut Program, looks: u64) {
    let again = program.here();
    program.word(0xc85f_7e81); // LDXR x1, [x20]
    program.add(2, 1, 1).word(0xc803_7e82).branch_not_zero(3, again); // STXR w3, x2, [x20]
    let waits = program.here();
    program.word(YIELD).constant(6, looks);
    let look = program.here();
    program.load(4, 20, TURN).word(0xcb01_0085); // SUB x5, x4, x1
    let not_yet = program.skip_not_zero(5);
    let done = program.skip_not_zero(20);
    program.land(not_yet).subtract(6, 6, 1).branch_not_zero(6, look).branch(waits).land(done);
    compute(program);
    program.word(YIELD);
    compute(program);
    program.load(4, 20, TURN).add(4, 4, 1).barrier().store(4, 20, TURN);
}

/// The first core makes this many calls and switches all off; `others` make calls all the time.
fn program(others: u64, calls: u64, looks: u64) -> Program {
    let build = |entry: u64| {
        let mut program = Program::new();
        program.constant(20, LOCK);
        for core in 1..=others {
            program.constant(0, CPU_ON).constant(1, core).constant(2, entry).constant(3, 0).call();
        }
        program.constant(21, calls);
        let again = program.here();
        locked_call(&mut program, looks);
        compute(&mut program);
        program.subtract(21, 21, 1).branch_not_zero(21, again);
        program.constant(0, SYSTEM_OFF).call();
        let entry = GUEST_LOAD + program.offset();
        program.constant(20, LOCK);
        let again = program.here();
        locked_call(&mut program, looks);
        compute(&mut program);
        program.branch(again);
        (program, entry)
    };
    // Each constant takes four instructions, so the second pass has the same offsets.
    build(build(0).1).0
}

/// Instructions of the first core from its first one to its last; who waits gives its turn away each `distance` instructions.
pub(super) fn instructions(others: u64, calls: u64, distance: u64) -> Result<u64, Failure> {
    let cores: Vec<_> = (0..=others).map(|core| core.to_string()).collect();
    let text = format!(
        "version = 1\nname = \"ticket\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n\
         [[partition]]\nname = \"ticket\"\ncores = [{}]\nmemory = \"4 MiB\"\nimage = {{ kind = \"raw\", file = \"ticket.bin\", load = 0x4008_0000 }}\n",
        cores.join(", ")
    );
    let system =
        System::from_text_with_programs("ticket", &text, &[("ticket", &program(others, calls, distance / LOOK))]);
    let plan = system.plan();
    let mut running = system.start_with(|options| {
        options.icount_shift = Some(4);
        options.counting = Some(CountingOptions { exact: true, ..CountingOptions::for_monitor(&plan) });
    });
    let end = running.end();
    if !matches!(end, End::AllEnded | End::PoweredOff) {
        return Err(Failure::wrong(format!("a lock with {others} other cores: {end:?}")));
    }
    let counts = running.counts()?;
    let own = &counts.cores[0];
    Ok(own.all_since - own.range("monitor").map_or(0, |range| range.since))
}
