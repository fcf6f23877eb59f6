//! The experiments as they were recorded last.

use super::generated;
use bulkhead_ledger::repository;
use bulkhead_ledger::table::{cell, head, row};
use serde_json::Value;
use std::fmt::Write;

/// Where `./x bench --record` writes them.
const RECORD: &str = "docs/experiments.json";

/// The chapter with every recorded number.
pub(super) fn page() -> String {
    let mut text = String::from("# Recorded experiments\n\n") + &generated(&format!("`{RECORD}`"));
    text += "[Experiments on shared cores](../experiments.md) says what they are. These are the full forms, as `./x bench --record` found\n\
        them. The short form of the same seed is recorded too, and every test run compares it exactly: a record whose short form still\n\
        agrees is valid.\n";
    let known = std::fs::read_to_string(repository().join(RECORD)).unwrap_or_else(|_| "[]".to_owned());
    let known: Vec<Value> = serde_json::from_str(&known).unwrap_or_else(|error| panic!("{RECORD}: {error}"));
    if known.is_empty() {
        text += "\nNothing is recorded yet.\n";
    }
    for experiment in &known {
        let word = |key: &str| experiment[key].as_str().unwrap_or_default().to_owned();
        writeln!(text, "\n## {}\n\n{}.\n", word("name"), capital(&word("what"))).expect("a String");
        writeln!(
            text,
            "{} on {}, commit {}, part `{}` of the monitor, QEMU {}, seed {}.\n",
            if word("verdict") == "met" { "Met" } else { "Missed" },
            word("date"),
            word("commit"),
            word("monitor_part"),
            word("qemu"),
            experiment["seed"]
        )
        .expect("a String");
        tables(&mut text, experiment);
    }
    text
}

fn tables(text: &mut String, experiment: &Value) {
    let list = |key: &str| experiment[key].as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if !list("cells").is_empty() {
        *text += &head(&["number", "unit", "published", "model", "ours"]);
        for one in list("cells") {
            let numbers = ["published", "model", "ours"].map(|key| number(&one[key]));
            let [published, model, ours] = &numbers;
            *text += &row(&[&cell(&word(&one["label"])), &word(&one["unit"]), published, model, ours]);
        }
    }
    if !list("bounds").is_empty() {
        *text += &format!("\n{}", head(&["worst case", "unit", "measured", "bound"]));
        for one in list("bounds") {
            let (measured, bound) = (number(&one["measured"]), number(&one["bound"]));
            *text += &row(&[&cell(&word(&one["label"])), &word(&one["unit"]), &measured, &bound]);
        }
    }
    for one in list("claims").iter().enumerate() {
        *text += &format!("{}- {}\n", if one.0 == 0 { "\n" } else { "" }, word(&one.1["text"]));
    }
}

/// A number with four significant digits, or a dash.
fn number(value: &Value) -> String {
    match value.as_f64() {
        None => "–".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) => {
            let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
            format!("{value:.digits$}")
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
