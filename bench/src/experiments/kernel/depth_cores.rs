//! The second half of CH-E6: the two subsystems are of instances on two cores. Each question gets its answer, once, at each depth of their schedulers; no time.

use super::crowd::numbers;
use super::depth::{ANSWERS, LEADS, LISTENS, TRAVELS};
use super::must_be;
use crate::Failure;
use crate::experiments::Findings;
use crate::lab::Lab;
use bulkhead_abi::observe::Counter;
use bulkhead_run::End;
use bulkhead_system_tests::kernel::cores::{self, Channel, Member};

/// Trips in front of those that count.
const FIRST: u64 = 16;

/// An instance with a server that a scheduler of its own holds, at the top or below another one. It is told over one wire and tells over another.
fn member(name: &'static str, argument: u64, is_below: bool, [told, tells]: [&str; 2]) -> Member {
    let parent = if is_below { ", parent = \"top\"" } else { "" };
    let listens = LISTENS | u64::from(is_below) << 8;
    let text = format!(
        r#"version = 1
server = [
  {{ name = "own", budget = "30 s", period = "100 s", holder = "own" }},
  {{ name = "top", budget = "10 s", period = "100 s", holder = "top" }},
  {{ name = "wire" }},
]
scheduler = [{{ name = "top", component = "top" }}, {{ name = "own", component = "own", thread = "scheduler"{parent} }}]
wire = [{{ port = "{told}", server = "wire", exports = {{ {told} = "own.{told}" }} }}]

[[component]]
name = "own"
program = "component:trials.elf"
threads = [{{ name = "scheduler", server = "own", argument = {LEADS} }}, {{ name = "main", server = "own", argument = {argument} }}]
end_points = [{{ thread = "main", signals = ["{told}"] }}]
bind = {{ told = "receive:main", line = "empty:1", over = "wire:{tells}.{tells}", scheduler = "scheduler:own", threads = "threads:own", claim = "empty:1" }}

[[component]]
name = "top"
program = "component:trials.elf"
threads = [{{ name = "main", server = "top", argument = {listens} }}]
bind = {{ told = "empty:1", line = "empty:1", over = "empty:1", scheduler = "scheduler:top", threads = "threads:top", claim = "empty:1" }}
"#
    );
    Member { name, text, keys: String::new() }
}

/// Makes this many round trips between two cores.
pub(super) fn between_cores(
    lab: &Lab,
    what: &str,
    times: u64,
    is_below: [bool; 2],
    findings: &mut Findings,
) -> Result<(), Failure> {
    for file in ["kernel", "trials"] {
        lab.guest(&format!("kernel/{file}.elf"))?;
    }
    let members = [
        member("first", TRAVELS | times << 8, is_below[0], ["answer", "question"]),
        member("second", ANSWERS | times << 8, is_below[1], ["question", "answer"]),
    ];
    let channels = [Channel::wire("question", "first", "second"), Channel::wire("answer", "second", "first")];
    let mut running = cores::system("depth", "mapped", &members, &channels).start_exact(4);
    let end = running.end();
    findings.claim(end == End::AllEnded, format!("two cores, {what}: both instances end by themselves: {end:?}"));
    // Who travels prints nothing when a question was refused, or an answer was none or more than one.
    let [_, _, _, trips] = numbers(&running.texts("first"), "bench trip ")?;
    findings.cells.push(must_be(format!("two cores, {what}: answers, each to its question"), "answers", times, trips));
    for (name, each) in [("first", "questions"), ("second", "answers")] {
        let rung = running.counter(name, Counter::DoorbellSent);
        let label = format!("two cores, {what}: doorbells for {each}");
        findings.cells.push(must_be(label, "doorbells", times + FIRST, rung));
    }
    Ok(())
}
