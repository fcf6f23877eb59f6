//! A hostile world below the payload: every attack, at both levels, and what the payload noticed of it.
//!
//! `guests/hostile-world` has the attacks and says how each ended; `guests/freertos/attacked-world` starts it again for each one, and says
//! how late its ticks came meanwhile, whether its victim task came to its result, and whether a register, an interrupt or a word of its memory
//! changed. They are judged as those of the demonstration are.

use crate::registers::{NAMES, SKIPPED, is_of_el2};
use bulkhead_demo::worlds::attacks::Attacks;
use bulkhead_system_tests::attacked::Attack;
use bulkhead_world::context::{EntryLevel, NOT_SWITCHED, REGISTERS};

/// Attacks that there must be, and those of them that make no sense at EL1.
const ATTACKS: usize = 72;
const SKIPPED_AT_EL1: usize = 5;

/// How late a tick in the other world finds its vector under the secure monitor of several cores.
const PATH_2_OF_CORES: u64 = 111;

fn every_attack(level: EntryLevel, seed: u64, skipped: usize) -> Vec<String> {
    let (payload, world) = Attack { level, seed, samples: 0, has_cores: false }.run();
    judged(level, skipped, Attacks::judge(&payload, &world));
    world
}

fn judged(level: EntryLevel, skipped: usize, attacks: Attacks) {
    assert_eq!(attacks.succeeded, Vec::<String>::new(), "{level:?}");
    assert_eq!((attacks.tried, attacks.skipped), (ATTACKS, skipped), "tried, and without sense at {level:?}");
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

/// SG-1, SG-3, SG-6, SG-7, SG-9, SG-14, SG-15, SG-32, SG-48, SG-E4, CF-7, CF-9: a world without EL2.
#[test]
fn every_attack_at_el1_changes_nothing() {
    check_registers(&every_attack(EntryLevel::El1, 1, SKIPPED_AT_EL1));
}

/// The same with EL2, another seed for the random ones. CF-11: SYSTEM_OFF and SYSTEM_RESET of EL2 are the payload's to know.
#[test]
fn every_attack_at_el2_changes_nothing() {
    check_registers(&every_attack(EntryLevel::El2, 2, 0));
}

/// SG-1, SG-6, SG-13, SG-48: the same below the secure monitor of several cores, of which the machine has one.
#[test]
fn every_attack_below_several_cores_changes_nothing() {
    let (payload, world) = Attack { level: EntryLevel::El2, seed: 3, samples: 0, has_cores: true }.run();
    judged(EntryLevel::El2, 0, Attacks::judge_with(&payload, &world, PATH_2_OF_CORES));
}
