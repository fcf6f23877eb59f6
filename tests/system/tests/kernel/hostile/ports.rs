//! A peer that writes rubbish into its end of a port and rings without end, on a core of its own: a component of another instance that has the source. The instance at the other end takes it by a component
//! that believes nothing, beside a control loop, which is what it is to be.

use bulkhead_abi::observe::Counter;
use bulkhead_hostile_kernel::attacks;
use bulkhead_run::End;
use bulkhead_system_tests::kernel::cores::{self, Channel, Member, UNLIMITED};

/// What is tried, and where: all in turns, and the storm alone.
const TRIALS: [(u64, u64, &str); 3] = [(360, 364, "mapped"), (363, 363, "mapped"), (363, 363, "direct")];
/// Rounds of the attacker, which last longer than the loop; periods of the loop, and looks of who takes, each 10 ms.
const ROUNDS: u64 = 10_000;
const PERIODS: u64 = 10;

fn attacker([first, last]: [u64; 2], rounds: u64) -> Member {
    let argument = first | last << 16 | rounds << 32;
    let text = format!(
        r#"version = 1
server = [{{ name = "main", quantum = "100 s" }}]

[[component]]
name = "rubbish"
program = "component:rubbish.elf"
threads = [{{ name = "main", server = "main", argument = {argument} }}]
end_points = [{{ thread = "main", signals = ["turn"] }}]
ports = ["up"]
bind = {{ told = "receive:main", there = "port:up" }}
"#
    );
    Member { name: "attacker", text, keys: String::new() }
}

fn victim() -> Member {
    let argument = PERIODS << 32;
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
ports = ["up", "further"]
interrupts = [{{ name = "up", signal = "arrived" }}]
bind = {{ inbox = "port:up", outbox = "port:further", arrived = "receive:main", bell = "interrupt:up" }}
"#
    );
    Member { name: "victim", text, keys: String::new() }
}

/// Takes nothing of what nobody sends.
fn bystander() -> Member {
    let text = r#"version = 1
server = [{ name = "main" }]

[[component]]
name = "adder"
program = "component:adder.elf"
callers = { stacks = 1, bytes = "4 KiB" }
"#;
    Member { name: "bystander", text: text.to_owned(), keys: String::new() }
}

/// What the victim's instance printed, and how often the attacker rang.
fn attacked(numbers: [u64; 2], rounds: u64, mode: &str) -> ([u64; 3], [u64; 2], u64) {
    let channel = |name: &str, from, to| Channel {
        name: name.to_owned(),
        from,
        to,
        shape: (64, 16),
        doorbell: UNLIMITED.to_owned(),
    };
    let channels = [channel("up", "attacker", "victim"), channel("further", "victim", "bystander")];
    let members = [victim(), attacker(numbers, rounds), bystander()];
    let mut running = cores::system("port-peer", mode, &members, &channels).start_exact(4);
    assert_eq!(running.end(), End::AllEnded, "attacks {numbers:?}, {mode}");
    running.assert_no_crash();
    for partition in ["victim", "attacker"] {
        let status = running.status(partition);
        assert_eq!((status.generation, status.restarts, status.faults), (1, 0, 0), "{numbers:?}, {mode}: {partition}");
    }
    let lines = running.texts("victim");
    println!("{numbers:?}, {mode}: {lines:?}, {:?}", running.texts("attacker"));
    let of = |start: &str| -> Vec<u64> {
        let line = lines.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {lines:?}"));
        line.split(|one: char| !one.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    };
    let [taken, mistakes, doorbells] = of("courier: ")[..] else { panic!("{lines:?}") };
    let [periods, lost, worst] = of("loop: ")[..] else { panic!("{lines:?}") };
    assert_eq!(periods, PERIODS, "{lines:?}");
    ([taken, mistakes, doorbells], [lost, worst], running.counter("attacker", Counter::DoorbellSent))
}

/// CH-61, QV-50, QV-53: whatever a peer writes into its end of a port, who takes it takes no message that nobody sent, and hears of mistakes alone; and a loop beside it loses no period.
#[test]
fn a_peer_with_rubbish_in_its_port_costs_who_takes_it_alone() {
    let (_, [_, calm], _) = attacked([363, 363], 1, "mapped");
    for (first, last, mode) in TRIALS {
        let ([taken, mistakes, doorbells], [lost, worst], rung) = attacked([first, last], ROUNDS, mode);
        println!("{first} to {last}, {mode}: {mistakes} mistakes, {doorbells} of {rung} doorbells, worst {worst}");
        for number in first..=last {
            let attack = attacks().find(|attack| attack.number == number);
            let expected = attack.unwrap_or_else(|| panic!("attack {number} is in the table")).says;
            assert_eq!(expected, [format!("took {taken}"), format!("lost {lost}")], "attack {number}, {mode}");
        }
        // The clock is that of both cores, so what the attacker executes while the loop's core waits for its turn is in the response, as are exits for doorbells, of which the channel lets all through.
        assert!(worst < 2 * calm, "{calm} alone, {worst} beside {first} to {last}, {mode}");
        assert_eq!(rung, ROUNDS, "{mode}");
        assert!(doorbells > 0 && doorbells <= rung, "{doorbells} of {rung}, {mode}");
        assert_eq!(mistakes > 0, first != last, "{mistakes} mistakes, {mode}");
    }
}
