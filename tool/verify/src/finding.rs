//! What the verifier found.

use crate::code::Code;
use std::fmt;

/// One thing that is wrong with an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of mistake.
    pub code: Code,
    /// Where and what, in one sentence.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code.name(), self.code.title(), self.message)
    }
}

/// Findings in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// Adds a finding.
    pub(crate) fn add(&mut self, code: Code, message: impl Into<String>) {
        self.0.push(Finding { code, message: message.into() });
    }

    /// Adds a finding unless a fact holds; returns the fact.
    pub(crate) fn require(&mut self, fact: bool, code: Code, message: impl FnOnce() -> String) -> bool {
        if !fact {
            self.add(code, message());
        }
        fact
    }
}
