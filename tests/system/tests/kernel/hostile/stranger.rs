//! A partition that is no instance, on a core of its own, with the source of the channel that is a wire for an instance: a guest with all its powers. The instance is awake: it has a control loop, throws
//! a ball to another instance over wires of its own, and counts what the stranger's wire tells it.

use bulkhead_abi::observe::Counter;
use bulkhead_hostile_kernel::attacks;
use bulkhead_run::End;
use bulkhead_system_tests::kernel::cores::{self, Channel, Member};

/// What is tried, in how many lives, and where: what is told nothing in turns and then each alone, what is told something by itself.
const TRIALS: [(u64, u64, u64, &str); 9] = [
    (390, 393, 1, "mapped"),
    (390, 390, 1, "mapped"),
    (391, 391, 1, "mapped"),
    (392, 392, 1, "mapped"),
    (393, 393, 1, "mapped"),
    (394, 394, 1, "mapped"),
    (394, 394, 1, "direct"),
    (395, 395, 1, "mapped"),
    (396, 396, 3, "mapped"),
];
/// Periods of the loop, of 10 ms; and how long the listener listens.
const PERIODS: u64 = 10;
const LISTENS_MS: u64 = 130;
/// A role of the component `crowd`.
const LISTENS: u64 = 5;
/// How often the ball comes back.
const CAUGHT: u64 = 200;
/// Rounds of a life of the stranger, all of which last longer than the loop.
const ROUNDS: u64 = 4_000;
/// How often it rings in each.
const RINGS: u64 = 3;
/// Doorbells that its channel lets through in each millisecond.
const LIMIT: u64 = 4;
/// Entries of a wire.
const RING: u64 = 16;
/// Most instructions on the victim's core for each doorbell, in the mean; 3,426 were seen, for full rings whose every signal wakes somebody.
const DOORBELL: u64 = 3_700;
const TICKS_PER_MILLISECOND: u64 = 62_500;

/// A control loop, who throws the ball, and who listens to the stranger's wire. The latter's end point has bits 0 and 1, and only bit 1 is exported.
fn victim() -> Member {
    let (ball, listens) = (2 * CAUGHT + 1, LISTENS | LISTENS_MS << 32);
    let text = format!(
        r#"version = 1
server = [
  {{ name = "control", budget = "5 ms", period = "10 ms", on_empty = "stop" }},
  {{ name = "wire", budget = "2 ms", period = "10 ms" }},
  {{ name = "main" }},
]
wire = [
  {{ port = "up", server = "wire", exports = {{ news = "crowd.news" }} }},
  {{ port = "back", server = "wire", exports = {{ ball = "ball.ball" }} }},
]

[[component]]
name = "loop"
program = "component:cycle.elf"
threads = [{{ name = "main", server = "control", argument = {PERIODS} }}]

[[component]]
name = "ball"
program = "component:ball.elf"
threads = [{{ name = "main", server = "main", argument = {ball} }}]
end_points = [{{ thread = "main", signals = ["ball"] }}]
bind = {{ throw = "wire:there.ball", caught = "receive:main" }}

[[component]]
name = "crowd"
program = "component:crowd.elf"
threads = [{{ name = "listener", server = "main", argument = {listens} }}]
end_points = [{{ thread = "listener", signals = ["nobody", "news"] }}]
bind = {{ told = "receive:listener", over = "empty:1", one = "empty:1", two = "empty:1", three = "empty:1" }}
"#
    );
    Member { name: "victim", text, keys: String::new() }
}

/// Who throws the ball back.
fn friend() -> Member {
    let text = format!(
        r#"version = 1
server = [{{ name = "main" }}, {{ name = "wire", budget = "2 ms", period = "10 ms" }}]
wire = [{{ port = "there", server = "wire", exports = {{ ball = "ball.ball" }} }}]

[[component]]
name = "ball"
program = "component:ball.elf"
threads = [{{ name = "main", server = "main", argument = {} }}]
end_points = [{{ thread = "main", signals = ["ball"] }}]
bind = {{ throw = "wire:back.ball", caught = "receive:main" }}
"#,
        2 * CAUGHT
    );
    Member { name: "friend", text, keys: String::new() }
}

/// The stranger: a guest, and no instance. Its memory is small: on the emulator the clock is that of all cores, and while the monitor clears it for another life, time passes for the loop's budget.
fn stranger([first, last]: [u64; 2], lives: u64, rounds: u64) -> String {
    let (again, faults) = (lives - 1, u64::from(lives > 1));
    format!(
        "[[partition]]\nname = \"stranger\"\ntrust = \"untrusted\"\ncores = [2]\nmemory = \"2 MiB\"\ninterrupts = \"mapped\"\n\
         image = {{ kind = \"elf\", file = \"guest:stranger.elf\" }}\n\
         arguments = \"first={first} last={last} rounds={rounds} rings={RINGS} faults={faults}\"\n\
         ports = [{{ name = \"up\", direction = \"source\", kind = \"queuing\", message_bytes = 64, depth = 16 }}]\n\
         health = {{ on_fault = \"restart\", max = {}, within = \"600 s\", backoff = \"1 us\" }}\n",
        again.max(1)
    )
}

/// The numbers of the first line that begins so.
fn numbers(lines: &[String], start: &str) -> Vec<u64> {
    let line = lines.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {lines:?}"));
    line.split(|one: char| !one.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// What was said of the victim, and found of the stranger.
struct Attacked {
    told: u64,
    lost: u64,
    worst_ticks: u64,
    caught: u64,
    /// Of the stranger in all its lives: doorbells that it says were let through, held back, and answered otherwise; and how long it was at it.
    rung: u64,
    held_back: u64,
    strange: u64,
    ticks: u64,
    /// Instructions of the victim's kernel and of the monitor on its core.
    executed: u64,
}

fn attacked(numbers_of: [u64; 2], lives: u64, rounds: u64, mode: &str) -> Attacked {
    let limited = Channel {
        shape: (64, 16),
        doorbell: format!("{{ limit = {LIMIT}, per = \"1 ms\" }}"),
        ..Channel::wire("up", "stranger", "victim")
    };
    let channels = [limited, Channel::wire("there", "victim", "friend"), Channel::wire("back", "friend", "victim")];
    let others = stranger(numbers_of, lives, rounds);
    let system = cores::system_with("stranger", mode, &[victim(), friend()], &channels, &others);
    let mut running = system.start_with(|options| {
        options.icount_shift = Some(4);
        options.counting = Some(cores::counting(&system));
    });
    assert_eq!(running.end(), End::AllEnded, "attack {numbers_of:?}, {mode}");
    if lives == 1 {
        running.assert_no_crash();
    }
    for partition in ["victim", "friend"] {
        let status = running.status(partition);
        assert_eq!((status.generation, status.restarts, status.faults), (1, 0, 0), "{numbers_of:?}: {partition}");
    }
    let counts = running.counts().unwrap_or_else(|failure| panic!("{failure:?}"));
    let count = |range: &str| counts.cores[0].range(range).map_or(0, |range| range.total);
    let executed = count("monitor") + count("kernel victim");
    let (lines, did) = (running.texts("victim"), running.texts("stranger"));
    println!("{numbers_of:?}, {mode}: {lines:?}, {:?}, {did:?}, {executed} executed", running.texts("friend"));
    let [periods, lost, worst_ticks] = numbers(&lines, "loop: ")[..] else { panic!("{lines:?}") };
    assert_eq!(periods, PERIODS, "{lines:?}");
    // What comes late, or from nobody, is not quiet; and both ends threw each ball once.
    for said in [running.texts("friend"), lines.clone()] {
        assert!(said.contains(&format!("ball: caught {CAUGHT}, refused 0, other signals 0x0, quiet true")), "{said:?}");
    }
    let of_lives: Vec<Vec<u64>> = did.iter().map(|line| numbers(std::slice::from_ref(line), "stranger: ")).collect();
    assert!(of_lives.len() as u64 == lives && of_lives.iter().all(|life| life[0] == rounds), "{did:?}");
    let sum = |place: usize| of_lives.iter().map(|life| life[place]).sum::<u64>();
    let found = Attacked {
        told: numbers(&lines, "listener: ")[0],
        lost,
        worst_ticks,
        caught: numbers(&lines, "ball: ")[0],
        rung: sum(1),
        held_back: sum(2),
        strange: sum(3),
        ticks: sum(4),
        executed,
    };
    assert_eq!(found.rung + found.held_back, lives * rounds * RINGS, "{did:?}");
    assert!(found.rung <= running.counter("stranger", Counter::DoorbellSent), "{did:?}");
    found
}

/// CH-39, CH-40, CH-61: whatever a guest does to its end of a wire, the instance at the other end is told what is exported, a ring at most for each doorbell that the limit lets through; it loses no
/// signal of another wire, its loop no period, and nobody faults but the guest.
#[test]
fn a_stranger_on_a_wire_gets_what_is_exported_to_it_and_nobody_else_notices() {
    let calm = attacked([393, 393], 1, 0, "mapped");
    assert_eq!((calm.told, calm.lost, calm.rung), (0, 0, 0));
    for (first, last, lives, mode) in TRIALS {
        let found = attacked([first, last], lives, ROUNDS / lives, mode);
        let what = format!("attacks {first} to {last}, {mode}");
        let says = [format!("told {}", found.told), format!("lost {}", found.lost), format!("caught {}", found.caught)];
        for number in first..=last {
            let attack = attacks().find(|attack| attack.number == number);
            let expected = attack.unwrap_or_else(|| panic!("attack {number} is in the table")).says;
            assert!(
                says.ends_with(&expected.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()),
                "{what}: {says:?}"
            );
        }
        // Its limit holds: it rang more often than it was heard.
        let windows = found.ticks.div_ceil(TICKS_PER_MILLISECOND) + lives;
        assert!(found.rung > 0 && found.rung <= LIMIT * windows, "{what}: {} in {windows} ms", found.rung);
        assert!(found.held_back > 0 && found.strange == 0, "{what}: {} held back", found.held_back);
        // The bound of the drain, in entries.
        assert!(found.told <= RING * found.rung, "{what}: told {} by {} doorbells", found.told, found.rung);
        assert_eq!(found.told > 0, [394, 396].contains(&first), "{what}");
        // The clock is that of all cores, so what the others execute while the loop's core waits for its turn is in the response.
        // And in instructions of the core, the monitor's among them.
        let each = (found.executed - calm.executed) / found.rung;
        println!("{what}: {each} instructions for each of {} doorbells", found.rung);
        assert!(each <= DOORBELL, "{what}: {each} for each of {} doorbells", found.rung);
        assert!(found.worst_ticks < 2 * calm.worst_ticks, "{what}: {} alone {}", found.worst_ticks, calm.worst_ticks);
        assert!(found.ticks > PERIODS * 10 * TICKS_PER_MILLISECOND, "{what}: it ended before the loop");
    }
}
