//! Calls of the real-time kernel and its ways from one thread to another, counted by components.
//!
//! Each row is counted on the bare board and in `direct`. Where nothing but the kernel's state decides, all runs take the same there and here. The others are
//! counted between two looks of threads that look at the counter all the time, or depend on how many parts a budget has; of those the
//! fewest are the same in both places, and the row's value is the most.

use crate::Failure;
use crate::experiments::kernel as experiments;
use crate::lab::Lab;
use crate::outcome::Found;
use crate::symbols::section_sizes;
use bulkhead_instance::Policy;
use bulkhead_system_tests::kernel::chaos::{count_limited, count_yields};
use bulkhead_system_tests::kernel::{COUNTS, Counted, Place, counted, pair};
use bulkhead_system_tests::ways::{Way, count};
use std::rc::Rc;

/// How often each is counted.
const TIMES: u64 = 100_000;
/// What a caller must have in hand where it must: 16 us.
const NEEDS_TICKS: u64 = 1_000;

/// What was counted on the board and in `direct`.
fn both(lab: &Lab, needs_ticks: u64) -> Result<Rc<[Vec<Counted>; 2]>, Failure> {
    for file in ["kernel", "caller", "callee"] {
        lab.guest(&format!("kernel/{file}.elf"))?;
    }
    lab.once(&format!("kernel calls {needs_ticks}"), || {
        let image = pair(COUNTS | TIMES << 8, Policy { needs_ticks, ..Policy::default() });
        Ok([Place::Board, Place::Direct].map(|place| counted(&image, place)))
    })
}

/// The largest count of one thing, which is every count of it.
fn row(lab: &Lab, needs_ticks: u64, name: &str) -> Result<Found, Failure> {
    let both = both(lab, needs_ticks)?;
    let of = |place: usize| {
        let found = both.get(place).and_then(|rows| rows.iter().find(|row| row.name == name));
        found.ok_or_else(|| Failure::wrong(format!("the component `caller` counted no `{name}`")))
    };
    let (board, direct) = (of(0)?, of(1)?);
    let details = places([board, direct]);
    if (board.least, board.sum) != (direct.least, direct.sum) || board.least != board.most || direct.most != board.most
    {
        return Err(Failure::wrong(format!("counts differ: {}; {}", details[0], details[1])));
    }
    Ok(Found::new(board.most as f64, details))
}

/// What was counted on the board and in `direct`, as text.
fn places(counts: [&Counted; 2]) -> [String; 2] {
    [format!("bare board: {}", range(counts[0])), format!("`direct`: {}", range(counts[1]))]
}

fn range(one: &Counted) -> String {
    let mean = one.sum as f64 / one.times as f64;
    format!("{}..{} in {} runs, {mean} on average", one.least, one.most, one.times)
}

/// A way from one thread to another, or a call about time.
pub(crate) fn way(lab: &Lab, way: Way) -> Result<Found, Failure> {
    for file in ["kernel", "ways"] {
        lab.guest(&format!("kernel/{file}.elf"))?;
    }
    let counts = [Place::Board, Place::Direct].map(|place| count(way, TIMES, place));
    let [board, direct] = &counts;
    let details = places([board, direct]);
    let is_same =
        board.least == direct.least && (!way.is_fixed() || (board.most, board.least) == (direct.most, board.most));
    if !is_same {
        return Err(Failure::wrong(format!("counts differ: {}; {}", details[0], details[1])));
    }
    Ok(Found::new(board.most.max(direct.most) as f64, details))
}

pub(crate) fn null_call(lab: &Lab) -> Result<Found, Failure> {
    row(lab, 0, "version")
}

/// Both ways together, with what each takes.
fn call_and_return(lab: &Lab, needs_ticks: u64) -> Result<Found, Failure> {
    let mut found = row(lab, needs_ticks, "call_and_return")?;
    let (call, back) = (row(lab, needs_ticks, "call")?.value, row(lab, needs_ticks, "return")?.value);
    found.details.push(format!("`invoke` {call}, `return` {back}, together {}", call + back));
    Ok(found)
}

pub(crate) fn call(lab: &Lab) -> Result<Found, Failure> {
    call_and_return(lab, 0)
}

pub(crate) fn call_needs(lab: &Lab) -> Result<Found, Failure> {
    call_and_return(lab, NEEDS_TICKS)
}

pub(crate) fn stubs(lab: &Lab) -> Result<Found, Failure> {
    let mut found = row(lab, 0, "stub_to_stub")?;
    let kernel = row(lab, 0, "call_and_return")?;
    found.details.push(format!("of it the kernel {} and the stubs {}", kernel.value, found.value - kernel.value));
    Ok(found)
}

/// What the kernel's file has: text with constants, and what is written. That begins as zeros.
fn sizes(lab: &Lab) -> Result<[u64; 2], Failure> {
    let sizes = section_sizes(&lab.guest("kernel/kernel.elf")?);
    let [text, data, zeros] = sizes.ok_or_else(|| Failure::wrong("the kernel has no sections".to_owned()))?;
    Ok([text, data + zeros])
}

/// Row 15, its bytes.
pub(crate) fn text(lab: &Lab) -> Result<Found, Failure> {
    Ok(Found::new(sizes(lab)?[0] as f64, []))
}

/// Row 16. The kernel's memory is of one size: it is made for the most of everything, so an instance with a quarter of it has as much.
pub(crate) fn state(lab: &Lab) -> Result<Found, Failure> {
    let [_, state] = sizes(lab)?;
    let details = "for 64 components, threads and servers and 1,024 capability slots, and as much in each instance; stack and accounts among it".to_owned();
    Ok(Found::new(state as f64, [details]))
}

/// Row 12.
pub(crate) fn fork(lab: &Lab) -> Result<Found, Failure> {
    const FORKS: u64 = 1_000;
    let most = experiments::longest_fork(lab, FORKS)?;
    Ok(Found::new(most as f64, [format!("{FORKS} forks on the bare board and in `direct`, which are equal")]))
}

/// Row 17.
pub(crate) fn exits(lab: &Lab) -> Result<Found, Failure> {
    let (exits, said) = experiments::exits(lab)?;
    Ok(Found::new(exits as f64, [said]))
}

/// What tasks of ChaosRT count on the board and in `direct`, where it is the same.
fn of_tasks(lab: &Lab, program: &str, count: fn(u64, Place) -> Vec<Counted>) -> Result<Vec<Counted>, Failure> {
    for file in ["kernel", "probe", "chaosrt", program] {
        lab.guest(&format!("kernel/{file}.elf"))?;
    }
    let [board, direct] = [Place::Board, Place::Direct].map(|place| count(TIMES, place));
    if board == direct {
        return Ok(board);
    }
    Err(Failure::wrong(format!("tasks of ChaosRT did not count the same: {board:?}; `direct`: {direct:?}")))
}

/// Two equals that yield to each other: each counts the other one's yields.
pub(crate) fn chaos_yield(lab: &Lab) -> Result<Found, Failure> {
    let rows = of_tasks(lab, "tasks", |times, place| count_yields(times + 1, place))?;
    let most = rows.iter().map(|row| row.most).max().unwrap_or(0);
    Ok(Found::new(most as f64, rows.iter().map(|row| format!("everywhere: {}", range(row)))))
}

/// By how much a signal through the limiter differs from its parts, in percent (CH-E5).
pub(crate) fn limited(lab: &Lab) -> Result<Found, Failure> {
    let rows = of_tasks(lab, "limited", count_limited)?;
    let [limited, signal, limiter] = &rows[..] else {
        return Err(Failure::wrong(format!("tasks of ChaosRT counted something else: {rows:?}")));
    };
    let call = row(lab, 0, "stub_to_stub")?.value;
    let parts = signal.most as f64 + call + limiter.most as f64;
    let details = [
        format!("everywhere: {}", range(limited)),
        format!(
            "its parts: signal in the same state {}, call from stub to stub {call}, limiter {}, together {parts}",
            signal.most, limiter.most
        ),
        "the seed's yardstick: 2934 cycles across cores, of which its limiter 548; cycles are no instructions"
            .to_owned(),
    ];
    Ok(Found::new(100.0 * (limited.most as f64 - parts).abs() / parts, details))
}
