//! Every request between cores in every state of its target: the tables of `docs/book/src/reference/requests.md`, cell by cell.
//!
//! Each cell is what the monitor's own code does on the fake machine. `BULKHEAD_BLESS=1` writes the page again.

use super::calls::call;
use super::*;
use crate::health::Fault;
use crate::interrupt::MONITOR_SGI;
use crate::state::{report, vcpu_state::*};
use bulkhead_abi::status::{self, MANAGE_RESTART, MANAGE_RESUME, MANAGE_SUSPEND};
use std::sync::atomic::Ordering::Relaxed;

const CPU_ON: u64 = 0xc400_0003;
const CPU_OFF: u64 = 0x8400_0002;
const SYSTEM_OFF: u64 = 0x8400_0008;
const AFFINITY_INFO: u64 = 0xc400_0004;
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/book/src/reference/requests.md");

/// What a word of a vCPU can be.
const WORDS: [(&str, u32); 10] = [
    ("off", OFF),
    ("claimed", CLAIMED),
    ("pending", ON_PENDING),
    ("on", ON),
    ("off, to stand", STAND),
    ("claimed, to stand", STAND | CLAIMED),
    ("pending, to stand", STAND | ON_PENDING),
    ("on, to stand", STAND | ON),
    ("parked", STAND | ON | PARKED),
    // Never seen: what a name is missing for would be shown as this.
    ("unknown", u32::MAX),
];
const WORD_COLUMNS: [&str; 7] = [
    "CPU_ON of it",
    "AFFINITY_INFO",
    "SGI 15 at its core",
    "the partition is to stand",
    "it goes on",
    "the vCPU calls CPU_OFF",
    "it faults or calls SYSTEM_OFF",
];
/// By word: the answer to the caller and what the word is then.
const WORD_CELLS: [[&str; 7]; 9] = [
    ["SUCCESS: pending", "off", "off", "off, to stand", "off", "-", "-"],
    ["ON_PENDING: claimed", "pending", "claimed", "claimed, to stand", "claimed", "-", "-"],
    ["ON_PENDING: pending", "pending", "on, starts", "pending, to stand", "pending", "-", "-"],
    ["ALREADY_ON: on", "on", "on", "on, to stand", "on", "off", "off, reported"],
    ["SUCCESS: pending, to stand", "off", "off, to stand", "off, to stand", "off", "-", "-"],
    ["ON_PENDING: claimed, to stand", "pending", "claimed, to stand", "claimed, to stand", "claimed", "-", "-"],
    ["ON_PENDING: pending, to stand", "pending", "pending, to stand", "pending, to stand", "pending", "-", "-"],
    ["ALREADY_ON: on, to stand", "on", "parked", "on, to stand", "on", "off, to stand", "off, to stand, reported"],
    ["ALREADY_ON: parked", "on", "parked", "parked", "on", "-", "-"],
];

const STATES: [&str; 7] =
    ["initial (loading)", "running", "suspended", "restarting (back-off)", "restarting (loading)", "stopped", "off"];
const REQUESTS: [(&str, u32); 3] =
    [("SUSPEND", MANAGE_SUSPEND), ("RESUME", MANAGE_RESUME), ("RESTART", MANAGE_RESTART)];
/// By state: the state after the request, and where something was under way, when that is done.
const STATE_CELLS: [[&str; 3]; 7] = [
    ["initial, then suspended", "initial, then running", "running"],
    ["suspended", "running", "running (new instance)"],
    ["suspended", "running", "running (new instance)"],
    ["restarting, then suspended", "restarting, then running", "running (new instance)"],
    ["restarting, then suspended", "restarting, then running", "running (new instance)"],
    ["stopped", "stopped", "running (new instance)"],
    ["off", "off", "running (new instance)"],
];

fn name(word: u32) -> &'static str {
    WORDS.iter().find(|(_, value)| *value == word).map_or("unknown", |(name, _)| name)
}

fn pair_with(word: u32) -> Vec<Vcpu<FakeMachine>> {
    let mut both = cores(partition(2));
    both[0].begin();
    both[0].machine.ticks_per_spin.set(1 << 20);
    both[1].own_vcpu().state.store(word, Relaxed);
    both[1].own_vcpu().entry.store(0x4010_0000, Relaxed);
    both[1].run = match word {
        ON => RunState::Running,
        word if word == STAND | ON => RunState::Running,
        word if word & PARKED != 0 => RunState::Parked,
        _ => RunState::Off,
    };
    both
}

fn reported(vcpu: &Vcpu<FakeMachine>) -> u32 {
    vcpu.own_vcpu().report.load(Relaxed)
}

fn word_cell(word: u32, column: usize) -> String {
    let mut both = pair_with(word);
    let before = both[1].run;
    let answer = match column {
        0 => match call(&mut both[0], CPU_ON, [1, 0x4010_0000, 0]) as i64 {
            0 => "SUCCESS: ",
            -4 => "ALREADY_ON: ",
            -5 => "ON_PENDING: ",
            _ => "another answer: ",
        },
        1 => return ["on", "off", "pending"][call(&mut both[0], AFFINITY_INFO, [1, 0, 0]) as usize].to_owned(),
        2 => {
            both[1].interrupt(MONITOR_SGI);
            ""
        }
        3 => {
            both[0].stand();
            ""
        }
        4 => {
            both[0].let_go();
            ""
        }
        _ if before != RunState::Running => return "-".to_owned(),
        5 => {
            both[1].own_vcpu().report.store(status::REASON_SERROR, Relaxed);
            call(&mut both[1], CPU_OFF, [0; 3]);
            assert_eq!(reported(&both[1]), status::REASON_SERROR, "what it said in an earlier run is kept");
            ""
        }
        _ => {
            both[1].fault(Fault::new(status::REASON_SERROR, 0));
            let mut other = pair_with(word);
            call(&mut other[1], SYSTEM_OFF, [0; 3]);
            let words = |pair: &[Vcpu<FakeMachine>]| pair[1].own_vcpu().state.load(Relaxed);
            assert_eq!(words(&both), words(&other), "a fault and SYSTEM_OFF");
            let all = [&both[1], &other[1]].map(reported);
            assert_eq!(all, [status::REASON_SERROR, report::SYSTEM_OFF]);
            return format!("{}, reported", name(words(&both)));
        }
    };
    let after = both[1].own_vcpu().state.load(Relaxed);
    let started = column == 2 && before != RunState::Running && both[1].run == RunState::Running;
    let runs = both[1].run == RunState::Running;
    assert!(!runs || after & (ON | PARKED) == ON, "a guest executes in {}", name(after));
    format!("{answer}{}{}", name(after), if started { ", starts" } else { "" })
}

#[test]
fn every_request_in_every_state_of_a_vcpu() {
    for ((state, word), cells) in WORDS.iter().zip(WORD_CELLS) {
        for (column, cell) in cells.iter().enumerate() {
            assert_eq!(word_cell(*word, column), *cell, "{} when it is {state}", WORD_COLUMNS[column]);
        }
    }
}

fn state_name(core: &Vcpu<FakeMachine>) -> &'static str {
    ["initial", "running", "suspended", "off", "restarting", "stopped"][core.state() as usize]
}

/// A partition in one of [`STATES`].
fn partition_in(state: usize) -> Vcpu<FakeMachine> {
    let mut plan = partition(1);
    plan.manage[3] = PhysicalAddress(PEER_MANAGE);
    if matches!(state, 3 | 4) {
        plan.health = HealthPlan {
            policy: POLICY_RESTART,
            max_restarts: 9,
            within_ticks: 9,
            backoff_ticks: 1000,
            watchdog_ticks: 0,
        };
    }
    let mut core = cores(plan).remove(0);
    core.begin_core();
    core.clear_published_pages();
    if state == 0 {
        core.run = RunState::Restoring;
        return core;
    }
    core.begin_partition();
    match state {
        2 => manage(&mut core, &[MANAGE_SUSPEND]),
        3..=5 => core.fault(Fault::new(status::REASON_SERROR, 0)),
        6 => {
            call(&mut core, 0x8400_0008, [0; 3]);
        }
        _ => {}
    }
    if state == 4 {
        core.run = RunState::Restoring;
    }
    assert!(STATES[state].starts_with(state_name(&core)), "{} is {}", STATES[state], state_name(&core));
    core
}

/// A manager posts requests, and the partition's core looks when all of them are there.
fn manage(core: &mut Vcpu<FakeMachine>, requests: &[u32]) {
    let place = PhysicalAddress(PEER_MANAGE);
    let word = requests.iter().fold(core.machine.load64(place), |word, request| status::next_request(word, *request));
    core.machine.store64(place, word);
    core.interrupt(MONITOR_SGI);
}

/// Lets what is under way come to its end.
fn finish(core: &mut Vcpu<FakeMachine>) {
    while matches!(core.run, RunState::Restoring | RunState::BackOff) {
        match core.run {
            RunState::BackOff => core.end_back_off(),
            _ => core.restore_step(u64::MAX),
        }
    }
}

fn state_cell(state: usize, request: u32) -> String {
    let mut core = partition_in(state);
    let generation = status32(&core, offset_of!(StatusPage, generation));
    manage(&mut core, &[request]);
    let now = state_name(&core);
    finish(&mut core);
    let then = state_name(&core);
    assert_eq!(core.run == RunState::Running, then == "running", "in state {then}");
    let is_new = generation != 0 && request == MANAGE_RESTART && {
        status32(&core, offset_of!(StatusPage, generation)) == generation + 1
    };
    let addition = if is_new { " (new instance)" } else { "" };
    if now == then { format!("{now}{addition}") } else { format!("{now}, then {then}{addition}") }
}

/// A suspend is never lost: it takes effect at the next entry.
#[test]
fn every_request_in_every_state_of_a_partition() {
    for (state, cells) in STATE_CELLS.iter().enumerate() {
        for ((request, value), cell) in REQUESTS.iter().zip(cells) {
            assert_eq!(state_cell(state, *value), *cell, "{request} when it is {}", STATES[state]);
        }
    }
}

/// Requests that arrive while an earlier one is served come to the same as when each had been served by itself.
#[test]
fn requests_seen_together_are_as_good_as_one_by_one() {
    let values = REQUESTS.map(|(_, value)| value);
    for (state, name) in STATES.iter().enumerate() {
        for code in 0..27 {
            let sequence = [values[code / 9], values[code / 3 % 3], values[code % 3]];
            let mut together = partition_in(state);
            manage(&mut together, &sequence);
            finish(&mut together);
            let mut single = partition_in(state);
            sequence.iter().for_each(|request| manage(&mut single, &[*request]));
            finish(&mut single);
            let context = format!("{sequence:?} in {name}");
            assert_eq!((together.run, state_name(&together)), (single.run, state_name(&single)), "{context}");
        }
    }
}

fn table(first: &str, columns: &[&str], rows: &[&str], cells: &[Vec<&str>]) -> String {
    let mut text = format!("| {first} | {} |\n|{}\n", columns.join(" | "), " --- |".repeat(columns.len() + 1));
    for (row, cells) in rows.iter().zip(cells) {
        text += &format!("| {row} | {} |\n", cells.join(" | "));
    }
    text
}

#[test]
fn the_page_of_the_book_is_these_tables() {
    let states = table(
        "the partition is",
        &REQUESTS.map(|(name, _)| name),
        &STATES,
        &STATE_CELLS.iter().map(|row| row.to_vec()).collect::<Vec<_>>(),
    );
    let words = table(
        "the vCPU is",
        &WORD_COLUMNS,
        &WORDS.map(|(name, _)| name)[..9],
        &WORD_CELLS.iter().map(|row| row.to_vec()).collect::<Vec<_>>(),
    );
    let text = format!("{HEAD}{states}{BETWEEN}{words}{TAIL}");
    if std::env::var_os("BULKHEAD_BLESS").is_some() {
        std::fs::write(PAGE, &text).expect("the page can be written");
    }
    let page = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(page == text, "{PAGE} is not these tables; look whether the change is meant, then BULKHEAD_BLESS=1");
}

const HEAD: &str = "# Requests between cores

Generated from `monitor/src/tests/requests.rs`, where each cell is tried on the monitor's own code.

## What a manager asks for

A request that is answered `SUCCESS` is never lost. What the partition is after it, and after what was under way then:

";
const BETWEEN: &str = "
The last SUSPEND or RESUME counts, whoever sent it: a partition that was suspended while it restarts stands at its first
instruction, and one that restarts by its policy while it is suspended stays suspended. RESTART begins anew, and the new
instance runs. Requests of one manager that the partition sees together come to the same as one by one; those of several
managers that it sees together (while it was loading, say) it serves by the managers' places in the description, not by
when they were sent. Before the partition's core is set up, a request is answered `DENIED`.

## What happens to a vCPU

In each cell: the answer, and what the vCPU is then.

";
const TAIL: &str = "
*Claimed* is a CPU_ON whose entry point is being written. *To stand*: the partition is being suspended, stopped or
restarted; nothing is started until it goes on, and a CPU_ON that was accepted happens then. A stop or a restart ends with
every vCPU off.

*Reported* is what the core of vCPU 0 serves when it hears of it. It is kept until then, also when the vCPU is switched on
again and calls CPU_OFF; a later report takes its place.
";
