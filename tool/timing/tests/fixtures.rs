//! Descriptions whose time does not suffice or is doubtful, one for each code, and good ones with all their bounds.
//!
//! `tests/bad/NAME.toml` says in its first line which codes it must give; `NAME.txt` is the whole text, `tests/good/NAME.txt` are the
//! tables. After a wanted change run `BULKHEAD_UPDATE_SNAPSHOTS=1 cargo test -p bulkhead-timing` and read the diff.

mod support;

use bulkhead_description::{Code, Severity, load_text_unchecked, load_unchecked};
use bulkhead_timing::command::suggestions;
use bulkhead_timing::{Assumptions, bounds, json, payload, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use support::{ASSUMED, check, compare, fixtures, options};

fn expected_codes(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).expect("a fixture can be read");
    let line = text.lines().next().and_then(|line| line.strip_prefix("# expect: "));
    let line = line.unwrap_or_else(|| panic!("{}: the first line must be `# expect: CODES`", path.display()));
    line.split(' ').map(str::to_owned).collect()
}

/// QV-38, SG-47; MZ-25: that the published policies isolate nobody is said; SP-19: and that a guest without limit may starve
/// those below.
#[test]
fn each_bad_fixture_gives_its_codes_and_text() {
    let mut failures = Vec::new();
    for path in fixtures("tests/bad") {
        let (system, report) = check(&path);
        let expected = expected_codes(&path);
        let found: BTreeSet<_> = report.diagnostics.iter().map(|one| one.code.name().to_owned()).collect();
        if expected != found {
            failures.push(format!("{}: {expected:?}, not {found:?}:\n{}", path.display(), report.to_text(false)));
        }
        assert_eq!(system.is_none(), report.has_errors(), "{}", path.display());
        let mut text = report.to_text(false);
        for suggestion in suggestions(&path, &options(), &ASSUMED).expect("mistakes of time only") {
            text.push_str(&suggestion.to_text());
        }
        compare(&path.with_extension("txt"), &text, &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_code_of_the_analysis_has_a_fixture() {
    let covered: BTreeSet<String> = fixtures("tests/bad").iter().flat_map(|path| expected_codes(path)).collect();
    let own = Code::ALL.iter().map(|code| code.name()).filter(|code| code.starts_with("BH08"));
    let missing: Vec<_> = own.filter(|code| !covered.contains(*code)).collect();
    assert!(missing.is_empty(), "codes without a fixture: {missing:?}");
}

#[test]
fn every_diagnostic_has_a_place_and_advice() {
    for path in fixtures("tests/bad") {
        for diagnostic in check(&path).1.diagnostics {
            let code = diagnostic.code.name();
            assert!(!diagnostic.labels.is_empty(), "{}: {code} has no place", path.display());
            let advice = diagnostic.helps.len() + diagnostic.suggestions.len();
            assert!(advice > 0, "{}: {code} says nothing about what to do", path.display());
        }
    }
}

/// `--suggest`: what is suggested passes when it is written into the description, and changes nothing but budgets.
#[test]
fn suggested_budgets_pass() {
    let mut repaired = 0;
    for path in fixtures("tests/bad") {
        let (_, report) = check(&path);
        let misses =
            |one: &&bulkhead_description::Diagnostic| matches!(one.code, Code::NotSchedulable | Code::TaskLate);
        if report.diagnostics.iter().filter(misses).count() == 0 {
            let found = suggestions(&path, &options(), &ASSUMED).expect("no other mistake");
            assert!(found.is_empty(), "{}", path.display());
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a fixture can be read");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let found = suggestions(&path, &options(), &ASSUMED).expect("no other mistake");
        assert!(!found.is_empty(), "{}", path.display());
        let mut changed = false;
        for patch in found.iter().map(|suggestion| suggestion.to_text()) {
            for group in patch.split("--- ").skip(1) {
                let mut parts = group.lines();
                let place = parts.next().expect("a place");
                let number: usize = place.rsplit(':').next().expect("a line").parse().expect("a number");
                let old = parts.next().and_then(|line| line.strip_prefix('-')).expect("the old line");
                let new = parts.next().and_then(|line| line.strip_prefix('+')).expect("the new line");
                assert_eq!(lines[number - 1], old, "{place}");
                lines[number - 1] = new.to_owned();
                changed = true;
            }
        }
        if !changed {
            continue;
        }
        repaired += 1;
        let again = bulkhead_description::load_text(&path, &lines.join("\n"), &options(), &ASSUMED);
        let left: Vec<_> = match &again {
            Ok(_) => continue,
            Err(report) => report.diagnostics.iter().filter(|one| one.severity() == Severity::Error).collect(),
        };
        assert!(!left.iter().any(misses), "{}: {left:?}", path.display());
    }
    assert!(repaired >= 3, "only {repaired} fixtures were repaired");
}

/// QV-37, QV-38, CH-38, MZ-13: equation (1), responses, doorbells, and how long an interrupt waits for its turn.
#[test]
fn good_fixtures_show_their_bounds() {
    let mut failures = Vec::new();
    for path in fixtures("tests/good") {
        let (system, report) = check(&path);
        assert!(system.is_some() && report.diagnostics.is_empty(), "{}:\n{}", path.display(), report.to_text(false));
        let loaded = load_unchecked(&path, &options()).expect("accepted");
        let all = bounds(&loaded.system, &ASSUMED);
        let text = text::text(&loaded.system, &loaded.spans, &all);
        // Sentences may be longer: a terminal wraps them without harm.
        let wide =
            text.lines().find(|line| line.starts_with("  ") && !line.contains(": ") && line.chars().count() > 80);
        assert_eq!(wide, None, "{}: tables fit a terminal", path.display());
        compare(&path.with_extension("txt"), &text, &mut failures);
        let value = json::json(&loaded.system, &loaded.spans, &all);
        assert_eq!(value["cores"].as_array().map(Vec::len), Some(all.cores.len()));
        for (core, written) in all.cores.iter().zip(value["cores"].as_array().expect("an array")) {
            assert_eq!(written["servers"].as_array().map(Vec::len), Some(core.servers.len()));
            assert_eq!(written["vcpus"].as_array().map(Vec::len), Some(core.core.core_use.vcpus.len()));
            for (server, written) in core.servers.iter().zip(written["servers"].as_array().expect("an array")) {
                assert_eq!(written["response_ns"].as_u64(), server.response_ns);
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The line of a PCI function is an interrupt source as that of a device is, and two functions on one line are one source. Each is silenced for itself.
#[test]
fn lines_of_functions_take_time_of_a_shared_core() {
    let path = Path::new("tests/good/turns.toml");
    let text = std::fs::read_to_string(path).expect("a fixture can be read");
    let supplied = |functions: &[u32]| {
        let tables = functions.iter().map(|slot| {
            let table = "[[pci]]\nmodel = \"virtio-rng\"\npartition = \"third\"";
            format!("{table}\nname = \"in-{slot}\"\nslot = {slot}\n")
        });
        let text = format!("{text}\n{}", tables.collect::<String>());
        let loaded =
            load_text_unchecked(path, &text, &options()).unwrap_or_else(|report| panic!("{}", report.to_text(false)));
        let all = bounds(&loaded.system, &ASSUMED);
        all.cores.iter().flat_map(|core| &core.vcpus).map(|vcpu| vcpu.supplied_ns(10_000_000_000)).collect::<Vec<_>>()
    };
    let (none, one, same, two) = (supplied(&[]), supplied(&[1]), supplied(&[1, 5]), supplied(&[1, 2]));
    // Slots 1 and 5 have one line: what is between them is the second function's silence when the partition stops, a passage of the core.
    for (before, after) in [(&none, &one), (&one, &same), (&same, &two)] {
        assert!(before.iter().zip(after).any(|(before, after)| after < before), "{before:?} {after:?}");
        assert!(before.iter().zip(after).all(|(before, after)| after <= before), "{before:?} {after:?}");
    }
}

/// SG-47: blackouts of 130, 28 and 38 ms, responses of 14 and 142 ms, by the description of the published set; the paths come on top.
#[test]
fn the_published_set_has_its_bounds() {
    let free = Assumptions { instruction_ps: 0, ..ASSUMED };
    let times = |name: &str, assumed: &Assumptions| {
        let system = load_unchecked(Path::new(name), &options()).expect("accepted").system;
        let found = payload::bounds(&system, assumed).expect("a payload");
        let blackouts: Vec<_> = found.blackouts_ns.iter().map(|(blackout, _)| blackout.expect("a bound")).collect();
        (found.responses_ns.into_iter().map(|one| one.expect("a bound")).collect::<Vec<_>>(), blackouts)
    };
    let above = times("tests/good/two-worlds.toml", &free);
    assert_eq!(above, (vec![14_000_000, 142_000_000], vec![28_000_000, 130_000_000]));
    let between = times("tests/good/two-worlds-between.toml", &free);
    assert_eq!(between, (vec![10_000_000, 142_000_000], vec![38_000_000, 130_000_000]));
    // 230 instructions of 16 ns: for a path that has begun, and for each of the two budgets.
    assert_eq!(times("tests/good/two-worlds.toml", &ASSUMED).0[0], 14_000_000 + 3 * 3_680);
}

/// CH-31, CH-36, CH-38: within a limit, its own or that of all senders, a doorbell is as fast as without one. What is held back is dropped
/// by the monitor, and the receiver finds the data when it looks next: there is a bound if it says how often it looks, and none
/// otherwise, or when its own timer may be put off.
#[test]
fn what_a_limit_holds_back_waits_for_the_receivers_look() {
    let path = Path::new("tests/good/mixed.toml");
    let mut system = load_unchecked(path, &options()).expect("accepted").system;
    let channel = |system: &bulkhead_plan::model::System| {
        let bound = bounds(system, &ASSUMED).channels.remove(0);
        (bound.within_limit_ns.expect("a bound"), bound.held_back_ns)
    };
    let alone = channel(&system);
    let receiver = system.channels[0].destination.partition;
    let own = system.channels[0].doorbell.as_mut().and_then(|doorbell| doorbell.limiter.take());
    let free = channel(&system);
    assert_eq!(free.1, Some(free.0), "nothing is held back");
    system.partitions[receiver].doorbell_limit = own;
    assert_eq!(channel(&system), alone, "a limit of all senders");
    assert_eq!(alone.0, free.0);
    // A look every 10 ms, whose interrupt is noticed after 1,150 instructions and enters in 250, of 16 ns; a doorbell takes 1,650.
    let response = alone.0 - 1_650 * 16;
    assert_eq!(alone.1, Some(10_000_000 + (1_150 + 250) * 16 + response));
    system.channels[0].polls_ns = Some(20_000_000);
    assert_eq!(channel(&system).1, alone.1.map(|ns| ns + 10_000_000));
    system.partitions[receiver].route.limit = own;
    assert_eq!(channel(&system).1, None);
    system.partitions[receiver].route.limit = None;
    system.channels[0].polls_ns = None;
    assert_eq!(channel(&system).1, None);
}

/// SG-60, QV-38: a manager somewhere takes from every guest of the core of those that it may ask, by its limit and no more.
#[test]
fn requests_of_managers_are_in_the_bounds() {
    let path = Path::new("tests/good/mixed.toml");
    let mut system = load_unchecked(path, &options()).expect("accepted").system;
    let supply = |system: &bulkhead_plan::model::System| {
        let all = bounds(system, &Assumptions::default());
        let vcpus = all.cores.iter().flat_map(|core| &core.vcpus);
        vcpus.map(|vcpu| vcpu.supplied_ns(1_000_000_000)).collect::<Vec<_>>()
    };
    let without = supply(&system);
    let mut manager = system.partitions[0].clone();
    (manager.name, manager.cores, manager.manages) = ("manager".to_owned(), vec![7], true);
    manager.servers.clear();
    system.partitions.push(manager);
    let within = supply(&system);
    system.partitions.last_mut().expect("the manager").manage_limit.events *= 10;
    let wide = supply(&system);
    let changed = |more: &[u64], less: &[u64]| more.iter().zip(less).filter(|(more, less)| more > less).count();
    assert!(changed(&without, &within) > 0, "{without:?} and {within:?}");
    assert_eq!(changed(&within, &without), 0);
    assert!(changed(&within, &wide) > 0, "{within:?} and {wide:?}");
}

#[test]
fn texts_hold_no_paths_of_this_machine() {
    for path in fixtures("tests/bad") {
        let text = check(&path).1.to_text(false);
        assert!(!text.contains(env!("CARGO_MANIFEST_DIR")) && !text.contains(env!("CARGO_TARGET_TMPDIR")));
    }
}

/// QV-40: whether a guest says nothing of its tasks, keeps their deadlines or cannot keep them, everybody's servers have the same
/// bounds; and so has what everybody executes, unless its author is trusted: then its tasks say how often it pre-empts.
#[test]
fn tasks_change_nobodys_bounds() {
    let path = Path::new("tests/good/mixed.toml");
    let text = std::fs::read_to_string(path).expect("a fixture can be read");
    // The first partition that is trusted is the one with tasks.
    for (trusted, text) in [(true, text.clone()), (false, text.replacen("trust = \"trusted\"\n", "", 1))] {
        let (before, rest) = text.split_once("tasks = [").expect("it has tasks");
        let (_, after) = rest.split_once("]\n").expect("the list ends");
        let late = "tasks = [{ name = \"servo\", cost = \"9 ms\", period = \"10 ms\" }]\n";
        let [with, without, late] = [text.clone(), format!("{before}{after}"), format!("{before}{late}{after}")]
            .map(|text| bounds_and_tasks(path, &text));
        assert_eq!(with.0.as_array().map(Vec::len), Some(5));
        assert_eq!((&with.0, &with.0), (&without.0, &late.0), "servers, trusted: {trusted}");
        assert_eq!((with.1 == without.1, with.1 == late.1), (!trusted, !trusted), "vCPUs, trusted: {trusted}");
        assert_ne!(with.2, late.2, "its own tasks are judged");
    }
}

/// Bounds of the first core's servers, of its vCPUs, and of their tasks.
fn bounds_and_tasks(path: &Path, text: &str) -> (Value, Value, Vec<Value>) {
    let loaded = load_text_unchecked(path, text, &options()).expect("it can be read");
    let mut value = json::json(&loaded.system, &loaded.spans, &bounds(&loaded.system, &ASSUMED));
    let core = &mut value["cores"][0];
    let vcpus = core["vcpus"].as_array_mut().expect("an array").iter_mut();
    let tasks = vcpus.filter_map(|vcpu| vcpu.as_object_mut()?.remove("tasks")).collect();
    (core["servers"].take(), core["vcpus"].take(), tasks)
}

/// Mistakes that have nothing to do with time do not hide those that have; a budget that cannot be read does.
#[test]
fn time_is_checked_beside_mistakes_of_other_kinds() {
    let path = Path::new("tests/bad/late-server.toml");
    let text = std::fs::read_to_string(path).expect("a fixture");
    let codes = |text: &str| -> BTreeSet<&'static str> {
        let report = bulkhead_description::load_text(path, text, &options(), &ASSUMED).expect_err("refused");
        report.diagnostics.iter().map(|one| one.code.name()).collect()
    };
    let timing = codes(&text);
    assert!(timing.contains("BH0801"), "{timing:?}");
    let with = |more: &'static str| timing.iter().copied().chain([more]).collect::<BTreeSet<_>>();
    assert_eq!(codes(&text.replacen("guest:tiny.bin", "guest:absent.bin", 1)), with("BH0401"));
    assert_eq!(codes(&text.replace("memory = \"64 MiB\"", "memory = \"64 mib\"")), with("BH0008"));
    let unread = text.replacen("budget = \"", "budget = \"x", 1);
    assert_eq!(codes(&unread), BTreeSet::from(["BH0008"]), "what is not known is not judged");
}
