//! A peer that writes rubbish into its wire, on a core of its own: an instance whose component has the channel as a port and may write all of the source's page. The other
//! instance is what it is to be: its victim computes on as long as ever, and hears of what is exported alone.

use super::neighbours::attacker;
use bulkhead_hostile_kernel::attacks;
use bulkhead_run::End;
use bulkhead_system_tests::kernel::cores::{self, Channel, Member};

/// What is tried together, and where: those of which nothing is told in turns, the others by themselves.
const TRIALS: [(u64, u64, &str); 5] =
    [(330, 335, "mapped"), (336, 336, "mapped"), (337, 337, "mapped"), (338, 338, "mapped"), (338, 338, "direct")];
/// Roles of the component `crowd`.
const WATCHES: u64 = 8;
const LISTENS: u64 = 5;
/// Rounds of the victim, behind each of which the attacker has a turn.
const ROUNDS: u64 = 200;

fn rubbish([first, last]: [u64; 2]) -> Member {
    let wire = r#"wire = [{ port = "down", server = "wire", exports = { turn = "rubbish.turn" } }]
"#;
    let port = r#"end_points = [{ thread = "main", signals = ["turn"] }]
ports = ["up"]
bind = { told = "receive:main", there = "port:up" }
"#;
    attacker("rubbish", first | last << 16, [wire, port])
}

/// Its end point has bits 0 and 1, and only the latter is exported.
fn victim() -> Member {
    let argument = WATCHES | ROUNDS << 32;
    let text = format!(
        r#"version = 1
server = [{{ name = "victim", quantum = "100 s" }}, {{ name = "wire" }}, {{ name = "rest", quantum = "100 s" }}]
wire = [{{ port = "up", server = "wire", exports = {{ news = "crowd.news" }} }}]

[[component]]
name = "crowd"
program = "component:crowd.elf"
threads = [
  {{ name = "victim", server = "victim", argument = {argument} }},
  {{ name = "listener", server = "rest", argument = {LISTENS} }},
]
end_points = [{{ thread = "listener", signals = ["over", "news"] }}]
bind = {{ told = "receive:listener", over = "send:crowd.over", one = "wire:down.turn", two = "empty:1", three = "empty:1" }}
"#
    );
    Member { name: "victim", text, keys: String::new() }
}

/// What an attack is told in its round of this number.
const fn told(attack: u64, round: u64) -> u64 {
    match attack {
        336 => 16,
        // It says to have written as much.
        337 if round % 32 <= 16 => round % 32,
        _ => 0,
    }
}

/// What the victim's instance printed, how many turns the attacker had, and how many signals the listener was told.
fn attacked(numbers: [u64; 2], mode: &str) -> (Vec<String>, u64, u64) {
    let channels = [Channel::wire("up", "attacker", "victim"), Channel::wire("down", "victim", "attacker")];
    let mut running = cores::system("peer", mode, &[victim(), rubbish(numbers)], &channels).start_exact(4);
    assert_eq!(running.end(), End::AllEnded, "attack {numbers:?}, {mode}");
    running.assert_no_crash();
    for partition in ["victim", "attacker"] {
        let status = running.status(partition);
        assert_eq!(
            (status.generation, status.restarts, status.faults),
            (1, 0, 0),
            "attack {numbers:?}, {mode}: {partition}"
        );
    }
    let did = running.texts("attacker").concat();
    let rounds = did.strip_prefix("rubbish: ").and_then(|line| line.split(' ').next()?.parse::<u64>().ok());
    let rounds = rounds.unwrap_or_else(|| panic!("attack {numbers:?}, {mode}: {did}"));
    assert!(rounds >= ROUNDS / 2 && did.ends_with(&format!("{rounds} rung")), "attack {numbers:?}, {mode}: {did}");
    let (told, lines): (Vec<_>, Vec<_>) =
        running.texts("victim").into_iter().partition(|line| line.starts_with("listener: "));
    let told = told.concat();
    let signals = told["listener: ".len()..].split(' ').next().and_then(|word| word.parse::<u64>().ok());
    (lines, rounds, signals.unwrap_or_else(|| panic!("attack {numbers:?}, {mode}: {told}")))
}

/// CH-40, CH-61: whatever a peer writes into its wire, the instance at the other end tells its end points what was exported and nothing else, and who computes there does not notice.
#[test]
fn a_peer_with_rubbish_in_its_wire_gets_what_is_exported_to_it() {
    let mut calm = None;
    for (first, last, mode) in TRIALS {
        let (lines, rounds, signals) = attacked([first, last], mode);
        println!("{first} to {last}, {mode}: told {signals} in {rounds} rounds, {lines:?}");
        let expected: u64 = (1..=rounds).map(|round| told(first, round)).sum();
        assert_eq!(signals, expected, "attacks {first} to {last}, {mode}, {rounds} rounds");
        for number in first..=last {
            let attack = attacks().find(|attack| attack.number == number);
            let expected = attack.unwrap_or_else(|| panic!("attack {number} is in the table")).says;
            assert_eq!(expected, [format!("told {}", signals / rounds)], "attack {number}, {mode}");
        }
        let calm = calm.get_or_insert_with(|| lines.clone());
        assert_eq!(*calm, lines, "attacks {first} to {last}, {mode}");
    }
}
