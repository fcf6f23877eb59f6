//! Micro operations, as often as the seed made them.

use super::{iterations, must_be, name_of, shown};
use crate::Failure;
use crate::experiments::{Findings, Length};
use crate::lab::Lab;
use bulkhead_instance::Policy;
use bulkhead_system_tests::kernel::chaos::{count_limited, count_yields};
use bulkhead_system_tests::kernel::{COUNTS, Counted, Place, counted, pair};
use bulkhead_system_tests::ways::{Way, count};

/// What was counted, what it is called, and the seed's mean in cycles, if it has one.
struct Operation {
    board: Counted,
    direct: Counted,
    label: &'static str,
    published_cycles: Option<f64>,
}

/// What rows 2, 5, 6 and 7 are made of.
fn operations(times: u64) -> Result<Vec<Operation>, Failure> {
    let mut all = Vec::new();
    let mut add = |[board, direct]: [Counted; 2], label, published_cycles| {
        all.push(Operation { board, direct, label, published_cycles });
    };
    let calls = |place| named(counted(&pair(COUNTS | times << 8, Policy::default()), place), "call_and_return");
    add(both(calls)?, "call of a component and its return", Some(741.0));
    let way = |way| both(|place| Ok(count(way, times, place)));
    add(way(Way::Switch)?, "`switch` from thread to thread", Some(307.0));
    add(way(Way::SignalHeld)?, "signal, up to a more important thread of the same server", None);
    add(way(Way::SignalMore)?, "signal, up to a thread of a more important server", None);
    add(both(|place| named(count_limited(times, place), "limited"))?, "signal through ChaosRT's limiter", None);
    add(both(|place| named(count_yields(times, place), "yield"))?, "yield of ChaosRT", Some(654.0));
    Ok(all)
}

/// What was counted on the board and in `direct`.
fn both(count: impl Fn(Place) -> Result<Counted, Failure>) -> Result<[Counted; 2], Failure> {
    Ok([count(Place::Board)?, count(Place::Direct)?])
}

fn named(rows: Vec<Counted>, name: &str) -> Result<Counted, Failure> {
    let found = rows.iter().find(|row| row.name == name).cloned();
    found.ok_or_else(|| Failure::wrong(format!("nobody counted `{name}`: {rows:?}")))
}

/// CH-E4, CH-E5.
pub(super) fn micro(_lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let times = iterations("kernel.micro", length)?;
    let mut findings = Findings::default();
    for Operation { board, direct, label, published_cycles } in operations(times)? {
        findings.cells.push(shown(
            format!("{label}, worst of {}", board.times),
            "instructions",
            published_cycles,
            board.most as f64,
        ));
        findings.cells.push(must_be(
            format!("{}: {label}, all together", name_of(Place::Direct)),
            "instructions",
            board.sum,
            direct.sum,
        ));
        findings.claim(
            [&board, &direct].iter().all(|one| one.most == one.least),
            format!(
                "{label}: {} to {} on the bare board, {} to {} in `direct`",
                board.least, board.most, direct.least, direct.most
            ),
        );
    }
    findings.notes.push("published in cycles of the seed's machine, mean of 1,000,000: they stand beside and are not compared; promises and misses are in the rows `kernel`".to_owned());
    Ok(findings)
}
