//! A world that fails in the way of its number (`guests/failing-world`), below a payload that watches it and says what happened
//! (`guests/freertos/watched-world`). No tick of the payload may be lost or late meanwhile: who runs one of these is told by a panic.

use crate::secure::{MEMORY as ALL, OTHER, Payload, WithLinux, Worlds, flash_of, secure_monitor};
use crate::system::guest;
use bulkhead_abi::plan::{MAX_RESTARTS, POLICY_RESTART};
use bulkhead_flash::NonSecure;
use bulkhead_world::context::EntryLevel;
use bulkhead_world::flash::{ServerKind, ServerPlan};
use bulkhead_world::health::HealthPlan;

/// Ticks of the counter in a millisecond.
pub const MS: u64 = 62_500;
/// Memory of a small world.
pub const MEMORY: (u64, u64) = (0x4000_0000, 8 << 20);
/// Ways to fail, as the world numbers them; [`HEALTHY`] is none.
pub const HEALTHY: u64 = 0;
/// Masks everything and loops.
pub const MASKED_LOOP: u64 = 1;
/// Faults in its own vectors.
pub const ENDLESS_FAULT: u64 = 2;
/// Loops and sends signs of life.
pub const LIES: u64 = 3;
/// Works on and sends none.
pub const SILENCE: u64 = 4;
/// Switches itself off.
pub const OFF: u64 = 5;
/// Asks for a reset.
pub const RESET: u64 = 6;
/// Samples without progress that are a fault in most tests, and the time in which signs of life are due.
pub const STUCK_SAMPLES: u32 = 15;
/// See [`STUCK_SAMPLES`].
pub const HEARTBEAT_MS: u64 = 5;
/// How many may be missing.
pub const MISSED: u32 = 4;

const SERVERS: [ServerPlan; 1] =
    [ServerPlan { kind: ServerKind::Background as u32, priority: 1, budget_ticks: 0, period: 0, voluntary: 0 }];

/// Nothing but the policy: at most this many restarts in a minute, after a wait.
#[must_use]
pub fn restarts(most: u32, backoff_ms: u64) -> HealthPlan {
    HealthPlan {
        missed: 1,
        policy: POLICY_RESTART,
        max_restarts: most,
        within_ticks: 60_000 * MS,
        backoff_ticks: backoff_ms * MS,
        ..HealthPlan::nobody()
    }
}

/// With progress judged.
#[must_use]
pub fn with_progress(health: HealthPlan) -> HealthPlan {
    HealthPlan { stuck_samples: STUCK_SAMPLES, ..health }
}

/// With signs of life waited for.
#[must_use]
pub fn with_heartbeat(health: HealthPlan) -> HealthPlan {
    HealthPlan { heartbeat_ticks: HEARTBEAT_MS * MS, missed: MISSED, ..health }
}

/// A flash file of the small world that fails so.
///
/// # Panics
/// When a program was not built.
#[must_use]
pub fn flash(way: u64, health: HealthPlan, arguments: &str) -> Vec<u8> {
    flash_in(MEMORY, &[], way, health, arguments)
}

/// The same in a memory of its own, with one more segment, if that holds something.
///
/// # Panics
/// As [`flash`].
#[must_use]
pub fn flash_in(memory: (u64, u64), more: &[u8], way: u64, health: HealthPlan, arguments: &str) -> Vec<u8> {
    let program =
        bulkhead_flash::flat(&guest("failing-world.elf"), "a world").unwrap_or_else(|error| panic!("{error}"));
    let mut segments = vec![(program.base, program.bytes.as_slice())];
    if !more.is_empty() {
        segments.push((memory.0 + (16 << 20), more));
    }
    let world = NonSecure { memory, segments, entry: program.entry, argument: way, level: EntryLevel::El1 };
    let payload = Payload { file: "watched-world.elf", servers: &SERVERS, urgent: &[], health, arguments };
    flash_of(payload, world)
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Found {
    /// What the payload was told: state, reason, milliseconds.
    pub told: Vec<(String, u32, u64)>,
    /// Its last state.
    pub state: u32,
    /// Why.
    pub reason: u32,
    /// Restarts.
    pub restarts: u64,
    /// Faults.
    pub faults: u64,
    /// Shortest and longest restart, in ticks of the counter.
    pub took: (u64, u64),
    /// How often the world began, and how often it worked.
    pub begun: usize,
    /// See [`Found::begun`].
    pub worked: usize,
    /// Ticks of the payload's kernel in all, none of which is lost.
    pub ticks: u64,
}

/// The longest section of the payload with interrupts masked, in instructions: the task of health, which looks for silence, finds a fault and obeys the order.
/// A plugin that counted between the masks of the program found 228, once; it is not kept, so what shows a longer one is a tick that falls into it.
const LONGEST_SECTION: u64 = 230;
/// The lateness of ticks in the payload: two instructions, and more if the tick falls into a section with interrupts masked.
const IN_PAYLOAD: (u64, u64) = (2, 2 + LONGEST_SECTION);
/// In the other world: path 2, and what is left of another path or of the look of the library before it; one that finds path 5 comes sooner.
const IN_OTHER: (u64, u64) = (2, 116 + 120);

fn numbers(line: &str) -> Vec<u64> {
    line.split(|character: char| !character.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// The most that a restart may take for each byte of the world's memory, in instructions.
pub const MOST_BY_BYTE: f64 = 0.2;

/// What restarts took for each byte, the back-off apart. On this clock an instruction is a tick of the counter.
#[must_use]
pub fn instructions_by_byte(took: (u64, u64), backoff_ms: u64, bytes: u64) -> (f64, f64) {
    let by_byte = |ticks: u64| (ticks - backoff_ms * MS) as f64 / bytes as f64;
    (by_byte(took.0), by_byte(took.1))
}

/// Runs to the end, in which no tick may be lost, and none may be later than its class.
///
/// # Panics
/// When one is, or the payload does not come to its end.
#[must_use]
pub fn run(file: Vec<u8>) -> Found {
    run_with(file).0
}

/// The same, with what the other world said.
///
/// # Panics
/// As [`run`].
#[must_use]
pub fn run_with(file: Vec<u8>) -> (Found, Vec<String>) {
    let mut worlds = Worlds::start(file);
    let lines = worlds.end();
    let said = worlds.texts(OTHER);
    assert!(said.iter().all(|line| !line.contains("FAILED")), "{said:?}");
    assert_eq!(lines.last().map(String::as_str), Some("rtos: end"), "{lines:#?}");
    let line = |start: &str| lines.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{lines:#?}"));
    let [ticks, counted, fast, own, least, most, other, other_least, other_most] = numbers(line("rtos: ticks"))[..]
    else {
        panic!("{lines:#?}")
    };
    assert!(counted - ticks <= 1 && ticks - fast <= 1, "a tick is lost: {lines:#?}");
    assert!(own == 0 || (least, most <= IN_PAYLOAD.1) == (IN_PAYLOAD.0, true), "{lines:#?}");
    assert!(other == 0 || (other_least >= IN_OTHER.0 && other_most <= IN_OTHER.1), "{lines:#?}");
    assert!(own + other + 1 >= ticks, "{lines:#?}");
    let [state, reason, restarts, faults, shortest, longest, ..] = numbers(line("rtos: state"))[..] else {
        panic!("{lines:#?}")
    };
    let told = lines.iter().filter_map(|line| {
        let rest = line.strip_prefix("rtos: world ")?;
        let [reason, ms] = numbers(rest)[..] else { return None };
        Some((rest.split(',').next()?.to_owned(), reason as u32, ms))
    });
    let count = |what: &str| said.iter().filter(|line| *line == what).count();
    let found = Found {
        told: told.collect(),
        state: state as u32,
        reason: reason as u32,
        restarts,
        faults,
        took: (shortest, longest),
        begun: count("world: begins"),
        worked: count("world: works"),
        ticks,
    };
    (found, said)
}

/// Restarts of a small world that hangs, beside tasks that take so many milliseconds of each ten.
///
/// # Panics
/// As [`run`].
#[must_use]
pub fn hang(most: u32, load_ms: u32) -> Found {
    // What a description may allow within a time is less than all of them take.
    let health = HealthPlan { max_restarts: MAX_RESTARTS, within_ticks: 1_000 * MS, ..with_progress(restarts(1, 1)) };
    run(flash(MASKED_LOOP, health, &format!("restarts={most},load={load_ms}")))
}

/// Wait before Linux is restarted.
pub const BACKOFF_MS: u64 = 10;

/// Stock Linux with so much memory that hands the core to an image which masks everything and loops, or to one that jumps to secure RAM with
/// vectors that fault themselves, by `kexec_load`; it is booted again once.
///
/// # Panics
/// As [`run`].
#[must_use]
pub fn linux(mode: &str, memory_bytes: u64) -> (Found, Vec<String>) {
    linux_told(mode, memory_bytes, 1, "")
}

/// The same with a limit of restarts, and a payload that is told this.
///
/// # Panics
/// As [`run`].
#[must_use]
pub fn linux_told(mode: &str, memory_bytes: u64, most: u32, arguments: &str) -> (Found, Vec<String>) {
    let system = WithLinux {
        monitor: &secure_monitor(),
        payload: &guest("watched-world.elf"),
        image: &guest("linux/Image"),
        file_system: &guest("linux/initramfs.cpio.gz"),
        level: EntryLevel::El2,
        arguments: &format!("bulkhead.mode={mode}"),
        // Several boots of Linux take more than a minute.
        health: HealthPlan { stuck_samples: 250, within_ticks: 3_600_000 * MS, ..restarts(most, BACKOFF_MS) },
    };
    run_with(system.flash_told((ALL.0, memory_bytes), arguments).unwrap_or_else(|error| panic!("{error}")))
}
