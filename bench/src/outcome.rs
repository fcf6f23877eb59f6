//! What a row turned out to be.

use crate::Failure;
use crate::rows::Row;

/// A measured value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The value, in the row's unit.
    pub value: f64,
    /// What belongs beside it: the terms of a difference, versions, ratios.
    pub details: Vec<String>,
}

impl Found {
    /// A value with what belongs beside it.
    pub(crate) fn new(value: f64, details: impl IntoIterator<Item = String>) -> Self {
        Self { value, details: details.into_iter().collect() }
    }
}

/// Whether a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// At most the ceiling.
    Met,
    /// More than the ceiling.
    Missed,
    /// There is no ceiling.
    Reported,
    /// There is no value.
    NotMeasured,
}

impl Verdict {
    /// Returns the word shown to people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::Reported => "no ceiling",
            Self::NotMeasured => "NOT MEASURED",
        }
    }

    /// States whether the command may end with 0.
    #[must_use]
    pub fn is_good(self) -> bool {
        matches!(self, Self::Met | Self::Reported)
    }
}

/// A row with its value, or with the reason why there is none.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The row.
    pub row: &'static Row,
    /// The value.
    pub found: Result<Found, Failure>,
    /// The runs made for it, as commands; a run shared with an earlier row is listed there.
    pub runs: Vec<String>,
}

impl Outcome {
    /// Compares the value with the ceiling.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (&self.found, self.row.ceiling) {
            (Err(_), _) => Verdict::NotMeasured,
            (Ok(_), None) => Verdict::Reported,
            (Ok(found), Some(ceiling)) if found.value <= ceiling => Verdict::Met,
            (Ok(_), Some(_)) => Verdict::Missed,
        }
    }

    /// Returns the value with its unit, or a dash.
    #[must_use]
    pub fn value_text(&self) -> String {
        self.found.as_ref().map_or_else(|_| "–".to_owned(), |found| self.row.unit.text(found.value))
    }
}
