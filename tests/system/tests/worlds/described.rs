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
