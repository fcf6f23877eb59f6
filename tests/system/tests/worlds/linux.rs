//! Stock Linux as the non-secure world, on the payload's core.

use bulkhead_system_tests::secure::{
    OTHER, SECURE, WithLinux, Worlds, report, secure_monitor, secure_monitor_of_cores,
};
use bulkhead_system_tests::system::guest;
use bulkhead_world::context::EntryLevel;
use bulkhead_world::health::HealthPlan;

fn with_linux(level: EntryLevel, mode: &str) -> Vec<u8> {
    let system = WithLinux {
        monitor: &secure_monitor(),
        payload: &guest("dual-world.elf"),
        image: &guest("linux/Image"),
        file_system: &guest("linux/initramfs.cpio.gz"),
        level,
        arguments: &format!("bulkhead.mode={mode}"),
        health: HealthPlan::nobody(),
    };
    system.flash().unwrap_or_else(|error| panic!("{error}"))
}

/// CF-1, CF-8, SG-E4, SG-1, SG-5, SG-6, SG-12, SG-21, SG-23, SG-24, SG-26: stock Linux boots, works and switches itself off below the payload, at either level. The
/// payload's fast task misses no tick (it compares), and each of its ticks finds its vector after the same number of instructions: 2 in
/// the payload, 114 more in the other world, which cannot mask it (SG-48), and what is left of a path in which its date falls.
#[test]
fn linux_runs_below_the_payload_at_both_levels() {
    for level in [EntryLevel::El2, EntryLevel::El1] {
        let mut worlds = Worlds::start(with_linux(level, "hello"));
        let lines = worlds.end();
        let said = worlds.texts(OTHER);
        assert!(
            said.iter().any(|line| line.starts_with("linux: 6.1.0-") && line.ends_with("with 1 CPUs says hello")),
            "{said:?}"
        );
        assert!(said.iter().any(|line| line.contains("reboot: Power down")), "{said:?}");
        assert_eq!(lines[1], "rtos: the other world is off", "{lines:?}");
        let [in_payload, 2, most_in_payload, in_other, least, most, calls] = report(&lines)[..] else {
            panic!("{lines:?}")
        };
        // A tick whose date falls into another path waits for its end, at most path 5; then path 2 follows, but not behind path 5, whose end is in
        // the payload.
        assert!(most_in_payload <= 2 + 119 && least <= 116 && most <= 116 + 119, "{lines:?}");
        assert!(in_payload > 100 && in_other > 10_000 && (8..40).contains(&calls), "{lines:?}");
    }
}

/// CF-11, SG-13, SG-14: stock Linux on four cores, of which the payload has the first: EL3 starts the others at the level of the first, also when a kernel
/// that left EL2 asks from EL1. They interrupt each other, and the payload's fast task misses no tick.
#[test]
fn linux_runs_on_four_cores_below_the_payload_of_one() {
    for level in [EntryLevel::El2, EntryLevel::El1] {
        let monitor = secure_monitor_of_cores();
        let (payload, image) = (guest("multi-world.elf"), guest("linux/Image"));
        let file_system = guest("linux/initramfs.cpio.gz");
        let system = WithLinux {
            monitor: &monitor,
            payload: &payload,
            image: &image,
            file_system: &file_system,
            level,
            arguments: "bulkhead.mode=hello",
            health: HealthPlan::nobody(),
        };
        let flash = system.flash_of_four_cores().unwrap_or_else(|error| panic!("{error}"));
        let mut worlds = Worlds::start_with(flash, |options| {
            options.cores = 4;
            options.icount_shift = Some(4);
        });
        let lines = worlds.end();
        let said = worlds.texts(OTHER);
        assert!(said.iter().any(|line| line.ends_with("with 4 CPUs says hello")), "{said:?} {lines:?}");
        assert!(said.iter().any(|line| line.contains("reboot: Power down")), "{said:?}");
        assert_eq!(lines.last().map(String::as_str), Some("rtos: end"), "{lines:?}");
        let rounds =
            lines[lines.len() - 3].strip_prefix("rtos: rounds ").and_then(|rest| rest.strip_suffix(" events 0"));
        let (rounds, ticks) = rounds.and_then(|rest| rest.split_once(" of ")).expect("counts");
        let [rounds, ticks] = [rounds, ticks].map(|number| number.parse::<u64>().expect("a number"));
        assert!(rounds > 1_000 && (ticks..=ticks + 1).contains(&rounds), "{lines:?}");
    }
}

/// A segment that is not what was built is copied nowhere it could run from.
#[test]
fn a_damaged_segment_starts_no_linux() {
    let mut file = with_linux(EntryLevel::El2, "hello");
    let last = file.len() - 1000;
    file[last] ^= 1;
    let mut worlds = Worlds::start(file);
    assert_eq!(worlds.end().last().map(String::as_str), Some("rtos: FAILED: CRC of a segment of the other world"));
    assert!(worlds.texts(OTHER).is_empty());
}

/// CF-11, SG-14, SG-60, SG-62: Linux that asks for a reset is started again by the payload, from the pristine copy, as often as it asks; the machine and
/// the payload's ticks go on.
#[test]
fn linux_that_resets_is_started_again() {
    let mut worlds = Worlds::start(with_linux(EntryLevel::El2, "hello bulkhead.end=reboot"));
    for _ in 0..3 {
        let said = worlds.line(OTHER, "says hello");
        assert!(said.ends_with("with 1 CPUs says hello"), "{said}");
        assert_eq!(worlds.line(SECURE, "the other world"), "rtos: the other world is reset");
    }
    let lines = worlds.texts(SECURE);
    assert!(lines.iter().all(|line| !line.contains("FAILED")), "{lines:?}");
}
