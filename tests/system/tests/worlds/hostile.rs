//! A hostile world below the payload: every attack, at both levels, and what the payload noticed of it.
//!
//! `guests/hostile-world` has the attacks and says how each ended; `guests/freertos/attacked-world` starts it again for each one, and says
//! how late its ticks came meanwhile, whether its victim task came to its result, and whether a register, an interrupt or a word of its memory
//! changed.

use crate::registers::{NAMES, SKIPPED, is_of_el2};
use bulkhead_flash::{NonSecure, flat};
use bulkhead_system_tests::secure::{OTHER, Worlds, flash};
use bulkhead_system_tests::system::guest;
use bulkhead_world::context::{EntryLevel, NOT_SWITCHED, REGISTERS};
use std::collections::BTreeMap;

/// The world's memory: little, because each attack begins with all of it filled again.
const MEMORY: (u64, u64) = (0x4000_0000, 24 << 20);
/// How late a tick finds its vector: in the payload; in the other world, when nothing else is under way (path 2).
const IN_PAYLOAD: u64 = 2;
const PATH_2: u64 = 116;
/// The longest way that a tick may find under way: path 4, with the look of the library before it, both with the payload's interrupts masked.
/// One that finds path 5 comes sooner than by path 2.
const LONGEST_WAY: u64 = 120;
/// The longest stretch of the library with interrupts masked, while it answers calls.
const MASKED: u64 = 20;
/// Samples in the other world that each attack gets, and ticks after them in which the payload compares all registers.
const SAMPLES: u64 = 100;
const COMPARED_TICKS: u64 = 20;
/// Attacks that there must be, and those of them that make no sense at EL1.
const ATTACKS: usize = 72;
const SKIPPED_AT_EL1: usize = 5;

fn attacked(level: EntryLevel, seed: u64) -> Vec<u8> {
    let world = flat(&guest("hostile-world.elf"), "the hostile world").unwrap_or_else(|error| panic!("{error}"));
    let segments = vec![(world.base, world.bytes.as_slice())];
    let other = NonSecure { memory: MEMORY, segments, entry: world.entry, argument: seed, level };
    flash(&guest("attacked-world.elf"), Some(other))
}

/// Runs all attacks with the device that does DMA, and returns what the payload said, and the other world.
fn attack(level: EntryLevel, seed: u64) -> (Vec<String>, Vec<String>) {
    let mut worlds = Worlds::start_with(attacked(level, seed), |options| {
        options.icount_shift = Some(4);
        options.extra.extend(["-device", "edu,dma_mask=0xffffffffffff"].map(str::to_owned));
    });
    (worlds.end(), worlds.texts(OTHER))
}

/// What the payload says of an attack.
struct Report {
    ticks: u64,
    /// How late, and how often.
    in_payload: BTreeMap<u64, u64>,
    in_other: BTreeMap<u64, u64>,
    victim: String,
    is_off: bool,
    /// Registers, words and settings of the interrupt controller.
    changed: String,
}

fn report(line: &str) -> Option<Report> {
    let parts: Vec<&str> = line.split("; ").collect();
    let [first, in_payload, in_other, _, victim, off, changed] = parts[..] else { return None };
    let counted = |part: &str| {
        let pairs = part.split(' ').filter_map(|pair| pair.split_once('*'));
        pairs.map(|(late, count)| (late.parse().unwrap(), count.parse().unwrap())).collect()
    };
    Some(Report {
        ticks: first.split(' ').next_back()?.parse().ok()?,
        in_payload: counted(in_payload),
        in_other: counted(in_other),
        victim: victim.to_owned(),
        is_off: off == "off 1",
        changed: changed.to_owned(),
    })
}

/// What the world says of an attack: `quiet`, `calls` or `ends`, what it is, and how it ended.
struct Said {
    noise: String,
    what: String,
    ends: Vec<String>,
}

fn said(lines: &[String]) -> Vec<Said> {
    let mut attacks: Vec<Said> = Vec::new();
    for line in lines {
        let Some((_, rest)) = line.strip_prefix("attack ").and_then(|rest| rest.split_once(' ')) else { continue };
        match (rest.split_once(", SG-"), attacks.last_mut()) {
            (Some((noise, what)), _) => {
                attacks.push(Said { noise: noise.to_owned(), what: what.to_owned(), ends: Vec::new() });
            }
            (None, Some(attack)) => attack.ends.push(rest.to_owned()),
            (None, None) => panic!("{line}"),
        }
    }
    attacks
}

/// The law of latencies (SG-48), sample by sample.
fn check_latencies(attack: &Said, report: &Report) {
    let what = &attack.what;
    let is = |late: &BTreeMap<u64, u64>, only: u64| late.keys().all(|late| *late == only);
    let last = |late: &BTreeMap<u64, u64>| late.keys().next_back().copied().unwrap_or(0);
    if attack.noise == "calls" {
        assert!(last(&report.in_payload) <= IN_PAYLOAD + MASKED, "{what}: in the payload {:?}", report.in_payload);
    } else {
        assert!(is(&report.in_payload, IN_PAYLOAD), "{what}: in the payload {:?}", report.in_payload);
    }
    let samples = |late: &BTreeMap<u64, u64>| late.values().sum::<u64>();
    let (own, other) = (samples(&report.in_payload), samples(&report.in_other));
    assert_eq!(own + other + COMPARED_TICKS, report.ticks, "{what}: a tick is lost");
    match attack.noise.as_str() {
        "quiet" => {
            assert!(is(&report.in_other, PATH_2) && other >= SAMPLES, "{what}: {:?}", report.in_other);
        }
        "calls" => {
            assert!(last(&report.in_other) <= PATH_2 + LONGEST_WAY, "{what}: {:?}", report.in_other);
            assert!(own + other >= SAMPLES, "{what}: {:?}", report.in_other);
        }
        // A tick may come while it says what it is going to do.
        _ => assert!(report.is_off && other <= 2 && is(&report.in_other, PATH_2), "{what}: {:?}", report.in_other),
    }
}

fn every_attack(level: EntryLevel, seed: u64, skipped: usize) -> Vec<String> {
    let (mut payload, world) = attack(level, seed);
    let end = payload.split_off(payload.len().saturating_sub(2));
    let [counts, last] = &end[..] else { panic!("{end:?}") };
    assert_eq!(last, "end", "{counts}");
    let reports: Vec<Report> = payload.iter().filter_map(|line| report(line)).collect();
    let attacks = said(&world);
    assert_eq!((attacks.len(), reports.len(), payload.len()), (ATTACKS, ATTACKS, ATTACKS), "{payload:?}");
    assert!(counts.starts_with(&format!("attacks {ATTACKS}; ")), "{counts}");
    let mut is_skipped = 0;
    for (attack, report) in attacks.iter().zip(&reports) {
        assert!(attack.ends.len() == 1, "{}: {:?}", attack.what, attack.ends);
        assert!(["contained", "skipped"].contains(&attack.ends[0].as_str()), "{}: {:?}", attack.what, attack.ends);
        is_skipped += usize::from(attack.ends[0] == "skipped");
        assert_eq!(report.changed, "changed nothing", "{}", attack.what);
        assert_eq!(report.victim, reports[0].victim, "{}", attack.what);
        check_latencies(attack, report);
    }
    assert_eq!(is_skipped, skipped, "attacks that make no sense at {level:?}");
    world
}

/// The encodings behind one word in what the world says.
fn encodings<'a>(world: &'a [String], word: &str) -> Vec<&'a str> {
    world.iter().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).collect()
}

/// What is read is none of EL3 or the secure world (the world says `escaped`), what EL3 skips is group 0, and what keeps a value is switched,
/// or has its reason in the list of what is not.
fn check_registers(world: &[String]) {
    let skipped = encodings(world, "skip");
    assert!(skipped.iter().all(|one| SKIPPED.contains(one)), "{skipped:?}");
    assert_eq!(encodings(world, "trap"), Vec::<&str>::new());
    assert!(encodings(world, "read").len() > 150, "registers that are read");
    let kept = encodings(world, "keep");
    assert!(kept.len() > 60, "registers that keep what is written: {kept:?}");
    for encoding in kept {
        if is_of_el2(encoding) {
            continue;
        }
        let name = NAMES.iter().find(|(one, _)| *one == encoding).map(|(_, name)| *name);
        let name =
            name.unwrap_or_else(|| panic!("{encoding} keeps what is written, and has no name in the test's table"));
        let is_switched = REGISTERS.iter().any(|register| register.name == name);
        let has_reason = NOT_SWITCHED.iter().any(|(names, _)| names.split(", ").any(|one| one == name));
        assert!(is_switched || has_reason, "{name} ({encoding}) is neither switched nor has a reason");
    }
}

/// SG-1, SG-3, SG-6, SG-7, SG-9, SG-14, SG-15, SG-32, SG-48: a world without EL2.
#[test]
fn every_attack_at_el1_changes_nothing() {
    check_registers(&every_attack(EntryLevel::El1, 1, SKIPPED_AT_EL1));
}

/// The same with EL2, another seed for the random ones.
#[test]
fn every_attack_at_el2_changes_nothing() {
    check_registers(&every_attack(EntryLevel::El2, 2, 0));
}
