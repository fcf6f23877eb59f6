//! Curves of experiments.

use crate::axis::{Scale, tick_text};
use crate::experiment::Series;
use crate::figure::{WIDTH, at, figure, label, legend, line};
use crate::html::Html;
use crate::words::sentence;
use std::fmt::Write;

/// Height of a plot.
const HEIGHT: f64 = 320.0;
/// Left, right, top and bottom of what is between the axes.
const FRAME: [f64; 4] = [76.0, WIDTH - 20.0, 16.0, HEIGHT - 46.0];
/// Curves in one plot: as many as there are colours.
const MOST_CURVES: usize = 8;
/// With more points than this, a curve is a line without marks.
const MOST_MARKS: usize = 60;
/// Values that differ by more than this factor get a logarithmic axis.
const LARGE_RANGE: f64 = 500.0;

/// Writes the plots of an experiment: one for each pair of axes.
pub(crate) fn write(html: &mut Html, all: &[Series]) {
    let mut rest: Vec<&Series> = all.iter().filter(|series| !series.points.is_empty()).collect();
    while let Some(first) = rest.first().copied() {
        let (same, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|series| series.x == first.x && series.y == first.y);
        for group in same.chunks(MOST_CURVES) {
            plot(html, group);
        }
        rest = others;
    }
}

fn plot(html: &mut Html, group: &[&Series]) {
    let (Some(first), points) = (group.first(), group.iter().flat_map(|series| &series.points)) else { return };
    let finite: Vec<_> = points.filter(|(x, y)| x.is_finite() && y.is_finite()).copied().collect();
    let [left, right, top, bottom] = FRAME;
    let horizontal = scale(&finite.iter().map(|point| point.0).collect::<Vec<_>>(), left, right, false);
    let vertical = scale(&finite.iter().map(|point| point.1).collect::<Vec<_>>(), bottom, top, true);
    let title = sentence(&format!("{}, over {}", first.y, first.x));
    figure(html, HEIGHT, &title, |html| {
        for tick in vertical.ticks(6) {
            let y = vertical.place(tick);
            line(html, (left, y), (right, y), "grid");
            label(html, left - 8.0, y + 4.0, "tick end", &tick_text(tick));
        }
        for tick in horizontal.ticks(10) {
            let x = horizontal.place(tick);
            line(html, (x, bottom), (x, bottom + 4.0), "grid");
            label(html, x, bottom + 17.0, "tick middle", &tick_text(tick));
        }
        line(html, (left, bottom), (right, bottom), "axis");
        label(html, (left + right) / 2.0, HEIGHT - 8.0, "tick middle", &first.x);
        for (index, series) in group.iter().enumerate() {
            curve(html, series, &horizontal, &vertical, index);
        }
    });
    let classes: Vec<_> = (0..group.len()).map(|index| format!("p{index}")).collect();
    let entries: Vec<_> =
        group.iter().zip(&classes).map(|(series, class)| (class.as_str(), series.name.as_str())).collect();
    legend(html, &entries);
}

/// Chooses a scale that holds all values, and zero where that is wanted and costs little.
fn scale(values: &[f64], start: f64, end: f64, with_zero: bool) -> Scale {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !least.is_finite() || !most.is_finite() {
        return Scale::linear(0.0, 1.0, start, end);
    }
    if least > 0.0 && most / least > LARGE_RANGE {
        return Scale::logarithmic(least, most, start, end);
    }
    let from = if with_zero && least > 0.0 && least < most * 0.5 { 0.0 } else { least };
    let room = (most - from) * 0.04;
    Scale::linear(if from == 0.0 { 0.0 } else { from - room }, most + room, start, end)
}

fn curve(html: &mut Html, series: &Series, horizontal: &Scale, vertical: &Scale, index: usize) {
    let mut path = String::new();
    let mut is_open = false;
    for (x, y) in &series.points {
        if !(x.is_finite() && y.is_finite()) {
            is_open = false;
            continue;
        }
        let letter = if std::mem::replace(&mut is_open, true) { 'L' } else { 'M' };
        let _ = write!(path, "{letter}{} {}", at(horizontal.place(*x)), at(vertical.place(*y)));
    }
    html.void("path", &[("d", &path), ("class", &format!("curve c{index}"))]);
    if series.points.len() <= MOST_MARKS {
        for (x, y) in series.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
            let place: (&dyn std::fmt::Display, &dyn std::fmt::Display) =
                (&at(horizontal.place(*x)), &at(vertical.place(*y)));
            let title = format!("{}: {} at {}", series.name, tick_text(*y), tick_text(*x));
            html.element(
                "circle",
                &[("cx", place.0), ("cy", place.1), ("r", &"3"), ("class", &format!("p{index}"))],
                |html| {
                    html.leaf("title", &[], title);
                },
            );
        }
    }
}
