//! A non-secure world on up to four cores, each with code at EL2 and a loop at EL1 that masks all it can: what kicks and watches do to it,
//! and what EL3 refuses (SG-13, SG-14, QV-16).
//!
//! Core 0, below the payload, directs: it starts the others by CPU_ON, kicks them, and has them make calls at EL2 and EL1, each of which is
//! compared with a model of a few lines ([`model`]). Each core has a [`machine::Desk`] in memory, by which it is told what to do when it is
//! kicked. The host writes [`Parameters`]; what was found is printed, one line for each subject.
#![no_std]
#![no_main]

mod console;
mod machine;
mod model;
mod random;

use bulkhead_world::cores::{CALL_KICK, CALL_WATCH, MOST_CORES};
use console::{print, print_number};
use machine::{AtLevel, call, counter, desk, run_below, sgi, take};
use model::{CPU_ON, expected};
use random::Random;

/// What the host writes, at [`PARAMETERS`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    /// Of random calls.
    seed: u64,
    /// How many of them.
    calls: u64,
    /// How often a core is kicked out of its loop.
    kicks: u64,
    /// The plan's: which cores may kick which, and which SGIs are closed.
    allowed: [u32; MOST_CORES],
    closed: [u32; MOST_CORES],
    /// Memory of this world.
    window: [u64; 2],
    /// The longest watch.
    watch_most: u64,
}

const PARAMETERS: usize = 0x4100_0000;
const ENTRY: u64 = 0x4020_0000;
const CPU_OFF: u64 = 0x8400_0002;
const SYSTEM_OFF: u64 = 0x8400_0008;
const SYSTEM_RESET: u64 = 0x8400_0009;
const AFFINITY_INFO: u64 = 0xc400_0004;
/// Far longer than anything takes: a second.
const PATIENCE: u64 = 62_500_000;
/// Time in which a kick that should not come would come.
const QUIET: u64 = 4_000;

fn parameters() -> Parameters {
    // SAFETY: the host wrote them before the world began.
    unsafe { core::ptr::with_exposed_provenance::<Parameters>(PARAMETERS).read_volatile() }
}

/// Waits until something holds. Returns whether it did.
fn wait(what: impl Fn() -> bool) -> bool {
    let end = counter().wrapping_add(PATIENCE);
    while !what() {
        if counter() > end {
            return false;
        }
        machine::yield_core();
    }
    true
}

/// Waits as long as what should not come could take.
fn pause() {
    let until = counter() + QUIET;
    while counter() < until {
        machine::yield_core();
    }
}

/// Ends the world with what went wrong.
fn failed(what: &str, numbers: &[u64]) -> ! {
    print("FAILED: ");
    print(what);
    for number in numbers {
        print(" ");
        print_number(*number);
    }
    print("\n");
    loop {
        call(AtLevel::El2, [SYSTEM_OFF, 0, 0, 0]);
    }
}

fn check(holds: bool, what: &str, numbers: &[u64]) {
    if !holds {
        failed(what, numbers);
    }
}

/// A call by a core at a level, from core 0: by itself, or by a kick of the other core.
fn call_by(core: usize, level: AtLevel, arguments: [u64; 4]) -> u64 {
    if core == 0 {
        return call(level, arguments);
    }
    let place = desk(core);
    let before = place.kicks();
    place.ask(level, arguments);
    check(call(AtLevel::El2, [CALL_KICK, core as u64, 0, 0]) == 0, "a core is not kicked", &[core as u64]);
    check(wait(|| place.is_done()), "a core does not answer", &[core as u64]);
    check(wait(|| place.kicks() > before), "a kick is not counted", &[core as u64]);
    place.answer()
}

#[unsafe(no_mangle)]
extern "C" fn main(core: u64) -> ! {
    machine::begin();
    if core != 0 {
        let place = desk(core as usize);
        place.begin();
        run_below(place.progress());
    }
    let given = parameters();
    starts(&given);
    kicks(&given);
    of_el2_itself();
    watches(&given);
    table(&given);
    firewall(&given);
    unknown(&given);
    ends();
    print("end\n");
    loop {
        call(AtLevel::El2, [SYSTEM_OFF, 0, 0, 0]);
    }
}

/// CPU_ON: what is refused, with every core off; then all are started.
fn starts(given: &Parameters) {
    let [first, bytes] = given.window;
    let mut refused = 0;
    for target in 0..8_u64 {
        let mpidr = [0, 1, 2, 3, 4, 0x100, 1 << 31, 1 << 32 | 1][target as usize];
        for entry in
            [0, 0x0e02_0000, 0x0e00_1000, first - 4, first + bytes, first + 2, first + 1, u64::MAX, u64::MAX - 3]
        {
            let found = call(AtLevel::El2, [CPU_ON, mpidr, entry, 7]);
            let wanted = if mpidr < 4 { -9_i64 } else { -2 };
            check(found as i64 == wanted, "CPU_ON of a bad entry", &[mpidr, entry, found]);
            refused += 1;
        }
    }
    for core in 1..MOST_CORES as u64 {
        check(call(AtLevel::El2, [AFFINITY_INFO, core, 0, 0]) == 1, "a core is on at first", &[core]);
        check(call(AtLevel::El1, [CPU_ON, core, ENTRY, core]) as i64 == -1, "EL1 starts a core", &[core]);
        check(call(AtLevel::El2, [CPU_ON, core, ENTRY, core]) == 0, "a core is not started", &[core]);
        let second = call(AtLevel::El2, [CPU_ON, core, ENTRY, 9]) as i64;
        check([-4, -5].contains(&second), "a core is started twice", &[core, second as u64]);
    }
    for core in 1..MOST_CORES {
        check(wait(|| desk(core).begun() == 1), "a core does not begin", &[core as u64]);
        let number = core as u64;
        check(call(AtLevel::El2, [AFFINITY_INFO, number, 0, 0]) == 0, "a core is off", &[number]);
        check(call(AtLevel::El2, [CPU_ON, number, ENTRY, 9]) as i64 == -4, "a core that is on is started", &[number]);
    }
    print("starts: 3 cores, refused ");
    print_number(refused);
    print("\n");
}

/// Each core is kicked out of a loop at EL1 that masks everything.
fn kicks(given: &Parameters) {
    for core in 1..MOST_CORES {
        let place = desk(core);
        check(wait(|| place.rounds() > 100), "a loop does not run", &[core as u64]);
        let (first, stopped_before) = (place.kicks(), place.stopped());
        for number in 1..=given.kicks {
            let rounds = place.rounds();
            check(call(AtLevel::El2, [CALL_KICK, core as u64, 0, 0]) == 0, "a kick is refused", &[core as u64]);
            check(wait(|| place.kicks() == first + number), "a kick is lost", &[core as u64, number]);
            check(wait(|| place.rounds() > rounds), "a loop does not go on", &[core as u64, number]);
        }
        let stopped = place.stopped() - stopped_before;
        check(
            place.kicks() == first + given.kicks && place.wrong() == 0,
            "a kick too much, or wrong",
            &[place.wrong()],
        );
        print("kicks of core ");
        print_number(core as u64);
        print(": ");
        print_number(stopped);
        print(" of ");
        print_number(given.kicks);
        print(" stopped\n");
    }
}

/// A kick that finds EL2 itself waits until that leaves, and arrives then.
fn of_el2_itself() {
    let place = desk(1);
    for _ in 0..20 {
        let before = place.kicks();
        place.hold(true);
        check(call(AtLevel::El2, [CALL_KICK, 1, 0, 0]) == 0, "a kick is refused", &[]);
        check(wait(|| place.is_held()), "EL2 does not hold", &[]);
        check(place.kicks() == before + 1, "a kick is not counted", &[place.kicks() - before]);
        check(call(AtLevel::El2, [CALL_KICK, 1, 0, 0]) == 0, "a kick is refused", &[]);
        pause();
        check(place.kicks() == before + 1, "a kick interrupted EL2", &[]);
        place.hold(false);
        check(wait(|| place.kicks() == before + 2), "a kick that was tried again is lost", &[]);
    }
    print("kicks of EL2: 20 of 20 came when it left\n");
}

/// A watch fires at its end, and in its limits.
fn watches(given: &Parameters) {
    let mut latest = [0; 4];
    for (place, ticks) in latest.iter_mut().zip([0, 10_000, given.watch_most + 1, u64::MAX]) {
        let watched = desk(2);
        let before = watched.kicks();
        check(call_by(2, AtLevel::El2, [CALL_WATCH, ticks, 0, 0]) == 0, "a watch is refused", &[ticks]);
        // The kick that asked for it, and its end.
        check(wait(|| watched.kicks() == before + 2), "a watch does not fire", &[ticks]);
        *place = watched.latest().wrapping_sub(watched.asked());
    }
    let quiet = desk(2).kicks();
    pause();
    check(desk(2).kicks() == quiet, "a watch fires twice", &[]);
    print("watches after");
    for ticks in latest {
        print(" ");
        print_number(ticks);
    }
    print("\n");
    check(call(AtLevel::El2, [CALL_WATCH, 100, 0, 0]) as i64 == -1, "a watch on the payload's core", &[]);
}

const ABSURD: [u64; 14] = [0, 1, 2, 3, 4, 5, 31, 32, 33, 64, 1 << 31, 1 << 32, u64::MAX - 1, u64::MAX];

/// Every caller, at both levels, with every argument, and seeded random ones besides.
fn table(given: &Parameters) {
    let functions = [CALL_KICK, CALL_WATCH, CPU_ON, 0x8400_0003, AFFINITY_INFO, 0x8400_0004];
    let (mut made, mut allowed) = (0, 0);
    let mut try_one = |core: usize, level: AtLevel, arguments: [u64; 4]| {
        let counts: [u64; MOST_CORES] = core::array::from_fn(|one| desk(one).kicks());
        let wanted = expected(given, core, level, &arguments);
        let found = call_by(core, level, arguments);
        let [function, first, second, _] = arguments;
        let numbers = [core as u64, level as u64, function, first, second, found];
        check(found == wanted.answer, "an answer of the table", &numbers);
        for (one, count) in counts.iter().enumerate() {
            let own = u64::from(one == core && core != 0);
            let kicked = u64::from(wanted.kicks == Some(one));
            check(wait(|| desk(one).kicks() == count + own + kicked), "a kick of the table", &numbers);
        }
        made += 1;
        allowed += u64::from(wanted.kicks.is_some());
    };
    for core in 0..MOST_CORES {
        for level in [AtLevel::El2, AtLevel::El1] {
            for function in functions {
                for first in ABSURD {
                    try_one(core, level, [function, first, ENTRY, 3]);
                }
            }
        }
    }
    let mut random = Random(given.seed);
    for _ in 0..given.calls {
        let core = random.below(MOST_CORES as u64) as usize;
        let level = if random.below(2) == 0 { AtLevel::El2 } else { AtLevel::El1 };
        let function = match random.below(8) {
            0..6 => functions[random.below(6) as usize] | random.sometimes() << 32,
            _ => u64::from(random.next() as u32) | 1 << 28,
        };
        let mut argument = || match random.below(3) {
            0 => ABSURD[random.below(14) as usize],
            1 => random.below(6),
            _ => random.next(),
        };
        let arguments = [function, argument(), argument(), argument()];
        try_one(core, level, arguments);
    }
    let mut quiet = 0;
    for core in 1..MOST_CORES {
        check(desk(core).wrong() == 0, "a core found its state wrong", &[core as u64, desk(core).wrong()]);
        quiet += desk(core).kicks();
    }
    pause();
    let after: u64 = (1..MOST_CORES).map(|core| desk(core).kicks()).sum();
    check(after == quiet, "kicks that nobody asked for", &[after - quiet]);
    print("table: ");
    print_number(made);
    print(" calls as the model says, ");
    print_number(allowed);
    print(" of them kicks\n");
}

/// SGIs of all numbers and kinds from every core to all: on each core exactly the open ones arrive.
fn firewall(given: &Parameters) {
    let before: u64 = (1..MOST_CORES).map(|core| desk(core).kicks()).sum();
    for number in 0..16 {
        for kind in 0..3 {
            sgi(kind, number << 24 | 0xf);
            sgi(kind, number << 24 | 1 << 40);
        }
    }
    // The others send by a call that is none: see `machine::made_by_kick`.
    for core in 1..MOST_CORES {
        let asked = call_by(core, AtLevel::El2, [machine::SEND_ALL, 0, 0, 0]);
        check(asked == 0, "a core does not send", &[core as u64]);
    }
    print("SGIs that arrived:");
    for core in 0..MOST_CORES {
        let found = take(core);
        print(" ");
        print_number(found.into());
        let open = !given.closed[core] & 0xffff & if core == 0 { !(1 << 9) } else { !(1 << 8) };
        check(found == open, "SGIs arrived", &[core as u64, found.into(), open.into()]);
    }
    print("\n");
    let after: u64 = (1..MOST_CORES).map(|core| desk(core).kicks()).sum();
    check(after == before + 3, "an SGI was a kick", &[after - before]);
}

/// Ids that nobody has, on a core without a payload: refused, and x1 to x17 are kept.
fn unknown(given: &Parameters) {
    let mut random = Random(given.seed ^ 1);
    for round in 0..given.calls {
        // Not a fast call of PSCI: the bit is one of another owner.
        let function = u64::from(random.next() as u32) | 1 << 28;
        let level = if round % 2 == 0 { AtLevel::El2 } else { AtLevel::El1 };
        let found = call_by(3, level, [function, random.next(), random.next(), random.next()]);
        check(found as i64 == -1 && desk(3).wrong() == 0, "an unknown call", &[function, found, desk(3).wrong()]);
    }
    print("unknown calls: ");
    print_number(given.calls);
    print(" refused\n");
}

/// CPU_OFF and a start again; SYSTEM_OFF and SYSTEM_RESET, after which nobody but the payload starts the core.
fn ends() {
    for times in 2..7 {
        leave(3, CPU_OFF);
        let is_off = || call(AtLevel::El2, [AFFINITY_INFO, 3, 0, 0]) == 1;
        check(wait(is_off), "a core does not go off", &[times]);
        // A kick of a core that is off does nothing, and nothing later.
        check(call(AtLevel::El2, [CALL_KICK, 3, 0, 0]) == 0, "a kick is refused", &[]);
        pause();
        check(is_off() && desk(3).begun() == times - 1, "a kick starts a core", &[times]);
        check(call(AtLevel::El2, [CPU_ON, 3, ENTRY, 3]) == 0, "a core is not started again", &[times]);
        check(wait(|| desk(3).begun() == times), "a core does not begin again", &[times]);
    }
    for (times, function) in [(7, SYSTEM_OFF), (8, SYSTEM_RESET)] {
        leave(3, function);
        let again = call(AtLevel::El2, [CPU_ON, 3, ENTRY, 3]) as i64;
        check(again == -4, "a core is started that waits for the payload", &[again as u64]);
        check(wait(|| desk(3).begun() == times), "the payload does not start a core again", &[times]);
    }
    check(call_by(3, AtLevel::El2, [AFFINITY_INFO, 3, 0, 0]) == 0, "a core is not what it was", &[]);
    print("ends: 5 of CPU_OFF, 2 of the payload\n");
}

/// Has a core make a call that does not come back.
fn leave(core: usize, function: u64) {
    let place = desk(core);
    let begun = place.begun();
    place.ask(AtLevel::El2, [function, 0, 0, 0]);
    check(call(AtLevel::El2, [CALL_KICK, core as u64, 0, 0]) == 0, "a core is not kicked", &[core as u64]);
    check(wait(|| place.is_taken()), "a core does not take what it is asked", &[begun]);
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    failed("panic", &[])
}
