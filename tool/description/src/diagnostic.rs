//! What the checker says: one [`Diagnostic`] per mistake, all of them together in a [`Report`].
//!
//! A diagnostic is data; [`crate::render`] turns it into text or JSON. A check adds to the report and continues, so
//! that a user sees every mistake of a description at once. The rejected alternative, `Result` with the first error,
//! makes people run the tool once per mistake.

use crate::code::{Code, Severity};
use crate::source::{Sources, Span};

/// A place in a text, with what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// What is to be said, may be empty.
    pub text: String,
}

/// A replacement that probably repairs the mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// What is to be replaced.
    pub span: Span,
    /// By what.
    pub replacement: String,
    /// Sentence in front of it.
    pub text: String,
}

/// One mistake or hazard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its stable code.
    pub code: Code,
    /// What is wrong, in one line.
    pub message: String,
    /// Where: the first label is the mistake itself, the others are what it conflicts with.
    pub labels: Vec<Label>,
    /// Why it matters.
    pub notes: Vec<String>,
    /// What to do.
    pub helps: Vec<String>,
    /// What to write instead.
    pub suggestions: Vec<Suggestion>,
}

impl Diagnostic {
    /// Starts a diagnostic without a place.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            labels: Vec::new(),
            notes: Vec::new(),
            helps: Vec::new(),
            suggestions: Vec::new(),
        }
    }

    /// Adds a place; the first one is where the mistake is.
    #[must_use]
    pub fn at(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// Adds a reason.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Adds advice.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.helps.push(text.into());
        self
    }

    /// Adds a replacement.
    #[must_use]
    pub fn suggest(mut self, span: Span, replacement: impl Into<String>, text: impl Into<String>) -> Self {
        self.suggestions.push(Suggestion { span, replacement: replacement.into(), text: text.into() });
        self
    }

    /// Returns the severity, which belongs to the code.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }
}

/// Most diagnostics that a report keeps: nobody reads more, and a hostile file must not take the time to show them all.
pub const MOST_DIAGNOSTICS: usize = 100;

/// Diagnostics together with the texts they point into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The texts.
    pub sources: Sources,
    /// The diagnostics, in the order of the text, at most [`MOST_DIAGNOSTICS`].
    pub diagnostics: Vec<Diagnostic>,
    /// Errors and warnings that are not among them.
    omitted: (usize, usize),
}

impl Report {
    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        // The same mistake can be met twice, for example a bad size that two checks need.
        if self.diagnostics.contains(&diagnostic) {
            return;
        }
        if self.diagnostics.len() < MOST_DIAGNOSTICS || diagnostic.code.is_environment() {
            self.diagnostics.push(diagnostic);
        } else {
            self.omit(diagnostic.severity(), 1);
        }
    }

    /// Counts diagnostics that are not kept.
    pub fn omit(&mut self, severity: Severity, count: usize) {
        match severity {
            Severity::Error => self.omitted.0 += count,
            Severity::Warning => self.omitted.1 += count,
        }
    }

    /// Returns how many diagnostics were found and not kept.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.omitted.0 + self.omitted.1
    }

    /// Counts the diagnostics of one severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        let omitted = match severity {
            Severity::Error => self.omitted.0,
            Severity::Warning => self.omitted.1,
        };
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity() == severity).count() + omitted
    }

    /// States whether the description is refused.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// States whether no error has to do with the time of shared cores, so that what is said about that holds.
    #[must_use]
    pub fn leaves_time_alone(&self) -> bool {
        let mut errors = self.diagnostics.iter().filter(|one| one.severity() == Severity::Error);
        self.omitted.0 == 0 && errors.all(|one| one.code.leaves_time_alone())
    }

    /// States whether an error is one of the environment (exit code 3) rather than one of the description (exit code 1).
    #[must_use]
    pub fn has_environment_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.code.is_environment())
    }

    /// Puts the diagnostics in the order of the text: errors first, then by file and place.
    pub fn sort(&mut self) {
        self.diagnostics.sort_by_key(|diagnostic| {
            let place = diagnostic.labels.first().map(|label| (label.span.file, label.span.start));
            (diagnostic.severity(), place, diagnostic.code)
        });
    }
}
