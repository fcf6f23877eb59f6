//! A system of two worlds from its description to its end, as a user has it: checked, built, verified, run.

use bulkhead_description::{Loaded, Options, load};
use bulkhead_run::MachineOptions;
use bulkhead_run::source::machine_of;
use bulkhead_system_tests::secure::{OTHER, SECURE, Worlds};
use bulkhead_timing::Assumptions;
use bulkhead_verify::world::{SecureMonitor, verify_flash};
use std::path::{Path, PathBuf};

const SYSTEM: &str = "../../systems/dual-world/system.toml";

fn described() -> Loaded {
    let options = Options::from_environment(None);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SYSTEM);
    load(&path, &options, &Assumptions::default()).unwrap_or_else(|report| panic!("{}", report.to_text(false)))
}

/// The secure monitor that was built, whichever the tool contains.
fn secure_monitor() -> PathBuf {
    let guests = Options::from_environment(None).guests.expect("built guests; run `./x build`");
    guests.join("../secure-monitor")
}

fn machine() -> MachineOptions {
    let options = machine_of(&described().system, Some(&secure_monitor()));
    let options = options.unwrap_or_else(|error| panic!("{}", error.message));
    MachineOptions { icount_shift: Some(4), ..options }
}

/// What `build` writes is what `verify` accepts, with the secure monitor that was built.
#[test]
fn the_example_is_accepted_without_a_warning_and_verified() {
    let loaded = described();
    assert!(loaded.warnings.diagnostics.is_empty(), "{}", loaded.warnings.to_text(false));
    let monitor = secure_monitor();
    let flash = bulkhead_image::build_flash(&loaded.system, Some(&monitor)).unwrap_or_else(|error| panic!("{error}"));
    let expected = SecureMonitor::read(Some(&monitor)).unwrap_or_else(|error| panic!("{error}"));
    let verdict = verify_flash(&flash.bytes, &expected);
    assert!(verdict.is_accepted(), "{:?}", verdict.findings);
    assert_eq!((verdict.extent.segments, verdict.extent.window_bytes), (3, 254 << 20));
}

/// SG-1, SG-21: stock FreeRTOS above stock Linux by the description alone, with the names of the worlds on their consoles; and a second run
/// prints the same bytes on both.
#[test]
fn the_example_runs_and_repeats_exactly() {
    let run = || {
        let mut worlds = Worlds::of(machine());
        let secure = worlds.end();
        (secure, worlds.texts(OTHER))
    };
    let (secure, linux) = run();
    assert!(secure.first().is_some_and(|line| line.contains("in the secure world")), "{SECURE}: {secure:?}");
    assert!(secure.iter().any(|line| line == "rtos: the other world is off"), "{secure:?}");
    assert!(linux.iter().any(|line| line.ends_with("with 1 CPUs says hello")), "{linux:?}");
    assert_eq!(run(), (secure, linux), "a second run");
}
