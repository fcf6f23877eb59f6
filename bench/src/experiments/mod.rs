//! The experiments of the seeds, on one shared core and of the real-time kernel: published figure, an independent model's figure, ours, and the verdict.
//!
//! An experiment ([`EXPERIMENTS`]) has *cells*, one for each number that a seed published or a model gives, and *claims*, the
//! statements that decide its verdict. A cell says by how much we differ from the model; a claim says what that must not
//! exceed. All of it is written to `target/bench/NAME.json` with the series behind the figures, from which `bulkhead report`
//! draws its plots. The short form, for `./x test`, takes fewer samples and allows for their number.

mod bound;
mod guests;
mod histograms;
pub(crate) mod kernel;
mod mips;
mod quest;
mod recorded;
mod safeg;
mod spumone;
mod storm;
mod text;
mod worlds;
mod worlds_shares;

use crate::Failure;
use crate::lab::Lab;
pub use bound::{Bound, median_tightness};
pub use kernel::{ITERATIONS, Iterations};
pub use recorded::difference;
pub(crate) use recorded::write as record;
use serde_json::{Value, json};
use std::path::PathBuf;

/// How long an experiment may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Some seconds.
    Short,
    /// As many samples as the seeds took, or more.
    Full,
}

impl Length {
    /// One of two numbers.
    pub(crate) fn choose<T>(self, short: T, full: T) -> T {
        match self {
            Self::Short => short,
            Self::Full => full,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Full => "full",
        }
    }
}

/// One number: what was published, what the model says, what we measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What it is.
    pub label: String,
    /// What it counts.
    pub unit: &'static str,
    /// The seed's figure.
    pub published: Option<f64>,
    /// The model's.
    pub model: Option<f64>,
    /// Ours.
    pub ours: Option<f64>,
    /// Percent of the model that ours may differ by; none: shown, not judged.
    pub tolerance_percent: Option<f64>,
    /// What ours may differ by in any case: paths of the monitor, which models do not know.
    pub slack: f64,
}

impl Cell {
    /// Percent by which ours differs from the model.
    #[must_use]
    pub fn difference_percent(&self) -> Option<f64> {
        let (model, ours) = (self.model?, self.ours?);
        (model.abs() > 1e-9).then(|| 100.0 * (ours - model) / model)
    }

    /// States whether ours is close enough to the model; true for a cell that is not judged.
    #[must_use]
    pub fn holds(&self) -> bool {
        let Some(tolerance) = self.tolerance_percent else { return true };
        match (self.model, self.ours, self.difference_percent()) {
            (Some(model), Some(ours), difference) => {
                (model - ours).abs() <= self.slack || difference.is_some_and(|percent| percent.abs() <= tolerance)
            }
            _ => false,
        }
    }
}

/// A statement that decides the verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What is claimed, with the numbers.
    pub text: String,
    /// Whether it holds.
    pub holds: bool,
}

/// Points of a plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// What is on the horizontal axis.
    pub x: &'static str,
    /// What is on the vertical axis.
    pub y: &'static str,
    /// Points.
    pub points: Vec<(f64, f64)>,
}

/// What an experiment found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Numbers; the first one is the headline.
    pub cells: Vec<Cell>,
    /// What decides, besides the cells.
    pub claims: Vec<Claim>,
    /// Worst cases beside their bounds, which decide as well.
    pub bounds: Vec<Bound>,
    /// Plots.
    pub series: Vec<Series>,
    /// What belongs beside the numbers.
    pub notes: Vec<String>,
}

impl Findings {
    /// Adds a claim.
    pub(crate) fn claim(&mut self, holds: bool, text: impl Into<String>) {
        self.claims.push(Claim { text: text.into(), holds });
    }

    /// Cells, claims and bounds that do not hold.
    #[must_use]
    pub fn misses(&self) -> usize {
        self.cells.iter().filter(|cell| !cell.holds()).count()
            + self.claims.iter().filter(|claim| !claim.holds).count()
            + self.bounds.iter().filter(|bound| !bound.holds()).count()
    }

    /// States whether every claim and bound holds and every judged cell is close to its model.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.misses() == 0
    }
}

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// How it is measured.
    pub how: &'static str,
    /// Requirements that it shows.
    pub requirements: &'static [&'static str],
    /// Runs programs that are not the monitor's and change for reasons of their own: boots Linux, or has FreeRTOS above a world, whose instants
    /// follow each instruction of the payload's library. So what it finds is compared with its record by size, and `--short` leaves it out.
    pub slow: bool,
    /// Does it.
    pub(crate) run: fn(&Lab, Length) -> Result<Findings, Failure>,
}

/// Every experiment on shared cores and of two worlds.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "mips-rtt",
        what: "answer times of a wire's owner in a ring of guests, by interrupt policy (MIPS seed, Table II and Fig. 3)",
        how: "requests every 50 ms +- 0.5 ms at the owner's timer, quantum 30 ms, handler 0.35 ms, plus 0.723 ms of wire as on the seed's board; `-icount shift=4`; the model is a discrete-event simulation that shares no code with the scheduler",
        requirements: &["MZ-E1", "MZ-E2", "MZ-E3", "MZ-E4", "MZ-20", "MZ-21", "MZ-22", "MZ-15"],
        slow: false,
        run: mips::round_trips,
    },
    Experiment {
        name: "mips-storm",
        what: "what a storm of interrupts leaves to the owner's peers, under the published policies and under ours",
        how: "three guests, quantum 30 ms, requests every 31 ms or without pause; share of the core that each peer computed",
        requirements: &["MZ-26", "MZ-23", "MZ-17"],
        slow: false,
        run: storm::storm,
    },
    Experiment {
        name: "safeg-itask",
        what: "delay of a general-purpose guest's interrupts beside an RTOS: idle approach, ITask, voluntary return (SafeG seed)",
        how: "tasks 10/50 and 100/300 ms, ITask 2/30 ms above or between them, requests from dense to sparse and after answers; `-icount shift=4`; the model replays the same requests without the scheduler",
        requirements: &["SG-E5", "SG-40", "SG-41", "SG-42", "SG-45", "SG-46", "SG-47"],
        slow: false,
        run: safeg::itask,
    },
    Experiment {
        name: "safeg-rtask",
        what: "wake-up latency of a periodic thread in a general-purpose guest, and its share, with and without an RTask (SafeG seed)",
        how: "the same tasks, RTask 6/30 ms between them; a guest that sleeps is woken every 1 ms and every 10 ms; a guest that computes notes when it did not run",
        requirements: &["SG-E6", "SG-41", "SG-47"],
        slow: false,
        run: safeg::rtask,
    },
    Experiment {
        name: "safeg-linux",
        what: "how late stock Linux wakes a program beside an RTOS: BTask alone, RTask, ITask (SafeG seed)",
        how: "`bulkheadctl latency` sleeps to instants 10 ms apart and counts each, also those it was held up over; `-icount shift=0`, 1 GIPS",
        requirements: &["SG-E6", "SG-E7", "SG-41", "SG-47"],
        slow: true,
        run: safeg::linux,
    },
    Experiment {
        name: "secure-itask",
        what: "the same at EL3: delay of the interrupts of the world below stock FreeRTOS: idle approach, ITask, voluntary return (SafeG seed)",
        how: "tasks 10/50 and 100/300 ms of the payload, ITask 2/30 ms above or between them, interrupts from dense to sparse and after answers; `-icount shift=4`; the model replays the same interrupts, and shares no code with the payload's library",
        requirements: &["SG-E5", "SG-40", "SG-41", "SG-42", "SG-45", "SG-46", "SG-47"],
        slow: true,
        run: worlds::itask_of_worlds,
    },
    Experiment {
        name: "secure-rtask",
        what: "delay of a periodic thread of the world below stock FreeRTOS, and its share, with and without an RTask (SafeG seed)",
        how: "the same tasks, RTask 6/30 ms above or between them; the world is woken every 1 ms and every 10 ms, or computes and notes when it did not run; the model replays the same wake-ups",
        requirements: &["SG-E6", "SG-41", "SG-42", "SG-46", "SG-47"],
        slow: true,
        run: worlds_shares::rtask_of_worlds,
    },
    Experiment {
        name: "secure-latency-tasks",
        what: "how long threads of the world below stock FreeRTOS wait, by priority, with the published set of latency tasks (SafeG 0.3)",
        how: "T1 100/10, T2 200/30, T3 200/80 ms; latency tasks 15/150 and 25/300 ms; a thread of priority 99, 90 and 30 is woken at every phase of the tasks, right behind a release too",
        requirements: &["SG-E7", "SG-80", "SG-81", "SG-82", "SG-83", "SG-84", "SG-85"],
        slow: true,
        run: worlds_shares::latency_tasks_of_worlds,
    },
    Experiment {
        name: "spumone-dispatch",
        what: "delay of an RTOS's 1 ms timer interrupt: native, with the RTOS running, with another guest running under loads (SPUMONE seed, Table 3 and Fig. 4 to 7)",
        how: "an RTOS above a guest that idles, computes, takes interrupts or masks them for up to 1 ms; dithered timer; `-icount shift=4`, so a tick of the counter is an instruction",
        requirements: &["SP-E2", "SP-E4", "SP-E5", "SP-15", "SP-18"],
        slow: false,
        run: spumone::dispatch,
    },
    Experiment {
        name: "spumone-freertos",
        what: "the same with stock guests: FreeRTOS's tick and task beside Debian Linux at work",
        how: "FreeRTOS compares the counter with the tick's compare value in the tick's handler and in a task; Linux computes, starts programs and switches processes",
        requirements: &["SP-E2", "SP-E4", "SP-11", "SP-12"],
        slow: true,
        run: spumone::freertos,
    },
    Experiment {
        name: "spumone-throughput",
        what: "what a 1 ms tick of an RTOS on the same core costs Linux (SPUMONE seed, Table 4)",
        how: "a fixed work of Linux by its own clock, alone in a partition and beside FreeRTOS, boot taken off; `-icount shift=0`, 1 GIPS; the model is the sum of a tick's three terms, counted by a plugin in the same run",
        requirements: &["SP-E3"],
        slow: true,
        run: spumone::throughput,
    },
    Experiment {
        name: "quest-fig4",
        what: "the schedule of two VCPUs and an I/O VCPU (Quest seed, figure 4)",
        how: "guests that always compute note when they did not run; every boundary of the first 121 ms is compared with the published rules, tick by tick",
        requirements: &["QV-E10", "QV-22", "QV-24", "QV-32", "QV-34"],
        slow: false,
        run: quest::figure_4,
    },
    Experiment {
        name: "quest-isolation-of-time",
        what: "supply of a victim below a hog, a storm of interrupts and a storm of doorbells, against the bound computed before boot",
        how: "the victim notes every absence; least supply in any window of 50 to 1000 ms, longest absence, and what every server used",
        requirements: &["QV-22", "QV-31", "QV-39", "QV-41", "MZ-26", "SG-48"],
        slow: false,
        run: quest::isolation,
    },
];

/// Every experiment, those of the real-time kernel last.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    EXPERIMENTS.iter().chain(kernel::EXPERIMENTS)
}

/// What the median tightness of all bounds must reach.
pub const LEAST_TIGHTNESS: f64 = 0.6;

/// An experiment that was run.
#[derive(Clone, Debug)]
pub struct Done {
    /// Which.
    pub experiment: &'static Experiment,
    /// What it found, or why it found nothing.
    pub findings: Result<Findings, Failure>,
    /// How long it was allowed to take.
    pub length: Length,
    /// The runs made for it, as commands.
    pub runs: Vec<String>,
}

impl Done {
    /// States whether it was run and everything in it holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.findings.as_ref().is_ok_and(Findings::holds)
    }

    /// Returns it for people.
    #[must_use]
    pub fn text(&self, with_runs: bool) -> String {
        text::text(self, with_runs)
    }

    /// Returns it for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let findings = self.findings.clone().unwrap_or_default();
        let first = findings.cells.first().cloned().unwrap_or_default();
        json!({
            "name": self.experiment.name,
            "what": self.experiment.what,
            "how": self.experiment.how,
            "requirements": self.experiment.requirements,
            "length": self.length.name(),
            "command": format!("./x bench {}", self.experiment.name),
            "runs": self.runs,
            "label": first.label,
            "unit": first.unit,
            "published": first.published,
            "model": first.model,
            "ours": first.ours,
            "verdict": if self.holds() { "met" } else { "MISSED" },
            "error": self.findings.as_ref().err().map(|failure| failure.message.clone()),
            "cells": findings.cells.iter().map(cell_json).collect::<Vec<_>>(),
            "claims": findings.claims.iter().map(|claim| json!({ "text": claim.text, "holds": claim.holds })).collect::<Vec<_>>(),
            "bounds": findings.bounds.iter().map(bound_json).collect::<Vec<_>>(),
            "series": findings.series.iter().map(|series| json!({
                "name": series.name, "x": series.x, "y": series.y, "points": series.points,
            })).collect::<Vec<_>>(),
            "notes": findings.notes,
        })
    }
}

fn bound_json(bound: &Bound) -> Value {
    json!({
        "label": bound.label,
        "unit": bound.unit,
        "measured": bound.measured,
        "bound": bound.bound,
        "is_least": bound.is_least,
        "tightness": bound.tightness(),
        "holds": bound.holds(),
    })
}

fn cell_json(cell: &Cell) -> Value {
    json!({
        "label": cell.label,
        "unit": cell.unit,
        "published": cell.published,
        "model": cell.model,
        "ours": cell.ours,
        "difference_percent": cell.difference_percent(),
        "tolerance_percent": cell.tolerance_percent,
        "slack": cell.slack,
        "holds": cell.holds(),
    })
}

/// Finds an experiment.
#[must_use]
pub fn named(name: &str) -> Option<&'static Experiment> {
    all().find(|experiment| experiment.name == name)
}

/// Runs an experiment.
///
/// # Errors
/// When the monitor cannot be read. An experiment that fails is a [`Done`].
pub fn run(experiment: &'static Experiment, length: Length) -> Result<Done, Failure> {
    let lab = Lab::with_part(bulkhead_abi::Part::Shared)?;
    let findings = (experiment.run)(&lab, length);
    Ok(Done { experiment, findings, length, runs: lab.take_runs() })
}

/// Writes `target/bench/NAME.json`; returns where.
pub(crate) fn write(done: &Done) -> Result<PathBuf, Failure> {
    let folder = bulkhead_ledger::repository().join("target/bench");
    let path = folder.join(format!("{}.json", done.experiment.name));
    std::fs::create_dir_all(&folder)
        .map_err(|cause| Failure::host(format!("cannot make {}: {cause}", folder.display())))?;
    crate::record::replace(&path, &format!("{:#}\n", done.json()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(model: f64, ours: f64, tolerance: f64) -> Cell {
        Cell { model: Some(model), ours: Some(ours), tolerance_percent: Some(tolerance), ..Cell::default() }
    }

    #[test]
    fn a_cell_is_judged_by_its_distance_from_the_model() {
        assert!(cell(100.0, 103.0, 3.0).holds());
        assert!(!cell(100.0, 103.1, 3.0).holds());
        assert!(cell(0.0, 0.0, 3.0).holds() && !cell(0.0, 0.1, 3.0).holds());
        assert!(!Cell { ours: None, ..cell(1.0, 1.0, 3.0) }.holds(), "a judged cell without a value is missed");
        assert!(Cell { tolerance_percent: None, ..cell(1.0, 9.0, 0.0) }.holds());
        assert!(Cell { slack: 0.02, ..cell(0.0, 0.01, 3.0) }.holds(), "what the paths of the monitor take");
    }

    #[test]
    fn one_broken_claim_is_a_missed_experiment() {
        let mut findings = Findings { cells: vec![cell(1.0, 1.0, 3.0)], ..Findings::default() };
        assert!(findings.holds());
        findings.claim(false, "order");
        assert!(!findings.holds());
        let done =
            Done { experiment: &EXPERIMENTS[0], findings: Ok(findings), length: Length::Short, runs: Vec::new() };
        assert_eq!(done.json()["verdict"], "MISSED");
        assert!(done.text(false).contains("MISSED"));
    }

    #[test]
    fn names_are_unique_and_no_names_of_rows() {
        for experiment in super::all() {
            assert_eq!(super::all().filter(|other| other.name == experiment.name).count(), 1);
            assert!(crate::rows::all().all(|row| row.name != experiment.name && row.group() != experiment.name));
        }
    }
}
