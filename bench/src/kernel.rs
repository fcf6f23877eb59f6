//! Calls of the real-time kernel, counted by a component.

use crate::Failure;
use crate::lab::Lab;
use crate::outcome::Found;
use bulkhead_instance::Policy;
use bulkhead_system_tests::kernel::{COUNTS, Counted, Place, counted, pair};
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
    let text = |place: &str, one: &Counted| {
        let mean = one.sum as f64 / one.times as f64;
        format!("{place}: {}..{} in {} runs, {mean} on average", one.least, one.most, one.times)
    };
    let details = [text("bare board", board), text("`direct`", direct)];
    if (board.least, board.sum) != (direct.least, direct.sum) || board.least != board.most || direct.most != board.most
    {
        return Err(Failure::wrong(format!("counts differ: {}; {}", details[0], details[1])));
    }
    Ok(Found::new(board.most as f64, details))
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
