//! What an attack is, and what can come of it.

use core::fmt;

/// What is stated before an attack is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// The monitor takes it as this partition's fault; the health policy follows.
    Fault,
    /// The health policy follows because the guest asks for it (PSCI SYSTEM_RESET).
    Restart,
    /// The partition is off afterwards.
    Off,
    /// The guest gets an answer: a value, "not supported", "denied", or an exception of its own.
    Answer,
    /// Nothing changes for anybody else; what this guest sees is said in the result.
    NoEffect,
}

impl Expectation {
    /// States whether the guest's run ends when the expectation holds.
    pub(crate) const fn ends_run(self) -> bool {
        matches!(self, Self::Fault | Self::Restart | Self::Off)
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fault => "fault",
            Self::Restart => "restart",
            Self::Off => "off",
            Self::Answer => "answer",
            Self::NoEffect => "no effect",
        })
    }
}

/// What the guest can say of an attack afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As stated.
    Contained,
    /// Not as stated, but nothing was gained.
    Unexpected,
    /// Something was gained.
    Escaped,
    /// Not tried: this partition lacks what it needs.
    Skipped,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Contained => "contained",
            Self::Unexpected => "unexpected",
            Self::Escaped => "escaped",
            Self::Skipped => "skipped",
        })
    }
}

/// Verdict with a note and a number for people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) note: &'static str,
    pub(crate) value: u64,
}

impl Outcome {
    pub(crate) const fn contained(note: &'static str, value: u64) -> Self {
        Self { verdict: Verdict::Contained, note, value }
    }

    pub(crate) const fn unexpected(note: &'static str, value: u64) -> Self {
        Self { verdict: Verdict::Unexpected, note, value }
    }

    pub(crate) const fn escaped(note: &'static str, value: u64) -> Self {
        Self { verdict: Verdict::Escaped, note, value }
    }

    pub(crate) const fn skipped(note: &'static str) -> Self {
        Self { verdict: Verdict::Skipped, note, value: 0 }
    }

    /// Contained if `holds`, else escaped, with one note for both.
    pub(crate) const fn escaped_unless(holds: bool, note: &'static str, value: u64) -> Self {
        if holds { Self::contained(note, value) } else { Self::escaped(note, value) }
    }
}

/// One attack. Its number is its place in the list, from 1.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) expectation: Expectation,
    pub(crate) run: fn() -> Outcome,
}
