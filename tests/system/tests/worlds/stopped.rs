//! Partitions below a payload: a guest with direct interrupts that masks everything is stopped, restarted and watched all the same, and its SGIs
//! reach nobody.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_MANAGED, REASON_WATCHDOG, STATE_STOPPED, STATE_SUSPENDED};
use bulkhead_system_tests::{Running, System};

/// The payload ticks on core 0, with the manager below it; the guest has core 1 and its interrupts.
fn text(keeper: &str, stubborn: &str) -> String {
    format!(
        r#"version = 1
name = "stopped"
board = "qemu-virt-secure"
memory = "128 MiB"

[secure]
payload = {{ kind = "freertos", file = "guest:multi-world.elf" }}
memory = "1 MiB"
devices = ["secure-uart", "secure-gpio"]
non_secure = {{ partitions = true }}
servers = [{{ name = "btask", priority = 1 }}]

[[partition]]
name = "keeper"
cores = [0]
memory = "2 MiB"
image = {{ kind = "elf", file = "guest:stubborn.elf" }}
arguments = "role=keeper target=1 {keeper}"
trust = "trusted"
manages = true

[[partition]]
name = "stubborn"
cores = [1]
memory = "2 MiB"
image = {{ kind = "elf", file = "guest:stubborn.elf" }}
arguments = "role=stubborn {stubborn}"
interrupts = "direct"
sgi = "filtered"
"#
    )
}

fn start(text: &str) -> Running {
    System::from_text("stopped", text).start_exact(4)
}

/// QV-5, CF-9: a manager stops and continues a guest that has masked everything, as often as it asks; it starts it again, and leaves it suspended.
#[test]
fn a_guest_that_masks_everything_is_stopped_a_thousand_times() {
    let mut machine = start(&text("rounds=1000 after_ms=40", "quiet_ms=20 sgis=1"));
    let stopped = machine.line("keeper", "keeper suspended");
    let (rounds, rest) = stopped.split_once(", at worst ").expect("a time");
    let (worst, resumed) = rest.split_once(" ticks; resumed ").expect("counts");
    assert_eq!((rounds, resumed), ("keeper suspended 1000 of 1000", "1000"));
    // Counter ticks are instructions of all cores together under `-icount`.
    assert!(worst.parse::<u64>().expect("a number") <= 20_000, "{stopped}");
    assert_eq!(machine.line("keeper", "keeper restarted"), "keeper restarted, start 2");
    machine.line("keeper", "leaves it suspended");
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
    // Nobody manages: without that role its program is over at once.
    let mut machine = start(&text("", "quiet_ms=10000 masks=0").replace("role=keeper", "role=nobody"));
    machine.line("stubborn", "takes its ticks");
    let before = machine.counter("stubborn", Counter::Exits);
    let quiet = machine.line("stubborn", "stubborn quiet");
    assert_eq!(machine.counter("stubborn", Counter::Exits) - before, 0);
    let latest =
        quiet.strip_prefix("stubborn quiet 10000 ticks, at worst ").and_then(|rest| rest.strip_suffix(" late"));
    assert!(latest.is_some_and(|late| late.parse::<u64>().is_ok_and(|late| late < 3_000)), "{quiet}");
    machine.assert_no_crash();
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
    assert_eq!(machine.counter("stubborn", Counter::SendSgi), 3 * 32, "one exit for each write");
    let received = machine.counter("keeper", Counter::Interrupt);
    assert_eq!(received, 0, "interrupts of the neighbour, which runs all the time and has numbers open");
    machine.assert_no_crash();
}
