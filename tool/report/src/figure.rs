//! What all figures share: the frame, captions, axes of time, legends.
//!
//! A figure is SVG inside the page, so it needs no file and no script and prints sharply. Colours are classes: the same
//! picture is drawn on light and on dark paper. On a narrow screen a figure scrolls rather than shrinks, because its text
//! would become too small to read.

use crate::axis::{Scale, tick_text};
use crate::html::Html;
use crate::words::TimeUnit;

/// Width of every figure, in units of the drawing.
pub(crate) const WIDTH: f64 = 960.0;
/// Width of the names at the left.
pub(crate) const GUTTER: f64 = 200.0;
/// Room at the right.
pub(crate) const MARGIN: f64 = 14.0;

/// Formats a coordinate with one digit: enough for a screen, and short.
pub(crate) fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Writes a figure of this height, with what it shows in one sentence.
pub(crate) fn figure(html: &mut Html, height: f64, title: &str, draw: impl FnOnce(&mut Html)) {
    let view = format!("0 0 {} {}", at(WIDTH), at(height));
    html.line();
    html.element("figure", &[], |html| {
        html.element("div", &[("class", &"scroll")], |html| {
            let attributes: crate::html::Attributes<'_> =
                &[("viewBox", &view), ("role", &"img"), ("aria-label", &title), ("class", &"figure")];
            html.element("svg", attributes, draw);
        });
        html.leaf("figcaption", &[], title);
    });
}

/// Writes text in a figure.
pub(crate) fn label(html: &mut Html, x: f64, y: f64, class: &str, text: &str) {
    html.leaf("text", &[("x", &at(x)), ("y", &at(y)), ("class", &class)], text);
}

/// Width of a letter of a figure's text, more than less.
const LETTER: f64 = 7.6;

/// Writes text that ends at `x`. What would be longer than the room for it is set narrower, never cut.
pub(crate) fn label_within(html: &mut Html, x: f64, y: f64, room: f64, class: &str, text: &str) {
    let (x, y, room_text) = (at(x), at(y), at(room));
    let mut attributes: Vec<(&str, &dyn std::fmt::Display)> = vec![("x", &x), ("y", &y), ("class", &class)];
    if text.chars().count() as f64 * LETTER > room {
        attributes
            .extend([("textLength", &room_text as &dyn std::fmt::Display), ("lengthAdjust", &"spacingAndGlyphs")]);
    }
    html.leaf("text", &attributes, text);
}

/// Writes a rectangle with an optional explanation that appears when it is pointed at.
pub(crate) fn rectangle(html: &mut Html, place: [f64; 4], class: &str, title: &str) {
    let [x, y, width, height] = place.map(at);
    let attributes: crate::html::Attributes<'_> =
        &[("x", &x), ("y", &y), ("width", &width), ("height", &height), ("class", &class)];
    if title.is_empty() {
        html.void("rect", attributes);
    } else {
        html.element("rect", attributes, |html| html.leaf("title", &[], title));
    }
}

/// Writes a line.
pub(crate) fn line(html: &mut Html, from: (f64, f64), to: (f64, f64), class: &str) {
    let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(at);
    html.void("line", &[("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2), ("class", &class)]);
}

/// An axis of time: from when to when, in nanoseconds, over the width of a figure beside the names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeAxis {
    from_ns: u64,
    to_ns: u64,
    scale: Scale,
}

impl TimeAxis {
    /// Makes the axis.
    pub(crate) fn new(from_ns: u64, to_ns: u64) -> Self {
        let scale = Scale::linear(0.0, to_ns.saturating_sub(from_ns) as f64, GUTTER, WIDTH - MARGIN);
        Self { from_ns, to_ns, scale }
    }

    /// Returns where a time is; what is outside is moved to the nearer end.
    pub(crate) fn place(&self, time_ns: u64) -> f64 {
        self.scale.place(time_ns.clamp(self.from_ns, self.to_ns).saturating_sub(self.from_ns) as f64)
    }

    /// Writes grid lines from `top` to `bottom` with times below them. Times count from zero at the trace's own zero.
    pub(crate) fn write(&self, html: &mut Html, top: f64, bottom: f64) {
        let unit = TimeUnit::for_axis(self.to_ns);
        let per = unit.ns() as f64;
        let absolute = Scale::linear(self.from_ns as f64 / per, self.to_ns as f64 / per, GUTTER, WIDTH - MARGIN);
        for tick in absolute.ticks(8) {
            let x = absolute.place(tick);
            line(html, (x, top), (x, bottom), "grid");
            label(html, x, bottom + 15.0, "tick middle", &tick_text(tick));
        }
        label(html, GUTTER - 10.0, bottom + 15.0, "tick end", unit.name());
    }
}

/// Writes a legend: swatch class and words.
pub(crate) fn legend(html: &mut Html, entries: &[(&str, &str)]) {
    html.element("p", &[("class", &"legend")], |html| {
        for (class, text) in entries {
            html.element("span", &[("class", &"entry")], |html| {
                html.element(
                    "svg",
                    &[("viewBox", &"0 0 18 12"), ("class", &"key"), ("aria-hidden", &"true")],
                    |html| {
                        if class.starts_with("mark") {
                            html.void("path", &[("d", &"M9 10l-5-7.5h10z"), ("class", class)]);
                        } else {
                            rectangle(html, [1.0, 1.0, 16.0, 10.0], class, "");
                        }
                    },
                );
                html.text(text);
            });
        }
    });
}
