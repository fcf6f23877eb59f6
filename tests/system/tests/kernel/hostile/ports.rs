//! A peer that writes rubbish into its end of a port, on a core of its own: a component of another instance that has the source, and rings without end, or that has the destination. The instance at the other
//! end has a component that believes nothing, beside a control loop, which is what it is to be.

use super::neighbours::{attacker, bystander};
use bulkhead_abi::observe::Counter;
use bulkhead_hostile_kernel::attacks;
use bulkhead_run::End;
use bulkhead_system_tests::kernel::cores::{self, Channel, Member, UNLIMITED};

/// What is tried, and where: each alone, since what one of them reaches would else be said of all; the storm everywhere.
const TRIALS: [(u64, &str); 6] =
    [(360, "mapped"), (361, "mapped"), (362, "mapped"), (363, "mapped"), (364, "mapped"), (363, "direct")];
/// The one that writes nothing.
const STORM: u64 = 363;
/// Rounds of the attacker, which last longer than the loop; periods of the loop, and looks of who takes, each 10 ms.
const ROUNDS: u64 = 10_000;
const PERIODS: u64 = 10;

fn rubbish([first, last]: [u64; 2], rounds: u64) -> Member {
    let port = r#"end_points = [{ thread = "main", signals = ["turn"] }]
ports = ["up"]
bind = { told = "receive:main", there = "port:up" }
"#;
    attacker("rubbish", first | last << 16 | rounds << 32, ["", port])
}

fn glutton([first, last]: [u64; 2], milliseconds: u64) -> Member {
    attacker("glutton", first | last << 16 | milliseconds << 32, ["", "ports = [\"down\"]\n"])
}

/// A control loop, and a courier that takes what is there, or sends as much as it can.
fn victim([inbox, outbox]: [&str; 2], sends: bool) -> Member {
    let argument = PERIODS << 32 | u64::from(sends);
    let text = format!(
        r#"version = 1
server = [
  {{ name = "control", budget = "2 ms", period = "10 ms", on_empty = "stop" }},
  {{ name = "messages", budget = "2 ms", period = "10 ms", on_empty = "stop" }},
]

[[component]]
name = "loop"
program = "component:cycle.elf"
threads = [{{ name = "main", server = "control", argument = {PERIODS} }}]

[[component]]
name = "courier"
program = "component:courier.elf"
threads = [{{ name = "main", server = "messages", argument = {argument} }}]
end_points = [{{ thread = "main", signals = ["arrived"] }}]
ports = ["{inbox}", "{outbox}"]
interrupts = [{{ name = "{inbox}", signal = "arrived" }}]
bind = {{ inbox = "port:{inbox}", outbox = "port:{outbox}", arrived = "receive:main", bell = "interrupt:{inbox}" }}
"#
    );
    Member { name: "victim", text, keys: String::new() }
}

/// The channels, by the sides of the victim: from whom it takes, and whom it sends to.
fn channels([up, down]: [(&str, &'static str); 2]) -> [Channel; 2] {
    let channel = |name: &str, from, to| Channel {
        name: name.to_owned(),
        from,
        to,
        shape: (64, 16),
        doorbell: UNLIMITED.to_owned(),
    };
    [channel(up.0, up.1, "victim"), channel(down.0, "victim", down.1)]
}

/// What the victim's instance said: of its courier, and of its loop; and how often the attacker rang.
fn attacked(members: [Member; 2], channels: &[Channel], mode: &str) -> (Vec<u64>, [u64; 2], u64) {
    let [victim, attacker] = members;
    let members = [victim, attacker, bystander()];
    let mut running = cores::system("port-peer", mode, &members, channels).start_exact(4);
    assert_eq!(running.end(), End::AllEnded, "{mode}");
    running.assert_no_crash();
    for partition in ["victim", "attacker"] {
        let status = running.status(partition);
        assert_eq!((status.generation, status.restarts, status.faults), (1, 0, 0), "{mode}: {partition}");
    }
    let lines = running.texts("victim");
    println!("{mode}: {lines:?}, {:?}", running.texts("attacker"));
    let of = |start: &str| -> Vec<u64> {
        let line = lines.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {lines:?}"));
        line.split(|one: char| !one.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    };
    let [periods, lost, worst] = of("loop: ")[..] else { panic!("{lines:?}") };
    assert_eq!(periods, PERIODS, "{lines:?}");
    (of("courier: "), [lost, worst], running.counter("attacker", Counter::DoorbellSent))
}

/// What is expected of some attacks is what was said.
fn assert_says(numbers: std::ops::RangeInclusive<u64>, said: &[String; 2], mode: &str) {
    for number in numbers {
        let attack = attacks().find(|attack| attack.number == number);
        let expected = attack.unwrap_or_else(|| panic!("attack {number} is in the table")).says;
        assert_eq!(expected, said, "attack {number}, {mode}");
    }
}

/// CH-61, QV-50, QV-53: whatever a peer writes into its end of a port, who takes it takes no message that nobody sent, and hears of mistakes alone; and a loop beside it loses no period.
#[test]
fn a_peer_with_rubbish_in_its_port_costs_who_takes_it_alone() {
    let run = |numbers, rounds, mode| {
        let channels = channels([("up", "attacker"), ("further", "bystander")]);
        attacked([victim(["up", "further"], false), rubbish(numbers, rounds)], &channels, mode)
    };
    let (_, [_, calm], _) = run([363, 363], 1, "mapped");
    for (number, mode) in TRIALS {
        let (courier, [lost, worst], rung) = run([number, number], ROUNDS, mode);
        let [taken, mistakes, doorbells] = courier[..] else { panic!("{courier:?}") };
        println!("{number}, {mode}: {mistakes} mistakes, {doorbells} of {rung} doorbells, worst {worst}");
        assert_says(number..=number, &[format!("took {taken}"), format!("lost {lost}")], mode);
        // The clock is that of both cores, so what the attacker executes while the loop's core waits for its turn is in the response, as are exits for doorbells, of which the channel lets all through.
        assert!(worst < 2 * calm, "{calm} alone, {worst} beside {number}, {mode}");
        assert_eq!(rung, ROUNDS, "{mode}");
        assert!(doorbells > 0 && doorbells <= rung, "{doorbells} of {rung}, {mode}");
        assert_eq!(mistakes > 0, number != STORM, "{mistakes} mistakes, {number}, {mode}");
    }
}

/// CH-61, QV-50, QV-53: whatever a peer says of what it has taken, who sends to it hears that a message is sent, that there is no room, or that the peer is mistaken, each time at once; and a loop beside
/// it loses no period.
#[test]
fn a_peer_with_rubbish_about_what_it_has_taken_costs_who_sends_alone() {
    let run = |numbers, milliseconds, mode| {
        let channels = channels([("further", "bystander"), ("down", "attacker")]);
        attacked([victim(["further", "down"], true), glutton(numbers, milliseconds)], &channels, mode)
    };
    let (_, [_, calm], _) = run([366, 366], 0, "mapped");
    // Each alone: what one of them reaches would else be said of all.
    let alone = (365..=368).map(|number| (number, number, "mapped"));
    for (first, last, mode) in alone.chain([(365, 368, "direct")]) {
        let (courier, [lost, worst], _) = run([first, last], 12 * PERIODS, mode);
        let [sent, full, mistakes, others] = courier[..] else { panic!("{courier:?}") };
        println!("{first} to {last}, {mode}: {sent} sent, {full} full, {mistakes} mistakes, worst {worst}");
        assert_says(first..=last, &[format!("other answers {others}"), format!("lost {lost}")], mode);
        assert!(worst < 2 * calm, "{calm} alone, {worst} beside {first} to {last}, {mode}");
        // As many as it tried. Only who has taken all that there is makes no mistake, and one is told only where there is no room.
        assert_eq!(sent + full + mistakes, PERIODS * 16, "{courier:?}, {mode}");
        assert!(sent >= 16 && (mistakes > 0) == ([first, last] != [366; 2]), "{courier:?}, {first} to {last}, {mode}");
    }
}
