//! Messages between the payload and partitions below it: pools in a partition's map, with an honest and a hostile guest at their other end.

use bulkhead_abi::status::{REASON_DATA_ABORT, REASON_REQUESTED, STATE_OFF, STATE_RESTARTING, STATE_STOPPED};
use bulkhead_description::{Options, load};
use bulkhead_plan::model::{InterruptMode, System};
use bulkhead_run::MachineOptions;
use bulkhead_run::source::machine_of;
use bulkhead_system_tests::messages::reports;
use bulkhead_system_tests::secure::{SECURE, Worlds};
use bulkhead_timing::Assumptions;
use std::path::Path;

/// How late a tick finds its vector in the other world: the longest way that may be under way (path 4 and the look before it).
const IN_OTHER: u64 = 116 + 120;

/// The machine of a description that the test changes.
fn machine(system: &str, change: impl FnOnce(&mut System)) -> MachineOptions {
    let options = Options::from_environment(None);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(system);
    let loaded = load(&path, &options, &Assumptions::default());
    let mut system = loaded.unwrap_or_else(|report| panic!("{}", report.to_text(false))).system;
    change(&mut system);
    let monitor = options.guests.expect("built guests; run `./x build`").join("../secure-monitor");
    let machine = machine_of(&system, Some(&monitor)).unwrap_or_else(|error| panic!("{}", error.message));
    MachineOptions { icount_shift: Some(4), ..machine }
}

/// The machine with a messenger that has these arguments and its interrupts so.
fn start(payload: &str, arguments: &str, mode: InterruptMode) -> Worlds {
    Worlds::of(machine("systems/talking-partitions.toml", |system| {
        let messenger = &mut system.partitions[1];
        assert_eq!(messenger.name, "messenger");
        (messenger.arguments, messenger.mode) = (arguments.to_owned(), mode);
        if let Some(secure) = &mut system.secure {
            secure.payload.arguments = payload.to_owned();
        }
    }))
}

/// What the payload said by its next report, of which it makes one in each second, after the messenger's line.
fn report(worlds: &mut Worlds, done: &str) -> Vec<String> {
    worlds.line("messenger", done);
    let before = reports(&worlds.texts(SECURE)).len();
    worlds.line(SECURE, &format!(" report {}", before + 1));
    worlds.texts(SECURE)
}

/// SG-70, SG-71, SG-63: 200 messages of a partition on another core than the payload's, and as many back: each one whole, under its own tag, in order,
/// and none twice. The payload looks once in a tick; the partition is interrupted for each, whether its interrupts go through the monitor or not.
#[test]
fn a_partition_and_the_payload_ping_each_other() {
    for mode in [InterruptMode::Mapped, InterruptMode::Direct] {
        let mut worlds = start("pattern,reports", "role=ping count=200", mode);
        let lines = report(&mut worlds, "messenger ping");
        let said = worlds.texts("messenger");
        assert!(said.iter().any(|line| line == "messenger ping good 200 wrong 0 interrupts 200"), "{said:?}");
        assert!(lines.iter().all(|line| !line.contains("FAILED")), "{lines:?}");
        let counts = reports(&lines).pop().unwrap_or_else(|| panic!("{lines:?}"));
        let count = |what: &str| counts[what];
        assert_eq!(["good", "sent", "latest"].map(count), [200; 3], "{counts:?}");
        assert_eq!(["wrong", "corrupt", "full", "gaps"].map(count), [0; 4], "{counts:?}");
    }
}

/// SG-70, SG-63: stock Linux in a partition takes texts of FreeRTOS and sends them back, by a program of its own that maps a PCI function of
/// the partition: each run of it continues where the one before stopped. The payload compares each text with what it sent, and in which order.
#[test]
fn stock_linux_in_a_partition_talks_with_the_payload() {
    let mut worlds = Worlds::of(machine("systems/talking-linux.toml", |_| ()));
    worlds.line("linux", "reboot: Power down");
    let said = worlds.texts("linux");
    let answered =
        said.iter().filter(|line| line.starts_with("linux: world: answered the last message, start 1 round"));
    assert_eq!(answered.count(), 2, "{said:?}");
    for channel in ["telemetry                to the world", "answers                  to the payload"] {
        assert!(said.iter().any(|line| line.starts_with(channel)), "{channel}: {said:?}");
    }
    let next = reports(&worlds.texts(SECURE)).len() + 1;
    worlds.line(SECURE, &format!(" report {next}"));
    let lines = worlds.texts(SECURE);
    let told = lines.iter().rfind(|line| line.starts_with("rtos: telemetry: sent ")).expect("what was sent");
    assert!(told.ends_with(" answered 10 wrong 0"), "{told}");
    assert!(lines.iter().all(|line| !line.contains("FAILED")), "{lines:?}");
}

/// SG-70: a partition that its monitor starts again continues with the ends where it stopped: the payload's never noticed.
#[test]
fn a_partition_goes_on_after_a_restart() {
    let mut worlds = start("pattern,reports", "role=ping count=50 again=1", InterruptMode::Mapped);
    let lines = report(&mut worlds, "messenger went on");
    let said = worlds.texts("messenger");
    let done = said.iter().filter(|line| *line == "messenger ping good 50 wrong 0 interrupts 50").count();
    assert_eq!(done, 2, "{said:?}");
    let status = worlds.view().observer.map(|observer| observer.status(1)).expect("a monitor");
    assert_eq!((status.state, status.generation, status.fault.reason), (STATE_OFF, 2, REASON_REQUESTED));
    let counts = reports(&lines).pop().unwrap_or_else(|| panic!("{lines:?}"));
    let count = |what: &str| counts[what];
    // Tags begin again, once.
    assert_eq!(["good", "sent", "gaps", "corrupt"].map(count), [100, 100, 1, 0], "{counts:?}");
}

/// SG-72: whatever a partition writes into both pools, moving counts and indexes among it, the payload loses no tick, its data stays, and
/// no message is longer than a block (the payload compares all three). It takes as many as its looks allow, and no more.
#[test]
fn garbage_of_a_partition_harms_nobody() {
    for seed in [1, 2] {
        let mut worlds = start("echo,reports", &format!("role=hostile count=2000 seed={seed}"), InterruptMode::Mapped);
        let lines = report(&mut worlds, "messenger hostile");
        assert!(lines.iter().all(|line| !line.contains("FAILED")), "{lines:?}");
        assert!(worlds.texts("messenger").iter().any(|line| line == "messenger hostile wrote 2000 rounds"));
        let counts = reports(&lines).pop().unwrap_or_else(|| panic!("{lines:?}"));
        let count = |what: &str| counts[what];
        let ticks = count("own_ticks") + count("other_ticks");
        assert!(
            count("corrupt") > 500 && count("good") > 20 && count("other_late") <= IN_OTHER && count("sent") >= 10,
            "{counts:?}"
        );
        assert!((100..=ticks).contains(&count("events")), "{counts:?}");
    }
}

/// SG-4, SG-61: a partition that reads secure memory is stopped by its monitor, and the payload is told of it: which partition, which address, how often,
/// and what the monitor did. Here it starts the partition once more, and then leaves it stopped.
#[test]
fn the_payload_is_told_of_an_access_to_secure_memory() {
    const SECURE_RAM: u64 = 0x0e00_0000;
    let mut worlds = start("pattern,reports", "role=wild", InterruptMode::Mapped);
    let event = |state, starts, faults| {
        format!(
            "rtos: partition 1 state {state} reason {REASON_DATA_ABORT} starts {starts} faults {faults} address {SECURE_RAM}"
        )
    };
    worlds.line(SECURE, &event(STATE_STOPPED, 2, 2));
    let lines = worlds.texts(SECURE);
    assert!(lines.contains(&event(STATE_RESTARTING, 1, 1)), "{lines:?}");
    let said = worlds.texts("messenger");
    assert_eq!(said.iter().filter(|line| *line == "messenger reads secure RAM").count(), 2, "{said:?}");
    assert!(said.iter().all(|line| !line.contains("FAILED")), "{said:?}");
    // The other one was started, and nothing else happened to it.
    let others: Vec<&String> = lines.iter().filter(|line| line.starts_with("rtos: partition 0")).collect();
    assert!(!others.is_empty() && others.iter().all(|line| line.ends_with("faults 0 address 0")), "{lines:?}");
}
