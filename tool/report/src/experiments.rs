//! Experiments: the seed's numbers, an independent model's and ours.

use crate::experiment::{Experiment, Number};
use crate::html::Html;
use crate::page::Context;
use crate::plot;
use crate::table::{Cell, Table, chip};
use crate::words::{grouped, sentence};

pub(crate) fn write(html: &mut Html, context: &Context<'_>) {
    let experiments = context.input.experiments;
    if experiments.is_empty() {
        return;
    }
    html.element("p", &[("class", &"lead")], |html| {
        html.text("Each experiment repeats one of the publications that Bulkhead grew from. Times are ");
        html.leaf("strong", &[], "instructions, not cycles");
        html.text(
            ": under QEMU an instruction takes a fixed time, so runs repeat exactly and say nothing of caches. The seed's \
             numbers are from its own hardware; the verdict compares ours with a model that shares no code with it.",
        );
    });
    for experiment in experiments {
        html.element("article", &[], |html| one(html, experiment));
    }
}

fn one(html: &mut Html, experiment: &Experiment) {
    html.element("h3", &[], |html| {
        html.text(&experiment.name);
        html.text(" ");
        chip(html, if experiment.verdict == "met" { "good" } else { "bad" }, &experiment.verdict.to_lowercase());
    });
    html.leaf("p", &[], sentence(&experiment.what));
    if let Some(error) = &experiment.error {
        html.leaf("p", &[("class", &"error")], format!("It failed: {error}"));
    }
    numbers(html, &experiment.cells);
    plot::write(html, &experiment.series);
    claims(html, &experiment.claims);
    html.element("p", &[("class", &"note")], |html| {
        if !experiment.how.is_empty() {
            html.text(format!("{} ", sentence(&experiment.how)));
        }
        if !experiment.length.is_empty() {
            html.text(format!("Length: {}. ", experiment.length));
        }
        if !experiment.command.is_empty() {
            html.text("Again: ");
            html.leaf("code", &[], &experiment.command);
        }
    });
    for note in &experiment.notes {
        html.leaf("p", &[("class", &"note")], sentence(note));
    }
}

/// More rows than this are folded, except for those that do not hold.
const MANY: usize = 16;

fn numbers(html: &mut Html, cells: &[Number]) {
    let table = |cells: &mut dyn Iterator<Item = &Number>| {
        let mut table = Table::new(&["", "unit", "seed", "model", "ours", "against the model", ""]);
        cells.for_each(|cell| table.row(row(cell)));
        table
    };
    let all = table(&mut cells.iter());
    if cells.len() <= MANY {
        if !all.is_empty() {
            all.write(html);
        }
        return;
    }
    let far = table(&mut cells.iter().filter(|cell| cell.holds == Some(false)));
    if !far.is_empty() {
        far.write(html);
    }
    folded(html, &format!("All {} numbers", cells.len()), |html| all.write(html));
}

fn claims(html: &mut Html, claims: &[(bool, String)]) {
    let list = |html: &mut Html, claims: &mut dyn Iterator<Item = &(bool, String)>| {
        html.element("ul", &[("class", &"claims")], |html| {
            for (holds, text) in claims {
                html.element("li", &[], |html| {
                    chip(html, if *holds { "good" } else { "bad" }, if *holds { "holds" } else { "does not hold" });
                    html.text(format!(" {text}"));
                });
            }
        });
    };
    if claims.len() <= MANY {
        if !claims.is_empty() {
            list(html, &mut claims.iter());
        }
        return;
    }
    list(html, &mut claims.iter().filter(|(holds, _)| !holds));
    folded(html, &format!("All {} claims", claims.len()), |html| list(html, &mut claims.iter()));
}

fn folded(html: &mut Html, title: &str, content: impl FnOnce(&mut Html)) {
    html.element("details", &[], |html| {
        html.leaf("summary", &[], title);
        content(html);
    });
}

fn row(cell: &Number) -> Vec<Cell> {
    let value = |value: Option<f64>| value.map_or(Cell::Dash, |value| Cell::Number(number(value)));
    let distance = match (cell.model, cell.ours) {
        (Some(model), Some(ours)) if model != 0.0 => Cell::Number(difference(ours / model)),
        _ => Cell::Dash,
    };
    let verdict = cell
        .holds
        .map_or(Cell::Dash, |holds| Cell::Verdict(holds, if holds { "close enough" } else { "too far" }.to_owned()));
    let (label, unit) = (Cell::text(&cell.label), Cell::text(&cell.unit));
    vec![label, unit, value(cell.published), value(cell.model), value(cell.ours), distance, verdict]
}

/// Returns how far ours is from the model: in percent, or as a factor where percents say nothing.
fn difference(ratio: f64) -> String {
    if !(0.1..=10.0).contains(&ratio) {
        return format!("\u{d7}\u{202f}{}", number(ratio));
    }
    let text = format!("{:.2}", (ratio - 1.0).abs() * 100.0);
    let sign = match ratio {
        _ if text == "0.00" => "",
        1.0.. => "+",
        _ => "\u{2212}",
    };
    format!("{sign}{text}\u{202f}%")
}

/// Returns a number with three digits after the point, so that columns align; whole and tiny ones are exceptions.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        return grouped(value as u64);
    }
    let digits = match value.abs() {
        0.01..1000.0 => 3,
        1000.0.. => 1,
        _ => 5,
    };
    format!("{value:.digits$}").replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_percents_or_factors() {
        assert_eq!((difference(1.0331), difference(0.98)), ("+3.31\u{202f}%".into(), "\u{2212}2.00\u{202f}%".into()));
        assert_eq!(difference(0.999_999), "0.00\u{202f}%", "no sign without a digit");
        assert_eq!(difference(2459.1), "\u{d7}\u{202f}2459.1");
        assert_eq!(
            (number(0.0001), number(120_000.0), number(-1.5)),
            ("0.00010".into(), "120\u{202f}000".into(), "\u{2212}1.500".into())
        );
    }
}
