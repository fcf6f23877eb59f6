//! Messages between the worlds: pools of blocks, with an honest, a hostile and a stock other end.

use bulkhead_description::{Options, load};
use bulkhead_run::MachineOptions;
use bulkhead_run::source::machine_of;
use bulkhead_system_tests::messages::{BLOCKS, Partner, Talk, Talked, lost_in_restarts, restarted, run};
use bulkhead_system_tests::secure::{OTHER, Worlds};
use bulkhead_timing::Assumptions;
use std::path::Path;

/// How late a tick finds its vector: in the payload, whose kernel masks interrupts while it wakes a task or puts it to sleep; in the other
/// world, with the longest way that may be under way (path 4 and the look before it).
const IN_PAYLOAD: u64 = 400;
const IN_OTHER: u64 = 116 + 120;

/// SG-30, SG-70, SG-71: 1,200 messages to the payload, by call, and as many back, by interrupt: each one whole, under its own tag, in order, and
/// none twice; through pools of 5 and 10 blocks.
#[test]
fn a_bare_world_and_the_payload_ping_each_other() {
    let Talked { good, wrong, interrupts, counts, .. } = run(Talk::Ping, 1_200, 0, Partner::rung("pattern"));
    assert_eq!((good, wrong, interrupts), (1_200, 0, 1_200), "{counts:?}");
    let count = |what: &str| counts[what];
    assert_eq!(["good", "sent", "latest"].map(count), [1_200; 3], "{counts:?}");
    assert_eq!(["wrong", "corrupt", "full", "gaps"].map(count), [0; 4], "{counts:?}");
}

/// SG-44, SG-71: the interrupt of a channel is urgent as any other one may be: the world has the message before the task that sent it goes on.
/// None of these interrupts is lost while it is the payload's.
#[test]
fn a_message_may_wake_an_urgent_server() {
    let partner = Partner { is_urgent: true, ..Partner::rung("pattern") };
    let Talked { good, wrong, interrupts, counts, .. } = run(Talk::Ping, 1_000, 0, partner);
    assert_eq!((good, wrong, interrupts), (1_000, 0, 1_000), "{counts:?}");
    let count = |what: &str| counts[what];
    assert_eq!(["good", "sent", "gaps"].map(count), [1_000, 1_000, 0], "{counts:?}");
    // Once more where the server had no budget left before the world took it.
    assert!((1_000..1_100).contains(&count("urgent")) && count("own_late") <= IN_PAYLOAD, "{counts:?}");
}

/// SG-70, SG-62: a world that is started again finds new ends, and so does the payload. Of what was under way nothing comes after the start:
/// messages that were enqueued and not rung, which are lost, and answers that nobody took. All before them arrived once, in order.
#[test]
fn a_restart_loses_what_was_under_way_and_nothing_else() {
    const COUNT: u64 = 50;
    assert!(u64::from(BLOCKS[1]) >= 2 + 3, "the others were under way");
    let reports = restarted(3, COUNT);
    assert_eq!(lost_in_restarts(&reports, COUNT), 0, "{reports:?}");
    assert_eq!(reports.len(), 3);
}

/// SG-72, SG-48: whatever a world writes into both pools and however often it rings, the payload's ticks come as they did, its data stays, and
/// no message is longer than a block (the payload compares all three).
#[test]
fn garbage_in_the_pools_harms_nobody() {
    for seed in [1, 2] {
        let Talked { good, counts, .. } = run(Talk::Hostile, 4_000, seed, Partner::rung("echo"));
        let count = |what: &str| counts[what];
        // A doorbell in eight is one of any channel.
        assert!((3_400..=3_600).contains(&good), "{good} {counts:?}");
        assert!(count("corrupt") > 5_000 && count("good") > 1_000 && count("sent") >= 10, "{counts:?}");
        assert!(count("own_late") <= IN_PAYLOAD && count("other_late") <= IN_OTHER, "{counts:?}");
        assert!(count("own_ticks") > 50 && count("other_ticks") > 20, "{counts:?}");
    }
}

/// SG-71, SG-72: where the payload looks by itself, a call rings nothing, and garbage in the pools wakes its task once in its period at most.
#[test]
fn a_storm_of_doorbells_wakes_nobody_who_looks() {
    const POLL: u32 = 3;
    let Talked { good, counts, .. } = run(Talk::Hostile, 20_000, 3, Partner { poll: POLL, ..Partner::rung("echo") });
    let count = |what: &str| counts[what];
    let periods = (count("own_ticks") + count("other_ticks")) / u64::from(POLL);
    assert_eq!(good, 0, "doorbells that were answered");
    assert!((10..=periods + 1).contains(&count("events")), "{counts:?}");
}

/// SG-70, SG-63: stock Linux takes texts of FreeRTOS and sends them back, by a program of its own: each run of it goes on where the one before
/// stopped. The description says where the channels are, and the kernel lets the program map them.
#[test]
fn stock_linux_talks_with_the_payload() {
    let options = Options::from_environment(None);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systems/talking-worlds.toml");
    let loaded = load(&path, &options, &Assumptions::default());
    let loaded = loaded.unwrap_or_else(|report| panic!("{}", report.to_text(false)));
    let monitor = options.guests.expect("built guests; run `./x build`").join("../secure-monitor");
    let machine = machine_of(&loaded.system, Some(&monitor)).unwrap_or_else(|error| panic!("{}", error.message));
    let mut worlds = Worlds::of(MachineOptions { icount_shift: Some(4), ..machine });
    let lines = worlds.end();
    let said = worlds.texts(OTHER);
    let of_world: Vec<&String> = said.iter().filter(|line| line.starts_with("linux: world")).collect();
    assert_eq!(of_world.len(), 2, "{said:?}");
    assert!(said.iter().any(|line| line.contains("telemetry") && line.contains("to the world")), "{said:?}");
    // The payload compares each text with what it sent, and in which order.
    let told =
        lines.iter().find(|line| line.starts_with("rtos: telemetry: sent 20 ")).unwrap_or_else(|| panic!("{lines:?}"));
    assert!(told.ends_with(" answered 10 wrong 0"), "{told}");
}
