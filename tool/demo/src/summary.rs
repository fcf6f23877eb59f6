//! What a demonstration says at its end: one table of claims, from which the text, the JSON and the exit code come.

use serde_json::{Map, Value, json};
use std::fmt;

/// What was shown, and whether it was true.
#[derive(Clone, Debug)]
pub struct Summary {
    parts: Vec<Part>,
    elapsed_s: f64,
}

/// Claims of one kind.
#[derive(Clone, Debug)]
struct Part {
    /// How they were found.
    head: &'static str,
    claims: Vec<Claim>,
}

/// A row of the table: numbers for programs, whether what they must be holds, and the sentence for people.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    numbers: Vec<(String, Value)>,
    /// `None`: it is said, and not judged.
    holds: Option<bool>,
    text: String,
}

/// Something that was shown, with its numbers.
pub(crate) fn claim<const N: usize>(numbers: [(&str, Value); N], holds: bool, text: impl Into<String>) -> Claim {
    Claim { holds: Some(holds), ..remark(numbers, text) }
}

/// Something that is said beside claims.
pub(crate) fn remark<const N: usize>(numbers: [(&str, Value); N], text: impl Into<String>) -> Claim {
    let numbers = numbers.map(|(name, value)| (name.to_owned(), value)).to_vec();
    Claim { numbers, holds: None, text: text.into() }
}

impl Summary {
    /// A summary of no part yet.
    pub(crate) const fn new(elapsed_s: f64) -> Self {
        Self { parts: Vec::new(), elapsed_s }
    }

    /// The same with claims under a head.
    pub(crate) fn with(mut self, head: &'static str, claims: Vec<Claim>) -> Self {
        self.parts.push(Part { head, claims });
        self
    }

    fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.parts.iter().flat_map(|part| &part.claims)
    }

    /// States whether everything that was shown was true.
    #[must_use]
    pub fn all_true(&self) -> bool {
        self.claims().all(|claim| claim.holds != Some(false))
    }

    /// The summary for programs: the numbers of all claims, by name.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut numbers: Map<String, Value> = self.claims().flat_map(|claim| claim.numbers.iter().cloned()).collect();
        numbers.extend(
            [("event", json!("summary")), ("elapsed_s", json!(self.elapsed_s)), ("all_true", json!(self.all_true()))]
                .map(|(name, value)| (name.to_owned(), value)),
        );
        Value::Object(numbers)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        for Part { head, claims } in &self.parts {
            writeln!(f, "{head}:")?;
            for claim in claims {
                let verdict = claim.holds.map_or("", |holds| if holds { "yes " } else { "NO  " });
                writeln!(f, "  {verdict}{}", claim.text)?;
            }
        }
        writeln!(f, "  {:.1} s in all (wall clock of this host)", self.elapsed_s)?;
        writeln!(f, "{}", if self.all_true() { "All of it was true." } else { "NOT all of it was true." })
    }
}

/// Microseconds, or milliseconds from one on, with three decimals.
pub(crate) fn time(time_ns: u64) -> String {
    if time_ns < 1_000_000 {
        return format!("{}.{:03} us", time_ns / 1_000, time_ns % 1_000);
    }
    format!("{}.{:03} ms", time_ns / 1_000_000, time_ns % 1_000_000 / 1_000)
}
