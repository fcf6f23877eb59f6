//! Tables with numbers that can be compared: one unit of time per table, the same number of digits, set right.

use crate::html::Html;
use crate::words::{SizeUnit, TimeUnit, ratio_text, size_unit};

/// What stands in a table's cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Words.
    Text(String),
    /// A name or number of the machine, in the typewriter face.
    Code(String),
    /// A partition's name, with its colour.
    Partition(usize, String),
    /// A duration in nanoseconds; the table chooses the unit.
    Time(Option<u64>),
    /// A size in bytes; the table chooses the unit.
    Size(u64),
    /// A number of things.
    Count(Option<u64>),
    /// Measured against bound, with a bar.
    Ratio(Option<f64>),
    /// A number in words, set right.
    Number(String),
    /// Something to be aware of.
    Warning(String),
    /// A verdict: good or bad, in words.
    Verdict(bool, String),
    /// Nothing to say.
    Dash,
}

impl Cell {
    /// Words.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Time(_) | Self::Size(_) | Self::Count(_) | Self::Ratio(_) | Self::Number(_))
    }
}

/// A table under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    titles: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Makes a table with these columns.
    pub(crate) fn new(titles: &[&str]) -> Self {
        Self { titles: titles.iter().map(|title| (*title).to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// States whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn column(&self, index: usize) -> impl Iterator<Item = &Cell> {
        self.rows.iter().filter_map(move |row| row.get(index))
    }

    /// Writes the table. Columns in which nothing stands are left out.
    pub(crate) fn write(&self, html: &mut Html) {
        let used: Vec<_> = (0..self.titles.len()).filter(|index| self.column(*index).any(is_filled)).collect();
        let (unit, size) = (self.unit(), self.size_unit());
        let has_sizes = |index: usize| self.column(index).any(|cell| matches!(cell, Cell::Size(_)));
        let has_times = |index: usize| self.column(index).any(|cell| matches!(cell, Cell::Time(Some(_))));
        let is_right = |index: usize| self.column(index).any(Cell::is_number);
        html.line();
        html.element("div", &[("class", &"scroll")], |html| {
            html.element("table", &[], |html| {
                html.element("thead", &[], |html| {
                    html.element("tr", &[], |html| {
                        for index in &used {
                            let class = if is_right(*index) { "right" } else { "left" };
                            html.element("th", &[("scope", &"col"), ("class", &class)], |html| {
                                html.text(&self.titles[*index]);
                                if has_times(*index) {
                                    html.leaf("small", &[], format!(" {}", unit.name()));
                                }
                                if has_sizes(*index) {
                                    html.leaf("small", &[], format!(" {}", size.0));
                                }
                            });
                        }
                    });
                });
                html.element("tbody", &[], |html| {
                    for row in &self.rows {
                        html.line();
                        html.element("tr", &[], |html| {
                            for index in &used {
                                let cell = row.get(*index).unwrap_or(&Cell::Dash);
                                write_cell(html, cell, is_right(*index), unit, size);
                            }
                        });
                    }
                });
            });
        });
    }

    fn size_unit(&self) -> SizeUnit {
        size_unit(self.rows.iter().flatten().filter_map(|cell| match cell {
            Cell::Size(bytes) => Some(*bytes),
            _ => None,
        }))
    }

    /// Returns the unit of all durations of the table: two columns in different units cannot be compared at a glance.
    fn unit(&self) -> TimeUnit {
        let times = self.rows.iter().flatten().filter_map(|cell| match cell {
            Cell::Time(time) => *time,
            _ => None,
        });
        TimeUnit::for_all(times)
    }
}

/// Words longer than this may be broken into lines.
const LONG: usize = 36;

fn is_filled(cell: &Cell) -> bool {
    match cell {
        Cell::Dash | Cell::Time(None) | Cell::Count(None) | Cell::Ratio(None) => false,
        Cell::Text(text) | Cell::Code(text) | Cell::Number(text) => !text.is_empty(),
        Cell::Partition(..) | Cell::Time(_) | Cell::Size(_) | Cell::Count(_) | Cell::Ratio(_) => true,
        Cell::Warning(_) | Cell::Verdict(..) => true,
    }
}

fn write_cell(html: &mut Html, cell: &Cell, right: bool, unit: TimeUnit, size: SizeUnit) {
    let class = match cell {
        _ if right => "right",
        Cell::Text(text) if text.chars().count() > LONG => "prose",
        _ => "left",
    };
    html.element("td", &[("class", &class)], |html| match cell {
        Cell::Text(text) | Cell::Number(text) if !text.is_empty() => html.text(text),
        Cell::Code(text) if !text.is_empty() => html.leaf("code", &[], text),
        Cell::Partition(index, name) => partition_name(html, *index, name),
        Cell::Time(Some(ns)) => html.text(unit.text(*ns)),
        Cell::Size(bytes) => html.text(crate::words::grouped(bytes / size.1)),
        Cell::Count(Some(count)) => html.text(crate::words::grouped(*count)),
        Cell::Ratio(Some(ratio)) => {
            let width = format!("width:{:.1}%", (ratio * 100.0).clamp(0.0, 100.0));
            let class = if *ratio > 1.0 { "bar bad" } else { "bar" };
            html.element("span", &[("class", &class), ("aria-hidden", &"true")], |html| {
                html.element("span", &[("style", &width)], |_| {});
            });
            html.text(ratio_text(*ratio));
        }
        Cell::Warning(text) => chip(html, "warn", text),
        Cell::Verdict(good, text) => chip(html, if *good { "good" } else { "bad" }, text),
        _ => html.leaf("span", &[("class", &"none")], "–"),
    });
}

/// Writes a partition's name with its colour.
pub(crate) fn partition_name(html: &mut Html, index: usize, name: &str) {
    let class = format!("swatch p{}", index % 8);
    html.element("span", &[("class", &"name")], |html| {
        html.element("span", &[("class", &class), ("aria-hidden", &"true")], |_| {});
        html.text(name);
    });
}

/// Writes a short verdict: `good`, `bad`, `warn` or `plain`. The sign says what the colour says.
pub(crate) fn chip(html: &mut Html, class: &str, text: &str) {
    let sign = match class {
        "good" => "\u{2713} ",
        "bad" => "\u{2717} ",
        "warn" => "! ",
        _ => "",
    };
    html.leaf("span", &[("class", &format!("chip {class}"))], format!("{sign}{text}"));
}
