//! Experiments as they are recorded in `docs/experiments.json`: the full form, and the short one that shows whether it is still true.
//!
//! The full forms take too long for every change. So the short form, which takes the same seed and runs in every test, is recorded
//! beside the full one and compared: as long as it finds the same, the record of the full one is valid. When it
//! does not, something that decides when guests run has changed, and the experiment is recorded again.
//!
//! Bare guests do the same in every run, so their numbers are compared exactly. Stock Linux does its things at other instants as soon
//! as one byte of its initramfs is another (how long the kernel unpacks it is enough), and its delays with them: by functions of its script
//! that no experiment runs, a worst case of 650 instructions became 811 and a mean of 0.33 ms became 0.88. What holds whatever the instants are
//! is what bounds and claims say. Beside Linux only these are compared, and the size of numbers, in which a wrong unit or clock shows.
//! An exact comparison had everybody record again who changed that script, and so read nothing into a difference.

use super::{Done, Experiment, Length, all, run};
use crate::{Failure, record};
use bulkhead_run::qemu;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The seed of every guest that draws numbers (`seed=`, if nothing else is given), in both forms.
const SEED: u64 = 1;
/// The part of the monitor that experiments on shared cores run on.
const MONITOR_PART: &str = "shared";
/// The one that instances of the kernel run on: they have a core of their own.
const KERNEL_MONITOR_PART: &str = "own";

/// Held while the file is read and replaced: experiments run in parallel, and each is recorded when it has ended.
static WRITING: Mutex<()> = Mutex::new(());

fn path() -> PathBuf {
    bulkhead_ledger::repository().join("docs/experiments.json")
}

/// The record of every experiment that has one.
fn read() -> Result<Vec<Value>, Failure> {
    let path = path();
    let cannot = |cause: String| Failure::host(format!("cannot read {}: {cause}", path.display()));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(cannot(cause.to_string())),
    };
    serde_json::from_str(&text).map_err(|cause| cannot(cause.to_string()))
}

/// What was measured, as it is recorded and compared: every number of ours and whether each claim holds.
fn essence(done: &Done) -> Value {
    let findings = done.findings.clone().unwrap_or_default();
    let cell = |cell: &super::Cell| json!([cell.label, cell.model, cell.ours]);
    let bound = |bound: &super::Bound| json!([bound.label, bound.measured]);
    let found = json!({
        "cells": findings.cells.iter().map(cell).collect::<Vec<_>>(),
        "bounds": findings.bounds.iter().map(bound).collect::<Vec<_>>(),
        "claims": findings.claims.iter().map(|claim| claim.holds).collect::<Vec<_>>(),
    });
    // Numbers as the file has them: reading one may change its last bit.
    serde_json::from_str(&found.to_string()).unwrap_or(found)
}

/// Compares a short form with its record: what differs, or `None` when nothing does, nothing is recorded or the experiment is one of the kernel's. Experiments with Linux
/// are compared where the same packages of Debian are installed that the record was made with.
///
/// # Errors
/// When the record cannot be read.
pub fn difference(done: &Done) -> Result<Option<String>, Failure> {
    let name = done.experiment.name;
    if done.experiment.is_of_kernel() {
        return Ok(None);
    }
    let known = read()?;
    let Some(known) = known.iter().find(|known| known["name"] == name) else { return Ok(None) };
    if done.experiment.slow && known["guest_packages"] != json!(record::guest_packages()) {
        return Ok(None);
    }
    let comparison = if done.experiment.slow { Comparison::OfSizes } else { Comparison::Exact };
    Ok(first_difference(&known["short"], &essence(done), comparison).map(|difference| {
        format!("{name} is not what docs/experiments.json says, so its full form may not be either: {difference}; `./x bench --record {name}` records both again")
    }))
}

/// How the numbers of two runs are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Any difference counts: everything on the core is bare.
    Exact,
    /// [`SIZES`]: stock Linux is on the core.
    OfSizes,
}

/// Beside stock Linux: by which factor a number may differ from the recorded one.
const SIZES: f64 = 10.0;

impl Comparison {
    fn is_same(self, known: &Value, found: &Value) -> bool {
        match (self, known, found) {
            (Self::Exact, ..) => known == found,
            (_, Value::Array(known), Value::Array(found)) => {
                known.len() == found.len() && known.iter().zip(found).all(|(known, found)| self.is_same(known, found))
            }
            // A label may tell numbers of the run.
            (_, Value::String(known), Value::String(found)) => words(known) == words(found),
            (_, Value::Number(known), Value::Number(found)) => match (known.as_f64(), found.as_f64()) {
                (Some(known), Some(found)) => found <= SIZES * known && known <= SIZES * found,
                _ => false,
            },
            _ => known == found,
        }
    }
}

/// A label without its numbers.
fn words(label: &str) -> String {
    label.replace(|letter: char| letter.is_ascii_digit(), "")
}

/// The first entry of a list that differs, as text.
fn first_difference(known: &Value, found: &Value, comparison: Comparison) -> Option<String> {
    for list in ["cells", "bounds", "claims"] {
        let entries = |value: &Value| value[list].as_array().cloned().unwrap_or_default();
        let (known, found) = (entries(known), entries(found));
        if known.len() != found.len() {
            return Some(format!("{} {list} instead of {}", found.len(), known.len()));
        }
        let differs = |(known, found): &(&Value, &Value)| !comparison.is_same(known, found);
        if let Some((known, found)) = known.iter().zip(&found).find(differs) {
            return Some(format!("{found} instead of {known} in `{list}`"));
        }
    }
    None
}

/// The commit that is measured, with a `+` when files differ from it. What is under `docs/` measures nothing, and the record itself is there.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(bulkhead_ledger::repository()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let is_clean = git(&["status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs"])
        .is_some_and(|changes| changes.is_empty());
    if is_clean { commit } else { commit + "+" }
}

/// Records an experiment whose full form has just been run: runs its short form, and replaces its entry in the file.
///
/// # Errors
/// When the experiment does not hold in one of its forms, the short form cannot be run, or the file cannot be written.
pub(crate) fn write(full: &Done) -> Result<(), Failure> {
    let name = full.experiment.name;
    let short = run(full.experiment, Length::Short)?;
    for form in [full, &short] {
        if !form.holds() {
            let length = form.length.name();
            return Err(Failure::wrong(format!("{name} is not recorded: its {length} form is not met")));
        }
    }
    let entry = entry(full, &short)?;
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut entries = read()?;
    entries.retain(|known| known["name"] != name);
    entries.push(entry);
    let place = |entry: &Value| all().position(|experiment| entry["name"] == experiment.name);
    entries.retain(|entry| place(entry).is_some());
    entries.sort_by_key(|entry| place(entry));
    record::replace(&path(), &format!("{:#}\n", Value::from(entries)))
}

/// The part of the monitor that an experiment runs on.
fn part_of(experiment: &Experiment) -> &'static str {
    if experiment.is_of_kernel() { KERNEL_MONITOR_PART } else { MONITOR_PART }
}

/// The entry of an experiment: the full form with where it comes from, and what the short form found.
fn entry(full: &Done, short: &Done) -> Result<Value, Failure> {
    let version = qemu::check_version(&qemu::program())?;
    let mut entry = full.json();
    let left_out = ["runs", "series", "length", "error", "how", "command"];
    left_out.iter().for_each(|key| drop(entry.as_object_mut().and_then(|entry| entry.remove(*key))));
    entry["seed"] = json!(SEED);
    entry["commit"] = json!(commit());
    entry["date"] = json!(record::date());
    entry["qemu"] = json!(format!("{}.{}.{}", version.major, version.minor, version.micro));
    entry["monitor_part"] = json!(part_of(full.experiment));
    let packages = if full.experiment.slow { record::guest_packages() } else { Vec::new() };
    entry["guest_packages"] = json!(packages);
    entry["short"] = essence(short);
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::{Bound, Cell, EXPERIMENTS, Findings};

    fn done(ours: f64, measured: f64, holds: bool) -> Done {
        let cell = Cell { label: "mean".to_owned(), ours: Some(ours), ..Cell::default() };
        let bound =
            Bound { label: "response".to_owned(), unit: "ms", measured, bound: measured + 1.0, is_least: false };
        let mut findings = Findings { cells: vec![cell], bounds: vec![bound], ..Findings::default() };
        findings.claim(holds, "order");
        Done { experiment: &EXPERIMENTS[0], findings: Ok(findings), length: Length::Short, runs: Vec::new() }
    }

    #[test]
    fn every_experiment_is_recorded_with_what_makes_it_repeatable() {
        let all = read().expect("the record is readable");
        let names: Vec<_> = all.iter().map(|entry| entry["name"].as_str().expect("a name")).collect();
        // Those of the kernel are judged by what they must be, with a record or without.
        let is_wanted = |experiment: &&Experiment| !experiment.is_of_kernel() || names.contains(&experiment.name);
        let wanted: Vec<_> = crate::experiments::all().filter(is_wanted).map(|experiment| experiment.name).collect();
        assert_eq!(names, wanted, "`./x bench --record NAME` records one that is missing");
        for entry in &all {
            let name = &entry["name"];
            assert_eq!(entry["verdict"], "met", "{name}");
            assert_eq!(entry["seed"], SEED, "{name}");
            let experiment = crate::experiments::named(name.as_str().expect("a name")).expect("an experiment");
            assert_eq!(entry["monitor_part"], part_of(experiment), "{name}");
            let commit = entry["commit"].as_str().expect("a commit");
            assert!(commit.len() == 12 && !commit.ends_with('+'), "{name} was not measured at a commit: {commit}");
            let judged = ["cells", "bounds", "claims"].iter().any(|list| entry["short"][list] != json!([]));
            assert!(judged, "{name} has no short form to compare with");
        }
    }

    #[test]
    fn the_least_difference_of_a_number_or_a_claim_shows() {
        let known = essence(&done(0.1 + 0.2, 2.0, true));
        // As it comes back from a file.
        let known: Value = serde_json::from_str(&format!("{known:#}")).expect("JSON");
        let difference = |done: &Done| first_difference(&known, &essence(done), Comparison::Exact);
        assert_eq!(difference(&done(0.1 + 0.2, 2.0, true)), None);
        assert!(difference(&done(0.31, 2.0, true)).expect("a number").contains("`cells`"));
        assert!(difference(&done(0.1 + 0.2, 2.000_000_1, true)).expect("a number").contains("`bounds`"));
        assert!(difference(&done(0.1 + 0.2, 2.0, false)).expect("a claim").contains("`claims`"));
        assert!(
            first_difference(&Value::Null, &essence(&done(1.0, 2.0, true)), Comparison::Exact)
                .expect("all")
                .contains("1 cells instead of 0")
        );
    }

    #[test]
    fn beside_linux_a_number_of_another_size_shows_and_a_claim_does() {
        let named = |label: &str, ours, holds| {
            let mut done = done(ours, 2.0, holds);
            done.findings.as_mut().expect("findings").cells[0].label = label.to_owned();
            essence(&done)
        };
        let known = named("tick (min 448, mean 463)", 650.0, true);
        let difference = |found: &Value| first_difference(&known, found, Comparison::OfSizes);
        assert_eq!(difference(&named("tick (min 448, mean 471)", 811.0, true)), None);
        assert!(difference(&named("tick (min 448, mean 463)", 9800.0, true)).expect("too large").contains("9800"));
        assert!(difference(&named("tick (min 448, mean 463)", 32.0, true)).expect("too small").contains("32.0"));
        assert!(difference(&named("task (min 448, mean 463)", 650.0, true)).expect("another label").contains("task"));
        assert!(difference(&named("tick (min 448, mean 463)", 650.0, false)).expect("a claim").contains("`claims`"));
    }
}
