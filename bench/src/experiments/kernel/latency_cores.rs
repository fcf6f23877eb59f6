//! The second half of CH-E8: the sender is on another core, and the monitor's limiter holds its doorbells back. How many pass in each window, and whether a message is lost; no time.

use super::crowd::numbers;
use super::must_be;
use crate::Failure;
use crate::experiments::Findings;
use crate::lab::Lab;
use bulkhead_abi::observe::Counter;
use bulkhead_run::End;
use bulkhead_system_tests::kernel::cores::{self, Channel, Member};

/// What the component `distant` does: doorbells of each wire in a window of 16 ms, messages in it, and how many distances of polls.
const LIMITS: [u64; 6] = [10, 20, 30, 40, 50, 60];
const SENDS: u64 = 50;
const POLLS: u64 = 3;
/// A message has 24 bytes; between two looks of the receiver there are those of two windows at most.
const SHAPE: (u32, u32) = (24, 128);

/// An instance of `distant`, with its wires and what its slots are.
fn member(name: &'static str, argument: u64, [inbox, outbox]: [&str; 2], wires: &str, way: &str) -> Member {
    let text = format!(
        r#"version = 1
server = [{{ name = "main" }}, {{ name = "wire" }}]
{wires}

[[component]]
name = "distant"
program = "component:distant.elf"
threads = [{{ name = "main", server = "main", argument = {argument} }}]
end_points = [{{ thread = "main", signals = ["news"] }}]
ports = ["{inbox}", "{outbox}"]
bind = {{ inbox = "port:{inbox}", outbox = "port:{outbox}", told = "receive:main", used = "accounts", way = {way} }}
"#
    );
    Member { name, text, keys: String::new() }
}

fn wire(limit: u64) -> String {
    format!("limit-{limit}")
}

/// Each of these for each limit, as a list.
fn list(each: impl Fn(u64) -> String) -> String {
    format!("[{}]", LIMITS.map(each).join(", "))
}

/// Sends in this many windows for each limit and poll.
pub(super) fn between_cores(lab: &Lab, windows: u64, findings: &mut Findings) -> Result<(), Failure> {
    for file in ["kernel", "distant"] {
        lab.guest(&format!("kernel/{file}.elf"))?;
    }
    let ways = list(|limit| format!("\"wire:{}.news\"", wire(limit)));
    let exports = list(|limit| {
        format!("{{ port = \"{}\", server = \"wire\", exports = {{ news = \"distant.news\" }} }}", wire(limit))
    });
    let members = [
        member("sender", windows, ["back", "there"], "", &ways),
        member("receiver", 0, ["there", "back"], &format!("wire = {exports}"), "\"empty:1\""),
    ];
    let data =
        |name: &str, from, to| Channel { name: name.to_owned(), from, to, shape: SHAPE, doorbell: String::new() };
    let mut channels = vec![data("there", "sender", "receiver"), data("back", "receiver", "sender")];
    channels.extend(LIMITS.map(|limit| Channel {
        doorbell: format!("{{ limit = {limit}, per = \"16 ms\" }}"),
        ..Channel::wire(&wire(limit), "sender", "receiver")
    }));
    let mut running = cores::system("latency", "mapped", &members, &channels).start_exact(4);
    let end = running.end();
    findings.claim(end == End::AllEnded, format!("two cores: both instances end by themselves: {end:?}"));
    let (sent, heard) = (running.texts("sender"), running.texts("receiver"));
    let mut all_passed = 0;
    for limit in LIMITS {
        let [passed, wrong] = numbers(&sent, &format!("limit {limit}: "))?;
        let model = POLLS * windows * limit.min(SENDS);
        let what = format!("two cores, {limit} signals in a window: ");
        findings.cells.push(must_be(format!("{what}doorbells that pass"), "doorbells", model, passed));
        findings.cells.push(must_be(format!("{what}windows in which more or less pass"), "windows", 0, wrong));
        all_passed += passed + POLLS;
    }
    let [messages, signals] = numbers(&sent, "sent: ")?;
    let [found, wrong, taken, _] = numbers(&heard, "heard: ")?;
    let expected = LIMITS.len() as u64 * POLLS * windows * SENDS + 1;
    let counted = running.counter("sender", Counter::DoorbellSent);
    for (label, unit, model, ours) in [
        ("two cores: messages that are sent", "messages", expected, messages),
        ("two cores: messages that are found", "messages", expected, found),
        ("two cores: messages lost, twice, changed or in another order", "messages", 0, wrong),
        ("two cores: signals that were told, of those that had room", "signals", signals, taken),
        ("two cores: doorbells that the monitor let pass", "doorbells", all_passed + 1, counted),
    ] {
        findings.cells.push(must_be(label, unit, model, ours));
    }
    Ok(())
}
