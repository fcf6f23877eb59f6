//! Experiments as text.

use super::{Cell, Done, median_tightness};
use std::fmt::Write;

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($argument:tt)*) => {
        let _ = writeln!($out, $($argument)*);
    };
}

/// A number with as many decimals as it needs to be compared.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value != 0.0 && value.abs() < 0.1 => format!("{value:.4}"),
        Some(value) if value.abs() < 10.0 => format!("{value:.3}"),
        Some(value) if value.abs() < 1000.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.0}"),
    }
}

fn verdict(cell: &Cell) -> String {
    let difference = cell.difference_percent().map(|percent| format!("{percent:+.1} %")).unwrap_or_default();
    match (cell.tolerance_percent, cell.holds()) {
        (None, _) => difference,
        (Some(_), true) => format!("{difference} ok"),
        (Some(tolerance), false) => format!("{difference} MISSED (at most {tolerance:.1} %)"),
    }
}

pub(super) fn text(done: &Done, with_runs: bool) -> String {
    let mut out = String::new();
    let word = if done.holds() { "met" } else { "MISSED" };
    line!(out, "{} ({}): {word}", done.experiment.name, done.length.name());
    line!(out, "  what    {}", done.experiment.what);
    line!(out, "  how     {}; ./x bench {}", done.experiment.how, done.experiment.name);
    match &done.findings {
        Err(failure) => {
            line!(out, "  error   {}", failure.message);
        }
        Ok(findings) => {
            let width = findings.cells.iter().map(|cell| cell.label.chars().count()).max().unwrap_or(0);
            if !findings.cells.is_empty() {
                line!(out, "  {:width$} {:>10} {:>10} {:>10} unit", "", "published", "model", "ours");
            }
            for cell in &findings.cells {
                line!(
                    out,
                    "  {:width$} {:>10} {:>10} {:>10} {}  {}",
                    cell.label,
                    number(cell.published),
                    number(cell.model),
                    number(cell.ours),
                    cell.unit,
                    verdict(cell)
                );
            }
            for claim in &findings.claims {
                line!(out, "  {} {}", if claim.holds { "holds  " } else { "BROKEN " }, claim.text);
            }
            for bound in &findings.bounds {
                line!(out, "  {} {}", if bound.holds() { "bounded" } else { "BROKEN " }, bound.text());
            }
            if let Some(median) = median_tightness(findings.bounds.iter()) {
                line!(out, "  median tightness {median:.2} of {} bounds", findings.bounds.len());
            }
            for note in &findings.notes {
                line!(out, "  note    {note}");
            }
        }
    }
    for run in done.runs.iter().filter(|_| with_runs) {
        line!(out, "  run     {}", run.replace('\n', "\n          "));
    }
    out
}
