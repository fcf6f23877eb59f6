//! Attacks of a guest that nobody trusts, with a core and its interrupts to itself, below a payload: every one of the hostile world and of the hostile guest.
//!
//! The payload ticks above all, a control loop runs below it on its core, a victim on another one, and the attacker masks, storms and reaches for what
//! is not its own. After any of them its core comes to its EL2: each attack that does not end by a fault ends by its watchdog, and the next one begins.

use crate::hybrid::assert_no_tick_is_lost;
use bulkhead_abi::status::{
    REASON_DATA_ABORT, REASON_INSTRUCTION_ABORT, REASON_NONE, REASON_REQUESTED, REASON_WATCHDOG, STATE_OFF,
};
use bulkhead_system_tests::secure::SECURE;
use bulkhead_system_tests::sharing::field;
use bulkhead_system_tests::{Running, System};
use std::sync::OnceLock;

const VICTIMS: [&str; 2] = ["control", "victim"];
/// Lines of the victim and periods of the control loop, one in ten milliseconds: more than the longest run here needs.
const LINES: u64 = 1_500;

fn text(attacker: &str) -> String {
    format!(
        r#"version = 1
name = "untrusted"
board = "qemu-virt-secure"
memory = "128 MiB"

[secure]
payload = {{ kind = "freertos", file = "guest:hybrid-world.elf" }}
memory = "1 MiB"
devices = ["secure-uart", "secure-gpio"]
non_secure = {{ partitions = true }}
servers = [{{ name = "btask", priority = 1 }}]

[[partition]]
name = "control"
criticality = "high"
trust = "trusted"
cores = [0]
memory = "4 MiB"
image = {{ kind = "elf", file = "guest:control.elf" }}
arguments = "period_us=10000 report=10 periods={LINES}"

[[partition]]
name = "victim"
cores = [1]
memory = "4 MiB"
image = {{ kind = "elf", file = "guest:victim.elf" }}
arguments = "round_us=5000 rounds=2 lines={LINES}"

[[partition]]
name = "hostile"
criticality = "best-effort"
cores = [2]
interrupts = "direct"
sgi = "filtered"
{attacker}
health = {{ on_fault = "restart", max = 128, within = "600 s", backoff = "1 us" }}
"#
    )
}

/// Runs until all have ended, and the payload with them.
fn run(attacker: &str) -> (System, Running) {
    let system = System::from_text("untrusted", &text(attacker));
    let mut running = system.start_exact(4);
    running.end();
    running.assert_no_crash();
    running.assert_image_intact(&system);
    (system, running)
}

/// The last two lines of a victim: the sum of all that it saw, and that it came to its end.
fn ends(running: &Running) -> [Vec<String>; 2] {
    VICTIMS.map(|victim| {
        let mut all = running.texts(victim);
        all.split_off(all.len() - 2)
    })
}

/// What they are beside a neighbour that ends at once.
fn ends_alone() -> &'static [Vec<String>; 2] {
    static ALONE: OnceLock<[Vec<String>; 2]> = OnceLock::new();
    ALONE.get_or_init(|| {
        let quiet = "memory = \"2 MiB\"\nimage = { kind = \"elf\", file = \"guest:hostile.elf\" }\narguments = \"attacks=list\"";
        ends(&run(quiet).1)
    })
}

/// Runs all attacks to their end, and returns what the attacker printed. Nobody else has noticed.
fn every_attack(attacker: &str, starts: u32) -> Vec<String> {
    // Before: a test has one machine at a time.
    let alone = ends_alone();
    let (_, running) = run(attacker);
    let said = running.texts("hostile");
    let status = running.status("hostile");
    assert_eq!((status.state, status.reason, status.generation), (STATE_OFF, REASON_NONE, starts), "{said:#?}");
    assert_eq!((status.restarts, status.faults), (starts - 1, u64::from(starts) - 1));
    assert_eq!(&ends(&running), alone);
    assert_eq!(alone[0][1], format!("done iterations={LINES} releases_due={LINES}"));
    let last = |partition: &str| running.lines(partition).last().map_or(0, |line| line.time_ticks);
    for victim in VICTIMS {
        assert!(last("hostile") < last(victim), "{victim} is to outlive the attacker");
    }
    let secure = running.ended_texts(SECURE);
    assert!(secure.iter().all(|line| !line.contains("FAILED")), "{secure:?}");
    let reports = assert_no_tick_is_lost(&secure);
    assert!(reports.len() > 10, "{secure:?}");
    said
}

/// Attacks of the hostile world that are a fault of a partition: what they name is in no map of it, secure memory as little as devices of others. Each
/// ends at its first such access, and the next start begins the next attack: of the places and sizes that reads, writes and jumps have in a row
/// only the first ones are tried here, and all of them by the hostile world (`hostile.rs`).
const FAULTS: [&str; 11] = [
    "tables of the translation service in secure memory",
    "reads of secure memory and devices, every size",
    "writes of secure memory and devices, every size",
    "reads and writes at each alignment, through own tables",
    "pairs, exclusives, vectors, zeroing",
    "jumps into secure memory, flash and devices",
    "translation tables in secure memory",
    "translation of secure addresses, secure attribute in own tables",
    "DMA of the configuration device into secure memory",
    "DMA of a PCI device from and into secure memory",
    "wild jump, again and again",
];
/// Those that make no sense there: registers of EL2, AArch32 at EL1, HVC, which is a call, and ends after which nobody starts it again.
const SKIPPED: [&str; 7] = [
    "all traps of EL2 on",
    "identity of the core changed, virtual offset, timer of EL2",
    "HVC",
    "CPU_OFF of the only core",
    "SYSTEM_OFF",
    "calls from AArch32 at EL1",
    "AArch32 at EL1: group 0",
];
const RESET: &str = "SYSTEM_RESET";
/// Attacks of the hostile world, and of the hostile guest with its last one.
const OF_WORLD: u32 = 72;

/// QV-5, QV-16, CF-2, CF-9: every attack of the hostile world by a partition that has its interrupts. Each ends as it says, or as a fault,
/// and then the watchdog takes the core, whatever is masked, and starts it again.
#[test]
fn every_attack_of_the_hostile_world_as_a_partition_changes_nothing() {
    let said = every_attack(
        "memory = \"24 MiB\"\nimage = { kind = \"elf\", file = \"guest:hostile-world.elf\" }\nconsole = \"pl011\"\nwatchdog = \"30 ms\"",
        OF_WORLD + 1,
    );
    assert_eq!(said.last().map(String::as_str), Some(format!("attacks {OF_WORLD}").as_str()));
    for number in 1..=OF_WORLD {
        let own = |line: &&String| line.starts_with(&format!("attack {number} "));
        let lines: Vec<&String> = said.iter().filter(own).collect();
        let name = lines.first().and_then(|line| Some(line.split_once(": ")?.1.rsplit_once(": expect")?.0));
        let name = name.unwrap_or_else(|| panic!("{number}: {said:?}"));
        let verdicts: Vec<&str> = lines[1..].iter().filter_map(|line| line.splitn(3, ' ').nth(2)).collect();
        let start = format!("start {} after ", number + 1);
        let reason = said.iter().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(REASON_NONE);
        match name {
            RESET => assert_eq!((verdicts, reason), (vec!["contained"], REASON_REQUESTED)),
            name if FAULTS.contains(&name) => {
                assert_eq!(verdicts, Vec::<&str>::new(), "{name}");
                assert!([REASON_DATA_ABORT, REASON_INSTRUCTION_ABORT].contains(&reason), "{name}: reason {reason}");
            }
            name if SKIPPED.contains(&name) => {
                assert_eq!((verdicts, reason), (vec!["skipped"], REASON_WATCHDOG), "{name}")
            }
            name => assert_eq!((verdicts, reason), (vec!["contained"], REASON_WATCHDOG), "{name}"),
        }
    }
}

/// Attacks of the hostile guest that are not tried: it has no ports, no PCI bus, and CPU_OFF would be its end before the last one.
const WITHOUT: u64 = 10;
/// Those that are, without the last one, and starts until then.
const OF_GUEST: u64 = 167;
const STARTS_OF_GUEST: u32 = 64;

/// QV-5, QV-16, CF-2, CF-9: every attack of the hostile guest, A1 to A12 and silence after each of them among them, where nobody declares it trusted.
#[test]
fn every_attack_of_the_hostile_guest_without_trust_changes_nothing() {
    let said = every_attack(
        "memory = \"2 MiB\"\nimage = { kind = \"elf\", file = \"guest:hostile.elf\" }\narguments = \"foreign=42 watchdog=1\"\nwatchdog = \"300 ms\"",
        STARTS_OF_GUEST,
    );
    let done = said.iter().find(|line| line.starts_with("attacks done")).unwrap_or_else(|| panic!("{said:?}"));
    let counts = ["tried", "contained", "unexpected", "escaped", "skipped"].map(|name| field(done, name));
    assert_eq!(counts, [OF_GUEST, OF_GUEST, 0, 0, WITHOUT], "{said:#?}");
    let watched = said.iter().filter(|line| line.contains("contained: restarted, reason 0x5")).count();
    assert_eq!(watched, 13, "silence, and silence after A1 to A12");
}
