//! Quest's figure 4 on the servers of an instance (QV-E10).

use crate::Failure;
use crate::experiments::{Cell, Findings, Length};
use crate::lab::Lab;
use bulkhead_system_tests::kernel::Place;
use bulkhead_system_tests::kernel::figure::{EXCHANGE_TICKS, SS_03, differences, runs};

/// Ticks of a millisecond.
const MILLISECOND_TICKS: f64 = 62_500.0;

/// The instants at which somebody else runs, on the board, beside those of SS-03; and whether `direct` has the same.
pub(super) fn figure(lab: &Lab, _length: Length) -> Result<Findings, Failure> {
    for file in ["kernel", "figure"] {
        lab.guest(&format!("kernel/{file}.elf"))?;
    }
    let [board, direct] = [Place::Board, Place::Direct].map(runs);
    let mut findings = Findings::default();
    for (switches, (run, wanted)) in (1_u64..).zip(board.iter().zip(&SS_03)) {
        findings.cells.push(Cell {
            label: format!("{} runs from", wanted.0),
            unit: "ms",
            published: None,
            model: Some(wanted.1 as f64),
            ours: Some(run.1 as f64 / MILLISECOND_TICKS),
            tolerance_percent: Some(0.0),
            slack: (switches * EXCHANGE_TICKS) as f64 / MILLISECOND_TICKS,
        });
    }
    let wrong = differences(&board);
    let order = "the switches come in the order of SS-03, each within an exchange of row 9 for each switch so far";
    findings.claim(wrong.is_empty(), order);
    findings.notes.extend(wrong);
    findings.claim(direct == board, "`direct` has the same instants, to the instruction");
    let caption =
        "the figure's caption gives budgets and periods only; the first thread's and the request are the theory's";
    findings.notes.push(caption.to_owned());
    Ok(findings)
}
