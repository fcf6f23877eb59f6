//! Every request between cores in every state of its target: the tables of `docs/book/src/reference/requests.md`, cell by cell.
//!
//! Each cell is what the monitor's own code does on the fake machine. `BULKHEAD_BLESS=1` writes the page again.

use super::calls::{AFFINITY_INFO, CPU_OFF, CPU_ON, SYSTEM_OFF, call};
use super::target::{Place, Target, state_name};
use super::*;
use crate::interrupts::MONITOR_SGI;
use crate::life::health::Fault;
use crate::state::{report, vcpu_state::*};
use bulkhead_abi::hypercall::{
    CALL_PARTITION_RESTART, CALL_PARTITION_RESUME, CALL_PARTITION_STATUS, CALL_PARTITION_SUSPEND, SUCCESS,
};
use bulkhead_abi::status::{self, MANAGE_RESTART, MANAGE_RESUME, MANAGE_SUSPEND};
use std::sync::atomic::Ordering::Relaxed;

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
    "it resumes",
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

/// The partition is on a core of its own, or (those of [`Target::shared`]) alike on a shared one.
const STATES: [&str; 10] = [
    "not set up",
    "initial (loading)",
    "running",
    "suspended",
    "restarting (back-off)",
    "restarting (loading)",
    "stopped",
    "stopped (a core is stuck)",
    "stopped (and that core came)",
    "off",
];
const REQUESTS: [(&str, u32, u64); 3] = [
    ("SUSPEND", MANAGE_SUSPEND, CALL_PARTITION_SUSPEND),
    ("RESUME", MANAGE_RESUME, CALL_PARTITION_RESUME),
    ("RESTART", MANAGE_RESTART, CALL_PARTITION_RESTART),
];
const STATE_COLUMNS: [&str; 4] = ["SUSPEND", "RESUME", "RESTART", "PARTITION_STATUS"];
/// By state: the state after the request, and where something was under way, when that is done.
const STATE_CELLS: [[&str; 4]; 10] = [
    ["DENIED", "DENIED", "DENIED", "initial"],
    ["initial, then suspended", "initial, then running", "running", "initial"],
    ["suspended", "running", "running (new instance)", "running"],
    ["suspended", "running", "running (new instance)", "suspended"],
    ["restarting, then suspended", "restarting, then running", "running (new instance)", "restarting"],
    ["restarting, then suspended", "restarting, then running", "running (new instance)", "restarting"],
    ["stopped", "stopped", "running (new instance)", "stopped"],
    ["stopped", "stopped", "stopped", "stopped"],
    ["stopped", "stopped", "running (new instance)", "stopped"],
    ["off", "off", "running (new instance)", "off"],
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
            both[0].stand(crate::life::powers::Stop::OF_TEST);
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

fn state_cell(mut target: Target, state: usize, column: usize) -> String {
    assert!(state == 0 || STATES[state].starts_with(target.state()), "{} is {}", STATES[state], target.state());
    let Some((_, _, function)) = REQUESTS.get(column) else {
        let index = u64::from(target.vcpu().partition.index);
        assert_eq!(call(&mut target.manager, CALL_PARTITION_STATUS, [index, 0, 0]), SUCCESS);
        return state_name(target.manager.head.frame.x[1] as u32).to_owned();
    };
    let generation = target.generation();
    if !target.ask(*function) {
        target.finish();
        assert_eq!(target.state(), "running", "and nothing of it is heard later");
        return "DENIED".to_owned();
    }
    target.look();
    let now = target.state();
    target.finish();
    let then = target.state();
    if *function == CALL_PARTITION_RESTART {
        let is_new = generation != 0 && target.generation() > generation;
        return format!("{then}{}", if is_new { " (new instance)" } else { "" });
    }
    if now == then { now.to_owned() } else { format!("{now}, then {then}") }
}

/// In each way in which a core can be asked: the target, and how it is called.
fn targets(state: &str) -> Vec<(Target, &'static str)> {
    let shared = |is_meanwhile| Target::shared(state, is_meanwhile);
    let ways = [
        (Some(Target::own(state)), "a core of its own"),
        (shared(false), "a shared core, asked while another one runs"),
        (shared(true), "a shared core, asked while it is at work"),
    ];
    ways.into_iter().filter_map(|(target, way)| Some((target?, way))).collect()
}

/// A suspend is never lost: it takes effect at the next entry.
#[test]
fn every_request_in_every_state_of_a_partition() {
    for (state, cells) in STATE_CELLS.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            for (target, way) in targets(STATES[state]) {
                let context = format!("{} when it is {} on {way}", STATE_COLUMNS[column], STATES[state]);
                assert_eq!(state_cell(target, state, column), *cell, "{context}");
            }
        }
    }
}

/// Requests that arrive while an earlier one is served come to the same as when each had been served by itself.
#[test]
fn requests_seen_together_are_as_good_as_one_by_one() {
    for state in &STATES[1..] {
        for code in 0..27 {
            let sequence = [code / 9, code / 3 % 3, code % 3].map(|place| REQUESTS[place]);
            for ((mut together, way), (mut single, _)) in targets(state).into_iter().zip(targets(state)) {
                for (_, _, function) in sequence {
                    assert!(together.ask(function) && single.ask(function));
                    single.look();
                }
                together.look();
                together.finish();
                single.finish();
                let context = format!("{sequence:?} in {state} on {way}");
                assert_eq!((together.vcpu().run, together.state()), (single.vcpu().run, single.state()), "{context}");
            }
        }
    }
}

/// What other cores and devices send to a core of its own while its guest does not run waits in the interrupt controller: a
/// software-generated interrupt, a device's, a doorbell.
#[test]
fn an_interrupt_waits_while_no_guest_runs() {
    for state in ["suspended", "restarting (back-off)", "stopped", "off"] {
        for intid in [3, 40, 80] {
            let mut target = Target::own(state);
            assert!(target.ask(if state == "suspended" { CALL_PARTITION_RESUME } else { CALL_PARTITION_RESTART }));
            let Place::Own { core, .. } = &mut target.place else { unreachable!("a core of its own") };
            core.machine.pending.borrow_mut().extend([intid, MONITOR_SGI]);
            core.settle();
            assert_eq!((core.run, core.machine.list[0].get()), (RunState::Running, 0), "{intid} in {state}");
            assert_eq!(core.machine.acknowledge(), intid, "it is there when the guest runs, in {state}");
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
        &STATE_COLUMNS,
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

A request that is answered `SUCCESS` is never lost, with three exceptions: the answer says that it was posted, so a SUSPEND
or a RESUME of a partition that is stopped or off is answered `SUCCESS` and does nothing (only a RESTART starts it, and that
clears both), and so is every request to a core whose monitor has crashed. What the partition is after a request, and after
what was under way then; the last column is what a manager reads:

";
const BETWEEN: &str = "
The last SUSPEND or RESUME counts, from any manager: a partition that was suspended while it restarts stands at its
first instruction, and one that restarts by its policy while it is suspended stays suspended. RESTART starts over, and
the new instance runs. Requests of one manager that the partition sees together have the same effect as one by one;
those of several managers that it sees together (while it was loading, say) it serves in the order of the managers in
the description, not in the order in which they were sent. Before the partition's core is set up, a request is answered
`DENIED`; the state that is read then is whatever is in RAM (zero in QEMU). Where a core of the partition does not
stand, nothing of it is loaded or entered: RESTART tries again, and works once that core has come.

A core that the partition owns looks at requests when its guest is to run; a shared one between two slices of a load. There a
RESTART shows `restarting` until the new instance is loaded. Both come to the same, and each row (but for those of a core that
is not set up, or stuck) is tried on a core of its own and on a shared one, with the SGI while another vCPU runs and while the
partition itself is being loaded.

## What happens to a vCPU

In each cell: the answer, and what the vCPU is then.

";
const TAIL: &str = "
*Claimed* is a CPU_ON whose entry point is being written. *To stand*: the partition is being suspended, stopped or
restarted; nothing is started until it resumes, and a CPU_ON that was accepted happens then. A stop or a restart ends
with every vCPU off.

*Reported* is what the core of vCPU 0 serves when it hears of it. It is kept until then, also when the vCPU is switched on
again and calls CPU_OFF; a later report takes its place.

## What is not in these tables

Reports of siblings to vCPU 0's core are tried in the orders of `monitor/src/tests/standing.rs`, beside the requests above.
Software-generated interrupts, doorbells and interrupts of devices are no requests to the monitor. For a vCPU whose guest
does not run they wait in the interrupt controller, or on a shared core at EL2
(`monitor/src/tests/requests.rs: an_interrupt_waits_while_no_guest_runs`,
`monitor/src/tests/interrupts.rs: a_shared_interrupt_waits_for_a_vcpu_that_is_off`,
`monitor/src/tests/prepared.rs: a_suspended_sleeper_is_not_woken`). Console input and its `Ctrl-]` are tried with guests that
run, read or not (`tests/system/tests/scenarios/console.rs: a_guest_that_does_not_read_loses_the_focus`), and not in the
other states.
";
