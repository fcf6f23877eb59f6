//! A system of two worlds from its description to its end, as a user has it: checked, built, verified, run.

use bulkhead_description::{Loaded, Options, load};
use bulkhead_run::MachineOptions;
use bulkhead_run::source::machine_of;
use bulkhead_system_tests::secure::{OTHER, SECURE, Worlds};
use bulkhead_timing::Assumptions;
use bulkhead_verify::world::{SecureMonitor, verify_flash};
use std::path::{Path, PathBuf};

const SYSTEM: &str = "../../systems/dual-world/system.toml";

/// Its signs of life are lies.
const LYING: &str = "systems/lying-world.toml";

fn described(system: &str) -> Loaded {
    let options = Options::from_environment(None);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(system);
    load(&path, &options, &Assumptions::default()).unwrap_or_else(|report| panic!("{}", report.to_text(false)))
}

/// The secure monitor that was built, whichever the tool contains.
fn secure_monitor() -> PathBuf {
    let guests = Options::from_environment(None).guests.expect("built guests; run `./x build`");
    guests.join("../secure-monitor")
}

fn machine(system: &str) -> MachineOptions {
    let options = machine_of(&described(system).system, Some(&secure_monitor()));
    let options = options.unwrap_or_else(|error| panic!("{}", error.message));
    MachineOptions { icount_shift: Some(4), ..options }
}

/// What `build` writes is what `verify` accepts, with the secure monitor that was built.
#[test]
fn the_example_is_accepted_without_a_warning_and_verified() {
    let loaded = described(SYSTEM);
    assert!(loaded.warnings.diagnostics.is_empty(), "{}", loaded.warnings.to_text(false));
    let monitor = secure_monitor();
    let flash = bulkhead_image::build_flash(&loaded.system, Some(&monitor)).unwrap_or_else(|error| panic!("{error}"));
    let expected = SecureMonitor::read(Some(&monitor)).unwrap_or_else(|error| panic!("{error}"));
    let verdict = verify_flash(&flash.flash.bytes, &expected);
    assert!(verdict.is_accepted(), "{:?}", verdict.findings);
    assert_eq!((verdict.extent.segments, verdict.extent.window_bytes), (3, 254 << 20));
}

/// SG-1, SG-21: stock FreeRTOS above stock Linux by the description alone, with the names of the worlds on their consoles; and a second run
/// prints the same bytes on both.
#[test]
fn the_example_runs_and_repeats_exactly() {
    let run = || {
        let mut worlds = Worlds::of(machine(SYSTEM));
        let secure = worlds.end();
        (secure, worlds.texts(OTHER))
    };
    let (secure, linux) = run();
    assert!(secure.first().is_some_and(|line| line.contains("in the secure world")), "{SECURE}: {secure:?}");
    assert!(secure.iter().any(|line| line == "rtos: the other world is off"), "{secure:?}");
    assert!(linux.iter().any(|line| line.ends_with("with 1 CPUs says hello")), "{linux:?}");
    assert_eq!(run(), (secure, linux), "a second run");
}

/// SG-60, SG-72, SG-E8: a program of stock Linux lies, with texts that the payload never sent, or sent long ago: they are no signs of life. Linux is
/// started again, and then switches itself off. No tick is lost through all of it, each comes by path 2, and no task is late.
#[test]
fn linux_whose_signs_of_life_are_lies_is_started_again() {
    let mut worlds = Worlds::of(machine(LYING));
    let secure = worlds.end();
    let linux = worlds.texts(OTHER);
    let count = |lines: &[String], text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(count(&linux, "lies from now on"), 1, "{linux:?}");
    assert_eq!(count(&secure, "the other world is restarting: no progress"), 1, "{secure:?}");
    assert_eq!(count(&linux, "start 2: no lies this time"), 1, "{linux:?}");
    let numbers = |text: &str| -> Vec<u64> {
        let line = secure.iter().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text}: {secure:?}"));
        line.split(|character: char| !character.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    };
    let [_, _, answered, wrong] = numbers("telemetry: sent")[..] else { panic!("{secure:?}") };
    assert!(answered == 10 && wrong > 100, "{secure:?}");
    let [due] = numbers("ticks due: ")[..] else { panic!("{secure:?}") };
    let [own, _, latest_own, other, _, latest_other, _] = numbers("ticks in the payload: ")[..] else {
        panic!("{secure:?}")
    };
    assert_eq!(due, own + other, "{secure:?}");
    assert!(latest_own <= 400 && latest_other <= 116 + 120, "{secure:?}");
    let [_, jobs, _, _, missed] = numbers("rtos: task 0 jobs")[..] else { panic!("{secure:?}") };
    assert!(jobs > 500 && missed == 0, "{secure:?}");
}

/// A line of the payload with this text, as its numbers.
fn numbers(lines: &[String], text: &str) -> Vec<u64> {
    let line = lines.iter().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text}: {lines:?}"));
    line.split(|character: char| !character.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// The mean of 150 instants of a program of Linux after this priority was wanted, in nanoseconds.
fn mean_latency(linux: &[String], priority: &str) -> u64 {
    numbers(linux, &format!("wishes: priority {priority}: latency"))[2]
}

/// SG-44, SG-80, SG-81, SG-E7: its timer in the first latency task starts Linux at once while that has budget, so a program without a wish waits less than
/// where the background task alone has Linux; the payload's tasks respond within the budgets of what is above them.
#[test]
fn linux_has_its_timer_in_a_latency_task() {
    const SYSTEM: &str = "systems/latency-world.toml";
    let text = std::fs::read_to_string(SYSTEM).expect("the description");
    let text = text.replace("name = \"ltask0\"", "name = \"ltask0\"\ninterrupts = [30]");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("latency-timer.toml");
    std::fs::write(&path, text).expect("a place for it");
    let run = |system: &str| {
        let mut worlds = Worlds::of(machine(system));
        let secure = worlds.end();
        (secure, mean_latency(&worlds.texts(OTHER), "0"))
    };
    let [(secure, with), (_, without)] = [path.to_str().expect("a path"), SYSTEM].map(run);
    println!("mean {with} ns with the timer in ltask0, {without} ns without");
    assert!(with < without, "{with} {without}");
    let urgent = numbers(&secure, "budgets used up")[1];
    assert!(urgent > 150, "each instant of the program rings: {secure:?}");
    // 10 ms; with T1 and the first task twice; with all of them, the second task besides. Ticks of 16 ns.
    for (task, bound_ms) in [10, 30 + 10 + 2 * 15, 40 + 30 + 2 * 10 + 3 * 15 + 2 * 25].into_iter().enumerate() {
        let [_, jobs, _, most, missed] = numbers(&secure, &format!("rtos: task {task} jobs"))[..] else {
            panic!("{secure:?}")
        };
        assert!(jobs > 10 && missed == 0 && most * 16 <= bound_ms * 1_000_000 + 200_000, "{secure:?}");
    }
}

/// SG-80, SG-81, SG-82, SG-83, SG-84: a program of stock Linux wants a latency task by a priority. The payload reads it, runs Linux there until the
/// budget is used up, and no task of it is late; what is no priority wants nothing, and harms nobody.
#[test]
fn linux_wants_a_latency_task_by_a_word() {
    let mut worlds = Worlds::of(machine("systems/latency-world.toml"));
    let secure = worlds.end();
    let linux = worlds.texts(OTHER);
    assert!(linux.iter().any(|line| line == "priority 97 wants ltask0"), "{linux:?}");
    let last =
        "wishes: wanted: 18446744069414584417, which is the background task; the payload has read 18446744069414584417";
    assert!(linux.iter().any(|line| line.ends_with(last)), "{linux:?}");
    let mean = |priority: &str| mean_latency(&linux, priority);
    println!("mean {} ns without a wish, {} ns with that of priority 97", mean("0"), mean("97"));
    assert!(mean("97") < mean("0"), "{linux:?}");
    let used_up = numbers(&secure, "budgets used up")[0];
    println!("budgets used up {used_up}");
    // The budget of ltask0, once in 150 ms while it is wanted, and none otherwise: 150 instants of 9 ms are 1.35 s.
    assert!((5..=30).contains(&used_up), "{secure:?}");
    for task in 0..3 {
        let [_, jobs, _, _, missed] = numbers(&secure, &format!("rtos: task {task} jobs"))[..] else {
            panic!("{secure:?}")
        };
        assert!(jobs > 10 && missed == 0, "{secure:?}");
    }
}

/// SG-50, SG-52: stock Linux by a table of the description. No window begins later or loses more than `check` says, the payload's tasks are in time,
/// and what the run recorded comes near the bound.
#[test]
fn windows_of_linux_are_within_the_bounds_of_check() {
    let system = "../../systems/cyclic/system.toml";
    let loaded = described(system);
    assert!(loaded.warnings.diagnostics.is_empty(), "{}", loaded.warnings.to_text(false));
    // An instruction takes 16 ns, and so does a tick of the counter.
    let assumptions = Assumptions { instruction_ps: 16_000, ..Assumptions::default() };
    let bounds = bulkhead_timing::payload::bounds(&loaded.system, &assumptions).expect("a payload");
    assert_eq!(bounds.windows_ns.len(), 2);
    let mut worlds = Worlds::of(machine(system));
    let secure = worlds.end();
    let linux = worlds.texts(OTHER);
    assert!(linux.iter().any(|line| line.contains("latency min=")), "{linux:?}");
    for (place, bound) in bounds.windows_ns.iter().enumerate() {
        let [_, rounds, latest, lost] = numbers(&secure, &format!("rtos: window {place} rounds"))[..] else {
            panic!("{secure:?}")
        };
        let (latest_ns, lost_ns) = (latest * 16, lost * 16);
        println!(
            "window {place}: {rounds} rounds; begins {latest_ns} ns late of {:?}; loses {lost_ns} of {}",
            bound.latest_start, bound.most_lost
        );
        assert!(rounds > 20 && bound.latest_start.is_some_and(|most| latest_ns <= most), "{place}: {secure:?}");
        assert!(lost_ns <= bound.most_lost && lost_ns * 10 >= bound.most_lost * 8, "{place}: {secure:?}");
    }
    for task in 0..2 {
        let [_, jobs, _, _, missed] = numbers(&secure, &format!("rtos: task {task} jobs"))[..] else {
            panic!("{secure:?}")
        };
        assert!(jobs > 10 && missed == 0, "{secure:?}");
    }
}
