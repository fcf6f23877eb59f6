//! The page as a whole: what goes in, and the order of its sections.

use crate::experiment::Experiment;
use crate::html::Html;
use crate::table::chip;
use crate::timing::Timing;
use crate::words::plural;
use crate::{evidence, experiments, memory, overview, time, traffic};
use bulkhead_description::{Report, Severity};
use bulkhead_plan::Plan;
use bulkhead_plan::model::System;
use bulkhead_trace::{Measurements, Timeline};
use bulkhead_verify::Verdict;

/// Everything a report is written from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The system.
    pub system: &'a System,
    /// Its plan.
    pub plan: &'a Plan,
    /// What was checked.
    pub evidence: &'a Evidence,
    /// Schedules and bounds.
    pub timing: &'a Timing,
    /// A run or a simulation.
    pub timeline: Option<&'a Timeline>,
    /// Results of experiments.
    pub experiments: &'a [Experiment],
}

/// What was checked, and what was found.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Warnings of the description.
    pub warnings: Report,
    /// The verdict on the image.
    pub verdict: Verdict,
    /// SHA-256 of the image, 64 digits.
    pub image_hash: String,
    /// Bytes of the image.
    pub image_bytes: u64,
}

/// What sections need: the input, and what was measured.
pub(crate) struct Context<'a> {
    pub(crate) input: Input<'a>,
    pub(crate) measured: Option<Measurements>,
}

impl<'a> Context<'a> {
    /// Measures the trace, if there is one.
    pub(crate) fn new(input: Input<'a>) -> Self {
        Self { input, measured: input.timeline.map(Measurements::of) }
    }

    pub(crate) fn partition_name(&self, partition: usize) -> &str {
        self.input.system.partitions.get(partition).map_or("?", |partition| partition.name.as_str())
    }

    /// Returns what the trace says of a core.
    pub(crate) fn measure(&self, core: usize) -> Option<&bulkhead_trace::measure::CoreMeasure> {
        self.measured.as_ref()?.cores.get(core)
    }
}

/// A section: its anchor, its title, and who writes it.
type Section = (&'static str, &'static str, fn(&mut Html, &Context<'_>));

const SECTIONS: [Section; 7] = [
    ("overview", "System", overview::write),
    ("evidence", "Evidence", evidence::write),
    ("time", "Time", time::write),
    ("interrupts", "Interrupts", traffic::interrupts),
    ("channels", "Channels", traffic::channels),
    ("memory", "Memory", |html, context| memory::write(html, context.input.system, context.input.plan)),
    ("experiments", "Experiments", experiments::write),
];

/// Returns the page.
#[must_use]
pub fn write(input: Input<'_>) -> String {
    let context = Context::new(input);
    let written: Vec<_> = (SECTIONS.iter())
        .map(|(anchor, title, write)| {
            let mut content = Html::default();
            write(&mut content, &context);
            (*anchor, *title, content)
        })
        .filter(|(.., content)| !content.is_empty())
        .collect();
    frame(&input.system.name, &verdicts(&context), written)
}

/// A section that is written: its anchor, its title, its content.
pub(crate) type Written = (&'static str, &'static str, Html);

/// Puts sections and verdicts together to a page.
pub(crate) fn frame(system: &str, verdicts: &[(&'static str, String)], written: Vec<Written>) -> String {
    let mut html = Html::default();
    html.element("html", &[("lang", &"en")], |html| {
        html.element("head", &[], |html| head(html, system));
        html.line();
        html.element("body", &[], |html| {
            html.element("header", &[], |html| header(html, system, verdicts, &written));
            html.element("main", &[], |html| {
                for (anchor, title, content) in written {
                    html.line();
                    html.element("section", &[("id", &anchor)], |html| {
                        html.leaf("h2", &[], title);
                        html.append(content);
                    });
                }
            });
            html.line();
            html.element("footer", &[], |html| {
                let version = env!("CARGO_PKG_VERSION");
                html.leaf("p", &[], format!("Written by bulkhead {version}. The same input gives the same page."));
            });
        });
    });
    format!("<!doctype html>\n{}\n", html.finish())
}

fn head(html: &mut Html, system: &str) {
    html.void("meta", &[("charset", &"utf-8")]);
    html.void("meta", &[("name", &"viewport"), ("content", &"width=device-width, initial-scale=1")]);
    html.void("meta", &[("name", &"color-scheme"), ("content", &"light dark")]);
    // Nothing may be loaded, whatever a name in the page looks like; styles are those below.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
    html.void("meta", &[("http-equiv", &"Content-Security-Policy"), ("content", &policy)]);
    // An empty icon, so that no browser asks for one.
    html.void("link", &[("rel", &"icon"), ("href", &"data:,")]);
    html.leaf("title", &[], format!("{system} \u{2013} Bulkhead report"));
    html.style(include_str!("style.css"));
}

/// The class of a verdict.
pub(crate) fn judged(holds: bool) -> &'static str {
    if holds { "good" } else { "bad" }
}

/// What was judged of an image and of its description: class and words of a chip.
pub(crate) fn of_image(accepted: bool, warnings: &Report) -> Vec<(&'static str, String)> {
    let image = (judged(accepted), if accepted { "image verified" } else { "image refused" }.to_owned());
    let hazards = match warnings.count(Severity::Warning) {
        0 => ("good", "no hazards".to_owned()),
        warnings => ("warn", plural(warnings, "hazard")),
    };
    vec![image, hazards]
}

/// Everything that was judged: class and words of a chip.
fn verdicts(context: &Context<'_>) -> Vec<(&'static str, String)> {
    let input = &context.input;
    let mut list = of_image(input.evidence.verdict.is_accepted(), &input.evidence.warnings);
    if input.timeline.is_some_and(|timeline| !timeline.is_complete()) {
        list.push(("warn", "trace incomplete".to_owned()));
    }
    time::verdicts(&mut list, context);
    if !input.experiments.is_empty() {
        let met = input.experiments.iter().filter(|experiment| experiment.verdict == "met").count();
        let all = input.experiments.len();
        list.push((judged(met == all), format!("{met} of {all} experiments met")));
    }
    list
}

/// All verdicts in one sentence.
fn overall(verdicts: &[(&'static str, String)]) -> (&'static str, String) {
    let count = |class: &str| verdicts.iter().filter(|(one, _)| *one == class).count();
    match (count("bad"), count("warn")) {
        (0, 0) => ("good", "\u{2713} Everything that was checked holds.".to_owned()),
        (0, remarks) => ("warn", format!("! Everything that was judged holds, with {}.", plural(remarks, "remark"))),
        (broken, _) => ("bad", format!("\u{2717} {broken} of {} verdicts do not hold.", verdicts.len())),
    }
}

fn header(html: &mut Html, system: &str, verdicts: &[(&'static str, String)], written: &[Written]) {
    let (class, text) = overall(verdicts);
    html.leaf("p", &[("class", &"kicker")], "Bulkhead report");
    html.leaf("h1", &[], system);
    // Before all numbers: who opens the page on a telephone sees this without scrolling.
    html.leaf("p", &[("class", &format!("verdict {class}")), ("id", &"verdict")], text);
    html.element("p", &[("class", &"verdicts")], |html| {
        for (class, text) in verdicts {
            chip(html, class, text);
        }
    });
    html.element("nav", &[("aria-label", &"Sections")], |html| {
        for (anchor, title, _) in written {
            html.leaf("a", &[("href", &format!("#{anchor}"))], title);
        }
    });
}
