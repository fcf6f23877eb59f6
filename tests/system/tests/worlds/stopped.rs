//! Partitions below a payload: a guest with direct interrupts that masks everything is stopped, restarted and watched all the same, and its SGIs
//! reach nobody.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_MANAGED, REASON_WATCHDOG, STATE_STOPPED, STATE_SUSPENDED};
use bulkhead_run::CountingOptions;
use bulkhead_system_tests::hybrid::{STOPPED, exits_beside_ticks, foreign_sgis, stopping, text};
use bulkhead_system_tests::{Running, System};

fn start(text: &str) -> Running {
    System::from_text("stopped", text).start_exact(4)
}

/// QV-5, CF-9: a manager stops and continues a guest that has masked everything, as often as it asks; it starts it again, and leaves it suspended.
#[test]
fn a_guest_that_masks_everything_is_stopped_a_thousand_times() {
    let mut machine = stopping(1_000).start_exact(4);
    let stopped = machine.line("keeper", "keeper suspended");
    let (rounds, rest) = stopped.split_once(", at worst ").expect("a time");
    let (worst, resumed) = rest.split_once(" ticks; resumed ").expect("counts");
    assert_eq!((rounds, resumed), ("keeper suspended 1000 of 1000", "1000"));
    // Counter ticks are instructions of all cores together under `-icount`.
    assert!(worst.parse::<u64>().expect("a number") <= 20_000, "{stopped}");
    assert_eq!(machine.line("keeper", "keeper restarted"), "keeper restarted, start 2");
    machine.line("keeper", STOPPED);
    let status = machine.status("stubborn");
    assert_eq!((status.state, status.reason, status.restarts), (STATE_SUSPENDED, REASON_MANAGED, 1));
    let said = machine.texts("stubborn");
    assert!(said.iter().any(|line| line.starts_with("stubborn quiet 20 ticks")), "{said:?}");
    assert!(said.iter().any(|line| line == "stubborn masks everything"), "{said:?}");
    machine.assert_no_crash();
}

/// QV-5: a guest that comes to EL2 without end is there whenever EL3 tries to bring it, so each of its exits ends with the same look. Whatever the
/// distance of two calls, a request is served within a few of them, and the guest finds the registers that a call leaves alone as they were.
#[test]
fn a_storm_of_calls_does_not_evade_a_kick() {
    for distance in [0, 1, 7, 100] {
        let storm = format!("quiet_ms=1 storm={distance}");
        let mut machine = start(&text("rounds=100 after_ms=20", &storm));
        let stopped = machine.line("keeper", "keeper suspended");
        let rest = stopped.strip_prefix("keeper suspended 100 of 100, at worst ").expect("all of them");
        let worst = rest.split_once(' ').and_then(|(worst, _)| worst.parse::<u64>().ok()).expect("a number");
        assert!(worst <= 6_000, "{distance}: {stopped}");
        let said = machine.texts("stubborn");
        assert!(said.iter().all(|line| !line.contains("FAILED")), "{distance}: {said:?}");
        machine.assert_no_crash();
    }
}

/// QV-5: in ten seconds of ticks a guest nobody trusts has no exit at all, and no tick is lost.
#[test]
fn a_guest_with_its_interrupts_has_no_exit() {
    let (exits, latest) = exits_beside_ticks(10_000);
    assert_eq!(exits, 0);
    assert!(latest < 3_000, "{latest} late");
}

/// QV-16, CF-7: the group of a software-generated interrupt at its receiver decides. A guest with its interrupts that sends every number to every core
/// by every register reaches nobody on a core that has none open, and on one that takes a kernel's it does: so `check` demands a filter.
#[test]
fn closed_interrupts_of_another_core_do_not_arrive() {
    assert_eq!(foreign_sgis(20, false), 0);
    assert!(foreign_sgis(20, true) > 0, "nobody sent");
}

/// QV-5: a guest that masks its own sign of life is stopped by its watchdog, and what it sent before reached nobody (QV-16).
#[test]
fn a_guest_that_masks_its_watchdog_is_stopped_by_it() {
    let watched = text("rounds=0 after_ms=1000", "quiet_ms=5 sgis=1").replace(
        "sgi = \"filtered\"",
        "sgi = \"filtered\"\nwatchdog = \"50 ms\"\nhealth = { on_fault = \"restart\", max = 2, within = \"10 s\" }",
    );
    let mut machine = start(&watched);
    let status = machine.wait_for_state("stubborn", STATE_STOPPED);
    assert_eq!((status.reason, status.restarts, status.faults), (REASON_WATCHDOG, 2, 3));
    assert_eq!(machine.counter("stubborn", Counter::SendSgi), 3 * 48, "one exit for each write");
    // Those that name other vCPUs, of which there is none; and 8 and 15 to itself, which are not for a guest.
    assert_eq!(machine.counter("stubborn", Counter::SgiOutside), 3 * (16 + 2));
    let received = machine.counter("keeper", Counter::Interrupt);
    assert_eq!(received, 0, "interrupts of the neighbour, which runs all the time and has numbers open");
    machine.assert_no_crash();
}

/// A12, QV-16: a guest that nobody trusts ends a neighbour's interrupt all the time. The neighbour takes each of its interrupts once, and pays
/// two exits more for one at most: that of the second arrival, and that of the end.
#[test]
fn a_thief_of_interrupts_costs_its_victim_two_exits_each() {
    let count = 50;
    let system = text("", "").replace("role=keeper target=1", "role=nobody").replace("role=stubborn", "role=thief");
    let owner = format!(
        r#"
[[partition]]
name = "owner"
cores = [2]
memory = "2 MiB"
image = {{ kind = "elf", file = "guest:stubborn.elf" }}
arguments = "role=owner count={count}"
devices = ["rtc"]
"#
    );
    let mut machine = start(&(system + &owner));
    machine.line("stubborn", "stubborn steals");
    assert_eq!(machine.line("owner", "stubborn took"), format!("stubborn took {count} interrupts, 0 for nothing"));
    let counters = [Counter::ArrivedAgain, Counter::Maintenance, Counter::Interrupt];
    let [again, ends, all] = counters.map(|counter| machine.counter("owner", counter));
    assert!((count / 2..=count).contains(&again), "{again} of {count} came again");
    assert_eq!((ends, all), (again, count + 2 * again));
    machine.assert_no_crash();
}

/// A core whose guest is suspended sleeps, also when a timer of the guest has its interrupt pending all the time.
#[test]
fn a_suspended_guest_with_a_pending_interrupt_lets_its_core_sleep() {
    let text = text("rounds=0 after_ms=20 settle_ms=20 rest_ms=200", "quiet_ms=10000 masks=0");
    let system = System::from_text("stopped", &text);
    let plan = system.plan();
    let mut machine = system.start_with(|options| {
        options.icount_shift = Some(4);
        options.counting = Some(CountingOptions::for_monitor(&plan));
    });
    let monitors = |machine: &Running| {
        let counts = machine.counts().unwrap_or_else(|error| panic!("{error}"));
        assert!(counts.ram_found && counts.cores[1].entered, "the plugin sees core 1 run its guest");
        counts.cores[1].range("monitor").expect("the range is counted").since
    };
    machine.line("keeper", "leaves it suspended");
    let before = monitors(&machine);
    machine.line("keeper", "keeper rested");
    let after = monitors(&machine) - before;
    println!("{after} instructions of the monitor");
    // A loop would execute some million in this time.
    assert!(after < 5_000, "{after} instructions of the monitor on the core of a suspended guest");
    machine.assert_no_crash();
}

/// QV-5, CH-30: a doorbell of a `mapped` partition comes to a guest with direct interrupts as a spare shared interrupt, with no exit: it has no other
/// reason to look at its messages.
#[test]
fn a_doorbell_reaches_a_guest_with_direct_interrupts() {
    let ends = text("", "");
    let (above, _) = ends.split_once("[[partition]]").expect("partitions");
    let below = r#"
[[partition]]
name = "source"
cores = [0]
memory = "2 MiB"
image = { kind = "elf", file = "guest:listener.elf" }
arguments = "messages=200"
ports = [{ name = "letters", direction = "source", kind = "queuing", message_bytes = 64, depth = 8 }]

[[partition]]
name = "reader"
cores = [1]
memory = "2 MiB"
image = { kind = "elf", file = "guest:listener.elf" }
arguments = "messages=200 greedy=1"
interrupts = "direct"
sgi = "filtered"
ports = [{ name = "letters", direction = "destination", kind = "queuing", message_bytes = 64, depth = 8 }]

[[channel]]
name = "letters"
source = "source.letters"
destination = "reader.letters"
doorbell = true
"#;
    let mut machine = start(&format!("{above}{below}"));
    machine.line("reader", "received 200");
    assert!(machine.counter("source", Counter::DoorbellSent) > 0);
    assert_eq!(machine.counter("reader", Counter::Interrupt), 0);
    machine.assert_no_crash();
}
