//! Text and JSON forms of a [`Report`].
//!
//! The text form is that of rustc (crate `annotate-snippets`, which is rustc's own renderer). The JSON form has its own
//! documented fields, so that it does not change when the renderer does.

use crate::code::Severity;
use crate::diagnostic::{Diagnostic, Report, Suggestion};
use crate::source::{FileId, Sources, Span};
use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet};
use serde_json::{Value, json};

/// Version of the JSON form; it changes only when a field is removed or changes its meaning.
pub const JSON_VERSION: u32 = 1;

impl Report {
    /// Returns the text form, with a summary line unless the report is empty.
    #[must_use]
    pub fn to_text(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut text = String::new();
        for diagnostic in &self.diagnostics {
            text.push_str(&renderer.render(&groups(diagnostic, &self.sources)));
            text.push_str("\n\n");
        }
        if self.omitted() > 0 {
            text.push_str(&format!("{} more of them are not shown; mend these first\n\n", self.omitted()));
        }
        text.push_str(&self.summary());
        text
    }

    /// Returns one line that counts errors and warnings; empty when there are none.
    #[must_use]
    pub fn summary(&self) -> String {
        let errors = self.count(Severity::Error);
        let warnings = self.count(Severity::Warning);
        let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let mut codes: Vec<_> =
            self.diagnostics.iter().filter(|one| one.severity() == Severity::Error).map(|one| one.code).collect();
        codes.sort();
        codes.dedup();
        let Some(code) = codes.first() else {
            return if warnings == 0 { String::new() } else { format!("{}\n", count(warnings, "warning")) };
        };
        let mut text = count(errors, "error");
        if warnings > 0 {
            text.push_str(&format!(", {}", count(warnings, "warning")));
        }
        text.push_str(&format!("; `bulkhead explain {}` says more\n", code.name()));
        text
    }

    /// Returns the JSON form. Fields:
    ///
    /// - `version`: [`JSON_VERSION`]; `accepted`: no error; `errors`, `warnings`: counts; `omitted`: how many of them
    ///   are not among the diagnostics;
    /// - `diagnostics[]`: `code`, `severity` (`error`, `warning`), `title` (of the code), `message`,
    ///   `labels[]` (`file`, `start` and `end` in bytes, `line`, `column`, `end_line`, `end_column` from 1, `text`; the first one
    ///   is the mistake), `notes[]`, `helps[]`, `suggestions[]` (the place as in a label, `replacement`, `text`).
    #[must_use]
    pub fn to_json(&self) -> Value {
        let diagnostics: Vec<Value> = self
            .diagnostics
            .iter()
            .map(|diagnostic| {
                json!({
                    "code": diagnostic.code.name(),
                    "severity": diagnostic.severity().word(),
                    "title": diagnostic.code.title(),
                    "message": diagnostic.message,
                    "labels": diagnostic.labels.iter().map(|label| place(&self.sources, label.span, "text", &label.text)).collect::<Vec<_>>(),
                    "notes": diagnostic.notes,
                    "helps": diagnostic.helps,
                    "suggestions": diagnostic.suggestions.iter().map(|one| self.suggestion(one)).collect::<Vec<_>>(),
                })
            })
            .collect();
        json!({
            "version": JSON_VERSION,
            "accepted": !self.has_errors(),
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "omitted": self.omitted(),
            "diagnostics": diagnostics,
        })
    }

    fn suggestion(&self, suggestion: &Suggestion) -> Value {
        let mut value = place(&self.sources, suggestion.span, "replacement", &suggestion.replacement);
        value["text"] = Value::from(suggestion.text.clone());
        value
    }
}

/// The JSON form of a place, with one more text field.
fn place(sources: &Sources, span: Span, key: &str, text: &str) -> Value {
    let start = sources.position(span.file, span.start);
    let end = sources.position(span.file, span.end);
    let mut value = json!({
        "file": sources.get(span.file).name,
        "start": span.start, "end": span.end,
        "line": start.line, "column": start.column,
        "end_line": end.line, "end_column": end.column,
    });
    value[key] = Value::from(text);
    value
}

/// Builds the renderer's form of one diagnostic.
fn groups<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources) -> Vec<Group<'a>> {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(diagnostic.message.as_str()).id(diagnostic.code.name()));
    for file in files(diagnostic) {
        let source = sources.get(file);
        let mut snippet = Snippet::source(source.text.as_str()).path(source.name.as_str());
        for (index, label) in diagnostic.labels.iter().enumerate().filter(|(_, label)| label.span.file == file) {
            let kind = if index == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
            let annotation = kind.span(clamp(label.span, &source.text));
            snippet = snippet.annotation(if label.text.is_empty() {
                annotation
            } else {
                annotation.label(label.text.as_str())
            });
        }
        group = group.element(snippet);
    }
    group = group.elements(diagnostic.notes.iter().map(|note| Level::NOTE.message(note.as_str())));
    group = group.elements(diagnostic.helps.iter().map(|help| Level::HELP.message(help.as_str())));
    let mut groups = vec![group];
    for suggestion in &diagnostic.suggestions {
        let source = sources.get(suggestion.span.file);
        let patch = Patch::new(clamp(suggestion.span, &source.text), suggestion.replacement.as_str());
        let snippet = Snippet::source(source.text.as_str()).path(source.name.as_str()).patch(patch);
        groups.push(Level::HELP.secondary_title(suggestion.text.as_str()).element(snippet));
    }
    groups
}

/// Files of a diagnostic, the one of the mistake first.
fn files(diagnostic: &Diagnostic) -> Vec<FileId> {
    let mut files = Vec::new();
    for label in &diagnostic.labels {
        if !files.contains(&label.span.file) {
            files.push(label.span.file);
        }
    }
    files
}

/// Keeps a span inside its text and on character boundaries: the renderer panics otherwise.
fn clamp(span: Span, text: &str) -> std::ops::Range<usize> {
    let inside = |mut offset: usize| {
        offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    };
    let start = inside(span.start);
    start..inside(span.end).max(start)
}
