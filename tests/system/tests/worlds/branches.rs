//! What is executed at EL3: every direction of every branch, and every path with its length.

use bulkhead_el3::branches::{Scenario, listed};
use bulkhead_el3::configuration::{Configuration, MOST_KICK};
use bulkhead_el3::promises;
use bulkhead_run::el3::Core;
use bulkhead_system_tests::el3::{Directions, Passage, Seen, Watch, Worlds};
use bulkhead_system_tests::secure::{secure_monitor, secure_monitor_of_cores};
use std::collections::BTreeMap;

fn watch() -> Watch {
    Watch::new(secure_monitor()).unwrap_or_else(|why| panic!("{why}"))
}

fn watch_of_cores() -> Watch {
    Watch::new(secure_monitor_of_cores()).unwrap_or_else(|why| panic!("{why}"))
}

fn run(watch: &Watch, worlds: Worlds) -> Seen {
    let seen = watch.run(worlds).unwrap_or_else(|why| panic!("{worlds:?}: {why}"));
    assert!(seen.is_good, "{worlds:?}: after {} calls and {} ticks", seen.calls, seen.ticks);
    assert!(seen.cores.iter().all(|core| core.elsewhere == 0), "{worlds:?}: {:?}", seen.cores);
    seen
}

/// What was executed and has no place among the ways is in no number of any of them, so none of these is told.
#[test]
fn nothing_is_said_of_ways_when_something_was_not_counted_by_its_way() {
    let watch = watch();
    let core = |elsewhere| Core { branches: Vec::new(), passages: Vec::new(), elsewhere };
    assert_eq!(watch.paths(&[core(0), core(0)]), Ok(BTreeMap::new()));
    let refused = watch.paths(&[core(0), core(3)]).expect_err("three had no place");
    assert!(refused.starts_with("3 times"), "{refused}");
}

/// SG-11, SG-E3: each direction of each conditional branch of the binary is executed in the scenario that the table names for it; together that
/// is 100 % both ways. Nothing else is executed behind a branch.
#[test]
fn each_direction_of_each_branch_is_executed() {
    for watch in [watch(), watch_of_cores()] {
        every_direction(&watch);
    }
}

fn every_direction(watch: &Watch) {
    let listed = listed(watch.program()).unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")));
    let configuration = Configuration::of(watch.program());
    let seen: Vec<_> = configuration
        .scenarios
        .iter()
        .map(|scenario| {
            let scenario = *scenario;
            let seen = watch.scenario(scenario).unwrap_or_else(|why| panic!("{}: {why}", scenario.name()));
            let elsewhere: u64 = seen.cores.iter().map(|core| core.elsewhere).sum();
            assert!(seen.is_good && elsewhere == 0, "{}: {:?}", scenario.name(), seen.cores);
            (scenario, seen)
        })
        .collect();
    let directions = |number: usize, scenario: Scenario| {
        let runs = seen.iter().filter(|(known, _)| *known == scenario);
        let cores = runs.flat_map(|(_, seen)| &seen.cores).map(|core| core.branches[number]);
        cores.fold(Directions::default(), |sum, one| Directions {
            executed: sum.executed + one.executed,
            taken: sum.taken + one.taken,
            not_taken: sum.not_taken + one.not_taken,
        })
    };
    for (number, (found, branch)) in listed.iter().enumerate() {
        let name = format!("{} at {:#x}", branch.form, found.address);
        for (scenario, _) in &seen {
            let all = directions(number, *scenario);
            assert_eq!(all.executed, all.taken + all.not_taken, "{name} in `{}`", scenario.name());
        }
        let taken = directions(number, branch.taken.scenario).taken;
        let not_taken = directions(number, branch.not_taken.scenario).not_taken;
        assert!(taken > 0, "{name} is not taken in `{}`", branch.taken.scenario.name());
        assert!(not_taken > 0, "{name} is always taken in `{}`", branch.not_taken.scenario.name());
        println!("{name}: taken {taken}, not taken {not_taken}");
    }
    assert_eq!(listed.len(), configuration.branches.len());
}

/// The passages of a run by path, each as often as it should be and always of the length that the binary says.
fn paths(watch: &Watch, worlds: Worlds, expected: &[(&str, u64)]) -> Seen {
    let seen = run(watch, worlds);
    let paths = watch.paths(&seen.cores).unwrap_or_else(|why| panic!("{worlds:?}: {why}"));
    let counts: Vec<(&str, u64)> = paths.iter().map(|(name, passage)| (*name, passage.count)).collect();
    assert_eq!(counts, expected, "{worlds:?}");
    for (name, Passage { shortest, longest, .. }) in &paths {
        let path = Configuration::of(watch.program()).paths.iter().find(|path| path.name == *name).expect("a path");
        assert_eq!(shortest, longest, "{worlds:?}: path {name}");
        assert!(path.ceiling.is_none_or(|most| *longest <= most), "{worlds:?}: path {name} has {longest}");
    }
    seen
}

/// How late ticks were: least and most.
fn late(seen: &Seen) -> (u64, u64) {
    let least = seen.late.iter().min().expect("ticks");
    (*least, *seen.late.iter().max().expect("ticks"))
}

/// SG-20, SG-22, SG-E1: an interrupt of the world that runs is none of EL3's: 3,000 of the payload alone, and 3,000 of the non-secure world between one
/// path 4 and one path 5. The payload's vector reads the counter by its first instruction.
#[test]
fn interrupts_of_the_world_that_runs_cost_nothing_at_el3() {
    let watch = watch();
    let seen = paths(&watch, Worlds::SecureTicks(3_000), &[]);
    assert_eq!((seen.ticks, late(&seen)), (3_000, (1, 1)));
    paths(&watch, Worlds::OwnTicks(3_000), &[("4", 1), ("5", 1), ("reset", 1)]);
}

/// SG-2, SG-21, SG-23, SG-24, SG-48, SG-E1: each path has one length, whatever it interrupts. The payload's ticks come that much later in the
/// other world; beside a storm of calls, traps and resets at most the longest other path more.
#[test]
fn each_path_has_one_length() {
    let watch = watch();
    let seen = paths(&watch, Worlds::TicksBelow(3_000), &[("2", 3_000), ("4", 3_000), ("reset", 1)]);
    let path_2 = watch.paths(&seen.cores).expect("paths")["2"].longest;
    assert_eq!(late(&seen), (path_2 + 1, path_2 + 1));
    // Each round: a call, a reset, and two accesses to group 0; the last call says that all was good.
    let expected = [("4", 2_001), ("5", 2_001), ("reset", 1_001), ("skip", 2_000)];
    let calls = paths(&watch, Worlds::Calls(1_000), &expected);
    let calls = watch.paths(&calls.cores).expect("paths");
    assert!(calls["4"].longest <= calls["5"].longest, "{calls:?}");
    let seen = run(&watch, Worlds::CallsAndTicks(3_000));
    let paths = watch.paths(&seen.cores).expect("paths");
    assert!(paths.values().all(|passage| passage.shortest == passage.longest), "{paths:?}");
    let others = paths.iter().filter(|(name, _)| **name != "2");
    let longest = others.map(|(_, passage)| passage.longest).max().expect("paths");
    println!("late {:?}; {paths:?}", late(&seen));
    assert_eq!(seen.ticks, 3_000);
    assert!(late(&seen).1 <= path_2 + 1 + longest, "{:?}", late(&seen));
}

/// SG-2, SG-13, SG-21, SG-23, SG-24: `multi` has the same paths, each of one length, and a core is stopped within [`MOST_KICK`] instructions of
/// EL3 at most, whatever it does.
#[test]
fn each_path_of_several_cores_has_one_length() {
    let watch = watch_of_cores();
    paths(&watch, Worlds::TicksBelow(3_000), &[("2", 3_000), ("4", 3_000), ("reset", 1)]);
    paths(&watch, Worlds::Calls(1_000), &[("4", 2_001), ("5", 2_001), ("reset", 1_001), ("skip", 2_000)]);
    let seen = watch.scenario(Scenario::Cores).unwrap_or_else(|why| panic!("{why}"));
    let paths = watch.paths(&seen.cores).unwrap_or_else(|why| panic!("{why}"));
    for known in promises::known(watch.program()).expect("ways") {
        let length = known.way.steps.len() as u64;
        let Some(passage) = paths.get(known.path.name) else { continue };
        assert_eq!((passage.shortest, passage.longest), (length, length), "{}", known.path.name);
    }
    let kick = &paths["kick"];
    assert!(kick.count >= 300 && kick.longest <= MOST_KICK, "{kick:?}");
    for name in ["2", "4", "5", "kick of EL2", "CPU_ON, AFFINITY_INFO", "watch", "call of kick, or of nothing"] {
        assert!(paths.contains_key(name), "path {name} is not gone: {paths:#?}");
    }
}
