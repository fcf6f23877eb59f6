//! Partitions below a payload, as a user has them: checked, built, verified, run (`systems/hybrid`).

use bulkhead_abi::status::{REASON_WATCHDOG, STATE_STOPPED};
use bulkhead_description::{Loaded, Options, load};
use bulkhead_run::MachineOptions;
use bulkhead_run::source::machine_of;
use bulkhead_system_tests::secure::{SECURE, Worlds};
use bulkhead_timing::Assumptions;
use bulkhead_verify::Expected;
use bulkhead_verify::world::{SecureMonitor, verify_hybrid};
use std::path::{Path, PathBuf};

const SYSTEM: &str = "../../systems/hybrid/system.toml";

pub(super) fn described() -> Loaded {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SYSTEM);
    let loaded = load(&path, &Options::from_environment(None), &Assumptions::default());
    loaded.unwrap_or_else(|report| panic!("{}", report.to_text(false)))
}

/// A folder of what was built beside the guests, whichever the tool contains.
pub(super) fn built(folder: &str) -> PathBuf {
    Options::from_environment(None).guests.expect("built guests; run `./x build`").join("..").join(folder)
}

/// What `build` writes is what `verify` accepts, the image below included.
#[test]
fn partitions_below_a_payload_are_verified() {
    let monitor = built("secure-monitor");
    let flash = bulkhead_image::build_flash(&described().system, Some(&monitor));
    let flash = flash.unwrap_or_else(|error| panic!("{error}")).flash.bytes;
    let above = SecureMonitor::read_of_cores(Some(&monitor)).unwrap_or_else(|error| panic!("{error}"));
    let below = Expected::read(Some(&built("monitor"))).unwrap_or_else(|error| panic!("{error}"));
    let verdict = verify_hybrid(&flash, &above, &below);
    assert!(verdict.is_accepted(), "{:?}", verdict.findings);
    let extent = verdict.extent.below.expect("an image below");
    assert_eq!((extent.cores, extent.partitions), (4, 3));
}

/// All numbers of each line of the payload that begins so.
fn numbers(lines: &[String], start: &str) -> Vec<Vec<u64>> {
    let all = |line: &String| {
        let words = line.split(|character: char| !character.is_ascii_digit());
        words.filter_map(|word| word.parse().ok()).collect()
    };
    lines.iter().filter(|line| line.starts_with(start)).map(all).collect()
}

/// Each tick that was due by the counter came, and the kernel had a round of the fast task for it, as the payload says in each of its reports; returns all
/// numbers of those.
///
/// Other cores of the emulator have their turn meanwhile, so each is compared as the payload reads it: first how many are due, then how many
/// rounds there were, and how many ticks came.
pub(crate) fn assert_no_tick_is_lost(lines: &[String]) -> Vec<Vec<u64>> {
    let rounds = numbers(lines, "rtos: rounds");
    let (due, came) = (numbers(lines, "rtos: ticks due"), numbers(lines, "rtos: ticks in the payload"));
    assert!(!came.is_empty() && rounds.iter().all(|report| report[0] >= report[1]), "{lines:?}");
    assert!(due.iter().zip(&came).all(|(due, came)| came[0] + came[3] >= due[0]), "{lines:?}");
    rounds
}

/// SG-13, SG-44, QV-5, QV-16, CF-2, CF-9: four cores under one monitor below a payload. Stock Linux works on two of them, the control loop on the payload's
/// core does all its rounds, and a guest that nobody trusts, with a core and its interrupts to itself, masks everything: its watchdog takes
/// the core away each time, and it stays off after the third. No round of the payload is lost through all of it.
#[test]
fn partitions_run_below_a_payload() {
    let options = machine_of(&described().system, Some(&built("secure-monitor")));
    let options = options.unwrap_or_else(|error| panic!("{}", error.message));
    let mut worlds = Worlds::of(MachineOptions { icount_shift: Some(4), ..options });
    assert!(worlds.line("control", "done").ends_with("iterations=200 releases_due=200"));
    let said = worlds.line("linux", "says hello");
    assert!(said.ends_with("with 2 CPUs says hello"), "{said}");
    worlds.line("linux", "smp: 2 CPUs work");
    let status = worlds.wait_for_state(2, STATE_STOPPED);
    let intruder = worlds.texts("intruder");
    assert!(intruder.iter().any(|line| line == "stubborn masks everything"), "{intruder:?}");
    assert_eq!((status.state, status.reason, status.generation), (STATE_STOPPED, REASON_WATCHDOG, 3), "{intruder:?}");
    let lines = worlds.ended_texts(SECURE);
    assert!(lines.iter().all(|line| !line.contains("FAILED")), "{lines:?}");
    let rounds = assert_no_tick_is_lost(&lines);
    assert!(rounds.len() > 5, "{lines:?}");
    // The control loop's timer fires while the payload has the core, too.
    assert!(rounds.last().is_some_and(|report| report[4] > 0), "{lines:?}");
}
