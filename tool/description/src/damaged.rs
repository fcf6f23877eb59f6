//! The later checks of a description of which some values could not be read.
//!
//! Those values are left out, and what depends on them must not be reported: a partition that is not there is no unknown partition.
//! So a diagnostic counts only if its code says something about written values alone ([`Code::is_about_what_is_written`]) and none of
//! its places is in a table with a value that could not be read. The rejected alternative, to stop there, shows a person one mistake
//! per attempt.

use crate::code::Code;
use crate::description::Description;
use crate::diagnostic::{Diagnostic, Report};
use crate::source::{FileId, Span};
use crate::{Options, resolve};
use std::path::Path;

/// Adds the mistakes that are certain to the report, which has those of reading.
pub(crate) fn examine(description: &Description, path: &Path, file: FileId, options: &Options, report: &mut Report) {
    let text = report.sources.get(file).text.clone();
    // A key that does not exist leaves the others as they are.
    let refused = report.diagnostics.iter().filter(|one| one.code != Code::UnknownKey);
    let unread: Vec<usize> =
        refused.flat_map(|one| &one.labels).map(|label| table_of(&text, label.span.start)).collect();
    let mut later = Report::default();
    later.sources = report.sources.clone();
    let _ = resolve::system(description, path, file, options, &mut later);
    let is_whole = |span: &Span| span.file != file || !unread.contains(&table_of(&text, span.start));
    let is_certain = |one: &Diagnostic| {
        let is_certain = !one.labels.is_empty() && one.labels.iter().all(|label| is_whole(&label.span));
        one.code.is_about_what_is_written() && is_certain
    };
    report.sources = later.sources;
    later.diagnostics.into_iter().filter(is_certain).for_each(|one| report.push(one));
}

/// Returns the number of the table at the top level that an offset is in: 0 before the first one.
fn table_of(text: &str, offset: usize) -> usize {
    let before = text.get(..text.len().min(offset + 1)).unwrap_or(text);
    // The line of the offset itself counts, even where the offset is inside of its head.
    let end = text.get(before.len()..).and_then(|rest| rest.find('\n')).map_or(text.len(), |end| before.len() + end);
    text.get(..end).unwrap_or(text).lines().filter(|line| is_head(line)).count()
}

/// States whether a line begins a table at the top level: `[name]` or `[[name]]`, without a dot.
fn is_head(line: &str) -> bool {
    let line = line.split('#').next().unwrap_or("").trim();
    let Some(inner) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else { return false };
    let inner = inner.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(inner).trim();
    inner.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && inner.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'))
}

impl Code {
    /// States whether a diagnostic with this code is about written values alone, so that nothing which is missing can be its cause.
    fn is_about_what_is_written(self) -> bool {
        // Each of these can follow from a partition, a schedule, a server or a port that is not there.
        let follows = matches!(
            self,
            Self::KeyDoesNotApply
                | Self::CoreTwice
                | Self::NoPartition
                | Self::BootCoreUnused
                | Self::RoleMissing
                | Self::MemoryOverlapsMonitor
                | Self::MemoryExhausted
                | Self::NotPlannable
                | Self::TooManyInterrupts
                | Self::UnknownPort
                | Self::UnconnectedPort
                | Self::TooManyDoorbells
                | Self::SparesExhausted
                | Self::UnlimitedDoorbell
                | Self::UnusedSchedule
                | Self::NoServer
                | Self::ServerNotHere
                | Self::TooManyServers
                | Self::OpenGate
                | Self::UnknownServer
                | Self::BadPayer
                | Self::BadClient
                | Self::RouteNeedsTurns
                | Self::UnknownWindow
                | Self::WindowGate
                | Self::OneReceiver
                | Self::TooManyLimits
                | Self::SecureNeeded
                | Self::UrgentElsewhere
                | Self::UnknownOwner
                | Self::UnknownRegion
                | Self::LonelyHub
        );
        !follows
    }
}

#[cfg(test)]
mod tests {
    use super::table_of;

    #[test]
    fn tables_at_the_top_level_are_told_apart() {
        let text = "a = 1\n[trace] # b\nc = [\n[1]]\n[[partition]]\n[[partition.tasks]]\nd = 2\n[[channel]]\n";
        let table = |part: &str| table_of(text, text.find(part).expect("a part"));
        let tables =
            ["a =", "[trace", "c =", "[1]]", "[[partition]]", "tasks", "d =", "[[channel", "hannel"].map(table);
        assert_eq!(tables, [0, 1, 1, 1, 2, 2, 2, 3, 3]);
        assert_eq!((table_of(text, text.len()), table_of("", 0)), (3, 0));
    }
}
