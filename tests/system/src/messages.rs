//! A world that talks with the payload over two channels (`guests/talker`, `guests/freertos/talking-world`).

use crate::secure::{BACKGROUND, MEMORY, Payload, SECURE, Worlds, flash_with_channels};
use crate::system::guest;
use bulkhead_abi::PhysicalAddress;
use bulkhead_flash::NonSecure;
use bulkhead_world::context::EntryLevel;
use bulkhead_world::flash::{ChannelDirection, ChannelPlan, ServerKind, ServerPlan, UrgentPlan};
use bulkhead_world::health::HealthPlan;
use std::collections::BTreeMap;

/// Memory of the world; the pools are behind it.
const WORLD: (u64, u64) = (MEMORY.0, 32 << 20);
const PARAMETERS: u64 = 0x4100_0000;
/// The interrupt of messages to the world: no device raises it.
const INTERRUPT: u32 = 42;
const BLOCK_BYTES: u32 = 32;
/// Blocks of the channel to the world, and of that to the payload.
pub const BLOCKS: [u32; 2] = [10, 5];

/// What the world does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// Sends messages one by one, and looks at each answer.
    Ping = 0,
    /// The same, and then asks for a reset with messages under way.
    Restart = 1,
    /// Messages one by one, with times.
    Measure = 2,
    /// Writes anything into the pools.
    Hostile = 3,
}

/// What the world found, and the payload's report.
#[derive(Clone, Debug)]
pub struct Talked {
    /// Messages that came back as they must; or doorbells that were answered.
    pub good: u64,
    /// Others.
    pub wrong: u64,
    /// Interrupts of the channel.
    pub interrupts: u64,
    /// Least and most from the beginning of a send to the payload, in ticks of the counter.
    pub to_payload: [u64; 2],
    /// Least and most from there to the answer in the world's hand.
    pub to_world: [u64; 2],
    /// All rounds together.
    pub ticks: u64,
    /// The payload's report.
    pub counts: BTreeMap<String, u64>,
}

fn channel(name: &[u8], address: u64, direction: ChannelDirection, blocks: u32) -> ChannelPlan {
    let interrupt = if direction == ChannelDirection::ToWorld { INTERRUPT } else { 0 };
    let mut plan = ChannelPlan { address, direction: direction as u32, blocks, ..ChannelPlan::NONE };
    (plan.block_bytes, plan.interrupt) = (BLOCK_BYTES, interrupt);
    plan.name[..name.len()].copy_from_slice(name);
    plan
}

/// What the payload does.
#[derive(Clone, Copy, Debug)]
pub struct Partner {
    /// Its arguments: `echo`, `pattern` or `measure`.
    pub arguments: &'static str,
    /// Ticks of its kernel between two looks for messages; 0: it is rung.
    pub poll: u32,
    /// Messages to the world wake a server that is more urgent than the task that sends them.
    pub is_urgent: bool,
}

impl Partner {
    /// A payload that is rung, with a world that runs when it has nothing else to do.
    #[must_use]
    pub const fn rung(arguments: &'static str) -> Self {
        Self { arguments, poll: 0, is_urgent: false }
    }
}

/// Of an urgent world: 2 ms in 10, above the task that talks.
const SERVERS: [ServerPlan; 2] = [
    ServerPlan { kind: ServerKind::Interrupt as u32, priority: 9, budget_ticks: 125_000, period: 10, voluntary: 0 },
    BACKGROUND[0],
];

/// A machine with the world that does this `count` times, beside this payload.
#[must_use]
pub fn start(talk: Talk, count: u64, seed: u64, partner: Partner) -> Worlds {
    let Partner { arguments, poll, is_urgent } = partner;
    let program = bulkhead_flash::flat(&guest("talker.elf"), "talker").unwrap_or_else(|error| panic!("{error}"));
    let first = WORLD.0 + WORLD.1;
    let channels = [
        channel(b"telemetry", first, ChannelDirection::ToWorld, BLOCKS[0]),
        ChannelPlan { poll, ..channel(b"answers", first + 0x1000, ChannelDirection::ToPayload, BLOCKS[1]) },
    ];
    let pool =
        |place: usize| [channels[place].address, channels[place].blocks.into(), BLOCK_BYTES.into(), place as u64];
    let words = [talk as u64, count, seed].into_iter().chain(pool(1)).chain(pool(0)).chain([INTERRUPT.into()]);
    let parameters: Vec<u8> = words.chain([0; 8]).flat_map(u64::to_le_bytes).collect();
    let segments = vec![(program.base, program.bytes.as_slice()), (PARAMETERS, parameters.as_slice())];
    let (memory, entry, level) = (WORLD, program.entry, EntryLevel::El1);
    let world = NonSecure { memory, segments, entry, argument: PARAMETERS, level };
    let payload = Payload {
        file: "talking-world.elf",
        servers: if is_urgent { &SERVERS } else { &BACKGROUND },
        urgent: if is_urgent { &[UrgentPlan { intid: INTERRUPT, server: 0 }] } else { &[] },
        health: HealthPlan::nobody(),
        arguments,
    };
    Worlds::start(flash_with_channels(payload, &channels, world))
}

/// Lets the world send so many messages and then ask for a reset with others under way, so often. Returns the payload's reports, one for each
/// restart.
///
/// # Panics
/// When the payload finds something broken, or a restart does not come.
#[must_use]
pub fn restarted(restarts: usize, count: u64) -> Vec<BTreeMap<String, u64>> {
    let mut worlds = start(Talk::Restart, count, 0, Partner::rung("pattern"));
    for _ in 0..restarts {
        assert_eq!(worlds.line(SECURE, "is reset"), "rtos: the other world is reset");
    }
    worlds.line(SECURE, &format!("starts {restarts}"));
    let lines = worlds.texts(SECURE);
    assert!(!lines.iter().any(|line| line.contains("FAILED")), "{lines:#?}");
    reports(&lines)
}

/// How many messages of such a run, by its reports, did not arrive once and in order: of those that a world sends before those under way, and
/// of what is asked of its last words.
#[must_use]
pub fn lost_in_restarts(reports: &[BTreeMap<String, u64>], count: u64) -> u64 {
    // What was sent before the doorbell of the last ones, and not the three behind it.
    let arrived = count + 2;
    let of_one = |(counts, starts): (&BTreeMap<String, u64>, u64)| {
        let count = |what: &str| counts.get(what).copied().unwrap_or(u64::MAX);
        let missing =
            (starts * arrived).abs_diff(count("good")).saturating_add((starts * arrived).abs_diff(count("sent")));
        ["wrong", "gaps", "corrupt"]
            .map(count)
            .iter()
            .fold(missing, |all, one| all.saturating_add(*one))
            .saturating_add(count("latest").abs_diff(arrived))
    };
    reports.iter().zip(1..).map(of_one).fold(0, u64::saturating_add)
}

/// Runs it until the world switches itself off.
///
/// # Panics
/// When it does not, or the payload finds something broken.
#[must_use]
pub fn run(talk: Talk, count: u64, seed: u64, partner: Partner) -> Talked {
    let mut worlds = start(talk, count, seed, partner);
    let lines = worlds.end();
    assert!(!lines.iter().any(|line| line.contains("FAILED")), "{lines:#?}");
    let mut found = [0; 8 * 8];
    assert!(worlds.ram().copy_at(PhysicalAddress(PARAMETERS + 12 * 8), &mut found), "the parameters are in RAM");
    let word = |place: usize| u64::from_le_bytes(found[8 * place..][..8].try_into().expect("8 bytes"));
    Talked {
        good: word(0),
        wrong: word(1),
        interrupts: word(2),
        to_payload: [word(3), word(4)],
        to_world: [word(5), word(6)],
        ticks: word(7),
        counts: reports(&lines).pop().unwrap_or_else(|| panic!("{lines:#?}")),
    }
}

/// The payload's reports: numbers by the word before each.
#[must_use]
pub fn reports(lines: &[String]) -> Vec<BTreeMap<String, u64>> {
    let report = |line: &String| {
        let words: Vec<&str> = line.strip_prefix("rtos: messages: ")?.split([' ', ';']).collect();
        Some(words.windows(2).filter_map(|pair| Some((pair[0].to_owned(), pair[1].parse().ok()?))).collect())
    };
    lines.iter().filter_map(report).collect()
}
